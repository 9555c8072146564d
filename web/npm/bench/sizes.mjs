// Where the bytes of the module are: those of its functions, by crate and module. `npm run build`, then `node bench/sizes.mjs [DEPTH] [FILE]`.
//
// Reads the module as wasm-bindgen leaves it, which has the names of functions still; what is shipped has been through `wasm-opt`, which makes it
// a third smaller.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [depth = "2", file = fileURLToPath(new URL("../engine/pipkin_bg.wasm", import.meta.url))] = process.argv.slice(2);
const bytes = readFileSync(file);
let at = 8;

/** The next number, as WebAssembly writes it. */
function number() {
  for (let shift = 0, value = 0; ; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return value;
  }
}

function text() {
  const length = number();
  at += length;
  return bytes.toString("utf8", at - length, at);
}

/** Goes over parts that say what they are and how long, as sections do; `visit` reads one. */
function parts(end, visit) {
  while (at < end) {
    const kind = bytes[at++];
    const length = number();
    const behind = at + length;
    visit(kind, behind);
    at = behind;
  }
}

const names = new Map();
const sizes = [];
let imported = 0;

parts(bytes.length, (kind, end) => {
  if (kind === 2) {
    for (let count = number(); count > 0; count--) {
      text();
      text();
      const what = bytes[at++];
      if (what === 0) imported++;
      if (what === 1) at++;
      if (what === 3) at += 2;
      else if (what !== 1 && what !== 2) number();
      if (what === 1 || what === 2) for (let limits = (bytes[at++] & 1) + 1; limits > 0; limits--) number();
    }
  } else if (kind === 10) {
    for (let count = number(); count > 0; count--) {
      const length = number();
      sizes.push(length);
      at += length;
    }
  } else if (kind === 0 && text() === "name") {
    parts(end, (part) => {
      if (part === 1) for (let count = number(); count > 0; count--) names.set(number(), text());
    });
  }
});

/** The path of a function: of a method that of its type, not of the trait. */
function pathOf(name = "unknown") {
  const path = name.replace(/\[[0-9a-f]{8,16}\]/g, "").replace(/^<?(?:dyn |&mut |&)*<*/, "").replace(/ as .*|>.*|::h[0-9a-f]{16}$/g, "").replace(/<.*/, "");
  return path.split("::").slice(0, Number(depth)).join("::");
}

const groups = new Map();
for (const [index, size] of sizes.entries()) {
  const path = pathOf(names.get(index + imported));
  const group = groups.get(path) ?? { size: 0, count: 0 };
  groups.set(path, { size: group.size + size, count: group.count + 1 });
}
const all = sizes.reduce((sum, size) => sum + size, 0);
const row = (size, count, path) => console.log(`${String(size).padStart(8)}  ${((size / all) * 100).toFixed(1).padStart(5)} %  ${String(count).padStart(5)}  ${path}`);
console.log("   bytes     part  functions");
for (const [path, { size, count }] of [...groups].sort(([, one], [, other]) => other.size - one.size)) row(size, count, path);
row(all, sizes.length, "all");
