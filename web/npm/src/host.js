// The open files of this worker, by number, and all that the engine asks of them. Plain JavaScript: the tests of the engine take it as it is.

const files = new Map();
let last = 0;
let thrown;

/** Minus one stands for an error. */
const tried = (work) => {
  try {
    return work();
  } catch (error) {
    thrown = error;
    return -1;
  }
};

/** Takes in a handle that is open. */
export const insert = (handle) => (files.set(++last, handle), last);
export const read = (file, into, at) => tried(() => files.get(file).read(into, { at }));
export const write = (file, bytes, at) => tried(() => files.get(file).write(bytes, { at }));
export const size = (file) => tried(() => files.get(file).getSize());
export const truncate = (file, length) => tried(() => (files.get(file).truncate(length), 0));
export const flush = (file) => tried(() => (files.get(file).flush(), 0));
/** Gives up the lock of the file, too. */
export const close = (file) => tried(() => (files.get(file).close(), files.delete(file), 0));

/** Keeps an error for {@link reason}. */
export const note = (error) => void (thrown = error);
/** The name and the message of the last error, as UTF-8. Not only an `Error` has them, but also the `Exception` that Firefox throws at a full quota. */
export const reason = (into) => {
  const { name, message } = Object(thrown);
  return new TextEncoder().encodeInto(`${name ?? "unknown error"}: ${message ?? ""}`, into).written;
};
