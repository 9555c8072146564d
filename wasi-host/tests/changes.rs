//! Changes of `pipkin:kv` in programs under Wasmtime: alone, beside each other, and without care; served by the host, and composed with the
//! component.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a failed step is a failed test"
)]

#[path = "support/build.rs"]
mod build;
#[path = "support/program.rs"]
mod program;

use pipkin::Db;
use pipkin_wasi_host::keyvalue::{Quota, SyncPolicy, WasiKeyValueCtx};
use program::{Program, shared};
use std::sync::LazyLock;
use std::time::Duration;

/// States that a program must have shown that follows a store, or the test has tested nothing.
const STATES_LEAST: u32 = 20;

static FOLLOWER: LazyLock<Program> = LazyLock::new(|| Program::new(&build::program("follower")));

#[test]
fn changes_hold_served_by_the_host_and_composed() {
    let folder = tempfile::tempdir().unwrap();
    let (served, context) = shared(folder.path(), &["other", "third"]);
    let output = FOLLOWER.run(&context, &["all", "s", "other", "third"]).unwrap();
    assert_eq!(output, "changes hold; of a closed store: an answer\n", "the host shares the store, and keeps it open");
    assert_eq!(served.stats().unwrap().readers_of_changes, 0, "nothing is kept for a guest that has ended");
    let composed = Program::of(&build::composed(&build::program("follower"), build::product()));
    let output = composed.run_in(folder.path(), &["all", "composed.pipkin", "second.pipkin", "third.pipkin"]).unwrap();
    assert_eq!(output, "changes hold; of a closed store: Reason::Closed\n");
    for (db, name) in [(served, "names"), (Db::open(folder.path().join("composed.pipkin")).unwrap(), "names.pipkin")] {
        assert!(db.verify().unwrap().is_ok());
        let known = db.consumers().unwrap();
        assert_eq!(known.iter().map(|known| &*known.name).collect::<Vec<_>>(), ["stays"]);
        db.flush().unwrap();
        let commits: Vec<_> = std::iter::from_fn({
            let mut stays = db.consumer("stays").start().unwrap();
            move || stays.try_next().unwrap()
        })
        .collect();
        let has = |commit: &pipkin::Commit| commit.changes().iter().any(|change| change.key() == Some(b"after"));
        assert!(commits.iter().any(has), "natively it goes on where it was");
        let context = WasiKeyValueCtx::builder().directory(folder.path()).store("names").build();
        let told = if name == "names" {
            FOLLOWER.run(&context, &["names", name])
        } else {
            composed.run_in(folder.path(), &["names", name])
        };
        assert_eq!(told.unwrap(), "256, Reason::Quota\n");
    }
}

/// One guest commits pairs; one that acknowledges and one that does not read them meanwhile, and each sees every pair once, whole and in order.
#[test]
fn guests_follow_what_another_one_writes_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other", "third"]);
    let run = |args: &'static [&str]| FOLLOWER.run(&context, args);
    std::thread::scope(|scope| {
        let readers = [scope.spawn(|| run(&["consume", "s", "c", "300"])), scope.spawn(|| run(&["follow", "s", "300"]))];
        assert_eq!(run(&["write", "s", "300"]).unwrap(), "300\n");
        for reader in readers {
            print!("{}", reader.join().unwrap().unwrap());
        }
    });
    assert_eq!(db.namespace("pairs").unwrap().len().unwrap(), 2);
    assert_eq!(db.consumer("c").start().unwrap().try_next().unwrap(), None, "all of it is acknowledged");
}

/// A guest that keeps what it is given is told so, and the host and its other guests go on.
#[test]
fn guests_without_care_are_told_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    let context = WasiKeyValueCtx::builder().engine("s", db.clone(), SyncPolicy::Manual).handles_per_guest(200);
    let context = context.kept_bytes_per_guest(4 << 20).build();
    let quota = "Reason::Quota";
    assert_eq!(FOLLOWER.run(&context, &["careless", "s"]).unwrap(), format!("{quota}, {quota}, {quota}, {quota}\n"));
    let figures = db.stats().unwrap();
    assert_eq!((figures.readers_of_changes, figures.snapshots), (0, 0));
}

/// A consumer that never acknowledges, and asks for any amount of log, keeps nobody from writing: where the quota ends, it is what gives way.
#[test]
fn what_is_held_gives_way_to_what_others_write() {
    for how in ["none", "unnamed", "named"] {
        let folder = tempfile::tempdir().unwrap();
        let quota = Quota::default().file_bytes(2 << 20);
        let context = WasiKeyValueCtx::builder().directory(folder.path()).store("s").quota("s", quota).build();
        let told = FOLLOWER.run(&context, &["hold", "s", how, "60"]);
        assert_eq!(told.unwrap(), if how == "none" { "\n" } else { "Reason::Compacted\n" }, "{how}");
        assert!(std::fs::metadata(folder.path().join("s.pipkin")).unwrap().len() <= 2 << 20);
    }
}

/// A guest that may only read asks for any amount of log, and reads nothing of it: 64 MiB are kept for it, and no more.
#[test]
fn a_guest_that_only_reads_lets_the_store_grow_by_no_more_than_64_mib() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    let context = WasiKeyValueCtx::builder().engine("s", db.clone(), SyncPolicy::Manual).read_only("s").build();
    let told = std::thread::scope(|scope| {
        let guest = scope.spawn(|| FOLLOWER.run(&context, &["look", "s"]));
        while db.stats().unwrap().readers_of_changes == 0 && !guest.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for round in 0..90_u8 {
            db.insert("k", vec![round; 1 << 20]).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        db.namespace("done").unwrap().insert("", "").unwrap();
        guest.join().unwrap()
    });
    assert_eq!(told.unwrap(), "Reason::AccessDenied, Reason::Compacted, 2\n");
    assert!(db.stats().unwrap().file_bytes < 100 << 20, "{:?}", db.stats().unwrap());
}

/// The functions that wait do so in another thread, and `next` waits for nobody: the runtime's only thread goes on, and writes what the guest
/// is to hear.
#[test]
fn a_guest_that_follows_leaves_the_thread_of_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other", "third"]);
    let pairs = db.namespace("pairs").unwrap();
    let write = async {
        for n in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            pairs.insert_many([("one", n.to_string()), ("two", n.to_string())]).unwrap();
            db.flush().unwrap();
        }
        std::future::pending::<()>().await;
    };
    FOLLOWER.run_beside(&context, &["consume", "s", "c", "100"], write);
    assert_eq!(db.consumers().unwrap().len(), 1);
}

/// An embedder that runs a guest inside a change of its own: the guest would wait for its host for ever.
#[test]
fn a_guest_inside_a_change_of_its_host_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other", "third"]);
    db.insert("k", "v").unwrap();
    let mut said = None;
    db.update("k", |_| {
        said = Some(FOLLOWER.run(&context, &["inside", "s"]));
        Some(b"w".to_vec())
    })
    .unwrap();
    assert_eq!(said.unwrap().unwrap(), "Reason::Nested\n");
    assert_eq!(FOLLOWER.run(&context, &["inside", "s"]).unwrap(), "an answer\n");
}

/// The program reads by the crate itself, compiled into it.
#[test]
fn a_program_with_the_engine_in_it_follows_a_store_that_is_written_outside_of_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().path(folder.path().join("s.pipkin")).segment_size(16 * 1024).open().unwrap();
    let count = |count: u64| db.insert_many([("count", count.to_be_bytes()), ("copy", count.to_be_bytes())]).unwrap();
    count(0);
    let reader = Program::new(&build::program("reader"));
    let output = std::thread::scope(|scope| {
        let reads = scope.spawn(|| reader.run_in(folder.path(), &["s.pipkin"]));
        for number in 1..=2000 {
            count(number);
            db.insert("filler", vec![7; 300]).unwrap();
            if number % 100 == 0 {
                db.compact().unwrap();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        db.insert("stop", "").unwrap();
        reads.join().unwrap()
    });
    let output = output.unwrap();
    let states: u32 = output.strip_suffix(" states\n").unwrap().parse().unwrap();
    assert!(states >= STATES_LEAST, "{states} of 2000 states");
}
