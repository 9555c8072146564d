//! Help texts and completions.

use crate::support::Folder;

const VERBS: [&str; 14] = [
    "put",
    "get",
    "rm",
    "scan",
    "stats",
    "verify",
    "salvage",
    "compact",
    "backup",
    "import",
    "export",
    "digest",
    "namespaces",
    "completions",
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

/// `pipkin help` was an unknown verb.
#[test]
fn help_is_a_verb_too() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["help"]).success().out, folder.run(&["--help"]).success().out);
    assert_eq!(folder.run(&["help", "put"]).success().out, folder.run(&["put", "--help"]).success().out);
}
