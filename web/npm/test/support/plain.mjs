// A headless Chromium driven by its own protocol alone. Other drivers make every page believe that it is seen, and keep none that
// was left; here a tab behind another one is out of sight, can be frozen, and comes back as a person's does.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = process.env.PIPKIN_CHROMIUM ?? "/usr/bin/chromium";
/** Generous: a machine under load must not fail a test. */
const PATIENCE_MS = 60_000;
const PAUSE_MS = 50;

export class PlainBrowser {
  #calls = new Map();
  #number = 0;
  #rest = "";

  static async start(site, profile = mkdtempSync(join(tmpdir(), "pipkin-profile-"))) {
    const browser = new PlainBrowser();
    browser.site = site;
    browser.profile = profile;
    const args = ["--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${browser.profile}`];
    browser.process = spawn(PROGRAM, args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.process.stdio[4].setEncoding("utf8").on("data", (text) => browser.#hear(text));
    return browser;
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#number;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  /** A new tab in front of the others, with the package loaded as `window.pipkin`. */
  async tab() {
    const { targetId } = await this.send("Target.createTarget", { url: this.site.url });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new PlainTab(this, targetId, sessionId);
    await tab.until(() => window.ready);
    return tab;
  }

  /** Quits, as a person does; the profile stays for the next one. */
  async quit() {
    const ended = once(this.process, "exit");
    await this.send("Browser.close");
    await ended;
  }

  async end() {
    await this.quit();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  #hear(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const { id, result, error } of messages.map((message) => JSON.parse(message))) {
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      if (error) call?.reject(new Error(error.message));
      else call?.resolve(result);
    }
  }
}

class PlainTab {
  constructor(browser, target, session) {
    this.browser = browser;
    this.target = target;
    this.session = session;
  }

  /** Runs a function in the page; its argument and its result go through JSON. */
  async evaluate(work, argument) {
    const expression = `(${work})(${JSON.stringify(argument)})`;
    const { result, exceptionDetails } = await this.#send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until the page says so, whichever page is in the tab by then. */
  async until(condition, argument) {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
      if (await this.evaluate(condition, argument).catch(() => false)) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    throw new Error(`never true: ${condition}`);
  }

  /** Brings this tab in front; the one that was there goes out of sight. */
  show() {
    return this.browser.send("Target.activateTarget", { targetId: this.target });
  }

  /** Stops the page, as a browser does with those that nobody has seen for minutes. */
  freeze() {
    return this.#send("Page.setWebLifecycleState", { state: "frozen" });
  }

  thaw() {
    return this.#send("Page.setWebLifecycleState", { state: "active" });
  }

  async close() {
    await this.browser.send("Target.closeTarget", { targetId: this.target });
  }

  /** The same as a person does: the page is told beforehand. */
  async closeAsked() {
    await this.#send("Page.close");
  }

  #send(method, params) {
    return this.browser.send(method, params, this.session);
  }
}
