//! Hosts that cannot lock the file: several sessions may have it open.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, Storage, StorageErrorKind};
use pipkin::testing::TestClock;
use pipkin::{Builder, Db, Error};
use std::time::Duration;

/// Where nothing locks the file, a session leaves places alone to which an earlier one may still write: for four sessions. The count began anew
/// as long as the log said anything older of a place, and places of snapshots that were finished were left alone, too: as each extent is
/// twice as long as the one before it, 60 short programs left 16.8 MB.
fn sessions_that_are_forgotten_leave_a_small_file_where_no_host_locks(how: How) {
    // It was 2,098,078: of seven extents, five are of this session and of those before it, two of the snapshot and the one before it.
    let longest = longest_of(how, 60, Duration::from_secs(20));
    assert!(longest < 9 << 18, "{longest} bytes");
    // As many within ten seconds, for which one of them may be asleep: 12,583,828.
    let longest = longest_of(how, 60, Duration::from_millis(100));
    assert!(longest < 13 << 20, "{longest} bytes in a crowd");
}

/// The longest file that so many sessions leave, each so long behind the one before.
fn longest_of(how: How, sessions: u32, apart: Duration) -> u64 {
    let storage = FaultStorage::new(MemoryStorage::new());
    storage.set_shared(true);
    let mut longest = 0;
    let clock = TestClock::new(1_700_000_000_000);
    for session in 0..sessions {
        clock.advance(apart);
        let db = how.builder().clock(clock.clone()).open_storage(Box::new(storage.clone())).unwrap();
        db.insert(format!("key {}", session % 5), "a value").unwrap();
        db.flush().unwrap();
        killed(db);
        longest = longest.max(storage.len().unwrap());
    }
    println!("{longest} bytes of file at most where sessions are {apart:?} apart");
    let db = how.builder().open_storage(Box::new(storage)).unwrap();
    assert_eq!(db.len().unwrap(), 5);
    assert!(db.verify().unwrap().is_ok());
    longest
}

/// Such a host reserves no space, and the list of 100 segments takes two extents and fills a part of the first one: the file ended in front of
/// the second one, and the store never opened again; what was flushed behind a list that no superblock named was lost.
#[test]
fn a_list_of_segments_that_ends_in_front_of_its_last_extent_is_found_again() {
    // How long a list is depends on it.
    let how = How::Plain;
    let mut at_end = 0;
    for filled in 0..24_u8 {
        let (file, clock) = (shared().0, clock());
        let db = opened(how, &file, &clock);
        (0..120_u8).for_each(|key| db.insert([key], [key; 3_000]).unwrap());
        assert!(db.remove([0]).unwrap());
        db.compact().unwrap();
        // Until the snapshot finds a place in front of the list, and the list none.
        (0..filled).for_each(|key| db.insert([200 + key], [key; 3_000]).unwrap());
        db.flush().unwrap();
        let slot = |slot: u64| {
            let mut bytes = [0; 512];
            file.read_at(slot, &mut bytes).unwrap();
            bytes
        };
        let before = [slot(0), slot(4096)];
        db.checkpoint().unwrap();
        db.insert("behind", "the list").unwrap();
        db.flush().unwrap();
        killed(db);
        // One byte of the last extent.
        at_end += u32::from(file.len().unwrap() % 4096 == 1);
        let opens = || {
            let db = opened(how, &file, &clock);
            assert_eq!(db.len().unwrap(), 120 + u64::from(filled));
            assert!(db.verify().unwrap().is_ok());
            killed(db);
        };
        opens();
        // As if it had been killed in front of the superblock that names the list.
        for (at, bytes) in [0, 4096].into_iter().zip(&before) {
            file.write_at(at, &[bytes]).unwrap();
        }
        opens();
    }
    assert!(at_end > 0, "no list was at the end of its file");
}

/// The write that makes the file reach so far may fail, as any other.
fn whichever_write_of_a_checkpoint_fails_what_was_flushed_is_there(how: How) {
    let writes = (0..60).find(|&write| {
        let (file, clock) = (shared().0, clock());
        let db = opened(how, &file, &clock);
        (0..120_u8).for_each(|key| db.insert([key], [key; 3_000]).unwrap());
        db.flush().unwrap();
        file.arm(Fault::from_nth(write, Io::Write, Effect::Error(StorageErrorKind::NoSpace)));
        let written = db.checkpoint();
        killed(db);
        file.disarm();
        let db = opened(how, &file, &clock);
        assert_eq!(db.len().unwrap(), 120, "write {write}: {written:?}");
        assert!(db.verify().unwrap().is_ok());
        written.is_ok()
    });
    assert!(writes.is_some_and(|writes| writes > 3), "{writes:?} writes of a checkpoint");
}

/// Whether the store is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    #[cfg(feature = "encrypt")]
    Sealed,
}

impl How {
    fn builder(self) -> Builder {
        let builder = Db::builder().background(false);
        match self {
            Self::Plain => builder,
            #[cfg(feature = "encrypt")]
            Self::Sealed => builder.encryption_key([7; 32]),
        }
    }
}

/// Each of these tests runs on a plain store, and on a sealed one.
macro_rules! plain_and_sealed {
    ($($name:ident),* $(,)?) => {
        mod plain {
            $(#[test] fn $name() { super::$name(super::How::Plain); })*
        }
        #[cfg(feature = "encrypt")]
        mod sealed {
            $(#[test] fn $name() { super::$name(super::How::Sealed); })*
        }
    };
}

plain_and_sealed!(
    sessions_that_are_forgotten_leave_a_small_file_where_no_host_locks,
    whichever_write_of_a_checkpoint_fails_what_was_flushed_is_there,
    a_session_learns_from_its_next_write_or_flush_that_another_one_has_taken_the_store_over,
    within_a_millisecond_a_session_looks_once_for_others,
    a_session_does_not_begin_to_write_on_what_it_has_not_read,
    of_two_sessions_that_have_read_the_same_the_first_to_write_has_the_store,
    a_session_that_has_only_begun_to_take_the_store_over_fences_the_earlier_one,
    what_comes_late_into_a_slot_is_written_over_and_fences_nobody,
    a_damaged_record_is_damage_unless_another_session_has_the_store,
);

/// Two handles to one file, as two processes have them where nothing locks it.
fn shared() -> (FaultStorage<MemoryStorage>, FaultStorage<MemoryStorage>) {
    let file = MemoryStorage::new();
    let both = [file.clone(), file].map(FaultStorage::new);
    both.iter().for_each(|one| one.set_shared(true));
    let [one, other] = both;
    (one, other)
}

fn opened(how: How, file: &FaultStorage<MemoryStorage>, clock: &TestClock) -> Db {
    how.builder().segment_size(4096).clock(clock.clone()).open_storage(Box::new(file.clone())).unwrap()
}

fn clock() -> TestClock {
    TestClock::new(1_700_000_000_000)
}

fn is_fenced<T: std::fmt::Debug>(result: pipkin::Result<T>) {
    assert!(matches!(result, Err(Error::Fenced)), "{result:?}");
}

fn a_session_learns_from_its_next_write_or_flush_that_another_one_has_taken_the_store_over(how: How) {
    let clock = clock();
    for writes in [false, true] {
        let (one, other) = shared();
        let earlier = opened(how, &one, &clock);
        earlier.insert("by", "the earlier one").unwrap();
        earlier.flush().unwrap();
        let later = opened(how, &other, &clock);
        later.insert("by", "the later one").unwrap();
        // It has slept.
        clock.advance(Duration::from_millis(1));
        if writes {
            is_fenced(earlier.insert("again", "the earlier one"))
        } else {
            is_fenced(earlier.flush())
        }
        assert!(earlier.is_poisoned());
        later.flush().unwrap();
        killed(earlier);
        later.close().unwrap();
        let db = opened(how, &one, &clock);
        assert_eq!((db.get("by").unwrap().as_deref(), db.len().unwrap()), (Some(&b"the later one"[..]), 1));
    }
}

fn within_a_millisecond_a_session_looks_once_for_others(how: How) {
    let (one, _) = shared();
    let clock = clock();
    let db = opened(how, &one, &clock);
    let reads_of = |number: u32| {
        let before = one.counts().reads;
        db.insert(number.to_le_bytes(), "value").unwrap();
        one.counts().reads - before
    };
    reads_of(0);
    assert_eq!((1..20).map(reads_of).sum::<u64>(), 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!((reads_of(20), reads_of(21)), (2, 0), "both slots");
}

fn a_session_does_not_begin_to_write_on_what_it_has_not_read(how: How) {
    for flushed in [false, true] {
        let (one, other) = shared();
        let clock = clock();
        let earlier = opened(how, &one, &clock);
        earlier.insert("first", "value").unwrap();
        earlier.flush().unwrap();
        let later = opened(how, &other, &clock);
        earlier.insert("second", "value").unwrap();
        if flushed {
            earlier.flush().unwrap();
        }
        is_fenced(later.insert("third", "value"));
        killed(later);
        let again = opened(how, &other, &clock);
        assert_eq!(again.len().unwrap(), 2);
        again.insert("third", "value").unwrap();
        again.flush().unwrap();
        is_fenced(earlier.flush());
        killed(earlier);
    }
}

fn of_two_sessions_that_have_read_the_same_the_first_to_write_has_the_store(how: How) {
    for closed in [false, true] {
        let (one, other) = shared();
        let clock = clock();
        let db = opened(how, &one, &clock);
        db.insert("before", "value").unwrap();
        if closed {
            db.close().unwrap();
        } else {
            killed(db);
        }
        let (first, second) = (opened(how, &one, &clock), opened(how, &other, &clock));
        first.insert("first", "value").unwrap();
        is_fenced(second.insert("second", "value"));
        first.flush().unwrap();
        assert_eq!(first.len().unwrap(), 2);
    }
}

/// The later one died after it had put its superblock into one slot: it may have read that it had won.
fn a_session_that_has_only_begun_to_take_the_store_over_fences_the_earlier_one(how: How) {
    for write in 1..=2 {
        let (one, other) = shared();
        let clock = clock();
        let earlier = opened(how, &one, &clock);
        earlier.insert("first", "value").unwrap();
        earlier.flush().unwrap();
        let later = opened(how, &other, &clock);
        other.arm(Fault::from_nth(write, Io::Write, Effect::Error(StorageErrorKind::Other)));
        assert!(later.insert("second", "value").is_err());
        killed(later);
        clock.advance(Duration::from_millis(1));
        // Before its first write it has changed nothing.
        if write == 1 {
            earlier.insert("third", "value").unwrap();
            earlier.flush().unwrap();
        } else {
            is_fenced(earlier.insert("third", "value"));
        }
        killed(earlier);
    }
}

/// A superblock that an earlier session wrote arrives once the later one owns the store; or one slot is being written.
fn what_comes_late_into_a_slot_is_written_over_and_fences_nobody(how: How) {
    for slot in [0_u64, 4096] {
        for is_torn in [false, true] {
            let (one, other) = shared();
            let clock = clock();
            let earlier = opened(how, &one, &clock);
            earlier.insert("first", "value").unwrap();
            earlier.flush().unwrap();
            let mut late = [0; 512];
            one.read_at(slot, &mut late).unwrap();
            killed(earlier);
            let later = opened(how, &other, &clock);
            later.insert("second", "value").unwrap();
            later.flush().unwrap();
            let mut own = [0; 512];
            one.read_at(slot, &mut own).unwrap();
            if is_torn {
                late = own;
                late[40] ^= 1;
            }
            one.write_at(slot, &[&late]).unwrap();
            later.insert("third", "value").unwrap();
            later.flush().unwrap();
            let mut again = [0; 512];
            one.read_at(slot, &mut again).unwrap();
            assert!(again != late, "slot {slot}");
            killed(later);
            assert_eq!(opened(how, &one, &clock).len().unwrap(), 3);
        }
    }
}

/// A reader that meets overwritten bytes is told that the store is another session's, if it is; otherwise they are damage.
fn a_damaged_record_is_damage_unless_another_session_has_the_store(how: How) {
    let (key, value) = ("a key".repeat(40), "its value!".repeat(30));
    for (begins, taken_over) in [(false, false), (false, true), (true, false), (true, true)] {
        let (one, other) = shared();
        let clock = clock();
        let db = opened(how, &one, &clock);
        db.insert(&key, &value).unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
        let db = opened(how, &one, &clock);
        if begins {
            db.insert("another", "value").unwrap();
            db.flush().unwrap();
        }
        if taken_over {
            let later = opened(how, &other, &clock);
            later.insert("later", "value").unwrap();
            later.flush().unwrap();
            killed(later);
        }
        let bytes = one.inner().to_vec();
        // Of a sealed one, head and lengths can be read, 200 and 300 with a tag, and what follows cannot.
        let front: &[u8] = if how == How::Plain { b"a keyits value" } else { &[0x81, 0xc8, 1, 0xbc, 2] };
        let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(front)).collect();
        assert_eq!(places.len(), 1, "{places:?}");
        let at = places[0] + 8;
        one.write_at(at as u64, &[&[bytes[at] ^ 1]]).unwrap();
        let found = db.get(&key);
        if taken_over {
            is_fenced(found);
        } else {
            assert!(matches!(found, Err(Error::Corrupt { .. })), "begun {begins}: {found:?}");
        }
        killed(db);
    }
}
