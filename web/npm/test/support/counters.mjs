// Tabs that count while their leaders vanish, and what must be in the store afterwards. For both browsers.

import assert from "node:assert/strict";
import { isThere, until } from "./pages.mjs";

/** Rounds that each tab is told of at least between two kills. */
const STEPS = 5;

export class Counters {
  /** All tabs that there have been: the page of each, whether it lives, and how many rounds it was told of. */
  tabs = [];

  /** `open` opens a tab, in which `write` counts. */
  constructor(open, write = count) {
    this.open = open;
    this.write = write;
  }

  /** Opens tabs until so many live. */
  async fill(many) {
    while (this.#living().length < many) {
      const page = await this.open();
      await page.evaluate(this.write, this.tabs.length);
      this.tabs.push({ page, lives: true, told: 0 });
    }
  }

  /** Has `end` end the page that leads, in the midst of what all tabs write. Other tabs may go with it. */
  async kill(end) {
    await this.#goOn();
    const leader = await this.#leader();
    for (const tab of this.#living()) tab.told = await tab.page.evaluate(() => done);
    await end(leader.page);
    for (const tab of this.#living()) {
      const there = await isThere(tab.page);
      if (there) tab.told = await tab.page.evaluate(() => done);
      tab.lives = there && tab !== leader;
      if (!tab.lives && !tab.page.isClosed()) await tab.page.close();
    }
  }

  /** Ends the writing, and holds the store against what the tabs were told. Returns how often the common record was updated. `further` looks at the tabs before they close. */
  async check(further = () => undefined) {
    await this.#goOn();
    for (const tab of this.#living()) tab.told = await tab.page.evaluate(() => ((window.enough = true), running.then(() => done)));
    const { tabs, damage } = await this.#living()[0].page.evaluate(found);
    assert.deepEqual(damage, []);
    for (const [number, { lives, told }] of this.tabs.entries()) {
      const { common, own, records } = tabs[number];
      // The record of a round is there before its updates are. Of what a tab was not told any more, each write may be there or not.
      const least = lives ? told : Math.max(told, records - 1);
      const most = lives ? told : records;
      const right = [common, own].every((updates) => updates >= least && updates <= most) && records >= least && records <= most;
      assert.ok(right, `tab ${number} was told of ${told} rounds; ${common} and ${own} updates are counted, ${records} records are there`);
    }
    await further(this.#living().map(({ page }) => page));
    for (const { page } of this.#living()) await page.close();
    return tabs.reduce((sum, { common }) => sum + common, 0);
  }

  #living() {
    return this.tabs.filter(({ lives }) => lives);
  }

  /** Waits until every tab was told of more rounds; throws what a call of a tab has rejected with. */
  async #goOn() {
    const goOn = async ({ page }) => {
      const goal = (await page.evaluate(() => done)) + STEPS;
      await until(() => page.evaluate((goal) => Promise.race([running, done >= goal]), goal));
    };
    await Promise.all(this.#living().map(goOn));
  }

  /** The tab that leads. It goes on to, because it is the one that is seen. */
  #leader() {
    return until(async () => {
      for (const tab of this.#living()) {
        if (!(await tab.page.evaluate(() => db.role === "leader"))) continue;
        await tab.page.bringToFront();
        // It may have handed over before that; with an answer from its worker, it knows.
        if (await tab.page.evaluate(() => !document.hidden && db.has("common").then(() => db.role === "leader"))) return tab;
      }
    });
  }
}

/** Runs in a page. In each round it counts in a record that all tabs share and in one of its own, and writes a further one, without a pause. */
async function count(number) {
  // A flush is where a kill finds a leader that has carried an update out and has not said so.
  window.db = await pipkin.open("counters", { durability: number % 3 ? "strict" : "relaxed" });
  const padding = "x".repeat(60_000);
  const inCommon = (counts = []) => {
    counts[number] = (counts[number] ?? 0) + 1;
    return counts;
  };
  const inOwn = ({ count } = { count: 0 }) => ({ count: count + 1, padding });
  window.done = 0;
  window.running = (async () => {
    for (; !window.enough; done++) {
      await Promise.all([db.json().update("common", inCommon), db.json().update(`own/${number}`, inOwn), db.set(`record/${number}/${done}`, "")]);
    }
  })();
}

/** Runs in a page: what the store has of each tab. */
async function found() {
  const tabs = (await db.json().get("common")).map((common) => ({ common, own: 0, records: 0 }));
  for await (const [number, { count }] of db.json("own/")) tabs[number].own = count;
  for await (const key of db.text("record/").keys()) tabs[parseInt(key)].records++;
  return { tabs, damage: (await db.verify()).damage };
}
