// The same app, built by each bundler as its documentation says. Every build is a folder, or a server, that a browser can open.

import { copyFileSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { nodeResolve } from "@rollup/plugin-node-resolve";
import * as esbuild from "esbuild";
import { rollup } from "@rollup/wasm-node";
import * as vite from "vite";
import webpack from "webpack";
import { serve } from "../../serve.mjs";

/** `app` holds the source, and the package in its node_modules; the builds go to `out`. */
export const BUILDS = {
  async vite(app, out) {
    await vite.build({ root: app, configFile: false, logLevel: "warn", build: { outDir: out, emptyOutDir: true, target: "es2022" } });
    return serve([["/", out]]);
  },

  async "vite, development server"(app) {
    const server = await vite.createServer({
      root: app, configFile: false, logLevel: "warn", cacheDir: join(app, "node_modules/.vite"),
      optimizeDeps: { exclude: ["pipkin"] }, server: { host: "127.0.0.1", port: 0, strictPort: false },
    });
    await server.listen();
    return { url: `http://localhost:${server.httpServer.address().port}/`, close: () => server.close() };
  },

  async webpack(app, out) {
    const compiler = webpack({ mode: "production", context: app, entry: "./main.js", output: { path: out, filename: "main.js" }, performance: false });
    const stats = await new Promise((resolve, reject) => compiler.run((error, stats) => (error ? reject(error) : resolve(stats))));
    await new Promise((resolve) => compiler.close(resolve));
    if (stats.hasErrors()) throw new Error(stats.toString("errors-only"));
    return withPage(app, out);
  },

  async esbuild(app, out) {
    await esbuild.build({
      absWorkingDir: app, entryPoints: ["main.js"], outdir: out, bundle: true, format: "esm", target: "es2022", minify: true, logLevel: "warning",
    });
    return withPage(app, out, true);
  },

  /** Nothing but the script, by the entry that has worker and module in it. */
  async "esbuild, one script"(app, out) {
    await esbuild.build({
      absWorkingDir: app, entryPoints: ["main.js"], outdir: out, bundle: true, format: "esm", target: "es2022", minify: true, logLevel: "warning",
      alias: { pipkin: "pipkin/inline" },
    });
    return withPage(app, out);
  },

  async rollup(app, out) {
    const bundle = await rollup({ input: join(app, "main.js"), plugins: [nodeResolve()] });
    await bundle.write({ dir: out, format: "es" });
    await bundle.close();
    return withPage(app, out, true);
  },

  /** An import map, and the package as it lies in node_modules. */
  async "no bundler"(app, out) {
    cpSync(app, out, { recursive: true });
    const map = JSON.stringify({ imports: { pipkin: "/node_modules/pipkin/dist/index.js" } });
    writeFileSync(join(out, "index.html"), `<!doctype html>\n<script type="importmap">${map}</script>\n<script type="module" src="main.js"></script>\n`);
    return serve([["/", out]]);
  },
};

/** Bundlers that leave `new URL` alone need the worker and the module beside what they made. */
function withPage(app, out, beside = false) {
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, "index.html"), '<!doctype html>\n<script type="module" src="main.js"></script>\n');
  if (beside) {
    const { resolve } = createRequire(join(app, "main.js"));
    copyFileSync(resolve("pipkin/worker.js"), join(out, "worker.js"));
    copyFileSync(resolve("pipkin/pipkin.wasm"), join(out, "pipkin_bg.wasm"));
    copyFileSync(resolve("pipkin/pipkin-full.wasm"), join(out, "pipkin_full_bg.wasm"));
  }
  return serve([["/", out]]);
}
