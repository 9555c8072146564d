// pipkin for set-ups in which files beside a script are not found: everything in one script, a third larger to download.

export * from "./index.js";
