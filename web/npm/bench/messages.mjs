// What a call from the page costs, beside the message that carries it: `npm run build`, then `node bench/messages.mjs`.
//
// A Chromium with its profile on a disk, one page, one store of 100,000 records of 24 + 150 bytes. The echo worker sends back what it gets,
// or 150 bytes for 30. Rounds of all rows alternate, so that what else the machine does falls on all of them alike.

import { serve } from "../serve.mjs";
import { Browser } from "../test/support/browser.mjs";
import { fileURLToPath } from "node:url";

const RECORDS = 100_000;
const ROUNDS = Number(process.env.PIPKIN_BENCH_ROUNDS ?? 40);
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

const site = await serve([["/pipkin/", folder("../dist")], ["/", folder("../test/site")]]);
const browser = await Browser.start(site);
const page = await browser.tab();
const times = await page.evaluate(async ([records, rounds]) => {
  const echo = new Worker(URL.createObjectURL(new Blob([`
    onmessage = ({ data }) => postMessage(typeof data === "number" ? data : new Uint8Array(150));`])));
  const sent = (message) => new Promise((resolve) => {
    echo.onmessage = resolve;
    echo.postMessage(message);
  });
  const db = await pipkin.open("messages");
  const value = new Uint8Array(150).fill(7);
  const key = (i) => String((i * 7919) % records).padStart(24, "0");
  for (let at = 0; at < records; at += 10_000) await db.setMany(Array.from({ length: 10_000 }, (_, i) => [key(at + i), value]));
  const thousand = Array.from({ length: 1000 }, (_, i) => key(i * 91));
  const rows = {
    "a number to an echo worker and back": [300, 1, (i) => sent(i)],
    "30 bytes there, 150 back": [300, 1, () => sent(new Uint8Array(30))],
    "get, awaited": [300, 1, (i) => db.get(key(i * 37))],
    "has, awaited": [300, 1, (i) => db.has(key(i * 37))],
    "getMany of 1000, a key": [5, 1000, () => db.getMany(thousand)],
    "1000 gets of one task, a key": [5, 1000, () => Promise.all(thousand.map((key) => db.get(key)))],
    "set, awaited": [100, 1, (i) => db.set(key(i * 37), value)],
    "setMany of 1000, a record": [3, 1000, () => db.setMany(thousand.map((key) => [key, value]))],
  };
  const times = Object.fromEntries(Object.keys(rows).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, [count, size, work]] of Object.entries(rows)) {
      const start = performance.now();
      for (let i = 0; i < count; i++) await work(i);
      times[name].push(((performance.now() - start) * 1000) / count / size);
    }
  }
  return times;
}, [RECORDS, ROUNDS]);
await browser.end();
await site.close();

// The first quarter warms up.
const sorted = Object.entries(times).map(([name, all]) => [name, all.slice(all.length / 4).sort((a, b) => a - b)]);
const at = (list, part) => list[Math.floor(list.length * part)];
const [[, bare]] = sorted;
console.log("us: median, lower quartile; and over the bare number\n");
for (const [name, list] of sorted) {
  const [median, quartile] = [at(list, 0.5), at(list, 0.25)];
  const ratios = [median / at(bare, 0.5), quartile / at(bare, 0.25)].map((ratio) => ratio.toFixed(2));
  console.log(`${name.padEnd(38)} ${median.toFixed(2).padStart(7)} ${quartile.toFixed(2).padStart(7)}   ${ratios.join(" ")}`);
}
