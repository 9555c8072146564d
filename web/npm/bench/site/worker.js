// Carries out one task in a worker.

import { handles } from "./handles.js";
import { another, fill, inTurns, read } from "./phases.js";

const PARTS = { fill, read, another };

/** For pipkin the entry without promises: it is what a worker is for. */
async function storeFor(name) {
  return (await import(`./stores/${name === "pipkin" ? "pipkin-sync" : name}.js`)).default;
}

onmessage = async ({ data: task }) => {
  try {
    if (task.part === "handles") return postMessage({ result: await handles() });
    if (task.part === "inTurns") {
      const stores = await Promise.all(task.stores.map(async (name) => [name, await storeFor(name)]));
      return postMessage({ result: await inTurns(stores, task) });
    }
    postMessage({ result: await PARTS[task.part](await storeFor(task.store), task) });
  } catch (error) {
    postMessage({ error: `${error?.message ?? error}\n${error?.stack ?? ""}` });
  }
};
