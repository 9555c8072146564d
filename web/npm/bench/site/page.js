// Carries out one task after the other that the driver gives, here or in a worker.

import { messages } from "./messages.js";
import { another, fill, inTurns, read } from "./phases.js";
import { proxy } from "./proxy.js";

const PARTS = { fill, read, another };
/** Peers that only run in a worker: a page has to talk to one. */
const IN_WORKERS_ONLY = ["sqlite", "sqlite-objects", "wa-sqlite"];

async function storeFor(name) {
  if (IN_WORKERS_ONLY.includes(name)) return proxy(name);
  return (await import(`./stores/${name}.js`)).default;
}

window.run = async (task) => {
  if (task.part === "messages") return messages(task);
  if (task.where === "page" && task.part === "inTurns") {
    return inTurns(await Promise.all(task.stores.map(async (name) => [name, await storeFor(name)])), task);
  }
  if (task.where === "page") return PARTS[task.part](await storeFor(task.store), task);
  const worker = new Worker("worker.js", { type: "module" });
  const { error, result } = await new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message || "the worker could not be loaded"));
    worker.postMessage(task);
  });
  worker.terminate();
  if (error) throw new Error(error);
  return result;
};
window.ready = true;
