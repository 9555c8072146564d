// WebKitGTK has no synchronous file handles, and in its test driver no storage at all: the package must say so, and harm nothing.
// Safari, which has them, is another port of the same engine and is not tested by this.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { serve } from "../support/site.mjs";

const processes = [];
let site, session;

before(async () => {
  site = await serve();
  const screen = spawn("Xvfb", ["-displayfd", "1", "-screen", "0", "800x600x24"], { stdio: ["ignore", "pipe", "ignore"] });
  processes.push(screen);
  const [display] = await once(screen.stdout, "data");
  const port = await freePort();
  const environment = { ...process.env, DISPLAY: `:${String(display).trim()}`, WEBKIT_DISABLE_COMPOSITING_MODE: "1" };
  processes.push(spawn("WebKitWebDriver", [`--port=${port}`], { stdio: "ignore", env: environment }));
  session = await start(`http://127.0.0.1:${port}`);
});
after(async () => {
  await session?.("DELETE", "").catch(() => undefined);
  for (const process of processes.reverse()) process.kill();
  await site?.close();
});

test("what the browser lacks is said in a typed error, and a store in memory works when it is asked for", async () => {
  await session("POST", "/url", { url: site.url });
  const seen = await session("POST", "/execute/async", {
    args: [],
    script: `
      const tell = arguments[0];
      (async () => {
        while (!window.ready) await new Promise((resolve) => setTimeout(resolve, 20));
        const support = await pipkin.support();
        const refused = await pipkin.open("app").then(() => ["opened"], ({ code, message }) => [code, message]);
        const destroyed = await pipkin.destroy("app").then(() => ["destroyed"], ({ code, message }) => [code, message]);
        const db = await pipkin.open("app", { memory: true });
        await db.setMany([["a", "1"], ["b", "2"]]);
        const keys = [];
        for await (const key of db.text().keys()) keys.push(key);
        return { support, refused, destroyed, memory: [db.mode, await db.text().get("a"), keys.length] };
      })().then(tell, (error) => tell({ error: String(error) }));`,
  });
  console.log(seen.error ?? seen.refused[1]);
  assert.equal(seen.error, undefined);
  assert.equal(seen.support.supported, false);
  assert.equal(seen.refused[0], "unavailable");
  assert.equal(seen.destroyed[0], "unavailable");
  assert.equal(seen.support.reason, seen.refused[1]);
  assert.deepEqual(seen.memory, ["memory", "1", 2]);
});

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** A session of the driver, as a function that sends it commands. */
async function start(driver) {
  const send = async (method, path, body) => {
    const response = await fetch(driver + path, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${value.error}: ${value.message}`);
    return value;
  };
  for (let attempt = 1; ; attempt++) {
    try {
      await send("GET", "/status");
      break;
    } catch (error) {
      if (attempt === 200) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  const { sessionId } = await send("POST", "/session", { capabilities: { alwaysMatch: { timeouts: { script: 60_000 } } } });
  return (method, path, body) => send(method, `/session/${sessionId}${path}`, body);
}
