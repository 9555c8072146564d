//! Changes and consumers under careless callers, on full media, and with positions from elsewhere.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, opened};
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Change, Commit, Consumer, Db, Error, Position};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

const SEGMENT: u32 = 4096;

fn rest(consumer: &mut Consumer) -> Vec<Commit> {
    std::iter::from_fn(|| consumer.try_next().unwrap()).collect()
}

fn cursor(db: &Db) -> Position {
    db.consumers().unwrap()[0].cursor
}

/// Overwrites one key until the medium is full of history.
fn filled() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    medium.set_capacity(Some(40 * u64::from(SEGMENT)));
    let db = Db::builder().segment_size(SEGMENT).background(false).open_storage(Box::new(medium.clone())).unwrap();
    drop(db.consumer("slow").retain(u64::MAX).start().unwrap());
    let full = (0..10_000_u32).find_map(|number| db.insert("key", [number as u8; 300]).err());
    assert!(matches!(full, Some(Error::NoSpace)), "{full:?}");
    (db, medium)
}

/// A consumer without a limit that nobody reads fills the medium: the figures say so, and dropping it gives the space back.
#[test]
fn dropping_a_consumer_gives_a_full_medium_back() {
    let (db, _medium) = filled();
    assert!(db.consumers().unwrap()[0].behind_bytes > 20 * u64::from(SEGMENT));
    assert!(db.remove_consumer("slow").unwrap());
    assert_eq!(db.consumers().unwrap(), []);
    for number in 0..500_u32 {
        db.insert("key", [number as u8; 300]).unwrap();
    }
    assert!(db.stats().unwrap().history_bytes == 0 && db.verify().unwrap().is_ok());
}

/// On a full medium, a consumer that has read everything can say so, and that makes room.
#[test]
fn acknowledging_makes_room_on_a_full_medium() {
    let (db, _medium) = filled();
    let mut slow = db.consumer("slow").start().unwrap();
    db.flush().unwrap();
    let commits = rest(&mut slow);
    assert!(commits.len() > 300);
    slow.ack(commits.last().unwrap().position()).unwrap();
    for number in 0..20_u32 {
        db.insert("key", [number as u8; 300]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(rest(&mut slow).len(), 20);
}

/// A medium that is full again and again, with a consumer that reads and one that does not: nothing is missed, and acknowledging always makes room,
/// over closings and kills.
#[test]
fn a_full_medium_with_consumers_never_gets_stuck() {
    let storage = MemoryStorage::new();
    let (mut written, mut heard) = (0_u32, 0_u32);
    for round in 0..30 {
        let medium = FaultStorage::new(storage.clone());
        medium.set_capacity(Some(40 * u64::from(SEGMENT)));
        let db = Db::builder().segment_size(SEGMENT).background(false).open_storage(Box::new(medium)).unwrap();
        let mut reader = db.consumer("reader").retain(u64::MAX).start().unwrap();
        if round == 0 {
            drop(db.consumer("lame").retain(u64::from(SEGMENT) * 10).start().unwrap());
        }
        for _ in 0..3 {
            let first = written;
            let put = |number: u32| db.insert([number as u8 % 5], [&number.to_le_bytes()[..], &[0; 200]].concat());
            while written - first < 2000 && put(written).is_ok() {
                written += 1;
            }
            assert!(written - first > 20 && written - first < 2000, "round {round}: {} writes", written - first);
            db.flush().unwrap();
            let commits = rest(&mut reader);
            for commit in &commits {
                if let [Change::Put { value, .. }] = commit.changes() {
                    assert_eq!(u32::from_le_bytes(value[..4].try_into().unwrap()), heard, "round {round}");
                    heard += 1;
                }
            }
            assert_eq!(heard, written, "round {round}");
            reader.ack(commits.last().unwrap().position()).unwrap();
        }
        assert!(db.consumers().unwrap().iter().any(|known| known.name == "lame" && known.is_too_far_behind));
        drop(reader);
        if round % 3 == 0 { db.close().unwrap() } else { killed(db) }
    }
    assert!(opened(storage, SEGMENT).verify().unwrap().is_ok());
}

/// Names are bytes of UTF-8, whatever they are; two that share a beginning are two.
#[test]
fn any_name_of_1_to_255_bytes_is_a_consumer_of_its_own() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let long = "ö".repeat(127);
    let names = ["a", "aa", "c", "n", "\0", "\0changes", "\u{10ffff}", "../..", "a\nb", &long];
    for name in names {
        db.consumer(name).start().unwrap();
    }
    for name in ["", &format!("{long}12")] {
        assert!(matches!(db.consumer(name).start(), Err(Error::InvalidArgument(_))));
        assert!(matches!(db.consumer(name).with_state(), Err(Error::InvalidArgument(_))));
        assert!(!db.remove_consumer(name).unwrap());
    }
    db.close().unwrap();
    let db = opened(storage, SEGMENT);
    assert_eq!(db.consumers().unwrap().iter().map(|known| &*known.name).collect::<Vec<_>>(), names);
    let position = db.insert_with_position("key", "1").unwrap();
    db.consumer("a").start().unwrap().ack(position).unwrap();
    for name in names {
        db.flush().unwrap();
        assert_eq!(rest(&mut db.consumer(name).start().unwrap()).len(), usize::from(name != "a"), "{name:?}");
        assert!(db.remove_consumer(name).unwrap());
    }
    assert_eq!(db.consumers().unwrap(), []);
    assert!(db.list_namespaces().is_empty());
}

/// Threads that acknowledge in any order, and one that registers the consumer again and again: its cursor never moves back.
#[test]
fn a_cursor_never_moves_back_whoever_acknowledges() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let consumer = db.consumer("shared").start().unwrap();
    let positions: Vec<Position> = (0..300_u32).map(|n| db.insert_with_position("key", n.to_le_bytes()).unwrap()).collect();
    db.flush().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (consumer, positions) = (&consumer, &positions);
            scope.spawn(move || {
                for &position in positions.iter().skip(first).step_by(3) {
                    consumer.ack(position).unwrap();
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
        }
        let (db, is_over) = (&db, &is_over);
        let again = scope.spawn(move || {
            let mut retain = 1 << 20;
            while !is_over.load(Ordering::SeqCst) {
                retain += 1;
                drop(db.consumer("shared").retain(retain).start().unwrap());
            }
        });
        let mut last = 0;
        while cursor(db) != positions[299] {
            let place = positions.iter().position(|&position| position == cursor(db)).map_or(0, |place| place + 1);
            assert!(place >= last, "from {last} to {place}");
            last = place;
            std::thread::yield_now();
            assert!(!again.is_finished());
        }
        is_over.store(true, Ordering::SeqCst);
    });
    consumer.ack(positions[7]).unwrap();
    consumer.ack(Position::START).unwrap();
    assert_eq!(cursor(&db), positions[299]);
}

/// A position that no commit has moves no cursor: it would begin in the middle of a record.
#[test]
fn only_the_position_of_a_commit_can_be_acknowledged() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let other = opened(MemoryStorage::new(), SEGMENT);
    let consumer = db.consumer("mirror").start().unwrap();
    let before = cursor(&db);
    let first = db.insert_with_position("key", [1; 100]).unwrap();
    let batch = db.batch().insert("one", [1; 50]).insert("two", [1; 50]).commit_with_position().unwrap();
    db.flush().unwrap();
    let elsewhere = other.insert_with_position("key", [1; 100]).unwrap();
    let moved = |position: Position, by: i64| {
        let mut bytes = position.to_bytes();
        let lsn = u64::from_le_bytes(bytes[..8].try_into().unwrap()).wrapping_add_signed(by);
        bytes[..8].copy_from_slice(&lsn.to_le_bytes());
        Position::from_bytes(bytes)
    };
    let between = moved(first, 0).to_bytes();
    let inside = (1..moved_distance(first, batch)).map(|by| moved(first, by)).chain((1..50).map(|by| moved(first, -by)));
    for position in inside.chain([elsewhere, moved(batch, 1 << 40), moved(batch, i64::MAX), moved(batch, 60_000)]) {
        assert!(matches!(consumer.ack(position), Err(Error::UnknownPosition)), "{position:?}");
    }
    assert_eq!(cursor(&db), before);
    consumer.ack(Position::from_bytes(between)).unwrap();
    consumer.ack(batch).unwrap();
    assert_eq!(cursor(&db), batch);
    assert!(db.remove_consumer("mirror").unwrap());
    assert!(matches!(consumer.ack(batch), Err(Error::InvalidArgument(_))));
    assert!(db.consumer("mirror").start().unwrap().try_next().unwrap().is_none());
}

fn moved_distance(from: Position, to: Position) -> i64 {
    let lsn = |position: Position| i64::from_le_bytes(position.to_bytes()[..8].try_into().unwrap());
    lsn(to) - lsn(from)
}

/// What was written after a backup is unknown to the store that is restored from it, and its consumer is where it was then.
#[test]
fn positions_from_after_a_backup_are_unknown_to_what_it_restores() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut mirror = db.consumer("mirror").start().unwrap();
    let first = db.insert_with_position("key", "1").unwrap();
    mirror.ack(first).unwrap();
    let target = MemoryStorage::new();
    db.backup_to_storage(&target).unwrap();
    let told: Vec<Position> = (0..100_u32).map(|n| db.insert_with_position("key", n.to_le_bytes()).unwrap()).collect();
    db.flush().unwrap();
    mirror.ack(*told.last().unwrap()).unwrap();
    assert!(mirror.try_next().unwrap().is_some());

    let restored = opened(target, SEGMENT);
    assert_eq!(cursor(&restored), first);
    let mut again = restored.consumer("mirror").start().unwrap();
    assert_eq!(rest(&mut again), []);
    for _ in 0..2 {
        for &position in &told {
            let answer = restored.changes().from(position).start();
            assert!(matches!(answer, Err(Error::UnknownPosition)), "{answer:?}");
            assert!(matches!(again.ack(position), Err(Error::UnknownPosition)));
        }
        // Then as long as the other one.
        (0..200_u32).for_each(|n| restored.insert("other", n.to_le_bytes()).unwrap());
        restored.flush().unwrap();
    }
    assert_eq!(rest(&mut again).len(), 400);
}

/// A commit that fails half way is handed out by nobody, before and after opening the store again.
#[test]
fn half_of_a_commit_is_never_handed_out() {
    for nth in 1..40 {
        let storage = MemoryStorage::new();
        let medium = FaultStorage::new(storage.clone());
        let db = Db::builder().segment_size(SEGMENT).background(false).open_storage(Box::new(medium.clone())).unwrap();
        let mut early = db.changes().appended(true).start().unwrap();
        let mut late = db.changes().start().unwrap();
        let start = late.position();
        db.insert("first", "1").unwrap();
        db.flush().unwrap();
        medium.arm(Fault::from_nth(nth, Io::Write, Effect::Torn { bytes: 200 }));
        let mut batch = db.batch();
        for key in 0..60_u32 {
            batch = batch.insert(key.to_le_bytes(), [1; 300]);
        }
        let is_written = batch.commit().is_ok();
        medium.disarm();
        let whole = |commits: &[Commit]| commits.iter().map(|commit| commit.changes().len()).collect::<Vec<_>>();
        let mut heard = Vec::new();
        while let Ok(Some(commit)) = early.try_next() {
            heard.push(commit);
        }
        assert_eq!(whole(&heard), if is_written { vec![1, 60] } else { vec![1] }, "write {nth}");
        assert_eq!(late.try_next().unwrap().unwrap().changes().len(), 1);
        std::mem::forget(db);
        let db = opened(MemoryStorage::from_vec(storage.to_vec()), SEGMENT);
        let again = whole(&db.changes().from(start).appended(true).start().unwrap().drain().unwrap());
        assert!(again == [1, 60] || again == [1] && !is_written, "write {nth}: {again:?}");
        db.insert("last", "1").unwrap();
        db.flush().unwrap();
        let after = whole(&db.changes().from(start).start().unwrap().drain().unwrap());
        assert_eq!(after, [&again[..], &[1]].concat());
    }
}

/// A callback that panics ends its own thread and nothing else.
#[test]
fn a_callback_that_panics_ends_alone() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let watching = db.changes().spawn(|_| panic!("on purpose")).unwrap();
    let mut changes = db.changes().start().unwrap();
    for round in 0..5_u32 {
        db.insert("key", round.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    drop(watching);
    assert_eq!(changes.drain().unwrap().len(), 5);
    drop(changes);
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().readers_of_changes, 0);
    db.close().unwrap();
}

/// A callback may call anything, even what ends it.
#[test]
fn a_callback_may_call_back_into_the_store() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let (sender, receiver) = mpsc::channel();
    let own = Arc::new(Mutex::new(None));
    let (store, mine) = (db.clone(), own.clone());
    let watching = db.watch("key").spawn(move |commit| {
        commit.unwrap();
        store.flush().unwrap();
        store.compact().unwrap();
        store.update("count", |old| Some(vec![old.map_or(1, |old| old[0] + 1)])).unwrap();
        let mut mirror = store.consumer("mirror").start().unwrap();
        mirror.try_next().unwrap();
        mirror.ack(mirror.position()).unwrap();
        store.backup_to_storage(&MemoryStorage::new()).unwrap();
        if store.get("count").unwrap().unwrap()[..] == [3] {
            store.remove_consumer("mirror").unwrap();
            drop(mine.lock().unwrap().take());
        }
        sender.send(()).unwrap();
    });
    *own.lock().unwrap() = Some(watching.unwrap());
    for _ in 0..3 {
        db.insert("key", "1").unwrap();
        db.flush().unwrap();
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    assert!(receiver.recv_timeout(Duration::from_secs(60)).is_err(), "it has dropped what calls it");
    // Closing from there ends it, too.
    let (sender, receiver) = mpsc::channel();
    let store = Mutex::new(Some(db.clone()));
    let watching = db.watch("key").spawn(move |commit| {
        commit.unwrap();
        let store = store.lock().unwrap().take().unwrap();
        sender.send(store.close()).unwrap();
    });
    db.insert("key", "1").unwrap();
    db.flush().unwrap();
    receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    drop(watching);
    assert!(matches!(db.insert("key", "1"), Err(Error::Closed)));
}

/// A wait without an end is one.
#[test]
fn the_longest_timeout_is_no_overflow() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    let mut consumer = db.consumer("mirror").start().unwrap();
    let writer = db.clone();
    let write = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        writer.insert("key", "1").unwrap();
        writer.flush().unwrap();
    });
    assert!(changes.next_timeout(Duration::MAX).unwrap().is_some());
    assert!(consumer.next_timeout(Duration::MAX).unwrap().is_some());
    write.join().unwrap();
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(60)),
        }
    }
}

type Next = dyn FnMut(&mut Context<'_>) -> Poll<Option<pipkin::Result<Commit>>> + Send;

/// Tasks hear what threads hear: no commit is missed between two polls, and the end of the store is theirs, too.
#[test]
fn tasks_hear_every_commit_and_end_with_the_store() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let (mut late, mut early) = (db.changes().start().unwrap(), db.changes().appended(true).start().unwrap());
    let mut mirror = db.consumer("mirror").start().unwrap();
    let count = |mut next: Box<Next>| {
        std::thread::spawn(move || {
            block_on(async {
                let mut heard = 0;
                while let Some(commit) = poll_fn(&mut next).await {
                    heard += commit.unwrap().changes().len();
                }
                heard
            })
        })
    };
    let started = std::time::Instant::now();
    let tasks = [
        count(Box::new(move |cx| late.poll_next(cx))),
        count(Box::new(move |cx| early.poll_next(cx))),
        count(Box::new(move |cx| mirror.poll_next(cx))),
    ];
    for number in 0..2000_u32 {
        db.insert("key", number.to_le_bytes()).unwrap();
        if number % 7 == 0 {
            db.flush().unwrap();
            std::thread::yield_now();
        }
    }
    std::thread::sleep(Duration::from_millis(20));
    db.insert("last", "1").unwrap();
    db.close().unwrap();
    assert_eq!(tasks.map(|task| task.join().unwrap()), [2001; 3]);
    assert!(started.elapsed() < Duration::from_secs(50), "a task was woken by the clock");
}

/// A reader that is dropped while it waits is forgotten with its task.
#[test]
fn a_dropped_reader_wakes_nobody() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    struct Count(std::sync::atomic::AtomicU32);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let woken = Arc::new(Count(0.into()));
    let waker = woken.clone().into();
    for _ in 0..3 {
        assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_pending());
    }
    let put = || db.insert("key", "1").and_then(|()| db.flush()).unwrap();
    put();
    put();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "once for all that it has not polled");
    assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_ready());
    assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_ready());
    assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_pending());
    drop(changes);
    put();
    assert_eq!((woken.0.load(Ordering::SeqCst), Arc::strong_count(&woken)), (1, 2));
}

/// A consumer that nobody reads holds what its limit says, and no write finds the medium full for it.
#[test]
fn a_consumer_beyond_its_limit_makes_way_for_writes() {
    for len in [300, 6000] {
        let medium = FaultStorage::new(MemoryStorage::new());
        medium.set_capacity(Some(40 * u64::from(SEGMENT)));
        let db = Db::builder().segment_size(SEGMENT).background(false).open_storage(Box::new(medium.clone())).unwrap();
        let mut slow = db.consumer("slow").retain(10 * u64::from(SEGMENT)).start().unwrap();
        for number in 0..1000_u32 {
            db.insert("key", vec![number as u8; len]).unwrap_or_else(|error| panic!("write {number} of {len} bytes: {error}"));
        }
        db.flush().unwrap();
        assert!(matches!(slow.try_next(), Err(Error::Compacted { .. })));
    }
}

/// A reader that has handed out everything takes no memory for it, however many others there are; and each that goes is forgotten.
#[test]
fn readers_say_what_they_keep_and_thousands_of_them_come_and_go() {
    let db = Db::open_in_memory().unwrap();
    let start = db.position().unwrap();
    (0..3000_u32).for_each(|number| db.insert(number.to_le_bytes(), [7; 20]).unwrap());
    db.insert("long", vec![7; 1 << 20]).unwrap();
    db.flush().unwrap();
    let mut changes = db.changes().from(start).start().unwrap();
    assert_eq!((changes.has_read_ahead(), changes.memory_bytes()), (false, 0));
    let (mut heard, mut most) = (0, 0);
    while changes.try_next().unwrap().is_some() {
        heard += 1;
        most = most.max(changes.memory_bytes());
    }
    assert_eq!(heard, 3001);
    assert!((1 << 20..3 << 20).contains(&most), "{most}");
    assert!(!changes.has_read_ahead() && changes.memory_bytes() < 100, "{}", changes.memory_bytes());
    let mut others: Vec<_> = (0..20_000).map(|_| db.changes().start().unwrap()).collect();
    // In an order that is neither theirs nor its reverse.
    for n in 0..others.len() - 1 {
        drop(others.swap_remove(n * 7919 % others.len()));
    }
    assert_eq!(db.stats().unwrap().readers_of_changes, 2);
    let last = others.pop().unwrap();
    drop(changes);
    assert_eq!(db.stats().unwrap().readers_of_changes, 1);
    drop(last);
    assert_eq!(db.stats().unwrap().readers_of_changes, 0);
}

/// Those that are gone hold nothing, and take nothing from the one that is still there.
#[test]
fn a_reader_misses_nothing_while_others_come_go_and_are_ahead() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut all: Vec<_> = (0..60).map(|_| db.changes().start().unwrap()).collect();
    let mut slow = all.remove(29);
    let mut expected = Vec::new();
    for round in 0..200_u32 {
        for key in 0..5_u32 {
            db.insert(key.to_le_bytes(), [&round.to_le_bytes()[..], &[7; 100]].concat()).unwrap();
            expected.push((key, round));
        }
        db.flush().unwrap();
        if !all.is_empty() {
            drop(all.swap_remove(round as usize * 31 % all.len()));
        }
        all.iter_mut().step_by(7).for_each(|reader| drop(reader.drain().unwrap()));
        if round % 10 == 0 {
            drop(db.changes().start().unwrap());
            db.compact().unwrap();
        }
    }
    assert_eq!(db.stats().unwrap().readers_of_changes, 1);
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let heard: Vec<_> = slow
        .drain()
        .unwrap()
        .iter()
        .map(|commit| match commit.changes() {
            [Change::Put { key, value, .. }] => (number(key), number(value)),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(heard, expected);
    drop(slow);
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().history_bytes, 0);
}
