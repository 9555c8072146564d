// A store that runs in a worker, for a page: one message for each call and one for its answer, the least that somebody would write.

export function proxy(name) {
  let worker;
  let number = 0;
  const waiting = new Map();
  const call = (operation, ...args) => new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    worker.postMessage({ number, operation, args });
  });
  return {
    open(durability, database) {
      worker = new Worker("proxied.js", { type: "module" });
      worker.onmessage = ({ data: { number, error, result } }) => {
        const { resolve, reject } = waiting.get(number);
        waiting.delete(number);
        error ? reject(new Error(error)) : resolve(result);
      };
      worker.postMessage(name);
      return call("open", durability, database);
    },
    putMany: (records) => call("putMany", records),
    put: (key, value) => call("put", key, value),
    get: (key) => call("get", key),
    getMany: (keys) => call("getMany", keys),
    close: () => call("close"),
  };
}
