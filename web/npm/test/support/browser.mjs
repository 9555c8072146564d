// A headless Chromium on a profile of its own on disk, as a person's is, not one in memory.

import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const PROGRAM = process.env.PIPKIN_CHROMIUM ?? "/usr/bin/chromium";
/** Generous: a machine under load must not fail a test. */
const PATIENCE_MS = 60_000;

/** How every Chromium of the tests is started. */
export const LAUNCH = {
  executablePath: PROGRAM, headless: true, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"], timeout: PATIENCE_MS,
};

export class Browser {
  static async start(site) {
    const browser = new Browser(site, mkdtempSync(join(tmpdir(), "pipkin-profile-")));
    await browser.launch();
    return browser;
  }

  constructor(site, profile) {
    this.site = site;
    this.profile = profile;
  }

  async launch() {
    this.context = await chromium.launchPersistentContext(this.profile, { ...LAUNCH, locale: "en-US" });
    this.context.setDefaultTimeout(PATIENCE_MS);
  }

  /** A tab with the package loaded as `window.pipkin`. */
  async tab() {
    const page = await this.context.newPage();
    await page.goto(this.site.url);
    await page.waitForFunction(() => window.ready);
    return page;
  }

  /** Ends the process that runs a page, as a crash does. */
  async endProcess(page) {
    const session = await this.context.newCDPSession(page);
    const crashed = new Promise((resolve) => page.once("crash", resolve));
    session.send("Page.crash").catch(() => undefined);
    await crashed;
  }

  /** Has the worker of a page hang, until the function is called that this resolves to. */
  async hang(page) {
    const url = await page.evaluate(() => URL.createObjectURL(new Blob()));
    const hanging = page.workers()[0].evaluate((url) => {
      try {
        for (const request = new XMLHttpRequest(); ; request.send()) request.open("GET", url, false);
      } catch {
        // The page has taken the address back.
      }
    }, url);
    return async () => {
      await page.evaluate((url) => URL.revokeObjectURL(url), url);
      await hanging;
    };
  }

  /** Ends all processes of this browser at once, as a loss of power ends them. */
  async kill() {
    const ended = new Promise((resolve) => this.context.once("close", resolve));
    for (let processes = this.processes(); processes.length > 0; processes = this.processes()) {
      for (const pid of processes) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // It has ended with its parent.
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await ended;
    for (const file of readdirSync(this.profile)) {
      if (file.startsWith("Singleton")) rmSync(join(this.profile, file), { force: true });
    }
  }

  /** Those that name our profile, which nobody else has. */
  processes() {
    return readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)).map(Number).filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.profile) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
      } catch {
        return false;
      }
    });
  }

  async restart() {
    await this.context.close();
    await this.launch();
  }

  async end() {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
