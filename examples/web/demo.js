// The page around the store: everything on it is one call of the package and what came of it.

import { compare } from "./benchmark.js";

const $ = (id) => document.getElementById(id);
const MINE = "page/";
const FILLED = "filled/";
const FILLED_RECORDS = 20_000;
const KILLED = "killed/";
const KILLED_RECORDS = 200;

const { destroy, open, support } = await begun(import("./pipkin/index.js"), () => "The package could not be loaded: build it, and serve what it makes beside this page as `pipkin/`.");
const { supported, reason } = await support();
if (!supported) await begun(Promise.reject(new Error(reason)), () => `This browser cannot hold a store: ${reason}.`);
const blocked = () => tell("waiting for another tab, which has the store open and does not answer");
// Started here, so that a button can kill it.
let worker;
const startWorker = () => (worker = new Worker(new URL("./pipkin/worker.js", import.meta.url), { type: "module" }));
let db, records;

await begun(openStore());
await begun(Promise.all([showRecords(), showFile()]));
document.documentElement.dataset.ready = "true";

async function openStore() {
  // Small segments, so that there is something to see.
  db = await open("demo", { segmentSize: 256 * 1024, blocked, worker: startWorker });
  records = db.text(MINE);
  showRole(db.role);
  db.on("error", ({ error }) => tellProblem(error.message));
  db.on("leaderchange", ({ role }) => showRole(role));
  records.on("change", ({ keys, local }) => unasked(showRecords(local ? [] : (keys ?? []))));
  db.on("change", () => showFileSoon());
}

$("write").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { key, value } = Object.fromEntries(new FormData(event.target));
  const durability = document.querySelector("[name=durability]:checked").value;
  const start = performance.now();
  if (!(await attempt(() => records.set(key, value, { durability })))) return;
  $("latency").value = `acknowledged after ${(performance.now() - start).toFixed(2)} ms`;
});

onClick("fill", async () => {
  await fill(FILLED_RECORDS, 1);
  return `${FILLED_RECORDS.toLocaleString()} records written`;
});
onClick("overwrite", async () => {
  await fill(FILLED_RECORDS, 2);
  return "every other record written again; what it was before is dead";
});
onClick("clear", async () => {
  const keys = [];
  for await (const key of db.text(FILLED).keys()) keys.push(key);
  await db.prefix(FILLED).batch((batch) => keys.forEach((key) => batch.delete(key)));
  return `${keys.length.toLocaleString()} records removed in one commit`;
});
onClick("compact", async () => {
  const { segmentsRetired, bytesFreed } = await db.compact();
  return segmentsRetired ? `${segmentsRetired} segments emptied, ${megabytes(bytesFreed)} freed` : "nothing that would pay";
});
onClick("verify", async () => {
  const { bytesChecked, damage } = await db.verify();
  return `${megabytes(bytesChecked)} checked, ${damage.length || "no"} damage`;
});
onClick("persist", async () => {
  const kept = await db.persist();
  return kept ? "the browser will not delete it by itself" : "the browser may delete it when it runs out of space";
});
onClick("export", async () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await db.exportBlob());
  link.download = "demo.pipkin";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return "exported";
});
$("import").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  if (file && (await attempt(() => db.import(file, { replace: true })))) tell(`${file.name} imported`);
  target.value = "";
  await Promise.all([showRecords(), showFile()]);
});
$("copy").addEventListener("click", async () => {
  if (await attempt(() => navigator.clipboard.writeText($("snippet").textContent))) $("copy").textContent = "Copied";
});
const tabs = new BroadcastChannel("demo");
tabs.onmessage = ({ data }) => data === "kill" && db.role === "leader" && void killWorker();
onClick("kill", async () => {
  const view = db.text(KILLED);
  await view.clear();
  let acknowledged = 0;
  let waited = 0;
  let killed;
  for (let i = 0; i < KILLED_RECORDS; i++) {
    if (i === KILLED_RECORDS / 2) {
      if (db.role === "leader") killed = killWorker();
      else tabs.postMessage("kill");
    }
    const start = performance.now();
    // Of one that was under way when its own worker was killed nobody knows whether it is there.
    await db.text(KILLED).set(`${i}`, "acknowledged").then(() => acknowledged++, () => killed);
    waited = Math.max(waited, performance.now() - start);
  }
  const found = await db.text(KILLED).count();
  if (found < acknowledged) throw new Error(`${acknowledged} writes were acknowledged, and only ${found} are there`);
  $("survived").textContent = `killed half way through ${KILLED_RECORDS} writes: ${acknowledged} acknowledged, ${found} there, the longest wait ${waited.toFixed(0)} ms`;
});

/** Ends the worker of this page as a crash would, and opens the store again. */
async function killWorker() {
  const ended = new Promise((resolve) => db.on("error", resolve));
  worker.terminate();
  await ended;
  await openStore();
  $("problem").hidden = true;
  await showRecords();
}

onClick("bench", async () => {
  const results = await compare({ open, destroy }, (state) => ($("bench-state").textContent = state));
  $("results").hidden = false;
  $("results").tBodies[0].replaceChildren(...results.map(({ what, pipkin, indexedDb }) => row(what, [pipkin.toFixed(1), indexedDb.toFixed(1), `${(indexedDb / pipkin).toFixed(1)} x`])));
  $("bench-state").textContent = "";
});

/** Writes every `step`-th of the filling records, a thousand in a commit. */
async function fill(count, step) {
  const stamp = `${performance.now()} `.repeat(8);
  const view = db.prefix(FILLED);
  for (let at = 0; at < count; at += 1000 * step) {
    await view.setMany(Array.from({ length: 1000 }, (_, i) => [`${at + i * step}`, stamp]));
    await showFile();
  }
}

function onClick(id, work) {
  $(id).addEventListener("click", async () => {
    if ($(id).hasAttribute("aria-disabled")) return;
    // One that is really disabled would lose the focus.
    $(id).setAttribute("aria-disabled", "true");
    const told = await attempt(work);
    if (typeof told === "string") tell(told);
    $(id).removeAttribute("aria-disabled");
    unasked(showFile());
  });
}

/** Waits for a part of the beginning. Without it there is no store on this page, which it says. */
async function begun(part, what = (error) => error.message) {
  try {
    return await part;
  } catch (error) {
    tellProblem(what(error));
    $("role").textContent = "not open";
    throw error;
  }
}

/** Says what went wrong, if something did. */
async function attempt(work) {
  try {
    $("problem").hidden = true;
    return (await work()) ?? true;
  } catch (error) {
    tellProblem(error.message);
    return false;
  }
}

/** Shows what is there now. Of a store whose worker was killed meanwhile the next one is shown. */
function unasked(showing) {
  showing.catch((error) => error.code === "failed" || tellProblem(error.message));
}

function tell(text) {
  $("told").textContent = text;
}

function tellProblem(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
}

function showRole(role) {
  $("role").dataset.role = role;
  $("role").textContent = role === "leader" ? "this tab leads" : "another tab leads";
}

function row(heading, cells) {
  const tr = document.createElement("tr");
  const th = Object.assign(document.createElement("th"), { scope: "row", textContent: heading });
  tr.append(th, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return tr;
}

async function showRecords(fresh = []) {
  const all = [];
  // In order: that finds the few records of this page without a look at the many others.
  for await (const record of records.entries({ ordered: true })) all.push(record);
  const focused = document.activeElement.closest("#records tr");
  const index = focused?.sectionRowIndex;
  $("empty").hidden = all.length > 0;
  $("records").replaceChildren(
    ...all.map(([key, value]) => {
      const tr = row(key, [value, ""]);
      const remove = Object.assign(document.createElement("button"), { textContent: "Remove", ariaLabel: `Remove ${key}` });
      remove.addEventListener("click", () => attempt(() => records.delete(key)));
      tr.lastChild.append(remove);
      tr.classList.toggle("fresh", fresh.includes(key));
      return tr;
    }),
  );
  if (focused) focusRow(focused.firstChild.textContent, index);
}

/** The focus stays on its record. When that has gone the next one gets it. */
function focusRow(key, index) {
  const rows = [...$("records").rows];
  const row = rows.find(({ firstChild }) => firstChild.textContent === key) ?? rows[Math.min(index, rows.length - 1)];
  (row?.querySelector("button") ?? $("write").elements.key).focus();
}

let soon;
function showFileSoon() {
  soon ??= setTimeout(() => ((soon = undefined), unasked(showFile())), 200);
}

async function showFile() {
  const [segments, stats, { usage, quota }] = await Promise.all([db.segments(), db.stats(), navigator.storage.estimate()]);
  $("map").replaceChildren(
    ...segments.map(({ use, bytes, usedBytes, liveBytes }) => {
      const cell = document.createElement("i");
      const [live, used] = [liveBytes / bytes, usedBytes / bytes].map((share) => `${(share * 100).toFixed(1)}%`);
      if (use === "other") cell.className = "other";
      if (use === "log") cell.style.background = `linear-gradient(to right, var(--live) ${live}, var(--dead) ${live} ${used}, var(--free) ${used})`;
      cell.title = `${use}: ${megabytes(bytes)}, live ${live}, used ${used}`;
      return cell;
    }),
  );
  $("figures").textContent = `${stats.records.toLocaleString()} records · ${megabytes(stats.liveBytes)} live, ${megabytes(stats.deadBytes)} dead · file ${megabytes(stats.fileBytes)}`;
  $("map").ariaLabel = `${segments.length} segments of ${megabytes(stats.segmentSize)}: ${$("figures").textContent}`;
  $("meter").max = quota;
  $("meter").value = usage;
  $("estimate").textContent = `${megabytes(usage)} of ${megabytes(quota)}, ${(await navigator.storage.persisted()) ? "kept for good" : "may be deleted when the disk is full"}`;
}

function megabytes(bytes) {
  return `${(bytes / 1048576).toLocaleString(undefined, { maximumFractionDigits: 1 })} MiB`;
}
