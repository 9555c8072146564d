// What every test of the package begins with: the built package on a site of its own, and a browser on a profile of its own.

import { after } from "node:test";
import { Browser } from "./browser.mjs";
import { serve } from "./site.mjs";

/** Both end with the file's last test. */
export async function setup() {
  const site = await serve();
  after(() => site.close());
  const browser = await Browser.start(site);
  after(() => browser.end());
  return { site, browser };
}
