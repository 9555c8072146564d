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

/// `--force` put a file in the place of whatever stood there: of `/dev/stdout`, when root asked, or of a pipe that somebody reads.
#[cfg(unix)]
#[test]
fn force_replaces_files_and_nothing_else() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    assert!(std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    symlink("pipe", folder.path("to-pipe")).unwrap();
    symlink("nothing", folder.path("to-nothing")).unwrap();
    symlink("full", folder.path("to-full")).unwrap();
    folder.write("full/file", "precious");
    let before = folder.names();
    for (target, what) in [
        ("pipe", "a pipe"),
        ("socket", "a socket"),
        ("to-pipe", "a pipe"),
        ("to-nothing", "a link that leads to no file"),
        ("full", "a directory"),
        ("to-full", "a directory"),
    ] {
        let run = folder.run(&["export", STORE, target, "--format", "csv", "--force", "--json"]).exits(2);
        assert_eq!(run.error()["kind"], "exists", "{target}");
        assert!(run.err.contains(&format!("{target} is {what} and was left as it is")), "{target}: {}", run.err);
    }
    assert_eq!(folder.names(), before);
    assert!(std::fs::symlink_metadata(folder.path("pipe")).unwrap().file_type().is_fifo());
    assert!(std::fs::symlink_metadata(folder.path("socket")).unwrap().file_type().is_socket());
    assert!(std::fs::symlink_metadata(folder.path("to-nothing")).unwrap().is_symlink());
}

/// `--force` put a file in the place of the link, and what the link led to stayed old.
#[cfg(unix)]
#[test]
fn force_writes_through_a_link_and_leaves_it_standing() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    folder.write("elsewhere/old.csv", "old");
    std::os::unix::fs::symlink("elsewhere/old.csv", folder.path("near")).unwrap();
    std::os::unix::fs::symlink("near", folder.path("out.csv")).unwrap();
    let report = folder.run(&["export", STORE, "out.csv", "--force"]).success();
    assert!(report.text().contains("out.csv"), "{}", report.text());
    for link in ["near", "out.csv"] {
        assert!(std::fs::symlink_metadata(folder.path(link)).unwrap().is_symlink(), "{link}");
    }
    assert_eq!(folder.read("elsewhere/old.csv"), b"key,value,key_encoding,value_encoding\na,1,,\n");
    assert_eq!(folder.names(), ["elsewhere", "near", "out.csv", STORE]);
    assert_eq!(std::fs::read_dir(folder.path("elsewhere")).unwrap().count(), 1, "nothing is left beside the file");
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

#[test]
fn a_store_is_not_replaced_by_its_own_export() {
    let folder = Folder::new();
    folder.fill(STORE);
    let digest = folder.digest(STORE);
    for target in [STORE.to_owned(), format!("./{STORE}")] {
        let run = folder.run(&["export", STORE, &target, "--format", "ndjson", "--force"]).exits(2);
        assert!(run.err.contains("the store itself"), "{}", run.err);
    }
    assert_eq!(folder.digest(STORE), digest);
}
