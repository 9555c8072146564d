//! Instances that are stopped in the middle of a call: by a lack of fuel, by a lack of memory, by being dropped.

use super::{Rng, builder, host, open, small};
use pipkin_wasi_host::{Db, Durability, Error, Op, Options, Reason};
use std::collections::BTreeMap;

/// Enough for any call on a small store.
const PLENTY: u64 = 1 << 40;
/// So many calls must be stopped in the middle, or the test has tested nothing.
const STOPS_MIN: usize = 500;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn content(db: &mut Db) -> Records {
    db.scan(b"").unwrap().map(|entry| entry.map(|entry| (entry.key, entry.value)).unwrap()).collect()
}

/// A commit of some puts and removals.
fn commit(rng: &mut Rng, number: u64) -> Vec<Op> {
    let len = [1, 1, 1, 2, 7, 40][rng.below(6) as usize];
    let op = |_| {
        let value = (rng.below(4) > 0).then(|| vec![number as u8; rng.below(900) as usize]);
        Op { namespace: None, key: format!("key {}", rng.below(60)).into_bytes(), value, ttl: None }
    };
    (0..len).map(op).collect()
}

fn apply(records: &mut Records, ops: &[Op]) {
    for Op { key, value, .. } in ops {
        match value {
            Some(value) => drop(records.insert(key.clone(), value.clone())),
            None => drop(records.remove(key)),
        }
    }
}

#[test]
fn a_commit_that_is_stopped_anywhere_is_there_or_not_and_nothing_else_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).fuel_limit(PLENTY).build().unwrap();
    let mut db = open(&host, "a.pipkin");
    let (mut rng, mut model) = (Rng(0x5eed), Records::new());
    let (mut stops, mut done, mut kept, mut number) = (0, 0, 0, 0);
    // Few stops come behind the write of a commit and in front of its answer: it goes on until one has.
    while stops < STOPS_MIN + 100 || kept == 0 {
        number += 1;
        assert!(number < 20_000, "only {stops} calls were stopped");
        let ops = commit(&mut rng, number);
        // From too little to begin with, to enough for all but the long ones.
        db.set_fuel_limit(1000 << rng.below(21) | rng.below(1000));
        let result = match rng.below(10) {
            0 => db.compact_step().map(|_| false),
            1 => db.checkpoint().map(|()| false),
            _ => db.write(&ops, Durability::Written).map(|()| true),
        };
        db.set_fuel_limit(PLENTY);
        match result {
            Ok(true) => {
                apply(&mut model, &ops);
                done += 1;
            }
            Ok(false) => {}
            Err(Error::Trapped(_)) => {
                stops += 1;
                let found = content(&mut db);
                let mut with = model.clone();
                apply(&mut with, &ops);
                assert!(found == model || found == with, "stop {stops}: a commit came in pieces, or an old one is gone");
                kept += usize::from(found != model);
                model = found;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done > 100 && kept > 0, "{done} commits passed, {kept} that were stopped are there all the same");
    assert_eq!(content(&mut db), model);
    db.close().unwrap();
    let native = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
    assert!(native.verify().unwrap().is_ok());
    assert_eq!(native.iter().collect::<pipkin::Result<Records>>().unwrap(), model);
    println!("{stops} calls stopped, {kept} of their commits kept, {done} commits acknowledged");
}

#[test]
fn an_instance_that_is_stopped_loses_only_what_was_buffered() {
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).fuel_limit(PLENTY).build().unwrap();
    let mut db = host.open_with("a.pipkin", Options { durability: Durability::Buffered, ..small() }).unwrap();
    let mut lost = 0;
    for round in 0..40_u32 {
        db.insert(format!("flushed {round}").as_bytes(), b"1").unwrap();
        db.flush().unwrap();
        db.insert(format!("buffered {round}").as_bytes(), b"1").unwrap();
        db.set_fuel_limit(100);
        assert!(matches!(db.get(b"any"), Err(Error::Trapped(_))));
        db.set_fuel_limit(PLENTY);
        assert!((0..=round).all(|n| db.contains_key(format!("flushed {n}").as_bytes()).unwrap()));
        lost += u32::from(!db.contains_key(format!("buffered {round}").as_bytes()).unwrap());
    }
    assert_eq!(lost, 40, "what was never handed over cannot be there");
}

#[test]
fn a_call_that_wants_too_much_memory_is_stopped_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).memory_limit(24 << 20).build().unwrap();
    let mut db = host.open("a.pipkin").unwrap();
    db.insert(b"small", b"1").unwrap();
    for _ in 0..3 {
        assert!(matches!(db.insert(b"large", &vec![1; 40 << 20]), Err(Error::Trapped(_))));
        assert_eq!(db.get(b"small").unwrap().unwrap(), b"1");
        assert_eq!(db.get(b"large").unwrap(), None);
    }
    assert!(matches!(
        builder(folder.path()).memory_limit(64 * 1024).build().unwrap().open("b.pipkin"),
        Err(Error::Component(_) | Error::Trapped(_))
    ));
}

/// A handle that took the new file for its own lost what was acknowledged in the old one, and shared the new one with whoever has it.
#[cfg(unix)]
#[test]
fn a_file_that_took_the_name_of_the_store_is_not_opened_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).fuel_limit(PLENTY).build().unwrap();
    let (path, aside) = (folder.path().join("a.pipkin"), folder.path().join("aside"));
    let mut db = open(&host, "a.pipkin");
    db.insert(b"k", b"v").unwrap();
    let stop = |db: &mut Db| {
        db.set_fuel_limit(10);
        assert!(matches!(db.get(b"k"), Err(Error::Trapped(_))));
        db.set_fuel_limit(PLENTY);
    };
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v", "until it is stopped it has the file");
    stop(&mut db);
    assert!(matches!(db.get(b"k"), Err(Error::Moved(_))));
    assert!(!path.exists(), "nothing is made in its place");
    let mut other = open(&host, "a.pipkin");
    other.insert(b"other", b"1").unwrap();
    let moved = db.insert(b"k", b"w").unwrap_err();
    assert!(matches!(moved, Error::Moved(_)) && moved.to_string().contains("put that one back"), "{moved}");
    other.close().unwrap();
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    stop(&mut db);
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v", "under its name it is opened again");
}

#[test]
fn what_a_handle_may_burn_counts_for_its_opening_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).fuel_limit(3_000_000).build().unwrap();
    let mut db = host.open("a.pipkin").unwrap();
    db.set_fuel_limit(PLENTY);
    for n in 0..20_u32 {
        let op = |m: u32| Op { namespace: None, key: (n * 1000 + m).to_le_bytes().to_vec(), value: Some(vec![1; 20]), ttl: None };
        db.write(&(0..1000).map(op).collect::<Vec<_>>(), Durability::Written).unwrap();
    }
    db.set_fuel_limit(10);
    assert!(matches!(db.get(b"k"), Err(Error::Trapped(_))));
    db.set_fuel_limit(PLENTY);
    assert_eq!(db.len().unwrap(), 20_000);
}

#[test]
fn handles_that_are_dropped_leave_a_store_that_opens() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    for round in 0..50_u8 {
        let name = format!("{}.pipkin", round % 5);
        let mut db = open(&host, &name);
        assert_eq!(db.len().unwrap(), u64::from(round / 5));
        db.insert(&[round], b"1").unwrap();
        if round % 3 == 0 {
            db.close().unwrap();
        }
    }
}

/// Embedders of Wasmtime are programs of tasks; its own file functions panic there.
#[test]
fn every_call_works_in_a_task_and_a_handle_that_is_dropped_there_closes_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    wasmtime_wasi::runtime::in_tokio(async {
        let mut db = open(&host, "a.pipkin");
        db.insert(b"k", b"v").unwrap();
        db.flush().unwrap();
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        db.compact_step().unwrap();
        db.backup("copy.pipkin").unwrap();
        db.close().unwrap();
        assert!(host.verify("copy.pipkin").unwrap().damage.is_empty());
        drop(open(&host, "a.pipkin"));
    });
    assert!(pipkin::Db::open(folder.path().join("a.pipkin")).unwrap().open_report().clean);
}

/// A guest that stores without end filled the host's disk: only memory and fuel had limits.
#[test]
fn a_file_does_not_grow_over_its_limit() {
    const MOST: u64 = 300 << 10;
    let folder = tempfile::tempdir().unwrap();
    let host = builder(folder.path()).file_limit(MOST).build().unwrap();
    let mut db = open(&host, "a.pipkin");
    let mut count = 0_u32;
    let refused = loop {
        match db.insert(&count.to_le_bytes(), &[7; 1000]) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused.reason(), Some(Reason::NoSpace)), "{refused}");
    let len = || folder.path().join("a.pipkin").metadata().unwrap().len();
    assert!(count > 100 && len() <= MOST, "{count} {}", len());
    for number in (0..count).step_by(2) {
        assert!(db.remove(&number.to_le_bytes()).unwrap());
    }
    db.insert(b"again", &[7; 1000]).unwrap();
    assert!(len() <= MOST);
    db.close().unwrap();
    let mut db = open(&super::host(folder.path()), "a.pipkin");
    assert_eq!(db.len().unwrap(), u64::from(count / 2 + 1));
    assert!(db.verify().unwrap().damage.is_empty());
}
