//! Help texts and completions.

use crate::support::Folder;

const VERBS: [&str; 20] = [
    "put",
    "get",
    "rm",
    "ttl",
    "persist",
    "sweep",
    "scan",
    "stats",
    "verify",
    "salvage",
    "compact",
    "backup",
    "import",
    "export",
    "digest",
    "watch",
    "namespaces",
    "keys",
    "completions",
    "man",
];

#[test]
fn the_help_documents_exit_codes_and_the_json_form() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).success();
    for words in ["Exit codes:", "  130  interrupted", "key_encoding", "Examples:"] {
        assert!(help.text().contains(words), "{words}");
    }
    let short = folder.run(&["-h"]).success();
    for verb in VERBS {
        assert!(short.text().contains(&format!("\n  {verb} ")), "{verb}");
    }
    assert!(folder.run(&["--version"]).success().text().starts_with("pipkin "));
}

#[test]
fn every_verb_has_help_with_an_example() {
    let folder = Folder::new();
    for verb in VERBS {
        let run = folder.run(&[verb, "--help"]).success();
        assert!(run.text().contains("Example"), "{verb}");
        assert!(run.text().contains("--json"), "{verb}");
        assert!(run.err.is_empty());
    }
    assert!(folder.run(&["digest", "--help"]).success().text().contains("little endian"));
}

#[test]
fn completions_exist_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.run(&["completions", shell]).success();
        assert!(script.text().contains("salvage"), "{shell}");
        assert_eq!(folder.json(&["completions", shell])["script"], script.text());
    }
    folder.run(&["completions", "tcsh"]).exits(2);
}

/// A page for the command and one for each verb, with the exit codes and the examples that the help has.
#[test]
fn manual_pages_say_what_the_help_says() {
    let folder = Folder::new();
    let report = folder.json(&["man", "pages/man1"]);
    let pages: Vec<_> = std::fs::read_dir(folder.path("pages/man1")).unwrap().map(Result::unwrap).collect();
    assert_eq!(report["pages"], pages.len());
    let page = |name: &str| String::from_utf8(folder.read(&format!("pages/man1/{name}.1"))).unwrap();
    assert!(page("pipkin").contains("Exit codes") && page("pipkin").contains(".TH"));
    for verb in VERBS {
        assert!(page(&format!("pipkin-{verb}")).contains("Example"), "{verb}");
    }
    assert!(page("pipkin-namespaces-drop").contains("NAME"));
    folder.ok(&["man", "pages/man1"]);
    folder.write("file", "");
    folder.run(&["man", "file/below"]).exits(7);
}

#[test]
fn a_new_store_has_segments_of_the_size_that_was_asked_for() {
    let folder = Folder::new();
    folder.ok(&["put", "a.pipkin", "key", "value", "--segment-size", "65536"]);
    assert_eq!(folder.json(&["stats", "a.pipkin"])["segment_size"], 65_536);
    // A store that is there keeps its own.
    folder.ok(&["put", "a.pipkin", "other", "value", "--segment-size", "4096"]);
    assert_eq!(folder.json(&["stats", "a.pipkin"])["segment_size"], 65_536);
    folder.write("records.ndjson", "{\"key\":\"key\",\"value\":\"value\"}\n");
    folder.ok(&["import", "b.pipkin", "records.ndjson", "--segment-size", "8192"]);
    assert_eq!(folder.json(&["stats", "b.pipkin"])["segment_size"], 8_192);
    folder.run(&["put", "c.pipkin", "key", "value", "--segment-size", "5000"]).exits(2);
    assert!(!folder.path("c.pipkin").exists());
}

/// `pipkin help` was an unknown verb.
#[test]
fn help_is_a_verb_too() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["help"]).success().out, folder.run(&["--help"]).success().out);
    assert_eq!(folder.run(&["help", "put"]).success().out, folder.run(&["put", "--help"]).success().out);
}
