// Arguments that make no sense: refused as such, before anything is done. For both browsers.

import assert from "node:assert/strict";

export async function refuseNonsense(page) {
  const seen = await page.evaluate(async () => {
    const fate = (call) => call.then(() => "done", (error) => (error instanceof pipkin.PipkinError ? error.code : `${error}`));
    const all = (calls) => Promise.all(calls.map(fate));
    const db = await pipkin.open("sense");
    await db.set("a", "1");
    const names = await all([undefined, null, 7, ["a"], "", "../x", "a/b", ".hidden"].flatMap((name) => [pipkin.open(name), pipkin.destroy(name)]));
    const options = [
      { durability: "Strict" }, { durability: true }, { durability: "read" }, { cacheBytes: -1 }, { cacheBytes: 2 ** 32 }, { cacheBytes: NaN }, { cacheBytes: "1" },
      { segmentSize: 2 ** 32 + 4096 }, { segmentSize: 4096.5 }, { segmentSize: 5000 }, { wasm: { then: () => 1 } }, { create: () => true },
    ];
    let left = -workers.length;
    Worker.prototype.terminate = function () {
      left--;
      Object.getPrototypeOf(Worker.prototype).terminate.call(this);
    };
    const opened = await all(options.map((options) => pipkin.open("nonsense", options)));
    left += workers.length;
    delete Worker.prototype.terminate;
    const durabilities = ["Strict", "read", "", true, 1].flatMap((durability) => [
      db.set("a", "2", { durability }), db.setMany([["a", "2"]], { durability }), db.delete("a", { durability }),
      db.batch((batch) => batch.delete("a"), { durability }), db.update("a", () => "2", { durability }),
    ]);
    const written = await all(durabilities);
    const sync = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const codes = [];
      for (const options of [{ durability: "Strict" }, { cacheBytes: -1 }, { segmentSize: 2 ** 32 + 4096 }]) {
        codes.push(await open("nonsense", options).then(() => "done", (error) => error.code));
      }
      const db = await open("nonsense");
      const durability = "Strict";
      for (const call of [() => db.set("a", "2", { durability }), () => db.setMany([["a", "2"]], { durability }), () => db.delete("a", { durability })]) {
        try { codes.push(call()); } catch (error) { codes.push(error.code); }
      }
      postMessage([codes, db.stats().records]);
      db.close();`;
    const worker = new Worker(URL.createObjectURL(new Blob([sync], { type: "text/javascript" })), { type: "module" });
    const inWorker = await new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => resolve(message);
    });
    worker.terminate();
    return { names, opened, left, written, inWorker, files: (await filesOf("undefined")).length, value: await db.text().get("a") };
  });
  const usage = (count) => Array(count).fill("usage");
  assert.deepEqual(seen, { names: usage(16), opened: usage(12), left: 0, written: usage(25), inWorker: [usage(6), 0], files: 0, value: "1" });
}
