// The package that `wasm-pack build --target web web` makes, used by itself: what is stored is found, and what is closed says so.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Store, answer, failure, initSync, room } from "../../pkg/pipkin_web.js";

const { memory } = initSync({ module: readFileSync(new URL("../../pkg/pipkin_web_bg.wasm", import.meta.url)) });
const bytes = (text) => new TextEncoder().encode(text);
const put = (...all) => {
  let at = room(all.reduce((sum, part) => sum + part.length, 0));
  for (const part of all) {
    new Uint8Array(memory.buffer).set(part, at);
    at += part.length;
  }
};

const store = Store.inMemory(1 << 20);
const [key, value] = [bytes("key"), bytes("value")];
put(key, value);
assert.equal(store.set(key.length, value.length), 0);
put(key);
assert.equal(store.get(key.length), value.length);
assert.deepEqual(new Uint8Array(memory.buffer).slice(answer(), answer() + value.length), value);
put(bytes("other"));
assert.equal(store.get(5), -1);
assert.equal(JSON.parse(store.stats()).records, 1);
store.close();
put(key);
assert.equal(store.get(key.length), -2);
assert.deepEqual([failure().name, failure()], ["PipkinError", undefined]);
assert.throws(() => store.stats(), { name: "PipkinError", code: 8, message: /closed/ });
console.log("the package of wasm-pack works");
