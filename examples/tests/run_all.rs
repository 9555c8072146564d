//! Every example runs to its end; each asserts its own outcome.
#![expect(clippy::expect_used, reason = "a test says what failed by ending")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// The files are found, not listed: a new example that is missing in the manifest fails here.
#[test]
fn every_example_ends_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut examples = 0;
    for entry in fs::read_dir(folder).expect("the folder of the examples") {
        let path = entry.expect("an entry of the folder").path();
        let Some(name) = path.file_stem().filter(|_| path.extension().is_some_and(|extension| extension == "rs")) else {
            continue;
        };
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--package", "pipkin-examples", "--example"]).arg(name).current_dir(folder);
        let status = command.status().expect("cargo starts");
        assert!(status.success(), "{command:?} ended with {status}");
        examples += 1;
    }
    assert!(examples >= 7, "only {examples} examples were found");
}

/// It kills a process of itself, and asserts what is left each time.
#[test]
fn the_ledger_is_right_whenever_it_is_killed() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "pipkin-examples", "--example", "ledger", "--", "--kill"]);
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "{command:?} ended with {status}");
}
