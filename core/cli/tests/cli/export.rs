//! export, and the way back by import.

use crate::support::{Folder, STORE, digest_of};
use serde_json::json;

#[test]
fn every_text_format_brings_every_byte_back() {
    let folder = Folder::new();
    let records = folder.fill(STORE);
    let digest = digest_of(&records);
    assert_eq!(folder.digest(STORE), digest, "the digest is what its help says");
    for name in ["out.ndjson", "out.jsonl", "out.csv", "out.tsv"] {
        for form in [None, Some("--hex"), Some("--base64")] {
            let mut args = vec!["export", STORE, name, "--force"];
            args.extend(form);
            folder.ok(&args);
            let _ = std::fs::remove_file(folder.path("copy.pipkin"));
            folder.ok(&["import", "copy.pipkin", name]);
            assert_eq!(folder.digest("copy.pipkin"), digest, "{name} {form:?}");
        }
    }
}

#[test]
fn stdout_to_stdin_brings_every_byte_back() {
    let folder = Folder::new();
    let digest = digest_of(&folder.fill(STORE));
    for format in ["ndjson", "csv"] {
        let run = folder.run(&["export", STORE, "-", "--format", format, "--json"]).success();
        let report: serde_json::Value = serde_json::from_str(&run.err).unwrap();
        assert_eq!(report["records"], 13, "the report goes to stderr");
        let _ = std::fs::remove_file(folder.path("copy.pipkin"));
        folder.run_with_stdin(&["import", "copy.pipkin", "-", "--format", format], &run.out).success();
        assert_eq!(folder.digest("copy.pipkin"), digest, "{format}");
    }
    folder.run(&["export", STORE, "-", "--format", "dir"]).exits(2);
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let folder = Folder::new();
    folder.write("tree/a.txt", "a");
    folder.write("tree/sub/deep/b.bin", b"\x00\xff");
    folder.write("tree/sub/empty", "");
    folder.ok(&["import", STORE, "tree"]);
    folder.ok(&["export", STORE, "out/", "--prefix", "sub/"]);
    assert_eq!(folder.read("out/sub/deep/b.bin"), b"\x00\xff");
    assert_eq!(folder.read("out/sub/empty"), b"");
    assert!(!folder.path("out/a.txt").exists());
    folder.ok(&["export", STORE, "all", "--format", "dir"]);
    folder.ok(&["import", "copy.pipkin", "all"]);
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
}

#[test]
fn keys_cannot_lead_out_of_the_directory() {
    let folder = Folder::new();
    for key in ["../evil", "/tmp/evil", "a/../../evil", "", "good"] {
        folder.ok(&["put", STORE, key, "x"]);
    }
    let run = folder.run(&["export", STORE, "out/", "--sort"]).exits(8);
    assert!(run.err.contains("cannot be the name of a file"), "{}", run.err);
    std::fs::remove_dir_all(folder.path("out")).unwrap();
    assert_eq!(folder.json(&["export", STORE, "out/", "--skip-invalid"])["skipped"], 4);
    assert_eq!(folder.names(), ["out", STORE]);
    assert_eq!(folder.read("out/good"), b"x");
}

#[test]
fn keys_that_collide_as_files_are_told() {
    let folder = Folder::new();
    for key in ["a", "a/b", "c/d", "c"] {
        folder.ok(&["put", STORE, key, "x"]);
    }
    let run = folder.run(&["export", STORE, "out/"]).exits(8);
    assert!(run.err.contains("no place for the key"), "{}", run.err);
    std::fs::remove_dir_all(folder.path("out")).unwrap();
    assert_eq!(folder.json(&["export", STORE, "out/", "--skip-invalid"])["records"], 2);
}

#[test]
fn nothing_that_exists_is_overwritten_unless_forced() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    folder.write("out.csv", "precious");
    folder.write("full/file", "precious");
    assert_eq!(folder.run(&["export", STORE, "out.csv", "--json"]).exits(2).error()["kind"], "exists");
    folder.run(&["export", STORE, "full"]).exits(2);
    assert_eq!(folder.read("out.csv"), b"precious");
    folder.ok(&["export", STORE, "out.csv", "--force"]);
    assert_eq!(folder.read("out.csv"), b"key,value,key_encoding,value_encoding\na,1,,\n");
    assert_eq!(folder.names(), ["full", "out.csv", STORE]);
    folder.run(&["export", STORE, "missing-folder/out.csv"]).exits(7);
    folder.run(&["export", STORE, "out.txt"]).exits(2);
}

#[test]
fn exports_can_be_sorted_limited_and_of_a_namespace() {
    let folder = Folder::new();
    for key in ["b", "a", "c"] {
        folder.ok(&["put", STORE, key, "x", "-n", "space"]);
    }
    let report = folder.json(&["export", STORE, "out.ndjson", "--sort", "--limit", "2", "-n", "space"]);
    assert_eq!(report, json!({"records": 2, "payload_bytes": 4, "skipped": 0}));
    assert_eq!(folder.read("out.ndjson"), b"{\"key\":\"a\",\"value\":\"x\"}\n{\"key\":\"b\",\"value\":\"x\"}\n");
}
