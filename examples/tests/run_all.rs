//! Every example runs to its end; each asserts its own outcome.
#![expect(clippy::expect_used, reason = "a test says what failed by ending")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo test` builds the examples of a package whose tests it runs; `--test` alone does not.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let folder = test.ancestors().nth(2).expect("the folder of the profile").join("examples");
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

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
        let mut command = Command::new(built(&name.to_string_lossy()));
        let status = command.current_dir(folder).status().expect("the example starts");
        assert!(status.success(), "{command:?} ended with {status}");
        examples += 1;
    }
    assert!(examples >= 7, "only {examples} examples were found");
}

/// It kills a process of itself, and asserts what is left each time.
#[test]
fn the_ledger_is_right_whenever_it_is_killed() {
    let mut command = Command::new(built("ledger"));
    let status = command.arg("--kill").status().expect("the example starts");
    assert!(status.success(), "{command:?} ended with {status}");
}
