//! Sealed stores: keys in files, passphrases in files and in the environment, and what runs without them.

use crate::support::{Folder, STORE};

#[test]
fn a_store_is_sealed_by_the_key_that_it_is_created_with() {
    let folder = Folder::new();
    folder.write("key", [7; 32]);
    folder.write("digits", format!("{}\n", "07".repeat(32)));
    folder.write("other", [8; 32]);
    folder.ok(&["put", STORE, "color", "a secret green", "--key-file", "key"]);
    assert_eq!(folder.ok(&["get", STORE, "color", "--key-file", "digits"]), b"a secret green");
    assert!(!folder.read(STORE).windows(6).any(|window| window == b"secret"));
    for (args, kind) in [(&["--key-file", "other"][..], "wrong-key"), (&[], "key-needed")] {
        let run = folder.run(&[&["get", STORE, "color", "--json"], args].concat());
        assert!(run.code == 2 && run.err.contains(kind), "{run:?}");
    }
    folder.write("short", [7; 31]);
    folder.run(&["get", STORE, "color", "--key-file", "short"]).exits(2);
    folder.run(&["get", STORE, "color", "--key-file", "none"]).exits(7);
    folder.run(&["salvage", STORE, "copy.pipkin"]).exits(2);
    folder.ok(&["backup", STORE, "copy.pipkin", "--key-file", "key"]);
    assert_eq!(folder.ok(&["get", "copy.pipkin", "color", "--key-file", "key"]), b"a secret green");
    folder.ok(&["put", "plain.pipkin", "a", "1"]);
    let run = folder.run(&["get", "plain.pipkin", "a", "--key-file", "key", "--json"]);
    assert!(run.code == 2 && run.err.contains("not-sealed"), "{run:?}");
}

#[test]
fn verify_says_whether_it_had_the_key() {
    let folder = Folder::new();
    folder.write("key", [7; 32]);
    folder.ok(&["put", STORE, "color", "green", "--key-file", "key"]);
    let without = folder.json(&["verify", STORE]);
    assert!(without["ok"] == true && without["authenticated"] == false, "{without}");
    let with = folder.json(&["verify", STORE, "--key-file", "key"]);
    assert!(with["ok"] == true && with["authenticated"] == true, "{with}");
}

#[test]
fn a_passphrase_is_the_same_however_it_was_typed() {
    let folder = Folder::new();
    folder.write("composed", "caf\u{e9}\nand a second line");
    folder.write("decomposed", "cafe\u{301}");
    folder.write("empty", "\n");
    folder.ok(&["put", STORE, "color", "green", "--passphrase-file", "composed"]);
    assert_eq!(folder.ok(&["get", STORE, "color", "--passphrase-file", "decomposed"]), b"green");
    let in_environment = folder.command(&["get", STORE, "color"]).env("PIPKIN_PASSPHRASE", "cafe\u{301}").output().unwrap();
    assert_eq!(in_environment.stdout, b"green");
    folder.run(&["get", STORE, "color", "--passphrase-file", "empty"]).exits(2);
}

#[test]
fn a_sealed_store_says_how_a_namespace_keeps_its_records_to_whoever_has_the_key() {
    let folder = Folder::new();
    folder.write("key", [7; 32]);
    let sealed = |args: &[&str]| folder.run(&[args, &["--key-file", "key"]].concat()).success().text().to_owned();
    sealed(&["put", STORE, "1", "ada", "-n", "sessions"]);
    sealed(&["namespaces", "set", STORE, "sessions", "--default-ttl", "2h", "--ordered", "yes"]);
    assert_eq!(sealed(&["namespaces", "list", STORE]), "sessions\t1\tdefault ttl 7,200 s\tordered\n");
    folder.run(&["namespaces", "set", STORE, "sessions", "--ordered", "no"]).exits(2);
    assert_eq!(sealed(&["scan", STORE, "-n", "sessions", "--range", "1..2"]), "1\tada\n");
    sealed(&["backup", STORE, "copy.pipkin"]);
    assert_eq!(sealed(&["namespaces", "list", "copy.pipkin"]), "sessions\t1\tdefault ttl 7,200 s\tordered\n");
}

#[test]
fn a_sealed_store_compresses_when_the_command_says_so() {
    let folder = Folder::new();
    folder.write("key", [7; 32]);
    let line = |i: u32| {
        let name = i.wrapping_mul(0x9e37_79b9);
        format!(
            "{{\"key\":\"k{i}\",\"value\":\"a document named {name:x} that looks like {i} others of its kind, as they do, and says at length what all of them say, whoever wrote it and for whom\"}}\n"
        )
    };
    folder.write("in.ndjson", (0..3000).map(line).collect::<String>());
    let sealed = |args: &[&str]| folder.run(&[args, &["--key-file", "key"]].concat());
    sealed(&["import", STORE, "in.ndjson"]).success();
    let refused = sealed(&["compact", STORE, "--compression", "on-compaction"]).exits(2);
    assert!(refused.err.contains("--compress-sealed"), "{}", refused.err);
    sealed(&["compact", STORE, "--compression", "on-compaction", "--compress-sealed"]).success();
    let stats = folder.json(&["stats", STORE, "--key-file", "key"]);
    let count = |name: &str| stats[name].as_u64().unwrap();
    assert!(count("compressed_records") > 2900 && count("dictionaries") == 1, "{stats}");
    assert_eq!(
        sealed(&["get", STORE, "k0"]).success().text(),
        "a document named 0 that looks like 0 others of its kind, as they do, and says at length what all of them say, whoever wrote it and for whom"
    );
    assert_eq!(folder.json(&["verify", STORE])["ok"], true);
    // What is written without the word is plain.
    folder.write("more.ndjson", (3000..6000).map(line).collect::<String>());
    sealed(&["import", STORE, "more.ndjson"]).success();
    sealed(&["compact", STORE]).success();
    assert!(folder.json(&["stats", STORE, "--key-file", "key"])["compressed_records"].as_u64().unwrap() <= 3000);
}
