// `node versions.mjs DIST DIST... [--browsers A,B] [--slices N] [--sealed]`: builds of the package in turns, in one page and one worker, so that a
// noisy machine is noisy for all of them; with `--sealed` each build twice, its second store with a key. Microseconds a call: of the slices, each of 200
// calls, the median and the fastest quarter's end.

import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "../serve.mjs";
import { BROWSERS, withPages } from "./browsers.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { browsers: { type: "string", default: BROWSERS.join() }, slices: { type: "string", default: "300" }, sealed: { type: "boolean", default: false } },
});
const isolated = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const builds = positionals.map((dist, i) => [`/v${i}/`, resolve(dist)]);
const kinds = options.sealed ? [false, true] : [false];
const stores = builds.flatMap(([path]) => kinds.map((isSealed) => ({ path, isSealed })));
const site = await serve([...builds, ["/", fileURLToPath(new URL("site", import.meta.url))]], 0, isolated);
try {
  for (const browser of options.browsers.split(",")) {
    await withPages(browser, tmpdir(), async (open, version) => {
      const page = await open(`${site.url}versions.html`);
      await page.waitForFunction(() => window.ready);
      const found = await page.evaluate((task) => window.measure(task), { stores, slices: Number(options.slices) });
      console.log(version);
      for (const [call, times] of Object.entries(found)) {
        const quartile = (all, part) => all.sort((one, other) => one - other)[Math.floor(all.length * part)];
        const shown = times.map((all) => `${quartile(all, 0.5).toFixed(3)} (${quartile(all, 0.25).toFixed(3)})`);
        console.log(`  ${call}: ${shown.join(" | ")}`);
      }
    });
  }
} finally {
  await site.close();
}
