//! Positions of commits: durable or not, gone, or of another history.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Position, PositionState};

const SEGMENT: u32 = 4096;

fn copy(storage: &MemoryStorage) -> MemoryStorage {
    MemoryStorage::from_vec(storage.to_vec())
}

#[test]
fn a_position_is_appended_then_durable_and_stays_so_when_the_store_is_opened_again() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let users = db.namespace("users").unwrap();
    let mut all = vec![
        db.insert_with_position("a", "1").unwrap(),
        users.insert_with_position("a", "2").unwrap(),
        db.batch().insert("b", "3").remove("a").insert_in(&users, "b", "4").commit_with_position().unwrap(),
        db.transaction_with_position(|tx| tx.insert("c", "5")).unwrap().1,
        db.remove_with_position("b").unwrap().unwrap(),
    ];
    assert_eq!(db.remove_with_position("b").unwrap(), None);
    assert_eq!(db.position().unwrap(), all[4]);
    assert_eq!(db.batch().remove("nothing").commit_with_position().unwrap(), all[4]);
    assert_eq!(db.transaction_with_position(|tx| tx.get("c")).unwrap(), (Some(b"5".to_vec()), all[4]));
    assert_eq!(db.snapshot().position(), Some(all[4]));
    assert!(all.iter().all(|&position| db.state_of(position) == PositionState::Appended));
    db.flush_to(all[1]).unwrap();
    assert_eq!(db.state_of(all[1]), PositionState::Durable);
    let last = db.insert_with_position("d", "6").unwrap();
    all.push(last);
    assert_eq!((db.state_of(all[1]), db.state_of(last)), (PositionState::Durable, PositionState::Appended));
    assert!(all.iter().all(|&position| Position::from_bytes(position.to_bytes()) == position));
    for position in 0..all.len() {
        assert!(all[..position].iter().all(|other| *other != all[position]), "each is another one");
    }
    db.close().unwrap();
    let db = opened(storage, SEGMENT);
    assert!(all.iter().all(|&position| db.state_of(position) == PositionState::Durable));
    assert_eq!(db.position().unwrap(), last, "nothing was written since");
    assert_eq!(db.snapshot().position(), Some(last));
    db.insert("e", "7").unwrap();
    assert_eq!(db.snapshot().position(), None, "a copy could have another end at this place");
    let named = db.position().unwrap();
    assert_eq!(db.snapshot().position(), Some(named));
    assert_ne!(db.insert_with_position("f", "8").unwrap(), named);
}

/// `flush_to` of what is synced already runs no sync, and of what is not exactly one.
#[cfg(feature = "testing")]
#[test]
fn flushing_to_a_position_runs_a_sync_only_where_one_is_missing() {
    use pipkin::storage::{crash::CrashStorage, fault::FaultStorage};
    // A storage in memory promises nothing, so there a sync never counts.
    let medium = FaultStorage::new(CrashStorage::new());
    let db = opened(medium.clone(), SEGMENT);
    let first = db.insert_with_position("a", "1").unwrap();
    db.flush().unwrap();
    let second = db.insert_with_position("b", "2").unwrap();
    let syncs = |position: Position| {
        medium.reset_counts();
        db.flush_to(position).unwrap();
        medium.counts().syncs
    };
    assert_eq!((syncs(first), syncs(second), syncs(second), syncs(first)), (0, 1, 0, 0));
}

/// The segment of a position is compacted: the file cannot tell any more, and says so. What it still has, it tells.
#[test]
fn compaction_makes_positions_unanswerable_not_wrong() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let mut all = Vec::new();
    for round in 0..200_u32 {
        all.push(db.insert_with_position((round % 5).to_le_bytes(), [1; 200]).unwrap());
    }
    let newest = *all.last().unwrap();
    db.compact().unwrap();
    let check = |db: &Db| {
        let states: Vec<_> = all.iter().map(|&position| db.state_of(position)).collect();
        let gone = states.iter().filter(|state| **state == PositionState::Compacted).count();
        assert!(gone > 100, "{states:?}");
        assert!(states.iter().all(|state| matches!(state, PositionState::Compacted | PositionState::Durable)), "{states:?}");
        assert!(all.iter().all(|&position| db.flush_to(position).is_ok()));
    };
    check(&db);
    assert_ne!(db.state_of(newest), PositionState::Unknown);
    db.close().unwrap();
    check(&opened(storage, SEGMENT));
}

/// A closed store is copied, and both files are written on: they go on in one segment under one salt. A position of one of them was a
/// position of the other, too, as soon as that had got as far.
#[test]
fn a_copy_that_was_written_on_does_not_know_the_positions_of_its_sibling() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let common_one = db.insert_with_position("common", "1").unwrap();
    db.close().unwrap();
    let sibling = copy(&storage);
    let stores = [opened(storage, SEGMENT), opened(sibling, SEGMENT)];
    let mut positions = [Vec::new(), Vec::new()];
    for round in 0..60_u32 {
        for (store, positions) in stores.iter().zip(&mut positions) {
            positions.push(match round % 4 {
                0 => store.insert_with_position("key", round.to_le_bytes()).unwrap(),
                1 => store.batch().insert("key", "value").insert("other", "value").commit_with_position().unwrap(),
                2 => store.remove_with_position("key").unwrap().unwrap(),
                _ => {
                    store.insert("plain", "value").unwrap();
                    store.position().unwrap()
                }
            });
        }
    }
    for (own, other) in [(0, 1), (1, 0)] {
        assert_eq!(stores[own].state_of(common_one), PositionState::Durable);
        for &position in &positions[own] {
            assert_ne!(stores[own].state_of(position), PositionState::Unknown);
            assert_eq!(stores[other].state_of(position), PositionState::Unknown, "{position:?}");
            assert!(matches!(stores[other].flush_to(position), Err(Error::UnknownPosition)));
        }
    }
}

/// The same with a session that wrote before anybody asked for a position.
#[test]
fn a_copy_does_not_know_positions_that_were_first_asked_for_after_writes() {
    let storage = MemoryStorage::new();
    opened(storage.clone(), SEGMENT).insert("common", "1").unwrap();
    let (one, other) = (opened(copy(&storage), SEGMENT), opened(copy(&storage), SEGMENT));
    for store in [&one, &other] {
        (0..5_u8).for_each(|n| store.insert([n], "some value").unwrap());
    }
    let position = one.position().unwrap();
    (0..50_u8).for_each(|n| other.insert([n], "some value").unwrap());
    assert_eq!((one.state_of(position), other.state_of(position)), (PositionState::Appended, PositionState::Unknown));
}

/// A backup is restored: it knows what was in it, and nothing that came later.
#[test]
fn a_backup_knows_the_positions_before_it_and_none_after() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let before = db.insert_with_position("a", "1").unwrap();
    let target = MemoryStorage::new();
    db.backup_to_storage(&target).unwrap();
    let after = db.insert_with_position("a", "2").unwrap();
    let restored = opened(target, SEGMENT);
    for _ in 0..20 {
        restored.insert("b", [3; 100]).unwrap();
        assert_eq!((restored.state_of(before), restored.state_of(after)), (PositionState::Durable, PositionState::Unknown));
    }
    assert_eq!(db.state_of(restored.position().unwrap()), PositionState::Unknown);
}

/// The process is killed: what was appended is there, and its positions are.
#[test]
fn after_a_kill_the_positions_of_what_was_found_are_known() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let all: Vec<_> = (0..50_u8).map(|n| db.insert_with_position([n], [n; 90]).unwrap()).collect();
    killed(db);
    let db = opened(storage, SEGMENT);
    assert_eq!(db.len().unwrap(), 50);
    let known = |position: &Position| matches!(db.state_of(*position), PositionState::Appended | PositionState::Durable);
    assert!(all.iter().all(known));
    db.insert("more", "1").unwrap();
    db.flush().unwrap();
    assert!(all.iter().all(|&position| db.state_of(position) == PositionState::Durable));
}

/// Power cuts at every write and sync: a position is known exactly if its commit is there, and durable only if a sync had covered it.
#[cfg(feature = "testing")]
#[test]
fn after_a_power_cut_a_position_is_known_exactly_if_its_commit_is_there() {
    use pipkin::storage::crash::CrashStorage;
    use pipkin::storage::random::Rng;
    let (mut cuts, mut lost, mut kept) = (0, 0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let storage = CrashStorage::new();
        let db = opened(storage.clone(), SEGMENT);
        let mut history = Vec::new();
        let count = 3 + rng.below(40);
        for number in 0..count {
            let position = db.insert_with_position(number.to_le_bytes(), vec![7; rng.below(300) as usize]).unwrap();
            history.push(position);
            if rng.below(6) == 0 {
                db.flush_to(history[rng.below(history.len() as u64) as usize]).unwrap();
            }
        }
        let acknowledged: Vec<_> = history.iter().map(|&position| db.state_of(position) == PositionState::Durable).collect();
        let image = storage.random_image(&mut rng);
        killed(db);
        let storage = CrashStorage::from_image(&image);
        let db = opened(storage, SEGMENT);
        // Whatever is written now, what was lost stays unknown.
        for round in 0..4 {
            for (number, &position) in history.iter().enumerate() {
                let is_there = db.contains_key((number as u64).to_le_bytes()).unwrap();
                let state = db.state_of(position);
                let known = matches!(state, PositionState::Appended | PositionState::Durable);
                assert_eq!(known, is_there, "seed {seed}, round {round}, commit {number}: {state:?}");
                assert!(is_there || !acknowledged[number], "seed {seed}: commit {number} was durable and is lost");
                (lost, kept) = (lost + u32::from(!is_there), kept + u32::from(is_there));
            }
            for _ in 0..5 {
                db.insert("later", vec![1; rng.below(500) as usize]).unwrap();
            }
        }
        cuts += 1;
    }
    println!("{cuts} power cuts, {lost} questions about lost commits, {kept} about others");
    assert!(lost > 1000 && kept > 1000);
}

/// An older state of the file is put back: it knows nothing of what came after it, also once it has been written on.
#[test]
fn a_file_that_was_rolled_back_does_not_know_what_it_lost() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let kept = db.insert_with_position("a", "1").unwrap();
    db.close().unwrap();
    let older = copy(&storage);
    let db = opened(storage, SEGMENT);
    let lost: Vec<_> = (0..30_u8).map(|n| db.insert_with_position([n], "value").unwrap()).collect();
    db.close().unwrap();
    let db = opened(older, SEGMENT);
    for n in 0..60_u8 {
        assert_eq!(db.state_of(kept), PositionState::Durable);
        assert!(lost.iter().all(|&position| db.state_of(position) == PositionState::Unknown), "after {n} writes");
        db.insert([n], "another").unwrap();
    }
}

/// Bytes that nobody has handed out.
#[test]
fn hostile_positions_are_unknown() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let position = db.insert_with_position("a", "1").unwrap().to_bytes();
    for bit in 0..128 {
        let mut other = position;
        other[bit / 8] ^= 1 << (bit % 8);
        let state = db.state_of(Position::from_bytes(other));
        // Without a segment before it, the place may have been compacted; inside of the segment a shorter position is part of the log.
        assert!(bit < 64 || matches!(state, PositionState::Unknown), "bit {bit}: {state:?}");
    }
    for bytes in [[0xff; 16], [0x80; 16]] {
        assert_eq!(db.state_of(Position::from_bytes(bytes)), PositionState::Unknown);
        assert!(matches!(db.flush_to(Position::from_bytes(bytes)), Err(Error::UnknownPosition)));
    }
}

/// A store without records, and one that is read only.
#[test]
fn a_new_store_has_a_position_and_a_read_only_one_too() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let first = db.position().unwrap();
    assert_ne!(db.state_of(first), PositionState::Unknown);
    let second = db.insert_with_position("a", "1").unwrap();
    assert!(first != second && db.state_of(first) != PositionState::Unknown);
    db.close().unwrap();
    let db = Db::builder().read_only(true).open_storage(Box::new(storage)).unwrap();
    assert_eq!((db.position().unwrap(), db.state_of(second)), (second, PositionState::Durable));
    assert!(matches!(db.insert_with_position("b", "2"), Err(Error::ReadOnly)));
}

/// A full medium: the first position of a session needs another segment, and without room for it nothing is written.
#[cfg(feature = "testing")]
#[test]
fn without_room_for_a_segment_no_position_is_handed_out_and_nothing_written() {
    use pipkin::storage::fault::FaultStorage;
    let medium = FaultStorage::new(MemoryStorage::new());
    medium.set_capacity(Some(20 * u64::from(SEGMENT)));
    let db = opened(medium.clone(), SEGMENT);
    let mut count = 0_u32;
    while db.insert(count.to_le_bytes(), [1; 300]).is_ok() {
        count += 1;
    }
    db.close().unwrap();
    let db = opened(medium, SEGMENT);
    db.remove(0_u32.to_le_bytes()).unwrap();
    match db.insert_with_position("more", "1") {
        Err(Error::NoSpace) => assert!(!db.contains_key("more").unwrap()),
        Ok(position) => assert_eq!(db.state_of(position), PositionState::Appended),
        Err(error) => panic!("{error:?}"),
    }
    assert!(!db.is_poisoned());
    for number in 1..count {
        assert!(db.remove(number.to_le_bytes()).unwrap());
    }
    assert!(db.insert_with_position("more", "1").is_ok());
}
