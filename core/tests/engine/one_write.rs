//! Transactions that write one value: they take the way of `insert`, with what they have read checked under the lock of the append.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, StorageErrorKind};
use pipkin::{Builder, Conflict, Db, Error, PositionState};

type File = FaultStorage<MemoryStorage>;

fn builder() -> Builder {
    Db::builder().segment_size(4096).background(false).auto_compact_dead_share(2.0)
}

fn open(file: &File) -> pipkin::Result<Db> {
    builder().open_storage(Box::new(file.clone()))
}

/// Of two that have read a key, the second to commit is refused, wherever its record would have come to stand: in the active segment, or
/// as the first of another.
fn second_is_refused(db: &Db) {
    db.insert("stock", [0; 8]).unwrap();
    for round in 0..60_u8 {
        let (mut one, mut other) = (db.begin().unwrap(), db.begin().unwrap());
        for tx in [&mut one, &mut other] {
            assert!(tx.get("stock").unwrap().is_some());
        }
        one.insert("stock", [round; 700]).unwrap();
        other.insert("stock", [99; 700]).unwrap();
        let position = one.commit_with_position().unwrap();
        assert_eq!((db.state_of(position), db.position().unwrap()), (PositionState::Appended, position));
        assert!(matches!(other.commit(), Err(Error::Conflict(Conflict::Key))), "round {round}");
        assert_eq!(db.get("stock").unwrap().unwrap(), [round; 700]);
        assert_eq!((db.len().unwrap(), db.position().unwrap()), (1, position), "a refused commit has written");
    }
}

#[test]
fn the_second_of_two_that_have_read_a_key_is_refused_in_every_kind_of_store() {
    second_is_refused(&builder().in_memory().unwrap());
    #[cfg(feature = "ordered")]
    second_is_refused(&builder().ordered(true).in_memory().unwrap());
    #[cfg(feature = "encrypt")]
    second_is_refused(&builder().encryption_key([7; 32]).in_memory().unwrap());
}

/// One call fails, then the power: what was acknowledged is there, what conflicted is not, and what was read is as it was.
#[test]
fn a_write_is_there_as_a_whole_or_not_behind_any_failed_call() {
    let effects = [
        Effect::Error(StorageErrorKind::Other),
        Effect::Error(StorageErrorKind::NoSpace),
        Effect::Torn { bytes: 3 },
        Effect::Torn { bytes: 60 },
        Effect::Late,
        Effect::LostSync,
    ];
    let (mut kept, mut lost) = (0, 0);
    for effect in effects {
        for nth in 1.. {
            let file = File::new(MemoryStorage::new());
            // Never comes, but makes the file remember what a power cut would take.
            file.arm(Fault::nth(u64::MAX, Io::Sync, Effect::LostSync));
            let db = open(&file).unwrap();
            db.insert("stock", [5; 3_000]).unwrap();
            db.flush().unwrap();
            file.arm(Fault::nth(nth, Io::Change, effect));
            let mut taken = Vec::new();
            for order in 0..3_u8 {
                let (mut tx, mut late) = (db.begin().unwrap(), db.begin().unwrap());
                assert_eq!(tx.get("stock").unwrap().unwrap(), [5; 3_000]);
                late.get([order]).unwrap();
                // A store that a failure has closed refuses the write itself.
                let is_taken = tx.insert([order], [order; 700]).and_then(|()| tx.commit()).is_ok();
                let is_late_taken = late.insert("late", "written").and_then(|()| late.commit()).is_ok();
                assert!(!(is_taken && is_late_taken), "{effect:?}, call {nth}: committed over what has changed");
                taken.push(is_taken);
            }
            let flushed = db.flush().is_ok();
            let has_failed = file.counts().failed > 0;
            drop(db);
            file.disarm();
            file.lose_unsynced().unwrap();
            let at = format!("{effect:?}, call {nth}: {taken:?}, {flushed}");
            let db = open(&file).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(db.get("stock").unwrap().unwrap(), [5; 3_000], "{at}");
            for (order, taken) in (0_u8..).zip(taken) {
                match db.get([order]).unwrap() {
                    Some(value) => assert_eq!(value, [order; 700], "{at}"),
                    None => assert!(
                        !taken || !flushed || effect == Effect::LostSync && has_failed,
                        "{at}: what was acknowledged is lost"
                    ),
                }
                kept += u32::from(db.contains_key([order]).unwrap() && has_failed);
                lost += u32::from(!db.contains_key([order]).unwrap());
            }
            if !has_failed {
                break;
            }
        }
    }
    assert!(kept > 10 && lost > 10, "{kept} kept, {lost} lost: the calls that fail are not those of the commits");
}

/// A full medium refuses the commit and nothing else; with space again the same transaction, begun anew, goes through.
#[test]
fn a_full_medium_refuses_the_commit_and_leaves_the_store_as_it_was() {
    let file = File::new(MemoryStorage::new());
    let db = open(&file).unwrap();
    db.insert("stock", [5; 100]).unwrap();
    file.set_capacity(Some(64 * 1024));
    let mut filled = 0_u32;
    let refused = loop {
        let written = db.transaction(|tx| {
            tx.get("stock")?;
            tx.insert(filled.to_le_bytes(), [1; 900])
        });
        match written {
            Ok(()) => filled += 1,
            Err(error) => break error,
        }
        assert!(filled < 1_000, "the medium is never full");
    };
    assert!(matches!(refused, Error::NoSpace), "{refused:?}");
    assert!(filled > 10, "{filled}");
    assert_eq!((db.len().unwrap(), db.get(filled.to_le_bytes()).unwrap()), (u64::from(filled) + 1, None));
    file.set_capacity(None);
    db.transaction(|tx| tx.insert(filled.to_le_bytes(), [1; 900])).unwrap();
    drop(db);
    let db = open(&file).unwrap();
    assert_eq!(db.len().unwrap(), u64::from(filled) + 2);
}
