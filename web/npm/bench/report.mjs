// Makes the tables and the plot out of the samples. `node report.mjs DIR` makes them again.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { plot } from "./plot.mjs";

export const NAMES = { pipkin: "pipkin", indexeddb: "IndexedDB", "idb-keyval": "idb-keyval", sqlite: "sqlite-wasm", "sqlite-objects": "its objects", "wa-sqlite": "wa-sqlite" };
const ROWS = [
  ["batched put", "relaxed", "put, 1000 in a commit, relaxed, us"],
  ["batched put", "strict", "the same, strict, us"],
  ["single put", "relaxed", "put, each a commit, relaxed, us"],
  ["single put", "strict", "the same, strict, us"],
  ["get", "relaxed", "get, cached, us"],
  ["get 1000 at once", "relaxed", "get, 1000 at once, us a key"],
  ["open first, ms", "relaxed", "open the first store of a new profile, ms"],
  ["open new, ms", "relaxed", "open another new store, ms"],
  ["reopen, ms", "relaxed", "open it again, ms"],
  ["reopen to first value, ms", "relaxed", "the same, until the first value, ms"],
];

/** Medians of the rounds, by browser, place and row. */
function medians(samples) {
  const groups = new Map();
  for (const { browser, where, store, durability, phase, value } of samples) {
    const key = JSON.stringify([browser, where, store, durability ?? "", phase]);
    groups.set(key, [...(groups.get(key) ?? []), value]);
  }
  return (browser, where, store, durability, phase) => {
    const values = groups.get(JSON.stringify([browser, where, store, durability, phase]))?.sort((a, b) => a - b);
    // Of an even number the mean of the two in the middle.
    return values && (values[Math.floor((values.length - 1) / 2)] + values[Math.floor(values.length / 2)]) / 2;
  };
}

export function report(folder) {
  const [{ facts }, ...samples] = readFileSync(join(folder, "results.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const of = medians(samples);
  const versions = new Map(samples.map(({ browser, version }) => [browser, version]));
  const tables = [];
  const panels = [];
  for (const [browser, version] of versions) {
    const rounds = new Set(samples.filter((sample) => sample.browser === browser).map(({ round }) => round)).size;
    for (const where of ["worker", "page"]) {
      const rows = ROWS.map(([phase, durability, title]) => ({
        title, values: Object.keys(NAMES).map((store) => of(browser, where, store, durability, phase)),
      }));
      const title = `${version}, ${where === "worker" ? "in a worker" : "from the page"}`;
      tables.push(table(rounds === 1 ? `${title}, one round` : `${title}, medians of ${rounds} rounds`, rows));
      panels.push({ title, rows });
    }
    const trip = of(browser, "page", "messages", "", "bare message round trip");
    tables.push(`A bare message to a worker and its answer, in the same browser: ${shown(trip)} us.\n`);
  }
  tables.push(handleTable(samples, versions, of));
  const { records, gets, puts } = facts.scale;
  const about = `${records.toLocaleString("en")} records, ${gets.toLocaleString("en")} gets, ${puts.relaxed} relaxed and ${puts.strict} strict single puts. ` +
    `${facts.cores} shared cores (${facts.cpu}), ${facts.date}. ` +
    `sqlite-wasm is ${facts.dependencies["@sqlite.org/sqlite-wasm"]} on opfs-sahpool, wa-sqlite is @journeyapps/wa-sqlite ${facts.dependencies["@journeyapps/wa-sqlite"]} on ` +
    `AccessHandlePoolVFS, idb-keyval is ${facts.dependencies["idb-keyval"]}. Lower is better; the last column is pipkin over the best of the others.\n`;
  writeFileSync(join(folder, "table.md"), [about, ...tables].join("\n"));
  writeFileSync(join(folder, "plot.svg"), plot(panels, Object.values(NAMES)));
  console.log(`\n${[about, ...tables].join("\n")}\nthe samples, the tables and the plot are in ${folder}`);
}

function table(title, rows) {
  const head = ["", ...Object.values(NAMES), "ratio"];
  const lines = rows.map(({ title, values }) => {
    const [ours, ...theirs] = values;
    const ratio = ours / Math.min(...theirs.filter((value) => value !== undefined));
    return [title, ...values.map(shown), Number.isFinite(ratio) ? ratio.toFixed(2) : "–"];
  });
  return `${title}\n\n${markdown(head, lines)}`;
}

/** What is under every store on this file system. */
function handleTable(samples, versions, of) {
  const calls = [...new Set(samples.filter(({ store }) => store === "handles").map(({ phase }) => phase))];
  const lines = calls.map((call) => [call, ...[...versions.keys()].map((browser) => shown(of(browser, "worker", "handles", "", call)))]);
  return `Calls of a synchronous file handle, us\n\n${markdown(["", ...versions.values()], lines)}`;
}

function markdown(head, lines) {
  const row = (cells) => `| ${cells.join(" | ")} |\n`;
  return row(head) + row(head.map((_, i) => (i ? "--:" : "---"))) + lines.map(row).join("");
}

export function shown(value) {
  if (value === undefined) return "–";
  return value < 10 ? value.toFixed(value < 1 ? 2 : 1) : value.toFixed(0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) report(process.argv[2] ?? "results");
