// Builds the package: the engine to WebAssembly, and each entry to one script beside it.
// Needs cargo with the target wasm32-unknown-unknown, and wasm-bindgen of the version that Cargo.lock names: on the PATH, or where
// `cargo xtask` installs it.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const target = resolve(root, process.env.CARGO_TARGET_DIR ?? "target");
const run = (program, args, cwd = root, env = {}) => execFileSync(program, args, { cwd, stdio: "inherit", env: { ...process.env, ...env } });
const local = (program) => join(here, "node_modules/.bin", program);

// Messages of a panic name source files: where these lie on this machine is nobody's business.
const sources = join(process.env.CARGO_HOME ?? join(homedir(), ".cargo"), "registry/src");
const places = [root, ...(existsSync(sources) ? readdirSync(sources).map((registry) => join(sources, registry)) : [])];
const remapped = places.map((place) => `--remap-path-prefix=${place}=`);
// As `.cargo/config.toml` says it, which these take the place of.
const random = '--cfg=getrandom_backend="custom"';
// What loops compute from their counters, LLVM would keep in variables of their own: 1.5 % of the bytes that travel.
const flags = { CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS: [...remapped, random, "-Cllvm-args=-disable-lsr"].join(" ") };
const made = join(target, "wasm32-unknown-unknown/web/pipkin_web.wasm");
const engine = join(here, "engine");
/** The module with these features, and what wasm-bindgen puts in front of it. */
function built(folder, features, env = {}) {
  run("cargo", ["build", "--package", "pipkin-web", "--target", "wasm32-unknown-unknown", "--profile", "web", ...features], root, { ...flags, ...env });
  run("wasm-bindgen", ["--target", "web", "--out-dir", folder, "--out-name", "pipkin", made], root, { PATH: [process.env.PATH, join(target, "tools/bin")].join(delimiter) });
  return readFileSync(join(folder, "pipkin.js"), "utf8");
}
// One in front of all: what only some pages use is packed into calls that the first module has, too, and it takes another in the place of the first.
const ONCE = "if (wasm !== undefined) return wasm;";
// Only who has a key loads this one. For 10 % more bytes a `get` in a worker takes 2.0 times that of a plain store, and not 3.1: `bench/versions.mjs --sealed`.
const FOR_CIPHERS = { CARGO_PROFILE_WEB_OPT_LEVEL: "s" };
const [sealed, full, front] = [built(join(engine, "sealed"), ["--features", "sealed"], FOR_CIPHERS), built(join(engine, "full"), ["--features", "full"]), built(engine, [])];
if (sealed !== front || full !== front) throw new Error("the modules have other exports or imports: the worker could not take one for the other");
if (!front.includes(ONCE)) throw new Error("wasm-bindgen loads a module once by other words than it did");
writeFileSync(join(engine, "pipkin.js"), front.replaceAll(ONCE, ""));

rmSync(join(here, "dist"), { recursive: true, force: true });
mkdirSync(join(here, "dist"));
// What these do to the bytes that travel was measured, one by one: functions that are called once are mostly left alone, a value that is
// computed twice compresses better than one that is kept, and zeros better than data in pieces around them. In the lowest kilobyte is only
// the end of the stack, so that no address becomes small by what is added to it.
const shared = ["--one-caller-inline-max-function-size=30", "--skip-pass=local-cse", "--skip-pass=memory-packing", "--low-memory-unused", "--strip-debug", "--strip-producers", "--strip-target-features"];
const [small, fast] = [["-Oz", "-Oz"], ["-O3"]];
for (const [folder, module, level] of [[engine, "pipkin_bg.wasm", small], [join(engine, "full"), "pipkin_full_bg.wasm", small], [join(engine, "sealed"), "pipkin_sealed_bg.wasm", fast]]) {
  run(local("wasm-opt"), [...level, ...shared, join(folder, "pipkin_bg.wasm"), "-o", `dist/${module}`], here);
}

const options = { absWorkingDir: here, outdir: "dist", bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none" };
await build({ ...options, sourcemap: true, entryPoints: ["src/index.ts", "src/sync.ts", "src/worker.ts", "src/event-log.ts"], external: ["./event-log.js"] });
await build({ ...options, entryPoints: ["src/inline.ts"], plugins: [inline()] });
await build({ ...options, entryPoints: { node: "src/index.ts" }, platform: "node", plugins: [instead("start-node")] });
// By its place: the tests bring an older one along, which has the same name among the commands.
run(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--project", "tsconfig.json"], here);
copyFileSync(join(root, "LICENSE-MIT"), join(here, "dist/LICENSE-MIT"));
copyFileSync(join(root, "LICENSE-APACHE"), join(here, "dist/LICENSE-APACHE"));

/** Takes another file for `start.ts`. */
function instead(file) {
  return { name: file, setup: (build) => build.onResolve({ filter: /^\.\/start\.js$/ }, () => ({ path: join(here, `src/${file}.ts`) })) };
}

/** Puts worker and module into a script as strings. */
function inline() {
  const worker = () => readFileSync(join(here, "dist/worker.js"), "utf8").replace(/^\/\/# sourceMappingURL=.*$/m, "");
  const module = () => readFileSync(join(here, "dist/pipkin_sealed_bg.wasm"), "base64");
  return {
    name: "inline",
    setup(build) {
      build.onResolve({ filter: /^\.\/start\.js$/ }, () => ({ path: join(here, "src/start-inline.ts") }));
      build.onResolve({ filter: /^pipkin:assets$/ }, ({ path }) => ({ path, namespace: "assets" }));
      const contents = () => `export const worker = ${JSON.stringify(worker())}, module = ${JSON.stringify(module())};`;
      build.onLoad({ filter: /.*/, namespace: "assets" }, () => ({ contents: contents() }));
    },
  };
}

const sizes = readdirSync(join(here, "dist")).filter((file) => /\.(js|wasm)$/.test(file));
for (const file of sizes) {
  const bytes = readFileSync(join(here, "dist", file));
  console.log(`${file}: ${bytes.length} bytes, gzip ${gzipSync(bytes, { level: 9 }).length}, brotli ${brotliCompressSync(bytes).length}`);
}
