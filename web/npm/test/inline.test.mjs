// The entry `inline` needs no file beside it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

test("one script is enough: it works from where nothing else can be found, and shares stores with the other entry", async () => {
  const page = await browser.tab();
  await page.evaluate(async () => {
    window.source = await (await fetch("/pipkin/inline.js")).text();
    const db = await pipkin.open("shared");
    await db.set("a", "from the other entry");
    await db.close();
  });
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  const seen = await page.evaluate(async () => {
    const inline = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const db = await inline.open("shared");
    await db.json("json/").set("b", { c: 1 });
    const log = await db.events("log");
    await log.append("s", { type: "T", payload: "x" });
    const other = await pipkin.open("shared");
    const follower = [other.role, await other.json("json/").get("b"), await db.text().get("a"), await log.version("s")];
    await log.setRetention({ maxAge: 1e9 });
    follower.push((await log.retention()).maxAge, await log.retain(), await log.append("s", { type: "T" }, { expected: "none" }).catch(({ failed }) => failed));
    return [await inline.support(), Object.keys(inline).sort(), ...follower];
  });
  assert.deepEqual(seen, [{ supported: true }, ["PipkinError", "Reads", "Snapshot", "Store", "Transaction", "TransactionView", "View", "destroy", "list", "open", "support"], "follower", { c: 1 }, "from the other entry", 1, 1e9, 0, [{ stream: "s", expected: 0, current: 1 }]]);
  assert.ok(asked.filter((url) => !url.startsWith("blob:")).every((url) => url.endsWith("/pipkin/worker.js")), `asked for ${asked}`);
});
