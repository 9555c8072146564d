// Where this code runs, if that is no page and no dedicated worker.

import { PipkinError, toError } from "./errors.js";

const scope = globalThis as { [name: string]: unknown };
const is = (kind: string): boolean => typeof scope[kind] === "function" && globalThis instanceof (scope[kind] as new () => object);

/** What to do here, where no store can be opened. */
export function hint(): string | undefined {
  if (is("ServiceWorkerGlobalScope")) return "a service worker can start no worker and has no synchronous files: open the store in a page, and ask that by messages";
  if (is("SharedWorkerGlobalScope")) return "a shared worker has no synchronous files: open the store in each page, which share it by themselves";
  if (is("DedicatedWorkerGlobalScope")) return undefined;
  if ((scope.process as { versions?: { node?: string } } | undefined)?.versions?.node) {
    return "Node has no browser's storage: in tests open a store in memory, `open(name, { memory: true })`, and a file with the crate or the command `pipkin`";
  }
  return undefined;
}

/** Why the worker could not be started. */
export function notStarted(thrown: unknown): PipkinError {
  // A page with Trusted Types takes no plain address.
  if (!(thrown instanceof TypeError) || !scope.trustedTypes) return toError(thrown);
  const message = "the Trusted Types of this page take no plain address of a worker: start it with a policy of yours, `open(name, { worker: () => new Worker(policy.createScriptURL(url), { type: \"module\" }) })`";
  return new PipkinError("unavailable", message, { cause: thrown });
}
