// The program `counter` in JavaScript: counts how often it was run, in a store of the host, through the standard `wasi:keyvalue`.
import { getStdout } from "wasi:cli/stdout@0.2.0";
import { increment } from "wasi:keyvalue/atomics@0.2.0-draft";
import { open } from "wasi:keyvalue/store@0.2.0-draft";

export const run = {
  run() {
    const bucket = open("");
    const runs = increment(bucket, "runs", 1);
    // Composed with the component, the last bucket that is dropped closes the store; otherwise the next open reads the end of the log again.
    bucket[Symbol.dispose]();
    getStdout().blockingWriteAndFlush(Uint8Array.from(`run ${runs}\n`, (letter) => letter.charCodeAt(0)));
  },
};
