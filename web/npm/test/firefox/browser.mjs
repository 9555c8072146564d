// A headless Firefox on a profile of its own.

import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { isThere, until } from "../support/pages.mjs";

const PROGRAM = process.env.PIPKIN_FIREFOX ?? "/usr/bin/firefox-esr";
/** Generous: a machine under load must not fail a test. */
const PATIENCE_MS = 120_000;

export class Browser {
  static async start(site, preferences) {
    const browser = new Browser(site, preferences);
    await browser.launch();
    return browser;
  }

  constructor(site, preferences) {
    this.site = site;
    this.preferences = preferences;
    this.profile = mkdtempSync(join(tmpdir(), "pipkin-firefox-"));
  }

  async launch() {
    const options = {
      browser: "firefox", executablePath: PROGRAM, headless: true, userDataDir: this.profile, extraPrefsFirefox: this.preferences,
      timeout: PATIENCE_MS, protocolTimeout: PATIENCE_MS,
    };
    this.firefox = await until(() =>
      puppeteer.launch(options).catch((error) => {
        // The driver is still putting the profile of the browser before in order.
        if (error.code !== "ENOENT") throw error;
      }),
    );
  }

  /** A tab in front of the others, with the package loaded as `window.pipkin`. */
  async tab() {
    const page = await this.firefox.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(this.site.url);
    await page.waitForFunction(() => window.ready);
    return page;
  }

  /** Ends the browser at once; it can be launched again. */
  async kill() {
    const ended = [once(this.firefox.process(), "exit"), once(this.firefox, "disconnected")];
    this.firefox.process().kill("SIGKILL");
    await Promise.all(ended);
  }

  /** Kills the process that has a store open, and so every tab in it; `page` is one. No other process may have one open. */
  async endProcess(page) {
    process.kill(await this.#holder(), "SIGKILL");
    await until(async () => !(await isThere(page)));
  }

  /** Stops the process that has a store open, until the function is called that this resolves to. */
  async hang() {
    const holder = await this.#holder();
    process.kill(holder, "SIGSTOP");
    return () => process.kill(holder, "SIGCONT");
  }

  async end() {
    await this.firefox.close();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  /** The process that has a store open. */
  #holder() {
    return until(() => {
      const holders = this.#processes().filter((pid) => this.#hasStore(pid));
      return holders.length === 1 && holders[0];
    });
  }

  /** The processes of this browser that run pages; they are started by a process in between. */
  #processes() {
    const parents = new Map();
    const pages = [];
    for (const entry of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      try {
        parents.set(Number(entry), Number(readFileSync(`/proc/${entry}/stat`, "utf8").split(") ")[1].split(" ")[1]));
        if (/ -contentproc .* tab$/.test(readFileSync(`/proc/${entry}/cmdline`, "utf8").replaceAll("\0", " ").trim())) pages.push(Number(entry));
      } catch {
        // It has ended meanwhile.
      }
    }
    return pages.filter((pid) => {
      for (let at = pid; at; at = parents.get(at)) if (at === this.firefox.process().pid) return true;
      return false;
    });
  }

  /** Whether a process has a file of the browser's own file system open. */
  #hasStore(pid) {
    try {
      return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(join(this.profile, "storage/default")));
    } catch {
      // It has closed a file meanwhile, or ended.
      return false;
    }
  }
}
