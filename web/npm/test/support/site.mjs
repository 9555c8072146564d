// A static host without any special header: the built package, and one empty page.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../../dist", import.meta.url));
const types = { ".js": "text/javascript", ".wasm": "application/wasm", ".map": "application/json" };
const page = `<!doctype html><meta charset="utf-8"><title>pipkin</title>
<script type="module">import * as pipkin from "/pipkin/index.js"; window.pipkin = pipkin; window.ready = true;</script>`;

/** Serves until `close` is called; `url` is the empty page. */
export async function serve() {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    if (path === "/") return response.writeHead(200, { "content-type": "text/html" }).end(page);
    try {
      const file = join(dist, normalize(path.replace(/^\/pipkin\//, "/")));
      const bytes = await readFile(file);
      response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://localhost:${server.address().port}/`;
  return { url, close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()) };
}
