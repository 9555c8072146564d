// The floor under every awaited call from a page: a message to a worker and its answer.

import { inGroups } from "./phases.js";

export async function messages({ gets }) {
  const worker = new Worker(URL.createObjectURL(new Blob(["onmessage = ({ data }) => postMessage(data)"])));
  const trip = (message) => new Promise((resolve) => {
    worker.onmessage = resolve;
    worker.postMessage(message);
  });
  const trips = Array.from({ length: gets }, (_, i) => i);
  const round = async (group) => {
    for (const i of group) await trip(i);
  };
  await round(trips);
  const result = { "bare message round trip": await inGroups(trips, round) };
  worker.terminate();
  return result;
}
