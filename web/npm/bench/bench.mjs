// `node bench.mjs [--quick] [--browsers A,B] [--stores A,B] [--rounds N] [--out DIR] [--dir DIR]`: see README.md.

import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "../serve.mjs";
import { BROWSERS, withBrowser } from "./browsers.mjs";
import { report } from "./report.mjs";

const STORES = ["pipkin", "indexeddb", "idb-keyval", "sqlite", "sqlite-objects", "wa-sqlite"];
const PLACES = ["worker", "page"];
const DURABILITIES = ["relaxed", "strict"];
const FULL = { records: 100_000, puts: { relaxed: 2000, strict: 1000 }, gets: 20_000, rounds: 3 };
const QUICK = { records: 10_000, puts: { relaxed: 400, strict: 200 }, gets: 5000, rounds: 1 };

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    browsers: { type: "string", default: BROWSERS.join() },
    stores: { type: "string", default: STORES.join() },
    rounds: { type: "string" },
    out: { type: "string", default: folder("results") },
    dir: { type: "string", default: tmpdir() },
  },
});
const chosen = (text, all) => {
  const unknown = text.split(",").find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Error(`there is no ${unknown}; there are ${all.join(", ")}`);
  return text.split(",");
};
const browsers = chosen(options.browsers, BROWSERS);
const stores = chosen(options.stores, STORES);
const scale = options.quick ? QUICK : FULL;
const rounds = Number(options.rounds ?? scale.rounds);

mkdirSync(options.out, { recursive: true });
const results = join(options.out, "results.jsonl");
const { dependencies } = JSON.parse(readFileSync(folder("package.json"), "utf8"));
const facts = { date: new Date().toISOString().slice(0, 10), cpu: cpus()[0].model.trim(), cores: cpus().length, node: process.version, scale, rounds, dependencies };
writeFileSync(results, `${JSON.stringify({ facts })}\n`);

// No store needs these headers: browsers have finer clocks with them.
const isolated = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const site = await serve([["/pipkin/", folder("../dist")], ["/modules/", folder("node_modules")], ["/", folder("site")]], 0, isolated);
try {
  for (let round = 0; round < rounds; round++) {
    for (const browser of browsers) {
      await floor(browser, round);
      for (const where of PLACES) await durable(browser, round, where);
      for (const durability of DURABILITIES) {
        // Each round begins with another store.
        for (const store of [...stores.slice(round % stores.length), ...stores.slice(0, round % stores.length)]) {
          if (store === "idb-keyval" && durability === "strict") continue;
          for (const where of PLACES) await session({ browser, round, store, where, durability });
        }
      }
    }
  }
} finally {
  await site.close();
}
report(options.out);

/** What the browser itself costs. */
async function floor(browser, round) {
  await withBrowser(browser, options.dir, site.url, async (run, version) => {
    keep({ browser, version, round, store: "messages", where: "page" }, await run({ part: "messages", where: "page", gets: scale.gets }));
    keep({ browser, version, round, store: "handles", where: "worker" }, await run({ part: "handles", where: "worker" }));
  });
}

/** Single puts that are flushed, of all stores that do that; what SQLite is called through makes no difference beside the device. */
async function durable(browser, round, where) {
  const task = { part: "inTurns", where, stores: stores.filter((store) => !["idb-keyval", "sqlite-objects"].includes(store)), puts: scale.puts.strict };
  await withBrowser(browser, options.dir, site.url, async (run, version) => {
    for (const [store, value] of Object.entries(await run(task))) keep({ browser, version, round, store, where, durability: "strict" }, { "single put": value });
  });
}

/** One store in one new profile: filled, found again by another page, and a second one made. */
async function session({ browser, round, store, where, durability }) {
  const task = { store, where, durability, records: scale.records, gets: scale.gets, puts: durability === "relaxed" ? scale.puts.relaxed : 0 };
  await withBrowser(browser, options.dir, site.url, async (run, version) => {
    const about = { browser, version, round, store, where, durability };
    keep(about, await run({ ...task, part: "fill" }));
    // What is read does not depend on how it was written.
    if (durability === "strict") return;
    keep(about, await run({ ...task, part: "read" }));
    keep(about, await run({ ...task, part: "another" }));
  });
}

function keep(about, figures) {
  const { sum, ...phases } = figures;
  for (const [phase, value] of Object.entries(phases)) appendFileSync(results, `${JSON.stringify({ ...about, phase, value, sum })}\n`);
  if (about.store === "handles") return console.log(`${about.browser} ${about.round + 1}: ${Object.keys(phases).length} kinds of calls of a file handle`);
  const shown = Object.entries(phases).map(([phase, value]) => `${phase} ${value.toFixed(value < 10 ? 2 : 0)}`).join(", ");
  console.log(`${about.browser} ${about.round + 1}, ${about.store} in the ${about.where}, ${about.durability ?? ""}: ${shown}`);
}
