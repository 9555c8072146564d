// What the tests in Firefox begin with: the built package on a site of its own, and a browser on a profile of its own.

import { after } from "node:test";
import { serve } from "../support/site.mjs";
import { Browser } from "./browser.mjs";

/** `preferences` are the browser's. Both end with the file's last test. */
export async function setup(preferences = {}) {
  const site = await serve();
  after(() => site.close());
  const browser = await Browser.start(site, preferences);
  after(() => browser.end());
  return { site, browser };
}
