//! Readers beside a writer: they see what it appends, never write, and say what is gone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Builder, Db, Error};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn writer(file: &MemoryStorage) -> Db {
    small().open_storage(Box::new(file.clone())).unwrap()
}

fn lsn(position: pipkin::Position) -> u64 {
    u64::from_le_bytes(*position.to_bytes().first_chunk().unwrap())
}

fn small() -> Builder {
    Db::builder().segment_size(4096).auto_compact_dead_share(2.0)
}

fn follower(file: &MemoryStorage) -> Db {
    Db::builder().ordered(true).follow(true).open_storage(Box::new(file.clone())).unwrap()
}

#[test]
fn every_verb_of_a_follower_reads_what_the_writer_has_appended() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    let reader = follower(&file);
    let mut position = reader.position().unwrap();
    for round in 0..40_u32 {
        for key in 0..50_u32 {
            db.insert(key.to_be_bytes(), (round * 1000 + key).to_string()).unwrap();
        }
        db.remove((round % 50).to_be_bytes()).unwrap();
        let users = db.namespace("users").unwrap();
        users.insert(round.to_be_bytes(), "there").unwrap();
        if round % 7 == 6 {
            users.clear().unwrap();
        }
        if round % 5 == 4 {
            db.compact().unwrap();
        }
        if round % 11 == 10 {
            db.checkpoint().unwrap();
        }
        assert!(reader.refresh().unwrap());
        assert!(!reader.refresh().unwrap());
        let now = reader.position().unwrap();
        assert!(lsn(now) > lsn(position));
        assert_ne!(db.state_of(now), pipkin::PositionState::Unknown);
        assert_ne!(reader.state_of(db.position().unwrap()), pipkin::PositionState::Unknown);
        position = now;
        let sorted = |db: &Db| {
            let mut all: Vec<_> = db.iter().map(Result::unwrap).collect();
            all.sort();
            all
        };
        let all = sorted(&db);
        assert_eq!(sorted(&reader), all, "round {round}");
        assert_eq!(reader.len().unwrap(), db.len().unwrap());
        let range: Vec<_> = reader.range(..).unwrap().map(Result::unwrap).collect();
        assert_eq!(range, all);
        let mut paged = Vec::new();
        let mut cursor = Some(pipkin::Cursor::default());
        while let Some(from) = cursor {
            cursor = reader
                .page(from, |key, value| {
                    paged.push((key.to_vec(), value.to_vec()));
                    paged.len() % 7 != 0
                })
                .unwrap();
        }
        paged.sort();
        assert_eq!(paged, all);
        for key in 0..50_u32 {
            assert_eq!(reader.get(key.to_be_bytes()).unwrap(), db.get(key.to_be_bytes()).unwrap());
        }
        let theirs = reader.namespace("users").unwrap();
        assert_eq!(theirs.len().unwrap(), users.len().unwrap());
        assert_eq!(reader.list_namespaces(), db.list_namespaces());
        assert_eq!(reader.stats().unwrap().records, db.stats().unwrap().records);
    }
    // A follower that looks after each round reads the store again only where a cleared namespace was compacted in the same round.
    assert!(reader.stats().unwrap().rebuilds <= 2);
}

#[test]
fn a_follower_finds_what_a_session_begins_behind_a_crash_however_often_it_has_looked_before() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("first", "1").unwrap();
    db.close().unwrap();
    let reader = follower(&file);
    // It appends to the segment that the first session has left.
    let second = writer(&file);
    second.insert("second", "2").unwrap();
    for _ in 0..100 {
        reader.refresh().unwrap();
    }
    assert_eq!(reader.get("second").unwrap().as_deref(), Some(&b"2"[..]));
    std::mem::forget(second);
    let third = writer(&file);
    for _ in 0..100 {
        assert!(!reader.refresh().unwrap());
    }
    third.insert("third", "3").unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("third").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(reader.stats().unwrap().rebuilds, 0);
}

#[test]
fn a_follower_that_comes_late_reads_the_whole_store_again() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("stays", "here").unwrap();
    let (reader, idle) = (follower(&file), follower(&file));
    for round in 0..200_u32 {
        for key in 0..50_u32 {
            db.insert(key.to_be_bytes(), round.to_string()).unwrap();
        }
        db.compact().unwrap();
        db.checkpoint().unwrap();
    }
    assert!(reader.refresh().unwrap());
    assert!(reader.stats().unwrap().rebuilds > 0);
    assert_eq!(reader.len().unwrap(), 51);
    assert_eq!(reader.get(7_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"199"[..]));
    // A read that meets reused space refreshes by itself.
    assert_eq!(idle.get("stays").unwrap().as_deref(), Some(&b"here"[..]));
    assert_eq!(idle.iter().count(), 51);
}

#[test]
fn a_snapshot_of_a_follower_shows_its_moment_or_says_that_it_is_too_old() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    for key in 0..100_u32 {
        db.insert(key.to_be_bytes(), "old").unwrap();
    }
    let reader = follower(&file);
    let snapshot = reader.snapshot();
    for key in 0..50_u32 {
        db.insert(key.to_be_bytes(), "new").unwrap();
    }
    db.insert("more", "new").unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.get(3_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(snapshot.get(3_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!((snapshot.len().unwrap(), snapshot.iter().count()), (100, 100));
    assert_eq!(snapshot.get("more").unwrap(), None);
    for _ in 0..20 {
        for key in 0..100_u32 {
            db.insert(key.to_be_bytes(), "newer").unwrap();
        }
        db.compact().unwrap();
        reader.refresh().unwrap();
    }
    let answers = [snapshot.get(3_u32.to_be_bytes()).map(drop), snapshot.len().map(drop)];
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::SnapshotTooOld))), "{answers:?}");
}

#[test]
fn a_copy_that_compaction_makes_is_not_taken_for_older_than_a_snapshot() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    for key in 0..20_u32 {
        db.insert(key.to_be_bytes(), vec![1; 100]).unwrap();
    }
    let reader = follower(&file);
    let snapshot = reader.snapshot();
    for key in 20..40_u32 {
        db.insert(key.to_be_bytes(), vec![2; 100]).unwrap();
        db.insert("dead", vec![3; 500]).unwrap();
    }
    db.checkpoint().unwrap();
    db.compact().unwrap();
    reader.refresh().unwrap();
    match snapshot.get(30_u32.to_be_bytes()) {
        Ok(None) | Err(Error::SnapshotTooOld) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_follower_never_writes_and_never_locks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.pipkin");
    let open = || Db::builder().path(&path).follow(true).open();
    assert!(matches!(open(), Err(Error::NotFound { .. })));
    let db = Db::open(&path).unwrap();
    db.insert("color", "green").unwrap();
    let readers = [open().unwrap(), open().unwrap()];
    // In whatever order it was asked for.
    let last = Db::builder().path(&path).follow(true).read_only(false).open().unwrap();
    assert!(matches!(last.insert("color", "red"), Err(Error::ReadOnly)));
    for reader in &readers {
        assert!(matches!(reader.insert("color", "red"), Err(Error::ReadOnly)));
        assert!(matches!(reader.remove("color"), Err(Error::ReadOnly)));
        assert!(matches!(reader.flush(), Err(Error::ReadOnly)));
        assert!(matches!(reader.compact(), Err(Error::ReadOnly)));
        assert!(matches!(reader.namespace("new"), Err(Error::ReadOnly)));
        assert!(matches!(reader.verify(), Err(Error::InvalidArgument(_))));
        assert!(matches!(reader.backup_to(folder.path().join("copy")), Err(Error::InvalidArgument(_))));
        assert!(reader.stats().unwrap().follows);
    }
    assert!(matches!(db.refresh(), Err(Error::InvalidArgument(_))));
    db.close().unwrap();
    let db = Db::builder().path(&path).follow(true).follow(false).open().unwrap();
    db.insert("color", "green").unwrap();
    db.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let db = Db::open(&path).unwrap();
    db.insert("color", "blue").unwrap();
    for reader in &readers {
        reader.refresh().unwrap();
        assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"blue"[..]));
    }
    drop(db);
    drop(readers);
    assert_ne!(before, std::fs::read(&path).unwrap());
}

#[test]
fn a_file_that_was_set_back_or_replaced_is_refused() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("a", "1").unwrap();
    db.close().unwrap();
    let earlier = file.to_vec();
    let db = writer(&file);
    (0..100_u32).for_each(|key| db.insert(key.to_be_bytes(), vec![0; 100]).map(drop).unwrap());
    let reader = follower(&file);
    drop(db);
    file.set_len(0).unwrap();
    file.write_at(0, &[&earlier]).unwrap();
    let answer = reader.refresh();
    assert!(matches!(answer, Err(Error::Diverged)), "{answer:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.pipkin");
    Db::open(&path).unwrap().insert("a", "1").unwrap();
    let reader = Db::builder().path(&path).follow(true).open().unwrap();
    std::fs::rename(&path, folder.path().join("other")).unwrap();
    assert!(matches!(reader.refresh(), Err(Error::Storage(_))));
    assert_eq!(reader.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn changes_reach_who_reads_them_of_a_follower_once_they_are_durable() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("a", "1").unwrap();
    let reader = follower(&file);
    let mut changes = reader.changes().start().unwrap();
    let mut heard = Vec::new();
    for round in 0..30_u32 {
        db.insert(round.to_be_bytes(), vec![7; 400]).unwrap();
        db.flush().unwrap();
        if round % 10 == 9 {
            db.checkpoint().unwrap();
        }
        while let Some(commit) = changes.try_next().unwrap() {
            heard.extend(commit.changes().iter().filter_map(|change| change.key().map(<[u8]>::to_vec)));
        }
    }
    let expected: Vec<Vec<u8>> = (0..30_u32).map(|round| round.to_be_bytes().to_vec()).collect();
    assert_eq!(heard, expected);
    for _ in 0..100_u32 {
        (0..30_u32).for_each(|key| db.insert(key.to_be_bytes(), vec![8; 400]).unwrap());
        db.compact().unwrap();
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
    assert!(matches!(changes.try_next(), Err(Error::Compacted { .. })));
}

#[test]
fn what_a_close_makes_durable_is_heard() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    let reader = follower(&file);
    let mut changes = reader.changes().start().unwrap();
    db.insert("a", "1").unwrap();
    db.close().unwrap();
    let commit = changes.next_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(commit.map(|commit| commit.changes().len()), Some(1));
    assert!(changes.next_timeout(std::time::Duration::from_millis(3)).unwrap().is_none());
}

/// The session after a clean close goes on in the last segment. Who followed before that hears of it, and has read to the writer's own position.
#[test]
fn a_follower_that_began_at_a_clean_end_goes_on_with_the_next_sessions() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("a", "0").unwrap();
    db.close().unwrap();
    let reader = follower(&file);
    let mut changes = reader.changes().appended(true).start().unwrap();
    for session in 1..40_u32 {
        let db = writer(&file);
        db.insert("a", session.to_string()).unwrap();
        db.insert(session.to_be_bytes(), vec![7; 200]).unwrap();
        let heard = [changes.try_next().unwrap(), changes.try_next().unwrap()];
        assert!(
            heard.iter().all(|commit| commit.as_ref().is_some_and(|commit| commit.changes().len() == 1)),
            "session {session}"
        );
        if session % 5 == 0 {
            // Asking the writer makes it begin a segment of its own.
            let end = db.position().unwrap();
            reader.refresh().unwrap();
            assert_eq!(reader.position().unwrap(), end);
        }
        db.close().unwrap();
    }
    // Far behind, it reads the whole store again, and finds in it what it has shown.
    let db = writer(&file);
    for round in 0..60_u32 {
        (0..30_u32).for_each(|key| db.insert(key.to_be_bytes(), vec![round as u8; 400]).unwrap());
        db.compact().unwrap();
        db.checkpoint().unwrap();
    }
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.stats().unwrap().rebuilds, 1);
    assert_eq!(reader.get("a").unwrap().as_deref(), Some(&b"39"[..]));
}

/// Threads read while the writer uses the space again and others refresh: each answer is a value of its key, and none older than the one before.
#[test]
fn reads_of_many_threads_meet_reused_space_and_answer_right() {
    const KEYS: u32 = 40;
    let file = MemoryStorage::new();
    let db = writer(&file);
    let value = |key: u32, round: u32| [key.to_be_bytes(), round.to_be_bytes()].concat().repeat(20);
    let write = |round: u32| (0..KEYS).for_each(|key| db.insert(key.to_be_bytes(), value(key, round)).unwrap());
    write(0);
    let reader = follower(&file);
    let stop = AtomicBool::new(false);
    let look = |begin: u32| {
        let mut last = BTreeMap::new();
        let mut answers = 0_u32;
        for turn in begin.. {
            let key = turn % KEYS;
            let found = match (turn / KEYS) % 3 {
                0 => reader.get(key.to_be_bytes()),
                1 => reader.get_many([key.to_be_bytes()]).map(|found| found.into_iter().next().unwrap()),
                _ => reader
                    .iter()
                    .find_map(|record| match record {
                        Ok((found, value)) => (*found == key.to_be_bytes()).then_some(Ok(value)),
                        Err(error) => Some(Err(error)),
                    })
                    .transpose(),
            };
            match found {
                Ok(Some(found)) => {
                    let round = u32::from_be_bytes(*found.get(4..).and_then(<[u8]>::first_chunk).unwrap());
                    let before = last.insert(key, round).unwrap_or(0);
                    assert!(found == value(key, round) && round >= before, "key {key}: {found:?} after {before}");
                    answers += 1;
                }
                Ok(None) => panic!("key {key} is not there"),
                // The writer is faster than the whole store can be read: said.
                Err(Error::Overtaken) => {}
                Err(error) => panic!("key {key}: {error:?}"),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        answers
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|number| scope.spawn(move || look(number * 7))).collect();
        let begun = Instant::now();
        for round in (1..).take_while(|_| begun.elapsed() < Duration::from_secs(2)) {
            write(round);
            db.compact().unwrap();
            db.checkpoint().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let answers: Vec<u32> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert!(answers.iter().all(|&answers| answers > 0), "{answers:?}");
    });
    assert!(reader.stats().unwrap().rebuilds > 0, "{:?}", reader.stats());
}

/// Its place in the log is gone, and it had read everything in front of it. Only where a compaction has moved the log twice, to shorten the file,
/// nobody can tell.
#[test]
fn a_reader_of_changes_that_has_read_everything_goes_on_behind_a_compaction() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    let reader = follower(&file);
    let mut changes = reader.changes().start().unwrap();
    let mut late = reader.changes().start().unwrap();
    let mut told_so = 0;
    for round in 0..60_u32 {
        (0..30_u32).for_each(|key| db.insert(key.to_be_bytes(), [round as u8; 200]).unwrap());
        db.flush().unwrap();
        assert_eq!(changes.drain().unwrap().len(), 30, "round {round}");
        let rebuilds = reader.stats().unwrap().rebuilds;
        db.compact().unwrap();
        reader.refresh().unwrap();
        db.insert("later", [round as u8; 100]).unwrap();
        db.flush().unwrap();
        match changes.drain() {
            Ok(heard) => assert_eq!(heard.len(), 1, "round {round}"),
            Err(Error::Compacted { .. }) if reader.stats().unwrap().rebuilds > rebuilds => {
                told_so += 1;
                changes = reader.changes().start().unwrap();
            }
            Err(error) => panic!("round {round}: {error:?}"),
        }
    }
    assert!(reader.stats().unwrap().rebuilds > 20, "its place was seldom gone");
    assert!(told_so < 40, "{told_so} times of 60");
    assert!(matches!(late.drain(), Err(Error::Compacted { .. })));
}

/// What was written and compacted between two looks can be read for as long as its space is not used again.
#[test]
fn what_was_compacted_before_a_reader_of_changes_looked_is_read_where_it_still_stands() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    let reader = follower(&file);
    let mut changes = reader.changes().start().unwrap();
    for round in 0..3_u8 {
        (0..5_u32).for_each(|key| db.insert(key.to_be_bytes(), [round; 100]).unwrap());
        assert!(db.compact().unwrap().segments_retired > 0 || round == 0);
        assert_eq!(changes.drain().unwrap().len(), 5, "round {round}");
    }
    for _ in 0..20 {
        db.insert("a", [0; 3000]).unwrap();
        db.compact().unwrap();
    }
    assert!(matches!(changes.drain(), Err(Error::Compacted { .. })));
}
