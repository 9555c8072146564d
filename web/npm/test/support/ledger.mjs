// What a page writes until it is killed, and what must be there afterwards. For both browsers.

import assert from "node:assert/strict";

/** So many commits are in the store; each new one removes the one that is so far behind it, so that compaction has work, too. */
const KEPT = 64;

export class Ledger {
  /** Commits that a page was told of. */
  acknowledged = 0;

  /** Opens the store in `page` and holds it against what was acknowledged. */
  async check(page) {
    const { found, sizes, damage } = await page.evaluate(async () => {
      window.db = await pipkin.open("killed");
      const found = {};
      const sizes = {};
      for await (const [key, value] of db.text()) {
        const [commit] = key.split("/");
        if (value.split(" ")[0] !== key) throw new Error(`${key} has the value of ${value.split(" ")[0]}`);
        found[commit] = (found[commit] ?? 0) + 1;
        sizes[commit] = value.length;
      }
      return { found, sizes, damage: (await db.verify()).damage };
    });
    assert.deepEqual(damage, []);
    const commits = Object.keys(found).map(Number).sort((a, b) => a - b);
    const end = (commits.at(-1) ?? -1) + 1;
    assert.ok(end >= this.acknowledged, `${this.acknowledged} commits were acknowledged, ${end} are there`);
    const wanted = Array.from({ length: Math.min(end, KEPT) }, (_, i) => Math.max(0, end - KEPT) + i);
    assert.deepEqual(commits, wanted, "a commit is missing, or one is there that a later commit has removed");
    for (const commit of commits) {
      const { records, bytes } = shape(commit);
      assert.deepEqual([found[commit], sizes[commit]], [records, bytes], `commit ${commit} is torn`);
    }
    this.acknowledged = end;
  }

  /** Has the page write without an end; resolves when it was told of `many` more commits. */
  async write(page, durability, many) {
    const from = this.acknowledged;
    await page.exposeFunction("acknowledge", (commit) => void (this.acknowledged = Math.max(this.acknowledged, commit + 1)));
    await page.evaluate(([from, durability, kept, source]) => {
      const shape = eval(`(${source})`);
      const keys = (commit) => Array.from({ length: shape(commit).records }, (_, i) => `${commit}/${i}`);
      void (async () => {
        for (let commit = from; ; commit++) {
          await db.batch((batch) => {
            for (const key of keys(commit)) batch.set(key, `${key} `.padEnd(shape(commit).bytes, "x"));
            if (commit >= kept) for (const key of keys(commit - kept)) batch.delete(key);
          }, { durability });
          acknowledge(commit);
        }
      })();
    }, [from, durability, KEPT, String(shape)]);
    while (this.acknowledged < from + many) await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Single records, batches, and some that are larger than what a browser writes in one piece. Runs in pages, too. */
function shape(commit) {
  if (commit % 8 === 7) return { records: 20, bytes: 60_000 };
  return { records: commit % 2 ? 20 : 1, bytes: 3000 };
}
