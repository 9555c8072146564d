// The package as npm packs it works in an app that each bundler has built, and without a bundler.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Browser } from "../support/browser.mjs";
import { BUILDS } from "./builds.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
// Inside this folder, so that nothing but the packed package is found by the app's imports.
const work = join(here, "build");
const app = join(work, "app");

let browser;
before(async () => {
  rmSync(work, { recursive: true, force: true });
  cpSync(join(here, "app"), app, { recursive: true });
  // As it was built: a build of npm's own would write to the same output, and test something else than what the others test.
  const packed = JSON.parse(execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", work], { cwd: join(here, "../.."), encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
  const { filename } = Array.isArray(packed) ? packed[0] : Object.values(packed)[0];
  const installed = join(app, "node_modules/pipkin");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(work, filename), "-C", installed, "--strip-components=1"]);
  browser = await Browser.start();
});
after(async () => {
  await browser?.end();
  rmSync(work, { recursive: true, force: true });
});

for (const [name, build] of Object.entries(BUILDS)) {
  test(`an app works: ${name}`, async () => {
    const site = await build(app, join(work, name.replaceAll(/\W+/g, "-")));
    try {
      const page = await browser.context.newPage();
      const errors = [];
      page.on("pageerror", (error) => errors.push(error.message));
      await page.goto(site.url);
      for (const visit of [1, 2]) {
        await page.waitForFunction((title) => document.title === title, `visit ${visit}, event ${visit}`, { timeout: 20_000 }).catch((error) => {
          throw new Error(`${error.message}; the page said: ${errors.join("; ")}`);
        });
        if (visit === 1) await page.reload();
      }
      assert.deepEqual(errors, []);
      await page.close();
    } finally {
      await site.close();
    }
  });
}
