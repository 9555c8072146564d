//! put, get, rm, scan.

use crate::support::{Folder, STORE, awkward_records, hex};
use serde_json::{Value, json};

#[test]
fn a_value_comes_back_byte_for_byte_from_argument_stdin_and_file() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    folder.write("value.bin", &bytes);
    assert_eq!(folder.ok(&["put", STORE, "argument", "hello"]), b"", "success is silent");
    folder.run_with_stdin(&["put", STORE, "stdin", "-"], &bytes).success();
    folder.ok(&["put", STORE, "file", "--file", "value.bin"]);
    assert_eq!(folder.ok(&["get", STORE, "argument"]), b"hello");
    assert_eq!(folder.ok(&["get", STORE, "stdin"]), bytes);
    assert_eq!(folder.ok(&["get", STORE, "file"]), bytes);
}

#[test]
fn a_second_put_replaces_the_value() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "old"]);
    folder.ok(&["put", STORE, "key", "new"]);
    assert_eq!(folder.ok(&["get", STORE, "key"]), b"new");
    assert_eq!(folder.json(&["stats", STORE])["records"], 1);
}

#[test]
fn keys_are_bytes_in_hex_in_base64_or_as_they_are() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "--hex", "00FF2a", "by hex"]);
    assert_eq!(folder.ok(&["get", STORE, "--base64", "AP8q"]), b"by hex");
    folder.ok(&["put", STORE, "--base64", "a2V5", "by base64"]);
    assert_eq!(folder.ok(&["get", STORE, "key"]), b"by base64");
    folder.ok(&["put", STORE, "", "of the empty key"]);
    assert_eq!(folder.ok(&["get", STORE, "--hex", ""]), b"of the empty key");
    folder.ok(&["put", STORE, "--", "-dash", "x"]);
    assert_eq!(folder.ok(&["get", STORE, "--", "-dash"]), b"x");
}

#[cfg(unix)]
#[test]
fn a_key_argument_that_is_no_unicode_is_taken_as_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let key = OsStr::from_bytes(b"\xff\xfe");
    folder.ok(&[OsStr::new("put"), OsStr::new(STORE), key, OsStr::new("v")]);
    assert_eq!(folder.ok(&["get", STORE, "--hex", "fffe"]), b"v");
}

#[test]
fn json_of_get_marks_bytes_that_are_no_text() {
    let folder = Folder::new();
    folder.run_with_stdin(&["put", STORE, "--hex", "ff", "-"], b"\x00\xfe").success();
    folder.ok(&["put", STORE, "text", "ab"]);
    let marked = json!({"key": "/w==", "key_encoding": "base64", "value": "AP4=", "value_encoding": "base64"});
    assert_eq!(
        folder.json(&["get", STORE, "--hex", "ff"]),
        json!({"key": "ff", "key_encoding": "hex", "value": "00fe", "value_encoding": "hex"})
    );
    assert_eq!(folder.json(&["get", STORE, "--base64", "/w"]), marked);
    assert_eq!(folder.json(&["get", STORE, "text"]), json!({"key": "text", "value": "ab"}));
}

#[test]
fn a_missing_key_is_told_by_exit_code_1() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "there", "x"]);
    let run = folder.run(&["get", STORE, "missing"]).exits(1);
    assert_eq!(run.out, b"");
    assert_eq!(run.err, "pipkin: the key missing is not in the store\n");
    assert_eq!(folder.run(&["get", STORE, "missing", "--json"]).exits(1).error()["kind"], "key-not-found");
}

#[test]
fn rm_removes_what_is_there_and_tells_what_was_not() {
    let folder = Folder::new();
    for key in ["a", "b", "c"] {
        folder.ok(&["put", STORE, key, "x"]);
    }
    let run = folder.run(&["rm", STORE, "a", "missing", "b", "--json"]).exits(1);
    assert_eq!(serde_json::from_slice::<Value>(&run.out).unwrap(), json!({"removed": 2, "missing": 1}));
    assert!(run.error()["message"].as_str().unwrap().contains("missing"));
    assert_eq!(folder.ok(&["scan", STORE]), b"c\tx\n");
    folder.ok(&["rm", STORE, "--hex", &hex(b"c")]);
    assert_eq!(folder.ok(&["scan", STORE]), b"");
}

#[test]
fn scan_prints_one_line_per_record_from_which_the_bytes_can_be_told() {
    let folder = Folder::new();
    folder.run_with_stdin(&["put", STORE, "--hex", &hex(b"a\tb\\\n\xff"), "-"], b"1\r\x01").success();
    assert_eq!(folder.run(&["scan", STORE]).success().text(), "a\\tb\\\\\\n\\xff\t1\\r\\x01\n");
    assert_eq!(folder.run(&["scan", STORE, "--hex"]).success().text(), "6109625c0aff\t310d01\n");
    assert_eq!(folder.run(&["scan", STORE, "--base64", "--keys-only"]).success().text(), "YQliXAr/\n");
}

#[test]
fn scan_selects_by_prefix_sorts_and_stops_at_the_limit() {
    for ordered in ["no", "yes"] {
        let folder = Folder::new();
        for key in ["b/2", "a/1", "b/1", "c", "b"] {
            folder.ok(&["put", STORE, key, &key.to_uppercase()]);
        }
        folder.ok(&["namespaces", "set", STORE, "--ordered", ordered]);
        assert_eq!(folder.run(&["scan", STORE, "--sort"]).success().text(), "a/1\tA/1\nb\tB\nb/1\tB/1\nb/2\tB/2\nc\tC\n");
        assert_eq!(folder.run(&["scan", STORE, "--prefix", "b/", "--sort", "--keys-only"]).success().text(), "b/1\nb/2\n");
        assert_eq!(
            folder.run(&["scan", STORE, "--prefix", "622f", "--hex", "--sort", "-k"]).success().text(),
            "622f31\n622f32\n"
        );
        assert_eq!(folder.run(&["scan", STORE, "--sort", "--limit", "1"]).success().text(), "a/1\tA/1\n");
        assert_eq!(folder.run(&["scan", STORE, "--limit", "3"]).success().text().lines().count(), 3);
        assert_eq!(folder.ok(&["scan", STORE, "--limit", "0"]), b"");
    }
}

#[test]
fn scan_selects_by_range_from_either_end() {
    for ordered in ["no", "yes"] {
        let folder = Folder::new();
        for key in ["a", "b", "ba", "c", "d"] {
            folder.ok(&["put", STORE, key, "x"]);
        }
        folder.ok(&["namespaces", "set", STORE, "--ordered", ordered]);
        let keys = |args: &[&str]| {
            let run = folder.run(&[&["scan", STORE, "-k"], args].concat()).success();
            run.text().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(keys(&["--range", "b..c", "--sort"]), ["b", "ba"]);
        assert_eq!(keys(&["--range", "b..=c", "--reverse"]), ["c", "ba", "b"]);
        assert_eq!(keys(&["--range", "b..", "--reverse", "--limit", "2"]), ["d", "c"]);
        assert_eq!(keys(&["--range", "..ba", "--sort"]), ["a", "b"]);
        assert_eq!(keys(&["--range", "62..=6261", "--hex", "--sort"]), ["62", "6261"]);
        assert_eq!(keys(&["--range", "..", "--reverse"]), ["d", "c", "ba", "b", "a"]);
        assert_eq!(keys(&["--range", "d..a"]).len(), 0);
        assert_eq!(folder.ok(&["scan", STORE, "--range", "b..d", "--count"]), b"3\n");
        folder.run(&["scan", STORE, "--range", "b"]).exits(2);
        folder.run(&["scan", STORE, "--range", "b..c", "--prefix", "b"]).exits(2);
    }
}

#[test]
fn a_group_is_listed_counted_exported_and_removed_as_one() {
    let folder = Folder::new();
    for key in ["user.7.name", "user.7.mail.home", "user.70.name", "user.7", "user.7."] {
        folder.ok(&["put", STORE, key, "x"]);
    }
    let listed = folder.run(&["scan", STORE, "--group", "user.7", "--sort", "-k"]).success();
    assert_eq!(listed.text(), "user.7.\nuser.7.mail.home\nuser.7.name\n");
    assert_eq!(folder.ok(&["scan", STORE, "--group", "user.7", "--count"]), b"3\n");
    assert_eq!(folder.ok(&["scan", STORE, "--group", "757365722e37", "--hex", "--count"]), b"3\n");
    assert_eq!(folder.json(&["scan", STORE, "--count"]), json!({"records": 5}));
    folder.ok(&["export", STORE, "group.ndjson", "--group", "user.7"]);
    assert_eq!(folder.read("group.ndjson").iter().filter(|byte| **byte == b'\n').count(), 3);
    for usage in [
        &["scan", STORE, "--group", ""][..],
        &["rm", STORE, "--group", ""],
        &["rm", STORE, "--group", "a", "key"],
        &["rm", STORE],
    ] {
        folder.run(usage).exits(2);
    }
    assert_eq!(folder.json(&["rm", STORE, "--group", "user.7"]), json!({"removed": 3, "missing": 0}));
    assert!(folder.run(&["rm", STORE, "--group", "user.7"]).exits(1).err.contains("the group user.7 has no records"));
    assert_eq!(folder.run(&["scan", STORE, "--sort", "-k"]).success().text(), "user.7\nuser.70.name\n");
}

#[test]
fn json_lines_of_scan_hold_every_byte_of_every_record() {
    let folder = Folder::new();
    let records = folder.fill(STORE);
    assert_eq!(records, awkward_records());
    let run = folder.run(&["scan", STORE, "--json"]).success();
    assert_eq!(run.text().lines().count(), records.len());
    folder.run_with_stdin(&["import", "copy.pipkin", "-", "--format", "ndjson"], &run.out).success();
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
    let keys = folder.run(&["scan", STORE, "--json", "--keys-only", "--sort"]).success();
    let first: Value = serde_json::from_str(keys.text().lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({"key": ""}));
}

#[test]
fn a_namespace_says_how_it_keeps_its_records() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "default"]);
    let set = folder.json(&["namespaces", "set", STORE, "sessions", "--default-ttl", "2h", "--ordered", "yes"]);
    assert_eq!(set, json!({"namespace": "sessions", "default_ttl_ms": 7_200_000, "ordered": true}));
    folder.ok(&["namespaces", "set", STORE, "--ordered", "no"]);
    folder.ok(&["put", STORE, "1", "ada", "-n", "sessions"]);
    let lives = folder.run(&["ttl", STORE, "1", "-n", "sessions"]).success();
    assert!(lives.text().trim().parse::<u64>().is_ok_and(|seconds| (7000..=7200).contains(&seconds)), "{}", lives.text());
    let listed = json!({"default_records": 1, "ordered": false,
        "namespaces": [{"name": "sessions", "records": 1, "default_ttl_ms": 7_200_000, "ordered": true}]});
    assert_eq!(folder.json(&["namespaces", "list", STORE]), listed);
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"sessions\t1\tdefault ttl 7,200 s\tordered\n");
    // A copy says the same.
    folder.ok(&["backup", STORE, "copy.pipkin"]);
    assert_eq!(folder.json(&["namespaces", "list", "copy.pipkin"]), listed);

    // What is not given stays.
    folder.ok(&["namespaces", "set", STORE, "sessions", "--default-ttl", "never"]);
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"sessions\t1\tordered\n");
    folder.ok(&["namespaces", "set", STORE, "sessions", "--ordered", "as-opened"]);
    folder.ok(&["namespaces", "set", STORE, "--ordered", "as-opened"]);
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"sessions\t1\n");
    let set = folder.json(&["namespaces", "set", STORE, "documents", "--compression", "on-write"]);
    assert_eq!(set, json!({"namespace": "documents", "compression": "on-write"}));
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"documents\t0\tcompressed on write\nsessions\t1\n");
    folder.ok(&["export", STORE, "all.ndjson", "--all-namespaces"]);
    folder.ok(&["import", "imported.pipkin", "all.ndjson", "--all-namespaces"]);
    assert_eq!(folder.ok(&["namespaces", "list", "imported.pipkin"]), b"documents\t0\tcompressed on write\nsessions\t1\n");
    folder.ok(&["namespaces", "set", STORE, "documents", "--compression", "off"]);
    folder.ok(&["namespaces", "drop", STORE, "documents"]);
    for wrong in [
        &["sessions"][..],
        &["sessions", "--compression", "always"],
        &["sessions", "--default-ttl", "soon"],
        &["sessions", "--ordered", "maybe"],
        &["", "--ordered", "yes"],
        &["a", "b", "--ordered", "yes"],
    ] {
        folder.run(&[&["namespaces", "set", STORE][..], wrong].concat()).exits(2);
    }
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"sessions\t1\n", "a wrong argument makes no namespace");
}

#[test]
fn namespaces_keep_records_apart() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "default"]);
    folder.ok(&["put", STORE, "key", "one", "--namespace", "one"]);
    folder.ok(&["put", STORE, "other", "two", "-n", "two words"]);
    assert_eq!(folder.ok(&["get", STORE, "key"]), b"default");
    assert_eq!(folder.ok(&["get", STORE, "key", "-n", "one"]), b"one");
    assert_eq!(folder.ok(&["scan", STORE, "-n", "two words"]), b"other\ttwo\n");
    assert_eq!(folder.run(&["namespaces", "list", STORE]).success().text(), "one\t1\ntwo words\t1\n");
    let listed =
        json!({"default_records": 1, "namespaces": [{"name": "one", "records": 1}, {"name": "two words", "records": 1}]});
    assert_eq!(folder.json(&["namespaces", "list", STORE]), listed);

    folder.ok(&["namespaces", "drop", STORE, "one"]);
    assert_eq!(folder.run(&["namespaces", "drop", STORE, "one", "--json"]).exits(1).error()["kind"], "namespace-not-found");
    assert_eq!(folder.run(&["get", STORE, "key", "-n", "one", "--json"]).exits(1).error()["kind"], "namespace-not-found");
    folder.run(&["rm", STORE, "key", "-n", "one"]).exits(1);
    assert_eq!(folder.ok(&["namespaces", "list", STORE]), b"two words\t1\n", "reading makes no namespace");
    assert_eq!(folder.ok(&["get", STORE, "key"]), b"default");
}

/// Each key was a commit of its own. A key that is given twice is there once.
#[test]
fn rm_of_many_keys_removes_them_together_and_counts_them_one_by_one() {
    let folder = Folder::new();
    let lines: String = (0..10_000).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"v\"}}\n")).collect();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], lines.as_bytes()).success();
    let mut args = vec!["rm".to_owned(), STORE.to_owned(), "--json".to_owned(), "missing".to_owned()];
    args.extend((0..9_000).map(|n| format!("k{n}")));
    args.push("k5".to_owned());
    let run = folder.run(&args).exits(1);
    assert!(run.err.contains("2 of the keys are not in the store, the first is missing"), "{}", run.err);
    let report: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!((&report["removed"], &report["missing"]), (&9_000.into(), &2.into()));
    assert_eq!(folder.json(&["stats", STORE])["records"], 1_000);
}
