// The built package, the demonstration, and a page that has nothing but the package.

import { fileURLToPath } from "node:url";
import { serve as serveFolders } from "../../serve.mjs";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Who asks for this has the browser clear the data of the site, as a logout does. */
export const CLEARING = "/?clearing";

/** Serves until `close` is called; `url` is the empty page. */
export function serve() {
  return serveFolders([
    ["/pipkin/", folder("../../dist")],
    ["/demo/pipkin/", folder("../../dist")],
    ["/demo/", folder("../../../../examples/web")],
    ["/", folder("../site")],
  ], 0, (url) => (url === CLEARING ? { "clear-site-data": '"storage"' } : {}));
}
