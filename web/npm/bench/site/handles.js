// What each call of a synchronous file handle costs, in microseconds: the floor under every store on this file system.

import { median } from "./phases.js";

const KIB = 1024;
const SIZES = [["150 B", 150, 2000], ["4 KiB", 4 * KIB, 2000], ["64 KiB", 64 * KIB, 500], ["1 MiB", KIB * KIB, 60]];
const FILE_BYTES = 64 * KIB * KIB;
const GROUPS = 20;

export async function handles() {
  const costs = {};
  // The first file of a new profile would pay for setting up the whole storage.
  await (await navigator.storage.getDirectory()).getFileHandle("first", { create: true });
  const root = await navigator.storage.getDirectory();
  const file = await timedOnce(costs, "getFileHandle, create", () => root.getFileHandle("handles", { create: true }));
  const handle = await timedOnce(costs, "createSyncAccessHandle", () => file.createSyncAccessHandle());
  const measure = (name, count, call) => {
    const each = Math.ceil(count / GROUPS);
    const times = Array.from({ length: GROUPS }, (_, group) => {
      const start = performance.now();
      for (let i = 0; i < each; i++) call(group * each + i);
      return ((performance.now() - start) * 1000) / each;
    });
    costs[name] = median(times);
  };
  const complete = (count, bytes) => {
    if (count !== bytes.length) throw new Error(`${count} bytes instead of ${bytes.length}`);
  };

  for (const [size, length, count] of SIZES) {
    const bytes = new Uint8Array(length).fill(7);
    let at = 0;
    handle.truncate(0);
    measure(`append ${size}`, count, () => {
      complete(handle.write(bytes, { at }), bytes);
      at += length;
    });
  }
  const piece = new Uint8Array(KIB * KIB).fill(1);
  for (let at = 0; at < FILE_BYTES; at += piece.length) complete(handle.write(piece, { at }), piece);
  handle.flush();
  for (const [size, length, count] of SIZES) {
    const bytes = new Uint8Array(length).fill(7);
    const place = (i) => ((i * 7919 * 4 * KIB) % (FILE_BYTES - length)) & ~4095;
    measure(`overwrite ${size}`, count, (i) => complete(handle.write(bytes, { at: place(i) }), bytes));
    measure(`read ${size}`, count, (i) => complete(handle.read(bytes, { at: place(i) }), bytes));
  }
  handle.flush();
  const small = new Uint8Array(150);
  const flushes = [];
  for (let i = 0; i < 100; i++) {
    handle.write(small, { at: i * 4 * KIB });
    const start = performance.now();
    handle.flush();
    flushes.push((performance.now() - start) * 1000);
  }
  costs["flush after 150 B"] = average(flushes);
  measure("flush, nothing to do", 200, () => handle.flush());
  measure("getSize", 2000, () => handle.getSize());
  measure("truncate, grows by 1 MiB", 100, (i) => handle.truncate(FILE_BYTES + i * KIB * KIB));
  await timedOnce(costs, "close", () => handle.close());
  await timedOnce(costs, "removeEntry", () => root.removeEntry("handles"));
  return costs;
}

/** Of clocks that are coarser than the call, only sums are right. */
function average(times) {
  return times.reduce((total, time) => total + time, 0) / times.length;
}

async function timedOnce(costs, name, work) {
  const start = performance.now();
  const result = await work();
  costs[name] = (performance.now() - start) * 1000;
  return result;
}
