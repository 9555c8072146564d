// The records, the same in every run and for every store.

export const KEY_BYTES = 24;
export const VALUE_BYTES = 150;

/** Pairs of a random key and a random value. */
export function makeRecords(count) {
  let state = 42;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 24;
  const bytes = (length) => {
    const made = new Uint8Array(length);
    for (let i = 0; i < length; i++) made[i] = random();
    return made;
  };
  return Array.from({ length: count }, () => [bytes(KEY_BYTES), bytes(VALUE_BYTES)]);
}

/** `count` of them in an order that has nothing to do with that of the writes; each comes once as long as `count` is not larger than there are. */
export function shuffled(records, count) {
  const step = 7919; // a prime that does not divide the number of records
  return Array.from({ length: count }, (_, i) => records[(i * step) % records.length]);
}

export function inPieces(list, size) {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, i) => list.slice(i * size, (i + 1) * size));
}

/** Adds up every byte; a value that is not there ends the run. */
export function sum(value) {
  if (!value) throw new Error("a value is missing");
  let total = value.length;
  for (let i = 0; i < value.length; i++) total += value[i];
  return total;
}
