// Carries out one task in a worker.

import { handles } from "./handles.js";
import { another, fill, read } from "./phases.js";

const PARTS = { fill, read, another };

onmessage = async ({ data: task }) => {
  try {
    if (task.part === "handles") return postMessage({ result: await handles() });
    // The entry without promises is what a worker is for.
    const name = task.store === "pipkin" ? "pipkin-sync" : task.store;
    const { default: store } = await import(`./stores/${name}.js`);
    postMessage({ result: await PARTS[task.part](store, task) });
  } catch (error) {
    postMessage({ error: `${error?.message ?? error}\n${error?.stack ?? ""}` });
  }
};
