// What the README shows and names, held against the types of the built package: TypeScript takes it under `strict`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const readme = readFileSync(join(here, "README.md"), "utf8");
const all = (text, pattern) => [...text.matchAll(pattern)].map(([, part]) => part);
const blocks = all(readme + readFileSync(join(here, "../../README.md"), "utf8"), /^```js\n(.*?)^```/gms);
const paragraphs = readme.replace(/^```.*?^```/gms, "").split(/\n\n+/);
const inline = (text) => all(text, /`([^`]*)`/g);

/** What stands as code in the first cells of the table whose heading begins so. */
function cells(heading) {
  const [, , ...rows] = paragraphs.find((paragraph) => paragraph.startsWith(heading)).split("\n");
  return rows.flatMap((row) => inline(row.split(" | ")[0]));
}

/** An object that has these names and no others, by the type that it has to have. */
const exactly = (type, names) => `({ ${names.map((name) => `"${name}": 1`).join(", ")} }) satisfies Record<${type}, 1>;`;

const PROGRAM = `
  import { type CopyOptions, type ErrorCode, type Events, type Store, destroy, list, open, support } from "pipkin";
  import { open as openInline } from "pipkin/inline";
  import { type SyncStore, open as openSync } from "pipkin/sync";
  declare const name: string, value: string, p: string, url: URL, buffer: Uint8Array, options: {}, ordered: boolean, reverse: boolean;
  declare const gte: undefined, gt: string, lte: string, lt: undefined, limit: number, ttl: number, retries: number, replace: boolean, progress: NonNullable<CopyOptions["progress"]>;
  declare const stream: ReadableStream<Uint8Array>, source: Blob, blocked: () => void;
  declare const slot: number, passphrase: string; declare const key: string & CryptoKey;
  declare const position: Uint8Array, from: Uint8Array, appended: boolean, signal: AbortSignal;
  declare const event: "change", listener: () => void, policy: { createScriptURL(url: string | URL): URL };`;

/** The goal is 125 kB. Each capability of the engine that a page gets adds to it; raise this only together with one. */
const MOST_BYTES = 214_800;

test("a page loads as much as the README says, and no more than it did", () => {
  const files = ["index.js", "worker.js", "pipkin_bg.wasm"].map((file) => readFileSync(join(here, "dist", file)));
  const bytes = files.reduce((sum, file) => sum + brotliCompressSync(file).length, 0);
  const [said] = all(readFileSync(join(here, "../../README.md"), "utf8"), /A page loads (\d+) kB/g).map(Number);
  assert.ok(bytes <= MOST_BYTES && Math.abs(bytes / 1000 - said) < 3, `${bytes} bytes, the README says ${said} kB`);
});

test("what the README shows are programs, and what it names is there", () => {
  const methods = cells("| | |");
  const calls = paragraphs.flatMap(inline).filter((code) => /^(db\.|open\().*\)$/.test(code));
  const ofWorkers = paragraphs.find((paragraph) => paragraph.includes("pipkin/sync"));
  assert.ok(blocks.length > 0 && methods.length > 20 && calls.length > 5);
  const lines = [
    PROGRAM,
    ...blocks.map((block) => `async () => {${block.replace(/^import .*$/gm, "")}};`),
    "async () => { await using db = await open('app'); using here = await openSync('app'); return [db, here, await openInline('app')]; };",
    "(db: Store) => {",
    ...methods.map((code) => (/^(open|destroy|list|support)\(/.test(code) ? `${code};` : `db.${code};`)),
    ...calls.map((code) => `${code};`),
    "};",
    `(db: SyncStore) => { ${inline(ofWorkers).filter((code) => code.startsWith("db.")).join("; ")}; };`,
    exactly("Exclude<keyof Store, keyof SyncStore | symbol>", inline(ofWorkers.split("It has no")[1])),
    exactly("keyof Events", cells("| `on(event")),
    exactly("ErrorCode", cells("| `code`")),
  ];
  const folder = mkdtempSync(join(tmpdir(), "pipkin-readme-"));
  try {
    const types = (entry) => [join(here, `dist/types/${entry}.d.ts`)];
    const paths = { pipkin: types("index"), "pipkin/inline": types("inline"), "pipkin/sync": types("sync") };
    const compilerOptions = { strict: true, noEmit: true, target: "es2022", module: "esnext", moduleResolution: "bundler", types: [], lib: ["es2023", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"], paths };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["readme.ts"] }));
    writeFileSync(join(folder, "readme.ts"), lines.join("\n"));
    execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--project", folder], { encoding: "utf8" });
  } catch (error) {
    assert.fail(`${error.stdout ?? error}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
