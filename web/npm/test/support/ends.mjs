// Ends that nobody asked for: the data of the site is cleared, a worker dies. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { endWorkers, until } from "./pages.mjs";
import { CLEARING } from "./site.mjs";

const REFUSED = /^unavailable: a shared worker has no synchronous files/;

/**
 * `browser.tab` opens a tab in front of the others, `clears` are ways to clear the data of the site, by their names, and `shared` is what comes of
 * opening a store in a shared worker.
 */
export function testEnds(browser, { clears = {}, shared = REFUSED }) {
  async function openPage(name) {
    const page = await browser.tab();
    await page.evaluate(async (name) => {
      window.fate = (call) => call.then((value) => value ?? null, (error) => error.code ?? error.name);
      window.db = await pipkin.open(name);
      window.told = [];
      db.on("error", ({ error }) => told.push([error.code, error.message]));
      await db.set("a", "1");
    }, name);
    return page;
  }

  // Writes went on to a file without a name, and were acknowledged; closing never ended.
  for (const [how, clear] of Object.entries({ ...clears, "by a response": (page) => page.evaluate((url) => fetch(url), CLEARING) })) {
    test(`when the data of the site is cleared ${how}, an open store says so, takes no more writes, and can be closed and opened again`, async () => {
      const [page, other] = [await openPage("cleared"), await openPage("closing")];
      await page.evaluate(() => db.get("a"));
      // A look for the file that the write has left to do would come before the one of closing.
      await other.evaluate(async () => { await db.close(); db = await pipkin.open("closing"); });
      await clear(page);
      // Firefox answers before it has cleared anything.
      await until(() => other.evaluate(() => Promise.all(["cleared", "closing"].map(filesOf)).then((files) => files.flat().length === 0, ({ name }) => name === "NotFoundError")));
      assert.equal(await other.evaluate(() => fate(db.close())), "failed");
      await page.evaluate(() => fate(db.set("lost", "1")));
      await until(() => page.evaluate(() => told.length > 0));
      const seen = await page.evaluate(async () => [told.length, told[0][0], /data of this site was cleared/.test(told[0][1]), await fate(db.set("b", "1")), await fate(db.close())]);
      assert.deepEqual(seen, [1, "failed", true, "failed", null]);
      for (const [tab, name] of [[page, "cleared"], [other, "closing"]]) {
        assert.deepEqual(await tab.evaluate(async (name) => { const db = await pipkin.open(name); await db.set("new", "1"); const seen = [await db.has("a"), await db.text().get("new")]; await db.close(); await pipkin.destroy(name); return seen; }, name), [false, "1"]);
        await tab.close();
      }
    });
  }

  // A page whose worker had ended, for want of memory, waited for ever.
  test("when a worker dies its page hears of it, and what waits rejects", async () => {
    const page = await openPage("dies");
    await page.evaluate(async () => {
      await db.get("a");
      workers.at(-1).postMessage = () => undefined;
      window.fates = Promise.all([fate(db.set("b", "1")), fate(db.stats())]);
    });
    await endWorkers(page);
    assert.deepEqual(await page.evaluate(() => fates), ["outcome-unknown", "failed"]);
    assert.deepEqual(await page.evaluate(async () => [told.map(([code]) => code), await fate(db.get("a")), await (await pipkin.open("dies")).text().get("a")]), [["failed"], "failed", "1"]);
    await page.close();
  });

  // The page looked whether the worker held its lock, and took one that had ended before the answer for one whose locks are kept apart.
  test("a worker that dies right after the store was opened is missed, too", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      const db = await pipkin.open("newborn");
      workers.forEach((worker) => worker.terminate());
      return db.get("a").then(() => "read", ({ code }) => code);
    });
    assert.equal(seen, "failed");
    await page.close();
  });

  test("shared workers and service workers are told what to do instead", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      // Once, on a loaded machine, nothing was said: whoever is silent is asked again, and the failure names it.
      const asked = async (what, ask) => {
        for (let tries = 0; tries < 3; tries++) {
          const said = await Promise.race([ask(), new Promise((resolve) => setTimeout(resolve, 10_000))]);
          if (said !== undefined) return said;
        }
        throw new Error(`${what} says nothing`);
      };
      const script = (entry) => `
        import { open } from "${location.origin}/pipkin/${entry}.js";
        const late = new Promise((resolve) => setTimeout(resolve, 8_000, "still opening"));
        const opened = Promise.resolve().then(() => open("nowhere")).then(() => "opened", ({ code, message }) => code + ": " + message);
        const said = Promise.race([opened, late]);
        onconnect = ({ ports: [port] }) => said.then((text) => port.postMessage(text));`;
      const shared = (entry) => {
        const url = URL.createObjectURL(new Blob([script(entry)], { type: "text/javascript" }));
        return asked(`the shared worker with ${entry}`, () => new Promise((resolve) => {
          const worker = new SharedWorker(url, { type: "module", name: entry });
          worker.port.onmessage = ({ data }) => resolve(data);
          worker.onerror = () => resolve("did not start");
        }));
      };
      const service = () => asked("the service worker", async () => {
        await navigator.serviceWorker.register("/service.js", { type: "module" });
        const { active } = await navigator.serviceWorker.ready;
        return new Promise((resolve) => {
          navigator.serviceWorker.onmessage = ({ data }) => resolve(data);
          active.postMessage("nowhere");
        });
      });
      const seen = { shared: [await shared("index"), await shared("sync")], services: await service() };
      const registered = await navigator.serviceWorker.ready;
      await registered.unregister();
      return seen;
    });
    assert.match(seen.shared[0], shared);
    assert.match(seen.shared[1], REFUSED);
    for (const said of seen.services) assert.match(said, /^unavailable: a service worker can start no worker and has no synchronous files/);
    await page.close();
  });
}
