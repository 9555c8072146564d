// The worker's end of the proxy.

let loading;
onmessage = async ({ data }) => {
  if (typeof data === "string") {
    loading = import(`./stores/${data}.js`);
    return;
  }
  try {
    const { default: store } = await loading;
    const result = await store[data.operation](...data.args);
    postMessage({ number: data.number, result });
  } catch (error) {
    postMessage({ number: data.number, error: String(error?.message ?? error) });
  }
};
