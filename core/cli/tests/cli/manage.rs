//! stats, verify, compact, backup, digest.

use crate::support::{Folder, Records, STORE, digest_of};

#[test]
fn stats_counts_what_is_there() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", &"v".repeat(5000)]);
    let before = folder.json(&["stats", STORE]);
    assert_eq!(before["records"], 1);
    assert!(before["live_bytes"].as_u64().unwrap() >= 5003, "{before}");
    assert_eq!(before["closed_cleanly"], true);
    folder.ok(&["rm", STORE, "key"]);
    let after = folder.json(&["stats", STORE]);
    assert_eq!(after["records"], 0);
    assert!(after["dead_bytes"].as_u64().unwrap() >= 5003, "{after}");
    let run = folder.run(&["stats", STORE]).success();
    for name in ["records", "namespaces", "file", "live", "dead", "segments", "index", "replay debt", "last close"] {
        assert!(run.text().lines().any(|line| line.starts_with(name)), "{name}: {}", run.text());
    }
}

#[test]
fn compact_compresses_from_then_on_and_stats_says_what_it_saves() {
    let folder = Folder::new();
    let line = |i: u32| {
        let name = i.wrapping_mul(0x9e37_79b9);
        format!(
            "{{\"key\":\"k{i}\",\"value\":\"a document named {name:x} that looks like {i} others of its kind, as they do\"}}\n"
        )
    };
    folder
        .run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], (0..3000).map(line).collect::<String>().as_bytes())
        .success();
    let digest = folder.digest(STORE);
    assert_eq!(folder.json(&["stats", STORE])["compressed_records"], 0);
    folder.ok(&["compact", STORE, "--compression", "on-compaction"]);
    let stats = folder.json(&["stats", STORE]);
    let count = |name: &str| stats[name].as_u64().unwrap();
    assert!(count("compressed_records") > 2900 && count("dictionaries") == 1, "{stats}");
    assert!(count("compressed_stored_bytes") * 2 < count("compressed_plain_bytes"), "{stats}");
    let run = folder.run(&["stats", STORE]).success();
    assert!(run.text().lines().any(|line| line.starts_with("compressed") && line.contains("1 dictionaries")), "{}", run.text());
    assert_eq!(folder.digest(STORE), digest);
    // The store keeps that, without the option.
    folder
        .run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], (3000..6000).map(line).collect::<String>().as_bytes())
        .success();
    folder.ok(&["compact", STORE]);
    assert!(folder.json(&["stats", STORE])["compressed_records"].as_u64().unwrap() > 5900);
    assert_eq!(folder.json(&["verify", STORE])["ok"], true);
    folder.ok(&["export", STORE, "out.ndjson"]);
    folder.ok(&["import", "again.pipkin", "out.ndjson", "--compression", "on-write"]);
    assert_eq!(folder.digest("again.pipkin"), folder.digest(STORE));
}

#[test]
fn verify_of_a_good_store_says_so() {
    let folder = Folder::new();
    folder.fill(STORE);
    let report = folder.json(&["verify", STORE]);
    assert_eq!(report["ok"], true);
    assert_eq!(report["log_records"], 13);
    assert!(folder.run(&["verify", STORE]).success().text().starts_with("all is well: 13 records"));
}

#[test]
fn compact_gives_space_back_and_keeps_every_record() {
    let folder = Folder::new();
    let lines: String =
        (0..300).map(|i| format!("{{\"key\":\"k{}\",\"value\":\"{}\"}}\n", i % 10, "v".repeat(100_000))).collect();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], lines.as_bytes()).success();
    let digest = folder.digest(STORE);
    let report = folder.json(&["compact", STORE]);
    // Of 300 records 10 are alive, a megabyte; compaction that nobody asked for may have done most of it. Where there are no holes the file
    // may only have more room inside.
    #[cfg(target_os = "linux")]
    assert!(report["disk_bytes_after"].as_u64().unwrap() < 13 << 20, "{report}");
    assert!(report["disk_bytes_after"].as_u64().unwrap() <= report["disk_bytes_before"].as_u64().unwrap(), "{report}");
    assert_eq!(folder.digest(STORE), digest);
    folder.ok(&["compact", STORE]);
    assert_eq!(folder.digest(STORE), digest);
    assert_eq!(folder.json(&["verify", STORE])["ok"], true);
}

#[test]
fn a_backup_is_a_store_with_the_same_records_in_all_namespaces() {
    let folder = Folder::new();
    folder.fill(STORE);
    folder.ok(&["put", STORE, "key", "value", "-n", "space"]);
    folder.ok(&["rm", STORE, "plain"]);
    let report = folder.json(&["backup", STORE, "copy.pipkin"]);
    assert_eq!(report["records"], 13);
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
    assert_eq!(folder.ok(&["get", "copy.pipkin", "key", "-n", "space"]), b"value");
    assert_eq!(folder.json(&["verify", "copy.pipkin"])["ok"], true);
    folder.ok(&["put", "copy.pipkin", "more", "x"]);
    assert_eq!(folder.names(), ["copy.pipkin", STORE]);
}

/// It answered 7, though a copy of what nobody can change needs no write to it.
#[test]
fn a_write_protected_store_can_be_backed_up() {
    let folder = Folder::new();
    folder.fill(STORE);
    let before = folder.read(STORE);
    let permissions = std::fs::metadata(folder.path(STORE)).unwrap().permissions();
    let mut protected = permissions.clone();
    protected.set_readonly(true);
    std::fs::set_permissions(folder.path(STORE), protected).unwrap();
    folder.run(&["put", STORE, "key", "value"]).exits(7);
    assert_eq!(folder.json(&["backup", STORE, "copy.pipkin"])["records"], 13);
    std::fs::set_permissions(folder.path(STORE), permissions).unwrap();
    assert_eq!(folder.read(STORE), before, "the source stays as it is");
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
    assert_eq!(folder.json(&["verify", "copy.pipkin"])["ok"], true);
    folder.ok(&["put", "copy.pipkin", "more", "x"]);
}

#[test]
fn backup_and_salvage_never_overwrite() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "value"]);
    folder.write("precious", "precious");
    for verb in ["backup", "salvage"] {
        let run = folder.run(&[verb, STORE, "precious", "--json"]).exits(2);
        assert_eq!(run.error()["kind"], "exists");
        folder.run(&[verb, STORE, STORE]).exits(2);
        folder.run(&[verb, STORE, "."]).exits(2);
        folder.run(&[verb, STORE, "missing-folder/copy.pipkin"]).exits(7);
        assert_eq!(folder.read("precious"), b"precious");
        assert_eq!(folder.ok(&["get", STORE, "key"]), b"value");
    }
    assert_eq!(folder.names(), ["precious", STORE]);
}

#[test]
fn the_digest_depends_on_the_records_alone() {
    let folder = Folder::new();
    folder.ok(&["put", "one.pipkin", "a", "1"]);
    folder.ok(&["put", "one.pipkin", "b", "2"]);
    folder.ok(&["put", "two.pipkin", "b", "old"]);
    folder.ok(&["put", "two.pipkin", "c", "gone"]);
    folder.ok(&["put", "two.pipkin", "b", "2"]);
    folder.ok(&["put", "two.pipkin", "a", "1"]);
    folder.ok(&["rm", "two.pipkin", "c"]);
    folder.ok(&["put", "two.pipkin", "a", "elsewhere", "-n", "space"]);
    let expected = Records::from([(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(folder.digest("one.pipkin"), digest_of(&expected));
    assert_eq!(folder.digest("two.pipkin"), digest_of(&expected));
    let plain = folder.run(&["digest", "one.pipkin"]).success();
    assert_eq!(plain.text(), format!("{}  one.pipkin\n", digest_of(&expected)));
    folder.ok(&["rm", "one.pipkin", "a", "b"]);
    assert_eq!(folder.digest("one.pipkin"), digest_of(&Records::new()));
}

/// Whoever could look into the folder could read the copy of a store that was private.
#[cfg(unix)]
#[test]
fn what_is_made_of_a_store_is_as_private_as_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let mode = |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    folder.ok(&["put", STORE, "dir/key", "value"]);
    assert_eq!(mode(STORE), 0o600);
    for (rights, name) in [(0o600, "private"), (0o640, "of the group"), (0o400, "read-only")] {
        let names = ["b", "s", "ndjson", "csv", "tree"].map(|kind| format!("{name}.{kind}"));
        let [backup, salvaged, ndjson, csv, tree] = &names;
        std::fs::set_permissions(folder.path(STORE), std::fs::Permissions::from_mode(rights)).unwrap();
        folder.ok(&["backup", STORE, backup]);
        folder.ok(&["salvage", STORE, salvaged]);
        folder.ok(&["export", STORE, ndjson, "--format", "ndjson"]);
        folder.ok(&["export", STORE, csv]);
        folder.ok(&["export", STORE, tree, "--format", "dir"]);
        for file in [backup, salvaged, ndjson, csv, &format!("{tree}/dir/key")] {
            assert_eq!(mode(file), rights | 0o200, "{file}");
        }
        let for_others = if rights == 0o640 { 0o050 } else { 0 };
        for tree in [tree, &format!("{tree}/dir")] {
            assert_eq!(mode(tree), 0o700 | for_others, "{tree}");
        }
    }
}

/// A backup asked for the store as a writer does, and whoever only read it was in its way.
#[test]
fn a_backup_can_be_made_beside_those_who_only_read() {
    let folder = Folder::new();
    folder.fill(STORE);
    let reader = pipkin::Db::builder().path(folder.path(STORE)).read_only(true).open().unwrap();
    folder.ok(&["backup", STORE, "copy.pipkin"]);
    drop(reader);
    assert_eq!(folder.digest("copy.pipkin"), folder.digest(STORE));
    let writer = pipkin::Db::open(folder.path(STORE)).unwrap();
    let run = folder.run(&["backup", STORE, "other.pipkin", "--json"]).exits(4);
    assert_eq!(run.error()["holder_pid"], std::process::id());
    drop(writer);
}

/// Every store with a dead byte was said to be worth compacting, however small.
#[test]
fn the_hint_to_compact_is_for_stores_where_it_gives_something_back() {
    let folder = Folder::new();
    let hint = || folder.run(&["stats", STORE]).success().text().contains("pipkin compact");
    folder.ok(&["put", STORE, "key", &"v".repeat(1000)]);
    folder.ok(&["rm", STORE, "key"]);
    assert!(!hint());
    for _ in 0..2 {
        folder.run_with_stdin(&["put", STORE, "key", "-"], &[7; 2_000_000]).success();
    }
    assert!(hint());
}
