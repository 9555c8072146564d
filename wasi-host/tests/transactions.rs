//! Transactions of `pipkin:kv` in programs under Wasmtime: alone, beside each other, and without care; served by the host, and composed with the
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

use pipkin::{Conflict, Db, Error};
use pipkin_wasi_host::keyvalue::{Quota, SyncPolicy, WasiKeyValueCtx};
use program::{Program, shared};
use std::sync::LazyLock;

static TRADER: LazyLock<Program> = LazyLock::new(|| Program::new(&build::program("trader")));

#[test]
fn transactions_hold_served_by_the_host_and_composed() {
    let folder = tempfile::tempdir().unwrap();
    let (served, context) = shared(folder.path(), &["other"]);
    let output = TRADER.run(&context, &["all", "s", "other"]).unwrap();
    assert_eq!(output, "transactions hold; of a closed store: an answer\n", "the host shares the store, and keeps it open");
    let composed = Program::of(&build::composed(&build::program("trader"), build::product()));
    let output = composed.run_in(folder.path(), &["all", "composed.pipkin", "second.pipkin"]).unwrap();
    assert_eq!(output, "transactions hold; of a closed store: Reason::Closed\n");
    let composed = Db::open(folder.path().join("composed.pipkin")).unwrap();
    for db in [&served, &composed] {
        assert!(db.verify().unwrap().is_ok());
        assert_eq!(db.get("ever").unwrap().unwrap(), b"durably");
        assert_eq!(db.namespace("accounts").unwrap().get("bob").unwrap().unwrap(), [1]);
        assert!(!db.contains_key("never").unwrap(), "what was left open is gone with its guest");
    }
    let figures = served.stats().unwrap();
    assert_eq!((figures.snapshots, figures.snapshot_memory_bytes), (0, 0), "nothing is kept for a guest that has ended");
}

/// Two guests each look whether the other's doctor is on call, and both have looked before either writes: one of them may go.
#[test]
fn two_guests_cannot_both_act_on_what_the_other_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other"]);
    let doctors = db.namespace("on call").unwrap();
    for _ in 0..3 {
        doctors.insert_many([("ada", "yes"), ("bob", "yes")]).unwrap();
        db.namespace("looked").unwrap().clear().unwrap();
        let off = |who: &str, other: &str| TRADER.run(&context, &["off", "s", who, other]).unwrap();
        let mut said = std::thread::scope(|scope| {
            let (ada, bob) = (scope.spawn(|| off("ada", "bob")), scope.spawn(|| off("bob", "ada")));
            [ada.join().unwrap(), bob.join().unwrap()]
        });
        said.sort();
        assert_eq!(said, ["Reason::Conflict(Conflict::Key)\n", "an answer\n"]);
        let on_call = ["ada", "bob"].iter().filter(|who| doctors.get(who).unwrap().unwrap() == b"yes").count();
        assert_eq!(on_call, 1);
    }
}

#[test]
fn coins_that_guests_move_at_the_same_time_stay_as_many() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other"]);
    let said: Vec<String> = std::thread::scope(|scope| {
        let guests: Vec<_> = ["1", "2", "3"].map(|seed| scope.spawn(|| TRADER.run(&context, &["move", "s", seed]))).into();
        guests.into_iter().map(|guest| guest.join().unwrap().unwrap()).collect()
    });
    let conflicts: u32 = said.iter().map(|count| count.trim().parse::<u32>().unwrap()).sum();
    println!("{conflicts} conflicts of three guests with 40 moves each");
    assert!(conflicts > 0, "they were not at it at the same time: this test sees nothing");
    let accounts = db.namespace("accounts").unwrap();
    let coins: u32 = (0..5_u8).map(|of| accounts.get([of]).unwrap().map_or(40, |coins| u32::from(coins[0]))).sum();
    assert_eq!(coins, 5 * 40);
    assert!(db.verify().unwrap().is_ok());
}

/// A guest that keeps what it is given is told so, and the host and its other guests go on.
#[test]
fn guests_without_care_are_told_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    let context = WasiKeyValueCtx::builder().engine("s", db.clone(), SyncPolicy::Manual).handles_per_guest(200);
    let context = context.kept_bytes_per_guest(4 << 20).build();
    let quota = "Reason::Quota";
    assert_eq!(TRADER.run(&context, &["careless", "s"]).unwrap(), format!("{quota}, {quota}, {quota}, {quota}\n"));
    let figures = db.stats().unwrap();
    assert_eq!((figures.records, figures.snapshots, figures.snapshot_memory_bytes), (1, 0, 0));
    assert_eq!(TRADER.run(&context, &["heavy", "s"]).unwrap(), format!("{quota}\n"), "another one begins with nothing kept");

    let composed = Program::of(&build::composed(&build::program("trader"), build::product()));
    assert_eq!(composed.run_in(folder.path(), &["heavy", "composed.pipkin"]).unwrap(), format!("{quota}\n"));
}

/// New records of a transaction count against the quota, changes of records that are there do not, and removals make room.
#[test]
fn commits_keep_to_the_quota_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::default().records(3);
    let context = WasiKeyValueCtx::builder().directory(folder.path()).store("s").quota("s", quota).build();
    for (verb, expected) in [("one", "an answer"), ("two", "an answer"), ("two", "an answer"), ("four", "Reason::Quota")] {
        assert_eq!(TRADER.run(&context, &["put", "s", verb]).unwrap(), format!("{expected}\n"), "{verb}");
    }
    drop(context);
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    assert_eq!(db.len().unwrap(), 2, "all of a commit or nothing");

    let quota = Quota::default().file_bytes(2 << 20);
    let context = WasiKeyValueCtx::builder().directory(folder.path()).store("t").quota("t", quota).build();
    let said: Vec<String> = (0..40).map(|_| TRADER.run(&context, &["put", "t", "large"]).unwrap()).collect();
    assert!(said.iter().all(|said| said == "an answer\n"), "what is written over makes room for a commit: {said:?}");
}

/// An embedder that runs a guest inside a change of its own: the guest would wait for its host for ever.
#[test]
fn a_guest_inside_a_change_of_its_host_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (db, context) = shared(folder.path(), &["other"]);
    let said = db.transaction(|_| Ok(TRADER.run(&context, &["put", "s", "one"])));
    assert_eq!(said.unwrap().unwrap(), "Reason::Nested\n");
    assert_eq!(TRADER.run(&context, &["put", "s", "one"]).unwrap(), "an answer\n");
    let mut tx = db.begin().unwrap();
    assert!(tx.get("one").unwrap().is_some());
    assert_eq!(TRADER.run(&context, &["put", "s", "one"]).unwrap(), "an answer\n");
    tx.insert("other", "").unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict(Conflict::Key))), "a guest and its host conflict like two guests");
}
