//! Records that expire: put, ttl, persist, sweep, and their way through export and import.

use crate::support::{Folder, STORE};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[test]
fn put_sets_how_long_a_record_lives_and_ttl_tells() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "stays", "1"]);
    folder.ok(&["put", STORE, "hours", "1", "--ttl", "2h"]);
    folder.ok(&["put", STORE, "date", "1", "--expires", "2100-01-01"]);
    for past in ["2001-01-01T00:00:00Z", "4102444800"] {
        folder.run(&["put", STORE, "long ago", "1", "--expires", past]).exits(2);
    }
    assert_eq!(folder.ok(&["ttl", STORE, "stays"]), b"never\n");
    let left: u64 = String::from_utf8(folder.ok(&["ttl", STORE, "hours"])).unwrap().trim().parse().unwrap();
    assert!((7100..=7200).contains(&left), "{left}");
    assert_eq!(folder.json(&["ttl", STORE, "date"])["expires_ms"], json!(4_102_444_800_000_u64));
    for verb in ["ttl", "get", "persist"] {
        folder.run(&[verb, STORE, "long ago"]).exits(1);
    }
    assert_eq!(folder.json(&["stats", STORE])["records"], 3);
    assert_eq!(folder.json(&["persist", STORE, "hours", "stays"]), json!({"persisted": 1, "missing": 0}));
    assert_eq!(folder.ok(&["ttl", STORE, "hours"]), b"never\n");
    for (option, wrong) in [("--ttl", "soon"), ("--ttl", "0"), ("--expires", "2023-02-29")] {
        folder.run(&["put", STORE, "key", "value", option, wrong]).exits(2);
    }
    folder.run(&["put", STORE, "key", "value", "--ttl", "5m", "--expires", "2100-01-01"]).exits(2);
}

#[test]
fn sweep_forgets_what_has_expired() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "stays", "1"]);
    folder.ok(&["put", STORE, "gone", "v1"]);
    folder.write("gone.ndjson", "{\"key\":\"gone\",\"value\":\"v2\",\"expires_ms\":1000}\n");
    folder.ok(&["import", STORE, "gone.ndjson"]);
    assert_eq!(folder.json(&["sweep", STORE]), json!({"swept": 1, "records": 1}));
    assert_eq!(folder.json(&["sweep", STORE]), json!({"swept": 0, "records": 1}));
    folder.ok(&["compact", STORE]);
    folder.run(&["get", STORE, "gone"]).exits(1);
    folder.run(&["verify", STORE]).exits(0);
}

#[test]
fn export_and_import_carry_when_a_record_expires() {
    let folder = Folder::new();
    let later = (now_ms() + 3_600_000).to_string();
    folder.ok(&["put", STORE, "stays", "1"]);
    folder.ok(&["put", STORE, "later", "2", "--expires", &later]);
    folder.write("gone.ndjson", "{\"key\":\"gone\",\"value\":\"3\",\"expires_ms\":1000}\n");
    folder.ok(&["import", STORE, "gone.ndjson"]);
    for sort in [&[][..], &["--sort"]] {
        folder.ok(&[&["export", STORE, "all.ndjson", "--force"], sort].concat());
        let text = String::from_utf8(folder.read("all.ndjson")).unwrap();
        let mut lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.sort_by_key(|line| line["key"].as_str().unwrap().to_owned());
        let later: u64 = later.parse().unwrap();
        assert_eq!(lines, [json!({"key": "later", "value": "2", "expires_ms": later}), json!({"key": "stays", "value": "1"})]);
    }
    let csv = folder.json(&["export", STORE, "all.csv"]);
    assert_eq!((&csv["records"], &csv["unsaid_expiries"]), (&json!(2), &json!(1)));

    folder.ok(&["put", "other.pipkin", "gone", "an older version"]);
    folder.write("more.ndjson", "{\"key\":\"gone\",\"value\":\"3\",\"expires_ms\":1000}\n");
    folder.ok(&["import", "other.pipkin", "all.ndjson"]);
    folder.ok(&["import", "other.pipkin", "more.ndjson"]);
    assert_eq!(folder.json(&["ttl", "other.pipkin", "later"])["expires_ms"], json!(later.parse::<u64>().unwrap()));
    assert_eq!(folder.ok(&["ttl", "other.pipkin", "stays"]), b"never\n");
    folder.run(&["get", "other.pipkin", "gone"]).exits(1);
    let digest = |store: &str| folder.json(&["digest", store])["sha256"].clone();
    assert_eq!(digest(STORE), digest("other.pipkin"));
}
