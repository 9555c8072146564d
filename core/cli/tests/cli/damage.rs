//! A flipped bit: verify names it, nothing hides it, salvage gets everything else out.

use crate::support::{Folder, Records, STORE, digest_of};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

/// A store of 500 records, one of which has lost a bit of its value. Returns the other records and the place of the flip.
fn damaged(folder: &Folder) -> (Records, u64) {
    damaged_behind(folder, &[])
}

/// The same, with a command that runs in front of the loss.
fn damaged_behind(folder: &Folder, command: &[&str]) -> (Records, u64) {
    let mut records: Records =
        (0..500).map(|i| (format!("key-{i}").into_bytes(), format!("value of record {i} ").repeat(8).into_bytes())).collect();
    records.insert(b"victim".to_vec(), b"here will be a flipped bit".to_vec());
    for (key, value) in &records {
        let line = serde_json::json!({"key": String::from_utf8_lossy(key), "value": String::from_utf8_lossy(value)});
        let mut text = if folder.path("in.ndjson").exists() { folder.read("in.ndjson") } else { Vec::new() };
        text.extend_from_slice(format!("{line}\n").as_bytes());
        folder.write("in.ndjson", text);
    }
    folder.ok(&["import", STORE, "in.ndjson"]);
    if !command.is_empty() {
        folder.ok(command);
    }
    let mut bytes = folder.read(STORE);
    let value = records.remove(&b"victim"[..]).unwrap();
    let place = bytes.windows(value.len()).position(|window| window == value).expect("values are stored as they are");
    bytes[place + 3] ^= 0x10;
    folder.write(STORE, bytes);
    (records, place as u64 + 3)
}

#[test]
fn verify_names_the_place_and_the_key() {
    let folder = Folder::new();
    let (_, place) = damaged(&folder);
    let before = folder.read(STORE);
    let run = folder.run(&["verify", STORE, "--json"]).exits(3);
    let report: Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(report["ok"], false);
    let damage = report["damage"].as_array().unwrap();
    let hit = damage.iter().find(|hit| {
        let offset = hit["offset"].as_u64().unwrap();
        (offset..offset + hit["len"].as_u64().unwrap()).contains(&place)
    });
    assert!(hit.is_some(), "the flip at {place} is not within {damage:?}");
    let run = folder.run(&["verify", STORE]).exits(3);
    assert!(run.text().contains("damage at byte") && run.text().contains("salvage"), "{}", run.text());
    assert_eq!(folder.read(STORE), before, "verify changes nothing");
}

#[test]
fn a_walk_in_order_ends_at_damage_like_any_other() {
    let folder = Folder::new();
    damaged_behind(&folder, &["namespaces", "set", STORE, "--ordered", "yes"]);
    for how in [&["--sort"][..], &["--prefix", "vic"], &["--range", "v..w"], &["--reverse"]] {
        let run = folder.run(&[&["scan", STORE][..], how].concat()).exits(3);
        assert!(run.err.contains("pipkin verify") && run.err.contains("pipkin salvage"), "{how:?}: {}", run.err);
    }
}

#[test]
fn a_damaged_value_is_never_given_out() {
    let folder = Folder::new();
    damaged(&folder);
    assert_eq!(folder.run(&["get", STORE, "victim", "--json"]).exits(3).error()["kind"], "damage");
    let run = folder.run(&["digest", STORE]).exits(3);
    assert!(run.err.contains("pipkin verify") && run.err.contains("pipkin salvage"), "{}", run.err);
    folder.run(&["export", STORE, "out.ndjson"]).exits(3);
    folder.run(&["backup", STORE, "copy.pipkin"]).exits(3);
    assert_eq!(folder.names(), ["in.ndjson", STORE], "no half file stays");
}

#[test]
fn salvage_gets_every_other_record_out() {
    let folder = Folder::new();
    let (others, _) = damaged(&folder);
    let before = folder.read(STORE);
    let run = folder.run(&["salvage", STORE, "mended.pipkin", "--json"]).exits(3);
    let report: Value = serde_json::from_slice(&run.out).unwrap();
    assert!(!report["damage"].as_array().unwrap().is_empty());
    assert_eq!(report["records"], others.len());
    assert_eq!(folder.read(STORE), before, "salvage changes nothing");
    assert_eq!(folder.json(&["verify", "mended.pipkin"])["ok"], true);
    assert_eq!(folder.digest("mended.pipkin"), digest_of(&others));
    assert_eq!(folder.names(), ["in.ndjson", "mended.pipkin", STORE]);
}

#[test]
fn salvage_of_a_good_store_is_a_copy() {
    let folder = Folder::new();
    folder.fill(STORE);
    folder.ok(&["put", STORE, "key", "value", "-n", "space"]);
    folder.ok(&["salvage", STORE, "copy.pipkin"]);
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
    assert_eq!(folder.ok(&["get", "copy.pipkin", "key", "-n", "space"]), b"value");
}

#[test]
fn a_store_that_does_not_open_any_more_is_verified_and_salvaged_all_the_same() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["import", STORE, "-", "--format", "ndjson", "--durable"]).stdin(Stdio::piped()).spawn().unwrap();
    let lines: String =
        (0..3000).map(|i| format!("{{\"key\":\"key-{i:04}\",\"value\":\"value of record {i:04}.\"}}\n")).collect();
    child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    let stats = folder.json(&["stats", STORE]);
    assert_eq!((&stats["records"], &stats["closed_cleanly"]), (&Value::from(3000), &Value::from(false)), "{stats}");

    // Nothing but the log holds this store, and a record in the middle of what was synced is not what it was.
    let mut bytes = folder.read(STORE);
    let value = b"value of record 0500.";
    let place = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[place] ^= 1;
    folder.write(STORE, bytes);
    let error = folder.run(&["get", STORE, "key-0001", "--json"]).exits(3).error();
    assert!(error["offset"].as_u64().unwrap() <= place as u64, "{error}");
    folder.run(&["put", STORE, "a", "b"]).exits(3);
    let report: Value = serde_json::from_slice(&folder.run(&["verify", STORE, "--json"]).exits(3).out).unwrap();
    assert!(!report["damage"].as_array().unwrap().is_empty(), "{report}");
    folder.run(&["salvage", STORE, "mended.pipkin"]).exits(3);
    assert_eq!(folder.ok(&["get", "mended.pipkin", "key-2999"]), b"value of record 2999.");
    folder.run(&["get", "mended.pipkin", "key-0500"]).exits(1);
}

/// Whoever knows that a record is damaged, and has it from elsewhere or does not need it, can take it away.
#[test]
fn a_damaged_record_can_be_removed() {
    let folder = Folder::new();
    // Enough for a snapshot of the index at the end: what stands in front of it is not replayed.
    let lines: String = (0..2_000).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"{n} {}\"}}\n", "v".repeat(500))).collect();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], lines.as_bytes()).success();
    let mut bytes = folder.read(STORE);
    let place = bytes.windows(10).position(|window| window == b"k777777 vv").unwrap();
    bytes[place + 100] ^= 0x10; // in the value
    folder.write(STORE, bytes);
    folder.run(&["get", STORE, "k777"]).exits(3);
    folder.ok(&["rm", STORE, "k777"]);
    folder.run(&["get", STORE, "k777"]).exits(1);
}

/// A bit was damaged behind the last flush of a program that was killed: the store opened with five records, `verify` said that all was well, and
/// the next write gave the other 2994 away.
#[test]
fn records_behind_an_unclean_end_are_named_and_stay_until_they_are_given_up() {
    let folder = Folder::new();
    let storage = pipkin::storage::MemoryStorage::new();
    let db = pipkin::Db::builder().background(false).open_storage(Box::new(storage.clone())).unwrap();
    for number in 0..3000_u32 {
        db.insert(number.to_be_bytes(), [7; 100]).unwrap();
    }
    let mut bytes = storage.to_vec();
    let sixth = bytes.windows(5).position(|window| window == [0, 0, 0, 5, 7]).unwrap();
    bytes[sixth + 50] ^= 1;
    folder.write(STORE, bytes);

    let verified = |code: i32| -> Value {
        let run = folder.run(&["verify", STORE, "--json"]).exits(code);
        serde_json::from_slice(&run.out).unwrap()
    };
    let is_said = |report: &Value| {
        assert_eq!((&report["ok"], &report["stranded_records"]), (&Value::from(false), &Value::from(2994)), "{report}");
        assert_eq!(report["damage"], Value::from(Vec::<Value>::new()));
    };
    is_said(&verified(3));
    let run = folder.run(&["verify", STORE]).exits(3);
    assert!(run.text().contains("stranded") && run.text().contains("--drop-stranded"), "{}", run.text());
    assert_eq!(folder.json(&["stats", STORE])["stranded_records"], 2994);
    folder.run(&["salvage", STORE, "mended.pipkin"]);
    assert_eq!(folder.json(&["stats", "mended.pipkin"])["records"], 2999);

    folder.ok(&["put", STORE, "key", "value"]);
    folder.ok(&["compact", STORE]);
    is_said(&verified(3));
    folder.ok(&["compact", STORE, "--drop-stranded"]);
    assert_eq!(verified(0)["stranded_records"], 0);
    assert_eq!(folder.json(&["stats", STORE])["records"], 6);
}

/// Both superblocks were lost, and everything with them, though all the rest of the file was whole.
#[test]
fn a_store_without_superblocks_is_verified_and_salvaged() {
    let folder = Folder::new();
    folder.fill(STORE);
    let digest = folder.digest(STORE);
    let mut bytes = folder.read(STORE);
    bytes[..16_384].fill(0);
    folder.write(STORE, bytes);
    folder.run(&["get", STORE, "k"]).exits(6);
    let report: Value = serde_json::from_slice(&folder.run(&["verify", STORE, "--json"]).exits(3).out).unwrap();
    assert_eq!(report["damage"][0]["offset"], 0, "{report}");
    folder.run(&["salvage", STORE, "mended.pipkin"]).exits(3);
    assert_eq!(folder.digest("mended.pipkin"), digest);
}
