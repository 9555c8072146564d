// `node serve.mjs [PORT]`: the demonstration, with the package as `npm run build` in web/npm leaves it.
// Any static host does the same: this folder, with that `dist` in it as `pipkin`.

import { fileURLToPath } from "node:url";
import { serve } from "../../web/npm/serve.mjs";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));
const { url } = await serve([["/pipkin/", folder("../../web/npm/dist")], ["/", folder(".")]], Number(process.argv[2] ?? 8080));
console.log(`the demonstration is at ${url}, in two tabs if you like; Ctrl-C ends it`);
