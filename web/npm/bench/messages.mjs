// What a call from the page costs, beside the message that carries it: `npm run build`, `npm ci` here, then `node messages.mjs`.
//
// Each browser with a new profile on a disk, one page, one store of 100,000 records of 24 + 150 bytes. The echo worker sends back what it
// gets, or 150 bytes for 30. Rounds of all rows alternate, so that what else the machine does falls on all of them alike.

import { BROWSERS, withPages } from "./browsers.mjs";
import { serve } from "../serve.mjs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

const RECORDS = 100_000;
const ROUNDS = Number(process.env.PIPKIN_BENCH_ROUNDS ?? 80);
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Runs in the page. */
async function measure([records, rounds]) {
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
}

/** Runs in each of two pages, of which one leads and goes on to: it believes that it is seen. */
async function openSeen() {
  Object.defineProperty(Document.prototype, "visibilityState", { get: () => "visible" });
  window.db = await pipkin.open("messages");
  window.gets = async (count) => {
    const start = performance.now();
    for (let i = 0; i < count; i++) await db.get(String((i * 37 * 7919) % 100_000).padStart(24, "0"));
    return ((performance.now() - start) * 1000) / count;
  };
  // Until the way to the leader is there.
  await gets(300);
  return db.role;
}

/** What a `get` of a follower takes beside one of its leader, in turns. */
async function beside(open, rounds) {
  const pages = [await open(site.url), await open(site.url)];
  const times = { leader: [], follower: [] };
  for (const page of pages) {
    await page.waitForFunction(() => window.pipkin);
    if ((await page.evaluate(openSeen)) !== (page === pages[0] ? "leader" : "follower")) throw new Error("the tabs have other roles");
  }
  for (let round = 0; round < rounds; round++) {
    for (const [i, list] of Object.values(times).entries()) list.push(await pages[i].evaluate(() => gets(300)));
  }
  return { "get, awaited, of a leader": times.leader, "the same of a follower": times.follower };
}

// The clock of a page is finer when that is isolated.
const headers = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const site = await serve([["/pipkin/", folder("../dist")], ["/", folder("../test/site")]], 0, headers);
for (const browser of process.argv.length > 2 ? process.argv.slice(2) : BROWSERS) {
  await withPages(browser, tmpdir(), async (open, version) => {
    const page = await open(site.url);
    await page.waitForFunction(() => window.pipkin);
    report(version, await page.evaluate(measure, [RECORDS, ROUNDS]));
    await page.close();
    report(`${version}, two tabs`, await beside(open, ROUNDS));
  });
}
await site.close();

// The first quarter warms up. A ratio is the median of those of the rounds: some of them the system spends in a slower gear.
function report(version, times) {
  const quantile = (list, part) => list.toSorted((a, b) => a - b)[Math.floor(list.length * part)];
  const [bare, echo] = Object.values(times);
  console.log(`\n${version}, us: median and lower quartile; over the bare number and over the bytes, in the same round\n`);
  for (const [name, all] of Object.entries(times)) {
    const counted = (list) => list.slice(all.length / 4);
    const over = (base) => quantile(counted(all.map((time, round) => time / base[round])), 0.5).toFixed(2);
    const [median, quartile] = [0.5, 0.25].map((part) => quantile(counted(all), part).toFixed(2).padStart(7));
    console.log(`${name.padEnd(38)} ${median} ${quartile}   ${over(bare)} ${over(echo)}`);
  }
}
