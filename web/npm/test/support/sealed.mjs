// Sealed stores: what opens them, in one tab and from others, what the file tells, and how keys change. For both browsers.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { leaderAndFollower, until } from "./pages.mjs";

const PROGRAM = process.env.PIPKIN ?? "pipkin";

/** `browser.tab` opens a tab in front of the others. */
export function testSealed(browser) {
  async function tab() {
    const page = await browser.tab();
    await page.evaluate(() => {
      window.key = (byte) => new Uint8Array(32).fill(byte);
      window.kept = (byte) => crypto.subtle.importKey("raw", key(byte), "HKDF", false, ["deriveBits"]);
      /** How opening ends: a code, or the text of `color`, after which the store is closed. */
      window.fate = async (name, options) => {
        try {
          const db = await pipkin.open(name, options);
          const color = await db.text().get("color");
          await db.close();
          return color ?? "nothing";
        } catch (error) {
          return error.code ?? String(error);
        }
      };
      window.made = async (name, key) => {
        const db = await pipkin.open(name, { key });
        await db.text().set("color", `green as ${name}`);
        await db.close();
      };
      /** The bytes of the file of a store that nobody has open, or of a blob. */
      window.bytesOf = async (name) => {
        const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin");
        return new Uint8Array(await (await (await folder.getFileHandle(`${name}.pipkin`)).getFile()).arrayBuffer());
      };
      window.holds = (bytes, text) => {
        let all = "";
        for (let at = 0; at < bytes.length; at += 32768) all += String.fromCharCode(...bytes.subarray(at, at + 32768));
        return all.includes(text);
      };
    });
    return page;
  }

  test("a key opens what it has sealed, and nothing else does or tells what is in it", async () => {
    const page = await tab();
    const seen = await page.evaluate(async () => {
      await made("sealed", key(7));
      await made("plain");
      return {
        right: await fate("sealed", { key: key(7) }), none: await fate("sealed"), wrong: await fate("sealed", { key: key(8) }),
        passphrase: await fate("sealed", { key: { passphrase: "7" } }), plain: await fate("plain", { key: key(7) }), still: await fate("plain"),
        again: await fate("sealed", { key: key(7) }), told: holds(await bytesOf("sealed"), "green"), shown: holds(await bytesOf("plain"), "green"),
        missing: await fate("no such store", { key: key(7), create: false }).then((code) => code),
        careless: [await fate("x", { key: key(7).slice(1) }), await fate("x", { key: "text" }), await fate("x", { key: { passphrase: "" } }), await fate("x", { key: key(1), memory: true })],
      };
    });
    assert.deepEqual(seen, {
      right: "green as sealed", none: "key-needed", wrong: "wrong-key", passphrase: "wrong-key", plain: "not-sealed", still: "green as plain", again: "green as sealed",
      told: false, shown: true, missing: "usage", careless: ["usage", "usage", "usage", "usage"],
    });
    await page.close();
  });

  test("a passphrase is text, and a key of WebCrypto opens what its bytes open", async () => {
    const page = await tab();
    const seen = await page.evaluate(async () => {
      await made("phrase", { passphrase: "caf\u00e9" });
      await made("kept", await kept(3));
      await made("bytes", key(3));
      const other = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt"]);
      return [
        await fate("phrase", { key: { passphrase: "cafe\u0301" } }), await fate("phrase", { key: { passphrase: "cafe" } }), await fate("phrase", { key: await kept(3) }),
        await fate("kept", { key: await kept(3) }), await fate("kept", { key: key(3) }), await fate("kept", { key: await kept(4) }),
        await fate("bytes", { key: await kept(3) }), await fate("bytes", { key: await kept(4) }), await fate("bytes", { key: other }),
      ];
    });
    assert.deepEqual(seen, [
      "green as phrase", "wrong-key", "wrong-key", "green as kept", "green as kept", "wrong-key", "green as bytes", "wrong-key", "usage",
    ]);
    await page.close();
  });

  test("every tab needs the key, and takes over with it", async () => {
    let number = 0;
    const [leader, follower] = await leaderAndFollower({ tab }, (page) => page.evaluate(async (isKept) => {
      window.db = await pipkin.open("tabs", { key: isKept ? await kept(5) : key(5) });
    }, number++ > 0));
    await leader.evaluate(() => db.set("color", "green"));
    const other = await tab();
    const seen = await other.evaluate(async () => [await fate("tabs"), await fate("tabs", { key: key(6) }), await fate("tabs", { key: { passphrase: "5" } }), await fate("tabs", { key: key(5) })]);
    assert.deepEqual(seen, ["key-needed", "wrong-key", "wrong-key", "green"]);
    assert.equal(await follower.evaluate(() => db.text().get("color")), "green");
    await other.evaluate(async () => (window.db = await pipkin.open("plain-tabs")) && null);
    assert.equal(await follower.evaluate(() => fate("plain-tabs", { key: key(5) })), "not-sealed");
    await other.close();
    await leader.evaluate(() => db.close());
    assert.equal(await follower.evaluate(() => db.text().get("color")), "green");
    await until(() => follower.evaluate(() => db.role === "leader"));
    await follower.evaluate(() => db.set("color", "blue").then(() => db.close()));
    assert.equal(await leader.evaluate(() => fate("tabs", { key: key(5) })), "blue");
    await leader.close();
    await follower.close();
  });

  test("keys are added and removed, and a new one takes their place", async () => {
    const page = await tab();
    const seen = await page.evaluate(async () => {
      const db = await pipkin.open("keys", { key: key(1) });
      const color = db.text();
      await color.set("color", "green");
      const slots = [await db.addKey({ passphrase: "two" }), await db.addKey(await kept(3))];
      const listed = await db.keySlots();
      const twice = await db.addKey(key(3)).catch((error) => error.code);
      await db.removeKey(slots[0]);
      await db.close();
      const fates = [await fate("keys", { key: { passphrase: "two" } }), await fate("keys", { key: key(3) }), await fate("keys", { key: key(1) })];
      const again = await pipkin.open("keys", { key: key(3) });
      const before = holds(await bytesOf("keys"), "green");
      const rotated = await again.rotateKey(await kept(9));
      await again.text().set("later", "too");
      const events = await again.events("log");
      await events.append("stream", { type: "a", payload: "b" });
      await again.close();
      const plain = await pipkin.open("without-keys");
      const refused = await plain.keySlots().catch((error) => error.code);
      await plain.close();
      return { slots, listed, twice, fates, rotated, before, refused, behind: [await fate("keys", { key: key(3) }), await fate("keys", { key: key(1) }), await fate("keys", { key: key(9) })] };
    });
    assert.deepEqual(seen, {
      slots: [1, 2], listed: [{ slot: 0, kind: "key" }, { slot: 1, kind: "passphrase" }, { slot: 2, kind: "key" }], twice: "usage",
      fates: ["wrong-key", "green", "green"], rotated: { finished: true, segmentsLeft: 0 }, before: false, refused: "not-sealed",
      behind: ["wrong-key", "wrong-key", "green"],
    });
    await page.close();
  });

  test("an open store is sealed, whatever it holds, and nothing of it stays readable", async () => {
    let number = 0;
    const [leader, follower] = await leaderAndFollower({ tab }, (page) => page.evaluate(async () => {
      window.db = await pipkin.open("enabled");
    }, number++ > 0));
    const seen = await leader.evaluate(async () => {
      await db.setMany(Array.from({ length: 2000 }, (_, at) => [`name ${at}`, `content ${at}`]));
      await db.text().set("color", "green");
      const events = await db.events("log");
      await events.append("stream", { type: "a", payload: "remembered" });
      const position = await db.position();
      const refused = [await db.finishKeyRotation().catch((error) => error.code), await db.enableEncryption(key(7).slice(1)).catch((error) => error.code)];
      // The module that knows sealed stores: loading it ends snapshots.
      await db.setCompression("off");
      const held = await db.snapshot();
      await db.text().set("color", "blue");
      const begun = await db.enableEncryption(await kept(7));
      const wasHeld = await held.text().get("color");
      await held.close();
      const finished = await db.finishKeyRotation();
      const twice = await db.enableEncryption(key(8)).catch((error) => error.code);
      return { refused, begun: begun.finished, wasHeld, finished, twice, state: await db.stateOf(position), slots: await db.keySlots() };
    });
    assert.deepEqual(seen, {
      refused: ["not-sealed", "usage"], begun: false, wasHeld: "green", finished: { finished: true, segmentsLeft: 0 }, twice: "usage", state: "compacted",
      slots: [{ slot: 0, kind: "key" }],
    });
    assert.equal(await follower.evaluate(() => db.text().set("shape", "round").then(() => db.text().get("color"))), "blue");
    await follower.evaluate(() => db.close());
    const behind = await leader.evaluate(async () => {
      await db.close();
      const bytes = await bytesOf("enabled");
      const told = ["content", "name 1", "green", "blue", "remembered", "round"].filter((text) => holds(bytes, text));
      const again = await pipkin.open("enabled", { key: key(7) });
      const first = (await again.events("log")).read({ stream: "stream" });
      const { value } = await first[Symbol.asyncIterator]().next();
      const count = await again.count();
      await again.close();
      return { told, count, event: new TextDecoder().decode(value.payload), fates: [await fate("enabled"), await fate("enabled", { key: key(8) }), await fate("enabled", { key: key(7) })] };
    });
    assert.deepEqual(behind, { told: [], count: 2002, event: "remembered", fates: ["key-needed", "wrong-key", "blue"] });
    const memory = await leader.evaluate(async () => (await pipkin.open("m", { memory: true })).enableEncryption(key(1)).catch((error) => error.code));
    assert.equal(memory, "unavailable");
    await leader.close();
    await follower.close();
  });

  test("an open store becomes plain, and opens without a key from then on", async () => {
    let number = 0;
    const [leader, follower] = await leaderAndFollower({ tab }, (page) => page.evaluate(async () => {
      window.db = await pipkin.open("disabled", { key: key(4) });
    }, number++ > 0));
    await leader.evaluate(async () => {
      await db.setMany(Array.from({ length: 2000 }, (_, at) => [`name ${at}`, `content ${at}`]));
      await db.text().set("color", "green");
      window.held = await db.snapshot();
      await db.text().set("color", "blue");
      window.begun = await db.disableEncryption();
    });
    const other = await tab();
    // Half way, a tab joins that asks for a plain store, and no other one with the key.
    const half = await other.evaluate(async () => [
      await fate("disabled", { key: key(4), disableEncryption: true }), await fate("disabled", { key: key(6), disableEncryption: true }), await fate("disabled", { key: key(4) }), await fate("disabled"),
    ]);
    await other.close();
    assert.deepEqual(half, ["blue", "wrong-key", "disabling-encryption", "key-needed"]);
    const seen = await leader.evaluate(async () => {
      const wasHeld = await held.text().get("color");
      const isSealed = await db.keySlots().then(() => true, () => false);
      await held.close();
      const finished = await db.finishKeyRotation();
      const twice = await db.disableEncryption().catch((error) => error.code);
      return { begun: begun.finished, wasHeld, isSealed, finished, twice, slots: await db.keySlots().catch((error) => error.code), fate: await fate("disabled") };
    });
    assert.deepEqual(seen, {
      begun: false, wasHeld: "green", isSealed: true, finished: { finished: true, segmentsLeft: 0 }, twice: "not-sealed", slots: "not-sealed", fate: "blue",
    });
    await follower.evaluate(() => db.close());
    const behind = await leader.evaluate(async () => {
      await db.text().set("shape", "round");
      await db.close();
      const shown = holds(await bytesOf("disabled"), "round");
      const plain = [await fate("disabled"), await fate("disabled", { key: key(4) }), await fate("disabled", { key: key(4), disableEncryption: true })];
      await made("at-once", key(5));
      const wrong = await fate("at-once", { key: key(6), disableEncryption: true });
      const careless = await fate("at-once", { disableEncryption: true });
      return { shown, plain, wrong, careless, opened: await fate("at-once", { key: key(5), disableEncryption: true }), then: await fate("at-once") };
    });
    assert.deepEqual(behind, {
      shown: true, plain: ["blue", "not-sealed", "blue"], wrong: "wrong-key", careless: "usage", opened: "green as at-once", then: "green as at-once",
    });
    await leader.close();
    await follower.close();
  });

  test("a sealed file travels with its key only, and a native program opens it", async () => {
    const page = await tab();
    const seen = await page.evaluate(async () => {
      const db = await pipkin.open("travels", { key: key(7) });
      await db.setMany(Array.from({ length: 500 }, (_, number) => [`secret ${number}`, `value ${number}`]));
      await db.text().set("color", "green");
      const blob = await db.exportBlob();
      await db.close();
      const into = async (name, key) => {
        const target = await pipkin.open(name, { key });
        await target.text().set("color", "as it was");
        const code = await target.import(blob, { replace: true }).then(() => "imported", (error) => error.code);
        const color = await target.text().get("color").catch((error) => error.code);
        await target.close();
        return [code, color, await fate(name, { key })];
      };
      const bytes = new Uint8Array(await blob.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
      return { same: await into("same-key", key(7)), kept: await into("kept-key", await kept(7)), other: await into("other-key", key(8)), none: await into("no-key"), told: holds(bytes, "secret"), base64: btoa(text) };
    });
    const { base64, ...fates } = seen;
    assert.deepEqual(fates.same, ["imported", "green", "green"]);
    assert.deepEqual(fates.kept, ["imported", "green", "green"]);
    assert.deepEqual(fates.other, ["wrong-key", "as it was", "as it was"]);
    assert.deepEqual(fates.none.slice(1), ["as it was", "as it was"]);
    assert.ok(["version", "key-needed"].includes(fates.none[0]) && !fates.told, fates.none[0]);
    const folder = mkdtempSync(join(tmpdir(), "pipkin-sealed-"));
    try {
      const [file, key] = [join(folder, "page.pipkin"), join(folder, "key")];
      writeFileSync(file, Buffer.from(base64, "base64"));
      writeFileSync(key, "07".repeat(32));
      const pipkin = (...args) => execFileSync(PROGRAM, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
      assert.equal(pipkin("get", "--key-file", key, file, "secret 499"), "value 499");
      assert.throws(() => pipkin("get", file, "secret 499"));
      pipkin("verify", file);
      pipkin("put", "--key-file", key, file, "color", "from a native program");
      const back = await page.evaluate(async (base64) => {
        const db = await pipkin.open("back", { key: key(7) });
        await db.import(new Blob([Uint8Array.from(atob(base64), (unit) => unit.charCodeAt(0))]));
        await db.close();
        return fate("back", { key: await kept(7) });
      }, readFileSync(file, "base64"));
      assert.equal(back, "from a native program");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    await page.close();
  });
}
