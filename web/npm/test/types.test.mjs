// The types of the package in apps: under the strictest settings, with the libraries of ES2022, and with old and new TypeScript.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
/** The oldest that is promised, the first one to tell buffers apart, what apps have that lag behind, and the newest. */
const COMPILERS = { newest: "typescript/bin/tsc", ...Object.fromEntries(["5.4", "5.7", "5.9", "6.0"].map((version) => [version, `typescript-${version}/bin/tsc`])) };

/** Options are handed on as they came, also those that nobody has given. */
const APP = `
  import { type CallOptions, type Damage, type OpenOptions, type SetOptions, type WriteOptions, PipkinError, open } from "pipkin";
  import { open as openSync } from "pipkin/sync";
  declare const signal: AbortSignal | undefined, durability: "strict" | undefined, ttl: number | undefined, create: boolean | undefined;
  export const given: OpenOptions = { signal, durability, create, wasm: undefined, worker: undefined };
  export const write: WriteOptions = { signal, durability };
  export const set: SetOptions = { signal, durability, ttl };
  export const call: CallOptions = { signal };
  export async function app(): Promise<void> {
    const db = await open("app", given);
    const value = await db.get("a", { signal });
    if (value) {
      new Blob([value]);
      await crypto.subtle.digest("SHA-256", value);
      await fetch("/", { method: "PUT", body: value });
    }
    const users = db.json<{ born: number }>("users/");
    await users.setMany(new Map([["ada", { born: 1815 }]]), write);
    users.on("change", ({ keys }) => keys?.map((key) => key.length));
    for await (const { position, changes } of users.changes({ from: await db.position(), appended: undefined, signal })) {
      for (const { key, value, removed, expiresAt } of changes) if (!removed && value) key.at(value.born + (expiresAt ?? 0));
      await db.flushTo(position);
    }
    await users.set("ada", { born: 1815 }, set);
    await db.batch((batch) => batch.set("a", "1", { ttl }), set);
    const expiry: number | undefined = await db.expiresAt("a", call);
    const kept: boolean = await users.keep("ada", write);
    await db.setDefaultTtl(expiry ?? (kept ? Infinity : await db.defaultTtl()));
    const born: number | undefined = users.live("ada").getSnapshot()?.born;
    await db.batch((batch) => batch.in(users).set("ada", { born: born ?? 0 }));
    for await (const [key, { born }] of users.entries({ gte: undefined, limit: 1 })) key.at(born);
    const blob: Blob = await db.exportBlob({ signal, progress: undefined });
    await db.import(blob, { replace: true, progress: (done: number) => void done });
    await db.export().pipeTo(new WritableStream<Uint8Array>());
    const lost: Damage<string>[] = [];
    await users.getMany(["ada"], { damaged: (damage) => void lost.push(damage), signal });
    for await (const name of db.text().keys({ ordered: true, damaged: undefined })) name.at(0);
    const here = await openSync("app", { durability });
    here.getMany(["a"]).map((value) => value && new Blob([value]));
    if (new PipkinError("usage", "") instanceof Error) await db.close();
    // @ts-expect-error: one string is no list of keys
    await db.getMany("c1");
    // @ts-expect-error: an object is no list of records
    await db.setMany({ a: "1" });
    // @ts-expect-error: a list that is async is none
    await db.setMany((async function* () { yield ["a", "1"] as const; })());
    // @ts-expect-error: what is removed lives for no time
    await db.delete("a", { ttl: 1 });
    // @ts-expect-error: there is no such event
    db.on("chnage", () => undefined);
    // @ts-expect-error: records of a view are what it was made for
    await db.batch((batch) => batch.in(users).set("ada", { name: "Ada" }));
  }`;

for (const [name, compiler] of Object.entries(COMPILERS)) {
  test(`an app compiles with TypeScript ${name}, and what would be lost does not`, () => {
    const folder = mkdtempSync(join(tmpdir(), "pipkin-types-"));
    try {
      const types = (entry) => [join(here, `dist/types/${entry}.d.ts`)];
      const compilerOptions = {
        strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false, noEmit: true, target: "es2022", module: "esnext", moduleResolution: "bundler",
        types: [], lib: ["es2022", "dom", "dom.iterable", "dom.asynciterable"], paths: { pipkin: types("index"), "pipkin/sync": types("sync") },
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.ts"] }));
      writeFileSync(join(folder, "app.ts"), APP);
      execFileSync(process.execPath, [join(here, "node_modules", compiler), "--project", folder], { encoding: "utf8" });
    } catch (error) {
      assert.fail(`${error.stdout ?? error}`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
