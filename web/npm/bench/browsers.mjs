// Both browsers, each time on a new profile on disk: what they keep in memory for private windows is another file system.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

const PATIENCE_MS = 20 * 60_000;

const LAUNCH = {
  async chromium(profile) {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.PIPKIN_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"],
    });
    const close = () => context.close();
    return { version: `Chromium ${context.browser().version()}`, close, newPage: () => context.newPage() };
  },
  async firefox(profile) {
    const browser = await puppeteer.launch({
      browser: "firefox", executablePath: process.env.PIPKIN_FIREFOX ?? "/usr/bin/firefox-esr", headless: true, userDataDir: profile, protocolTimeout: PATIENCE_MS,
    });
    return { version: `Firefox ${(await browser.version()).split("/")[1]}`, close: () => browser.close(), newPage: () => browser.newPage() };
  },
};

export const BROWSERS = Object.keys(LAUNCH);

/** Has `work` done with a function that opens pages, in one new profile under `folder`. */
export async function withPages(name, folder, work) {
  const profile = mkdtempSync(join(folder, "pipkin-bench-"));
  const browser = await LAUNCH[name](profile);
  try {
    return await work(async (url) => {
      const page = await browser.newPage();
      page.setDefaultTimeout(PATIENCE_MS);
      await page.goto(url);
      return page;
    }, browser.version);
  } finally {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

/** The same with a function that gives each task to a page of its own. */
export function withBrowser(name, folder, url, work) {
  return withPages(name, folder, (open, version) => work(async (task) => {
    const page = await open(url);
    await page.waitForFunction(() => window.ready);
    const result = await page.evaluate((task) => run(task), task);
    await page.close();
    return result;
  }, version));
}
