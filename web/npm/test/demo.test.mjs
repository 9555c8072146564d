// The demonstration page does what its buttons say, in two tabs, without an error on the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const errors = [];

async function demo() {
  const page = await browser.context.newPage();
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`${site.url}demo/`);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
  return page;
}

const click = async (page, id) => {
  await page.click(`#${id}`);
  await page.waitForFunction((id) => !document.getElementById(id).disabled, id);
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
  assert.equal(await one.$$eval("#results tbody tr", (rows) => rows.length), 3);
  await one.close();
  await two.waitForFunction(() => document.getElementById("role").dataset.role === "leader");
  assert.ok(await two.isHidden("#problem"));
  assert.deepEqual(errors, []);
});
