//! Event streams of `pipkin:kv` in programs under Wasmtime: alone, beside each other, and without care; served by the host, and composed with the
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

use pipkin::{Db, Expected, NewEvent};
use pipkin_wasi_host::keyvalue::{Quota, SyncPolicy, WasiKeyValueCtx};
use program::{Program, shared};
use std::sync::LazyLock;
use std::time::Duration;

static CHRONICLER: LazyLock<Program> = LazyLock::new(|| Program::new(&build::program("chronicler")));

/// What `all` leaves, read natively.
fn left(db: &Db) -> Vec<String> {
    assert!(db.verify().unwrap().is_ok());
    let log = db.events("cursors").unwrap();
    let events = log.all().iter().unwrap().map(|event| event.unwrap());
    events.map(|event| format!("{}@{} {}", event.stream(), event.version(), event.number())).collect()
}

#[test]
fn events_hold_served_by_the_host_and_composed() {
    let folder = tempfile::tempdir().unwrap();
    let (served, context) = shared(folder.path(), &["other"]);
    let output = CHRONICLER.run(&context, &["all", "s", "other"]).unwrap();
    assert_eq!(output, "events hold; of a closed store: an answer\n", "the host shares the store, and keeps it open");
    let composed = Program::of(&build::composed(&build::program("chronicler"), build::product()));
    let output = composed.run_in(folder.path(), &["all", "composed.pipkin", "second.pipkin"]).unwrap();
    assert_eq!(output, "events hold; of a closed store: Reason::Closed\n");
    let both = [left(&served), left(&Db::open(folder.path().join("composed.pipkin")).unwrap())];
    assert_eq!(both[0], both[1], "both ways the same events have the same numbers");
    assert_eq!(both[0].len(), 4);
}

/// What one host appends another one reads, and goes on behind it; the projection and its cursor travel with the file.
#[test]
fn a_log_and_its_projection_go_from_host_to_host() {
    let folder = tempfile::tempdir().unwrap();
    let context = || WasiKeyValueCtx::builder().directory(folder.path()).store("s").build();
    let composed = Program::of(&build::composed(&build::program("chronicler"), build::product()));
    assert_eq!(composed.run_in(folder.path(), &["write", "s.pipkin", "30"]).unwrap(), "30\n");
    let died = CHRONICLER.run(&context(), &["project", "s", "30", "4"]).unwrap_err();
    assert!(died.contains("between the work and its acknowledgement"), "{died}");
    let died = composed.run_in(folder.path(), &["project", "s.pipkin", "30", "4"]).unwrap_err();
    assert!(died.contains("between the work and its acknowledgement"), "{died}");
    assert_eq!(CHRONICLER.run(&context(), &["project", "s", "30", "99"]).unwrap(), "30 0\n");
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    assert_eq!(db.namespace("sums").unwrap().get("jobs").unwrap().unwrap(), b"30");
    assert_eq!(db.events("work").unwrap().all().cursor("worker").unwrap().try_next().unwrap(), None);
}

/// Two guests want one cursor, and take it from each other, while a third one appends: every job counts once.
#[test]
fn guests_that_share_a_cursor_count_each_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &[]);
    let run = |args: &'static [&str]| CHRONICLER.run(&context, args);
    let others: Vec<u32> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(|| run(&["project", "s", "300", "9999"])));
        assert_eq!(run(&["write", "s", "300"]).unwrap(), "300\n");
        let said = workers.map(|worker| worker.join().unwrap().unwrap());
        said.iter().map(|said| said.trim().strip_prefix("300 ").expect("no job counts twice").parse().unwrap()).collect()
    });
    assert!(others.iter().sum::<u32>() > 0, "they never met, so this tests nothing");
    assert_eq!(db.namespace("sums").unwrap().get("jobs").unwrap().unwrap(), b"300");
}

/// A guest that keeps what it is given, or asks for ever more, is told so, and the host and its other guests go on.
#[test]
fn guests_without_care_are_told_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    let context = WasiKeyValueCtx::builder().engine("s", db.clone(), SyncPolicy::Manual).handles_per_guest(200);
    let context = context.kept_bytes_per_guest(8 << 20).build();
    let quota = "Reason::Quota";
    assert_eq!(CHRONICLER.run(&context, &["careless", "s"]).unwrap(), format!("{quota}, {quota}, {quota}\n"));
    assert_eq!(CHRONICLER.run(&context, &["cursors", "s"]).unwrap(), format!("256, {quota}\n"));
    assert_eq!(db.stats().unwrap().snapshots, 0, "its transactions have ended");
    let composed = Program::of(&build::composed(&build::program("chronicler"), build::product()));
    assert_eq!(composed.run_in(folder.path(), &["cursors", "s2.pipkin"]).unwrap(), format!("256, {quota}\n"));
}

#[test]
fn events_count_against_every_quota_of_their_store() {
    for (quota, bytes, goes_on) in [
        (Quota::default().file_bytes(2 << 20), "10000", "an answer"),
        // Names stay in the index: what retention frees is bytes.
        (Quota::default().index_bytes(256 << 10), "10", "Reason::Quota"),
        (Quota::default().records(5), "10", "an answer"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let context = WasiKeyValueCtx::builder().directory(folder.path()).store("s").quota("s", quota).build();
        let told = CHRONICLER.run(&context, &["fill", "s", bytes]).unwrap();
        let stopped = if quota == Quota::default().records(5) { "an answer" } else { "Reason::Quota" };
        assert_eq!(told, format!("{stopped}; {goes_on}\n"), "{quota:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::default().namespaces(3);
    let context = WasiKeyValueCtx::builder().directory(folder.path()).store("s").quota("s", quota).build();
    assert_eq!(CHRONICLER.run(&context, &["logs", "s"]).unwrap(), "3, Reason::Quota\n");
}

/// An embedder that runs a guest inside a change of its own: the guest would wait for its host for ever.
#[test]
fn a_guest_inside_a_change_of_its_host_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &[]);
    db.insert("k", "v").unwrap();
    db.events("work").unwrap();
    let mut said = None;
    db.update("k", |_| {
        said = Some(CHRONICLER.run(&context, &["project", "s", "1", "9"]));
        Some(b"w".to_vec())
    })
    .unwrap();
    let said = said.unwrap().unwrap_err();
    assert!(said.contains("Reason::Nested"), "{said}");
    assert_eq!(CHRONICLER.run(&context, &["write", "s", "1"]).unwrap(), "1\n");
    assert_eq!(CHRONICLER.run(&context, &["project", "s", "1", "9"]).unwrap(), "1 0\n");
}

/// The functions that wait do so in another thread, and `next` waits for nobody: the runtime's only thread goes on, and appends what the guest
/// is to hear.
#[test]
fn a_guest_that_follows_leaves_the_thread_of_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &[]);
    let log = db.events("work").unwrap();
    let write = async {
        for n in 0..100_u32 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            log.append("jobs", Expected::Any, [NewEvent::new("Job", n.to_string())]).unwrap();
            db.flush().unwrap();
        }
        std::future::pending::<()>().await;
    };
    CHRONICLER.run_beside(&context, &["project", "s", "100", "9999"], write);
    assert_eq!(db.namespace("sums").unwrap().get("jobs").unwrap().unwrap(), b"100");
}
