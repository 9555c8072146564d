// A store that a script takes from one file through a page to another.

import { readFileSync, writeFileSync } from "node:fs";

/** Puts the file in the place of the page's store of that name, which is `db` in the page from then on. */
export function takeIn(page, name, file) {
  return page.evaluate(async ([name, bytes]) => {
    window.db = await pipkin.open(name);
    await db.import(await (await fetch(`data:application/octet-stream;base64,${bytes}`)).blob(), { replace: true });
  }, [name, readFileSync(file, "base64")]);
}

/** Writes the page's store to the file. */
export async function handOut(page, file) {
  const bytes = await page.evaluate(async () => {
    const blob = await db.exportBlob();
    return new Promise((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result.split(",")[1]);
      reader.readAsDataURL(blob);
    });
  });
  writeFileSync(file, Buffer.from(bytes, "base64"));
}
