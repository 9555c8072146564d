//! `export --all-namespaces`, and the way back.

use crate::support::{Folder, STORE};
use serde_json::{Value, json};

/// A store with two namespaces, one of them empty, with records that expire and a default.
fn fill(folder: &Folder) {
    folder.ok(&["put", STORE, "plain", "1"]);
    folder.ok(&["put", STORE, "coupon", "10 % less", "--expires", "2100-01-01"]);
    folder.write(
        "sessions.ndjson",
        "{\"namespace\":\"sessions\",\"default_ttl_ms\":3600000}\n{\"namespace\":\"empty\",\"ordered\":true}\n\
         {\"namespace\":\"sessions\",\"key\":\"7\",\"value\":\"ada\",\"expires_ms\":4102444800001}\n\
         {\"namespace\":\"sessions\",\"key\":\"/w==\",\"key_encoding\":\"base64\",\"value\":\"stays\"}\n",
    );
    folder.ok(&["import", STORE, "sessions.ndjson", "--all-namespaces"]);
}

fn lines(text: Vec<u8>) -> Vec<Value> {
    String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_namespace_goes_out_and_comes_back_with_its_default_and_every_expiry() {
    let folder = Folder::new();
    fill(&folder);
    let report = folder.json(&["export", STORE, "whole.ndjson", "--all-namespaces", "--sort"]);
    assert_eq!((&report["records"], &report["namespaces"]), (&json!(4), &json!(3)));
    let whole = lines(folder.read("whole.ndjson"));
    let expected = [
        json!({"key": "coupon", "value": "10 % less", "expires_ms": 4_102_444_800_000_u64}),
        json!({"key": "plain", "value": "1"}),
        json!({"namespace": "empty", "ordered": true}),
        json!({"namespace": "sessions", "default_ttl_ms": 3_600_000}),
        json!({"namespace": "sessions", "key": "7", "value": "ada", "expires_ms": 4_102_444_800_001_u64}),
        json!({"namespace": "sessions", "key": "/w==", "key_encoding": "base64", "value": "stays"}),
    ];
    assert_eq!(whole, expected);

    folder.ok(&["import", "copy.pipkin", "whole.ndjson", "--all-namespaces"]);
    let again = folder.ok(&["export", "copy.pipkin", "-", "--all-namespaces", "--sort"]);
    assert_eq!(lines(again), expected);
    assert_eq!(folder.ok(&["ttl", "copy.pipkin", "/w==", "--base64", "--namespace", "sessions"]), b"never\n");
    // What is written there from now on lives as long as the namespace says.
    folder.ok(&["put", "copy.pipkin", "8", "bob", "--namespace", "sessions"]);
    let left: u64 =
        String::from_utf8(folder.ok(&["ttl", "copy.pipkin", "8", "--namespace", "sessions"])).unwrap().trim().parse().unwrap();
    assert!((3500..=3600).contains(&left), "{left}");
}

#[test]
fn thousands_of_records_in_many_namespaces_come_back() {
    let folder = Folder::new();
    let line = |number: u32| format!("{{\"namespace\":\"n{}\",\"key\":\"{number}\",\"value\":\"v{number}\"}}\n", number % 7);
    folder.write("many.ndjson", (0..5000).map(line).collect::<String>());
    folder.ok(&["import", STORE, "many.ndjson", "--all-namespaces"]);
    folder.ok(&["export", STORE, "whole.ndjson", "--all-namespaces"]);
    folder.ok(&["import", "copy.pipkin", "whole.ndjson", "--all-namespaces"]);
    for number in 0..7 {
        let digest = |store: &str| folder.json(&["digest", store, "--namespace", &format!("n{number}")]);
        let (one, other) = (digest(STORE), digest("copy.pipkin"));
        assert_eq!((&one["sha256"], &one["records"]), (&other["sha256"], &other["records"]), "{number}");
        assert!(one["records"].as_u64().unwrap() >= 714, "{one}");
    }
}

#[test]
fn a_line_that_is_passed_over_moves_no_other_record_into_its_namespace() {
    let folder = Folder::new();
    folder.write(
        "bad.ndjson",
        "{\"namespace\":\"a\",\"key\":\"1\",\"value\":\"in a\"}\n{\"namespace\":\"b\",\"key\":\"2\"}\n\
         {\"namespace\":\"c\",\"key\":\"3\",\"value\":\"in c\"}\n{\"key\":\"4\",\"value\":\"in none\"}\n",
    );
    assert_eq!(folder.json(&["import", STORE, "bad.ndjson", "--all-namespaces", "--skip-invalid"])["skipped"], 1);
    assert_eq!(folder.ok(&["get", STORE, "1", "--namespace", "a"]), b"in a");
    assert_eq!(folder.ok(&["get", STORE, "3", "--namespace", "c"]), b"in c");
    assert_eq!(folder.ok(&["get", STORE, "4"]), b"in none");
    folder.run(&["get", STORE, "4", "--namespace", "c"]).exits(1);
}

#[test]
fn what_does_not_go_with_all_namespaces_is_refused() {
    let folder = Folder::new();
    fill(&folder);
    for (option, value) in
        [("--namespace", "sessions"), ("--prefix", "a"), ("--group", "a"), ("--range", "a..b"), ("--limit", "1")]
    {
        let run = folder.run(&["export", STORE, "no.ndjson", "--all-namespaces", option, value]);
        assert!(run.err.contains("--all-namespaces") && run.err.contains(option), "{}", run.err);
        run.exits(2);
    }
    for target in ["no.csv", "no/"] {
        let run = folder.run(&["export", STORE, target, "--all-namespaces"]);
        assert!(run.err.contains("ndjson"), "{}", run.err);
        run.exits(2);
    }
    assert!(!folder.names().iter().any(|name| name.starts_with("no")));
    // Without the option nothing of it ends up in the wrong namespace.
    folder.ok(&["export", STORE, "whole.ndjson", "--all-namespaces"]);
    let run = folder.run(&["import", "copy.pipkin", "whole.ndjson"]);
    assert!(run.err.contains("--all-namespaces"), "{}", run.err);
    run.exits(8);
    for line in ["{\"namespace\":\"a\",\"default_ttl_ms\":0}\n", "{\"namespace\":\"a\",\"ordered\":\"yes\"}\n"] {
        folder.write("wrong.ndjson", line);
        folder.run(&["import", "copy.pipkin", "wrong.ndjson", "--all-namespaces"]).exits(8);
    }
    folder.run(&["import", "copy.pipkin", "whole.ndjson", "--all-namespaces", "--key", "id"]).exits(2);
}
