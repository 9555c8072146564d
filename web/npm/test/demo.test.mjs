// The demonstration page does what its buttons say, in two tabs, without an error on the page.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { serve } from "../serve.mjs";
import { until } from "./support/pages.mjs";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const errors = [];
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

/** A comparison of the page's own size takes minutes on a busy machine, and what it measures nobody reads here. */
async function compareLess(route) {
  const response = await route.fetch();
  const less = { "RECORDS = 10_000": "RECORDS = 1_000", "SINGLE = 200": "SINGLE = 20", "ROUNDS = 3": "ROUNDS = 1" };
  let body = await response.text();
  for (const [from, to] of Object.entries(less)) {
    if (!body.includes(from)) errors.push(`the comparison has its sizes elsewhere: no ${from}`);
    body = body.replace(from, to);
  }
  await route.fulfill({ response, body });
}

async function demo() {
  const page = await browser.context.newPage();
  page.setDefaultTimeout(300_000);
  await page.route("**/benchmark.js", compareLess);
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`${site.url}demo/`);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
  return page;
}

const done = (page, id) => page.waitForFunction((id) => !document.getElementById(id).matches(":disabled, [aria-disabled]"), id);
const click = async (page, id) => {
  await page.click(`#${id}`);
  await done(page, id);
};

test("the demonstration works in two tabs", async () => {
  const [one, two] = [await demo(), await demo()];
  const role = (page) => page.textContent("#role");
  assert.deepEqual([await role(one), await role(two)], ["this tab leads", "another tab leads"]);

  await two.fill("[name=key]", "color");
  await two.fill("[name=value]", "green");
  await two.check("[value=strict]");
  await two.press("[name=value]", "Enter");
  for (const page of [one, two]) await page.waitForFunction(() => document.getElementById("records").textContent.includes("green"));

  await click(one, "fill");
  await click(one, "overwrite");
  const dead = await one.$$eval("#map i", (cells) => cells.length);
  await click(two, "compact");
  assert.match(await two.textContent("#told"), /segments emptied/);
  assert.ok((await two.$$eval("#map i", (cells) => cells.length)) <= dead);
  await click(two, "verify");
  assert.match(await two.textContent("#told"), /no damage/);

  const [download] = await Promise.all([two.waitForEvent("download"), click(two, "export")]);
  await click(two, "clear");
  await two.setInputFiles("#import", await download.path());
  await two.waitForFunction(() => document.getElementById("told").textContent.endsWith("imported"));
  await two.waitForFunction(() => document.getElementById("figures").textContent.startsWith("20,001 records"));

  await click(one, "bench");
  assert.equal(await one.$$eval("#results tbody tr", (rows) => rows.length), 6);

  // The worker that leads is killed in the middle of writes, by the other tab and by its own.
  for (const page of [two, one]) {
    await click(page, "kill");
    const [, acknowledged, found] = /(\d+) acknowledged, (\d+) there/.exec(await page.textContent("#survived"));
    assert.ok(Number(acknowledged) >= 199 && Number(found) >= Number(acknowledged), await page.textContent("#survived"));
    await page.evaluate(() => document.getElementById("survived").replaceChildren());
  }
  for (const page of [one, two]) await page.waitForFunction(() => document.getElementById("records").textContent.includes("green"));
  // The one whose worker was killed by the other opens its store again meanwhile.
  await until(async () => JSON.stringify((await Promise.all([role(one), role(two)])).sort()) === '["another tab leads","this tab leads"]');
  await one.close();
  await two.waitForFunction(() => document.getElementById("role").dataset.role === "leader");
  assert.ok(await two.isHidden("#problem"));
  assert.deepEqual(errors, []);
});

test("the demonstration works by keyboard alone", async () => {
  const other = await browser.tab();
  await other.evaluate(async () => {
    window.db = await pipkin.open("demo");
    await db.clear();
  });
  const page = await demo();
  // The driver has the browser tell of file choosers while somebody listens: one that was asked for together with the key came too late, two times of five.
  const chosen = new Promise((resolve) => page.once("filechooser", resolve));
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  /** Where the focus is, by the name that is read out, and whether that can be seen. */
  const focus = () => page.evaluate(() => {
    const at = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(at.closest(".button") ?? at);
    return [at.getAttribute("aria-label") ?? (at.labels?.[0] ?? at).textContent.trim(), outlineStyle === "solid" && parseFloat(outlineWidth) >= 2];
  });
  const focused = async () => (await focus())[0];
  const tabTo = async (name) => {
    for (let step = 0; step < 40; step++) {
      await press("Tab");
      if ((await focused()) === name) return;
    }
    assert.fail(`${name} is not reached`);
  };
  const records = (text) => page.waitForFunction((text) => [...document.querySelectorAll("#records th")].map((key) => key.textContent).join() === text, text);

  const stops = [];
  for (let step = 0; step < 16; step++) {
    await press("Tab");
    stops.push(await focus());
  }
  const names = [
    "Open this page in a second tab", "Key", "Value", "Set", "relaxed: the browser has it", "Kill the leader while this tab writes", "Write 20,000 records", "Overwrite half of them", "Compact", "Verify",
    "Remove the 20,000 records", "Ask to keep the storage", "Export the file", "Import a file", "Copy", "Run the comparison",
  ];
  assert.deepEqual(stops, names.map((name) => [name, true]));

  for (const [i, key] of ["a", "b", "c"].entries()) {
    await page.focus("body");
    await tabTo("Key");
    await press("Control+a", key, "Tab", "Control+a", "1", "Enter");
    await records(["a", "b", "c"].slice(0, i + 1).join());
  }
  await tabTo("relaxed: the browser has it");
  await press("ArrowRight");
  assert.ok(await page.isChecked("[value=strict]"));

  await tabTo("Remove a");
  await press("Enter");
  await records("b,c");
  assert.deepEqual(await focus(), ["Remove b", true]);
  // What another tab writes does not move the focus.
  await other.evaluate(() => db.set("page/a2", "1"));
  await records("a2,b,c");
  assert.deepEqual(await focus(), ["Remove b", true]);
  await press("Space");
  await records("a2,c");
  assert.deepEqual(await focus(), ["Remove c", true]);
  await press("Enter");
  await records("a2");
  await press("Enter");
  await records("");
  assert.deepEqual(await focus(), ["Key", true]);

  for (const [id, name] of [["fill", "Write 20,000 records"], ["compact", "Compact"], ["clear", "Remove the 20,000 records"]]) {
    await tabTo(name);
    await press("Enter");
    assert.equal(await focused(), name, "while it works");
    await done(page, id);
    assert.deepEqual(await focus(), [name, true], "when it has ended");
  }
  await tabTo("Import a file");
  await press("Enter");
  await chosen;
  await page.close();
  await other.close();
});

// The page said "opening…" for ever.
test("the demonstration says why its store cannot be opened, and that the package is missing", async () => {
  const cases = { "pipkin_bg.wasm": /WebAssembly module could not be loaded/, "worker.js": /script of the worker could not be loaded/, "index.js": /package could not be loaded/ };
  for (const [file, expected] of Object.entries(cases)) {
    const without = mkdtempSync(join(tmpdir(), "pipkin-without-"));
    cpSync(folder("../dist"), without, { recursive: true, filter: (path) => !path.endsWith(`/dist/${file}`) });
    const lacking = await serve([["/pipkin/", without], ["/", folder("../../../examples/web")]]);
    try {
      const page = await browser.context.newPage();
      await page.goto(lacking.url);
      await page.waitForFunction(() => document.getElementById("role").textContent === "not open");
      assert.match(await page.textContent("#problem"), expected);
      assert.ok(await page.isVisible("#problem"));
      await page.close();
    } finally {
      await lacking.close();
      rmSync(without, { recursive: true });
    }
  }
});

test("at the width of a small phone the demonstration fits, and no word is broken", async () => {
  const page = await demo();
  await page.setViewportSize({ width: 360, height: 700 });
  await page.fill("[name=key]", "key");
  await page.press("[name=value]", "Enter");
  await page.waitForFunction(() => document.getElementById("records").textContent.includes("key"));
  await click(page, "bench");
  const broken = await page.evaluate(() => {
    const words = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest("pre, .hidden")) continue;
      for (const { index, 0: word } of node.data.matchAll(/[^\s-]+/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        if (new Set(Array.from(range.getClientRects(), ({ top }) => Math.round(top))).size > 1) words.push(word);
      }
    }
    return [words, document.documentElement.scrollWidth];
  });
  assert.deepEqual(broken, [[], 360]);
  await page.close();
});
