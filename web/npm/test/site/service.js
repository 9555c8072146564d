// A service worker that tries to open a store, by both entries, and says what came of it.

import { open } from "/pipkin/index.js";
import { open as openSync } from "/pipkin/sync.js";

const fate = (call) => Promise.resolve().then(call).then(() => "opened", ({ code, message }) => `${code}: ${message}`);

addEventListener("message", ({ source, data }) => {
  const fates = Promise.all([open, openSync].map((opens) => fate(() => opens(data))));
  void fates.then((said) => source.postMessage(said));
});
