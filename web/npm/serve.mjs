// A static host: folders of this machine under paths of a site, without any special header unless some are given, for all or by the address asked for.

import { readFile, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".map": "application/json",
};

/** Serves until `close` is called. `mounts` are pairs of a path and a folder, the longest path first. */
export async function serve(mounts, port = 0, headers = {}) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const [start, folder] = mounts.find(([start]) => path.startsWith(start)) ?? [];
    try {
      // Without a way out of the folder: `normalize` of an absolute path has no dots left.
      let file = join(folder, normalize(`/${path.slice(start.length)}`));
      if ((await stat(file)).isDirectory()) file = join(file, "index.html");
      const bytes = await readFile(file);
      response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "cache-control": "no-cache", ...(typeof headers === "function" ? headers(request.url) : headers) }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const url = `http://localhost:${server.address().port}/`;
  return { url, close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()) };
}
