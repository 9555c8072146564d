/** What is used of Node. */
declare module "node:fs" {
  export function readFileSync(file: URL): Uint8Array;
}

/** What `build.mjs` puts into the entry `inline`. */
declare module "pipkin:assets" {
  /** The script of the worker. */
  export const worker: string;
  /** The WebAssembly module in base 64. */
  export const module: string;
}
