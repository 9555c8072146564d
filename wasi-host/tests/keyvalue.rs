//! `wasi:keyvalue` out of the native engine: the promises of the standard, what the engine adds to them, and the same program with the
//! component in the host's place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

#[path = "support/build.rs"]
mod build;
#[path = "support/program.rs"]
mod program;

use pipkin::Db;
use pipkin_tape::Tape;
use pipkin_wasi_host::keyvalue::{SyncPolicy, WasiKeyValueCtx};
use program::Program;
use std::path::Path;

/// The conformance program makes this many checks and more.
const CHECKS_MIN: u32 = 70;

fn stores(directory: &Path) -> WasiKeyValueCtx {
    WasiKeyValueCtx::builder().directory(directory).store("").store("named").build()
}

fn checks(output: &str) -> u32 {
    output.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn the_standard_is_kept_in_both_drafts() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("conformance"));
    for name in ["", "named"] {
        let output = program.run(&stores(folder.path()), &[name]).unwrap();
        assert!(checks(&output) >= CHECKS_MIN, "{output}");
        println!("provider: {output}");
    }
    let each_set = WasiKeyValueCtx::builder().directory(folder.path()).store_with("s", SyncPolicy::EachSet).build();
    assert!(program.run(&each_set, &["s"]).is_ok());
}

#[test]
fn the_component_keeps_it_too_when_it_is_composed_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::of(&build::composed(&build::program("conformance"), build::product()));
    let output = program.run_in(folder.path(), &["named"]).unwrap();
    assert!(checks(&output) >= CHECKS_MIN, "{output}");
    println!("composed: {output}");
    let db = Db::open(folder.path().join("named.pipkin")).unwrap();
    assert!(db.is_empty().unwrap() && db.verify().unwrap().is_ok());
}

#[test]
fn a_program_that_counts_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("counter");
    let program = Program::new(&path);
    let context = stores(folder.path());
    assert_eq!(program.run(&context, &[]).unwrap(), "run 1\n");
    assert_eq!(program.run(&context, &[]).unwrap(), "run 2\n", "another instance, the same context");
    drop(context);
    assert_eq!(program.run(&stores(folder.path()), &[]).unwrap(), "run 3\n", "another context, the same file");

    let composed = Program::of(&build::composed(&path, build::product()));
    assert_eq!(composed.run_in(folder.path(), &[]).unwrap(), "run 4\n", "the component, the same file");
    assert_eq!(Db::open(folder.path().join("default.pipkin")).unwrap().get("runs").unwrap().unwrap(), b"4");
}

#[test]
fn the_component_names_files_as_the_provider_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("editor");
    let native = Program::new(&path);
    let composed = Program::of(&build::composed(&path, build::product()));
    let context = || WasiKeyValueCtx::builder().directory(folder.path()).store("my.store").build();
    composed.run_in(folder.path(), &["my.store"]).unwrap();
    native.run(&context(), &["my.store"]).unwrap();
    let files: Vec<_> = folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["my.store.pipkin"]);
}

/// What is in a file when the tape has been played, looked at natively.
fn content(path: &Path) -> pipkin_tape::Digest {
    let db = Db::open(path).unwrap();
    pipkin_tape::verified(&db).unwrap();
    pipkin_tape::digest(&db).unwrap()
}

#[test]
fn the_tape_through_pipkin_kv_leaves_what_it_leaves_natively() {
    let folder = tempfile::tempdir().unwrap();
    let player = build::program("player");
    Program::new(&player).run(&stores(folder.path()), &["named"]).unwrap();
    assert_eq!(content(&folder.path().join("named.pipkin")), Tape::FULL.expected(), "served by the host");

    let composed = Program::of(&build::composed(&player, build::product()));
    composed.run_in(folder.path(), &["composed.pipkin"]).unwrap();
    assert_eq!(content(&folder.path().join("composed.pipkin")), Tape::FULL.expected(), "composed with the component");
}

#[test]
fn only_listed_stores_open() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("counter"));
    let nothing = WasiKeyValueCtx::builder().directory(folder.path()).store("other").build();
    assert!(program.run(&nothing, &[]).unwrap_err().contains("NoSuchStore"));
    let denied = WasiKeyValueCtx::builder().directory(folder.path()).deny("").build();
    assert!(program.run(&denied, &[]).unwrap_err().contains("AccessDenied"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a refused name makes no file");
}

#[test]
fn the_embedder_and_its_guests_share_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("own")).unwrap();
    db.insert("runs", "41").unwrap();
    let program = Program::new(&build::program("counter"));
    let context = WasiKeyValueCtx::builder().engine("", db.clone(), SyncPolicy::Manual).build();
    assert_eq!(program.run(&context, &[]).unwrap(), "run 42\n");
    assert_eq!(db.get("runs").unwrap().unwrap(), b"42");
    context.flush().unwrap();

    db.insert("runs", "many").unwrap();
    assert!(program.run(&context, &[]).unwrap_err().contains("is no counter"));
}

#[test]
fn guests_that_count_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (program, context) = (Program::new(&build::program("counter")), stores(folder.path()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| assert!(program.run(&context, &[]).is_ok())));
        }
    });
    assert_eq!(program.run(&context, &[]).unwrap(), "run 101\n");
}

#[test]
fn a_store_that_is_open_elsewhere_is_an_error_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("counter"));
    let holder = Db::open(folder.path().join("default.pipkin")).unwrap();
    let context = stores(folder.path());
    let words = program.run(&context, &[]).unwrap_err();
    assert!(words.contains("is open in process"), "{words}");
    drop(holder);
    assert_eq!(program.run(&context, &[]).unwrap(), "run 1\n", "the next guest tries again");
}
