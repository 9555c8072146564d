//! Which runs of earlier sessions a session leaves alone.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;

const NOW: u64 = 1_000_000;

/// What a session that begins now leaves alone of these.
fn left(claims: &[Barred]) -> Vec<Barred> {
    let db = Db::builder().segment_size(4096).background(false).in_memory().unwrap();
    let claims = claims.iter().map(|&run| (run, 0)).collect();
    db.store().engine.log.remembered(&Standing { claims, ..Standing::default() }, NOW)
}

#[test]
fn a_run_is_left_alone_for_four_sessions_and_for_as_long_as_its_session_may_sleep() {
    let run = |sessions, since| Barred { extent: 8, extents: 1, sessions, since };
    assert_eq!(left(&[run(0, 7)]), [run(1, NOW)], "its time begins with the first session behind it");
    let cases = [
        ("the fourth session, at an unknown time", 3, 0, true),
        ("the fifth", 4, 0, false),
        ("the fifth within ten seconds", 4, NOW - 9_999, true),
        ("the fifth behind them", 4, NOW - 10_000, false),
        ("the fifth, after the clock was set back", 4, NOW + 5, true),
        ("the last of a crowd", 62, NOW - 1, true),
        ("the one behind it", 63, NOW - 1, false),
    ];
    for (what, sessions, since, is_left) in cases {
        let expected: Vec<Barred> = is_left.then(|| run(sessions + 1, since)).into_iter().collect();
        assert_eq!(left(&[run(sessions, since)]), expected, "{what}");
    }
}

/// Of sessions that may sleep those that began last come first, and the others once there is no room.
#[test]
fn no_more_than_two_megabytes_are_left_to_sessions_that_may_sleep() {
    let run = |sessions, bytes: u32| Barred { extent: 8, extents: bytes / 4096, sessions, since: NOW };
    let (half, all) = (1 << 20, 2 << 20);
    assert_eq!(left(&[run(10, half), run(5, half)]), [run(6, half), run(11, half)]);
    assert_eq!(left(&[run(10, 4096), run(5, all)]), [run(6, all)]);
    assert_eq!(left(&[run(5, 4096), run(2, all + 4096)]), [run(3, all + 4096)], "of the last four sessions all");
}

#[cfg(all(feature = "testing", feature = "shared-files"))]
mod shared {
    use super::*;
    use crate::storage::fault::FaultStorage;
    use crate::storage::{MemoryStorage, Storage};
    use alloc::boxed::Box;

    /// A session that has begun to write to a file that nobody locks.
    fn begun() -> (Db, FaultStorage<MemoryStorage>) {
        let file = FaultStorage::new(MemoryStorage::new());
        file.set_shared(true);
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
        let db = builder.open_storage(Box::new(file.clone())).unwrap();
        db.insert("a", "value").unwrap();
        (db, file)
    }

    /// A superblock of the session before this one, as it comes late.
    fn late(log: &Log, slot: SuperblockSlot) -> [u8; SECTOR] {
        let current = log.superblock();
        Superblock { generation: current.generation - STEP - 1, session: current.session - 1, ..current }.encode(slot)
    }

    #[test]
    fn other_bytes_in_a_slot_come_late_unless_their_generation_or_session_is_a_later_one() {
        let (db, file) = begun();
        let log = &db.store().engine.log;
        let (fence, current, own) = (log.fence().unwrap(), log.superblock(), read_slots(&file).unwrap());
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            let seen = |bytes: &[u8; SECTOR]| {
                file.write_at(slot.offset(), &[bytes]).unwrap();
                file.reset_counts();
                let seen = log.see(fence, &current).unwrap();
                let reads = file.counts().reads;
                file.write_at(slot.offset(), &[own.of(slot)]).unwrap();
                (seen, reads)
            };
            // No other superblock has said so many headers.
            let headers = current.headers + 100;
            let with = |generation, session| seen(&Superblock { generation, session, headers, ..current }.encode(slot)).0;
            let (generation, session) = (current.generation, current.session);
            assert_eq!(seen(own.of(slot)), (Seen::Own, 2));
            for earlier in [1, session - 1, session] {
                assert_eq!(with(generation - STEP - 1, earlier), Seen::Late(slot), "of session {earlier}");
            }
            assert_eq!(with(generation - STEP - 1, session + 1), Seen::Fenced);
            assert_eq!([STEP, STEP - 1, 0].map(|less| with(generation - less, session)), [Seen::Fenced; 3]);
            assert_eq!(with(generation + 1, 1), Seen::Fenced);
            // Half written: read again until it is taken for a write that came late.
            let mut torn = *own.of(slot);
            torn[300] ^= 1;
            let before = u64::from(slot == SuperblockSlot::B);
            assert_eq!(seen(&torn), (Seen::Late(slot), before + READS_MAX as u64));
        }
        log.look().unwrap();
    }

    #[test]
    fn a_late_superblock_is_written_over_in_its_slot_and_the_other_one_stays() {
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            let (db, file) = begun();
            let log = &db.store().engine.log;
            let (before, own) = (log.superblock(), read_slots(&file).unwrap());
            file.write_at(slot.offset(), &[&late(log, slot)]).unwrap();
            log.look().unwrap();
            let expected = Superblock { generation: before.generation + STEP, ..before };
            let now = read_slots(&file).unwrap();
            assert_eq!((log.superblock(), now.of(slot)), (expected, &expected.encode(slot)));
            assert_eq!(now.of(slot.other()), own.of(slot.other()));
        }
    }

    #[test]
    fn who_writes_late_again_and_again_is_taken_for_a_living_session() {
        for (times, is_fenced) in [(REPAIRS_MAX - 1, false), (REPAIRS_MAX, true)] {
            let (db, file) = begun();
            let log = &db.store().engine.log;
            let late = late(log, SuperblockSlot::A);
            let again = move |file: &MemoryStorage| file.write_at(0, &[&late]).unwrap();
            again(file.inner());
            let (left, inner) = (AtomicU64::new(times as u64 - 1), file.inner().clone());
            file.before_sync(move || {
                if left.load(Ordering::Relaxed) > 0 {
                    left.fetch_sub(1, Ordering::Relaxed);
                    again(&inner);
                }
            });
            let looked = log.look();
            assert_eq!(matches!(looked, Err(Error::Fenced)), is_fenced, "{times} times: {looked:?}");
            assert_eq!((looked.is_err(), log.is_poisoned()), (is_fenced, is_fenced));
        }
    }

    #[test]
    fn generations_of_a_shared_file_end_in_front_of_where_they_would_be_taken_for_damage() {
        let (db, _) = begun();
        let log = &db.store().engine.log;
        let fence = log.fence().unwrap();
        let mut pair = log.with_superblocks(|pair| *pair);
        let slot = pair.slot.other();
        pair.current.generation = LOG_POSITION_MAX - LOG_POSITION_SPARE;
        let current = pair.current;
        log.put_superblock(fence, &mut pair, current, STEP, slot).unwrap();
        assert_eq!((pair.current.generation, pair.slot), (LOG_POSITION_MAX - LOG_POSITION_SPARE + STEP, slot));
        let current = pair.current;
        assert!(matches!(log.put_superblock(fence, &mut pair, current, STEP, slot), Err(Error::LogExhausted)));
    }

    #[test]
    fn the_file_reaches_into_the_last_extent_of_a_long_run() {
        let (db, file) = begun();
        let log = &db.store().engine.log;
        let run = |extent, extents| Run { extent, extents, fresh: false, backed: false };
        let len = file.len().unwrap();
        log.reach(run(20, 1)).unwrap();
        assert_eq!(file.len().unwrap(), len, "a short one is written from its front");
        log.reach(run(20, 3)).unwrap();
        assert_eq!(file.len().unwrap(), log.geometry.start(22) + 1);
        log.reach(run(20, 3)).unwrap();
        log.reach(run(20, 2)).unwrap();
        assert_eq!(file.len().unwrap(), log.geometry.start(22) + 1);
        file.reset_counts();
        log.reach(run(19, 4)).unwrap();
        assert_eq!(file.counts().writes, 0, "there is a byte of it");
        file.inner().set_len(log.geometry.start(22)).unwrap();
        log.reach(run(20, 3)).unwrap();
        assert_eq!(file.counts().writes, 1);
    }

    #[test]
    fn what_a_log_has_grown_by_is_its_end_its_records_and_what_was_retired() {
        let before = Standing { end: 5, records: 3, retired: 2, ..Standing::default() };
        assert!(before.is_as_before(&before));
        assert!(Standing { next_base: 9, headers: 4, is_clean: true, ..before.clone() }.is_as_before(&before));
        for grown in [
            Standing { end: 6, ..before.clone() },
            Standing { records: 4, ..before.clone() },
            Standing { retired: 3, ..before.clone() },
        ] {
            assert!(!grown.is_as_before(&before));
        }
    }

    fn builder(is_sealed: bool) -> crate::Builder {
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
        #[cfg(feature = "encrypt")]
        let builder = if is_sealed { builder.encryption_key([8; 32]) } else { builder };
        #[cfg(not(feature = "encrypt"))]
        let _ = is_sealed;
        builder
    }

    fn opened(file: &FaultStorage<MemoryStorage>, is_sealed: bool) -> Db {
        builder(is_sealed).open_storage(Box::new(file.clone())).unwrap()
    }

    #[test]
    fn the_last_segment_of_an_earlier_session_is_left_to_it_unless_it_has_closed_the_store() {
        for (is_sealed, is_closed) in [(false, true), (false, false), (true, true), (true, false)] {
            let file = FaultStorage::new(MemoryStorage::new());
            file.set_shared(true);
            let db = opened(&file, is_sealed);
            db.insert("a", "value").unwrap();
            let last = db.store().engine.log.segments().last().copied().unwrap();
            if is_closed {
                db.close().unwrap();
            } else {
                core::mem::forget(db);
            }
            let db = opened(&file, is_sealed);
            db.insert("b", "value").unwrap();
            let tail = db.store().engine.log.tail.lock();
            let is_left = tail.space.barred.iter().any(|run| (run.extent, run.extents) == (last.extent, last.extents));
            assert_eq!(is_left, !is_closed, "sealed: {is_sealed}");
            drop(tail);
            core::mem::forget(db);
        }
    }

    #[test]
    fn who_takes_a_store_over_puts_its_superblock_into_both_slots_behind_a_step_drawn_at_random() {
        let (db, file) = begun();
        let log = &db.store().engine.log;
        let fence = log.fence().unwrap();
        let mut pair = log.with_superblocks(|pair| *pair);
        for (len, writes) in [(DATA_START + 1, 2), (DATA_START, 2), (DATA_START - 1, 3)] {
            file.inner().set_len(len).unwrap();
            let before = pair;
            let drawn = xxhash_rust::xxh3::xxh3_64_with_seed(&log.entropy.to_le_bytes(), before.current.generation);
            file.reset_counts();
            log.contend(fence, &mut pair).unwrap();
            let first = before.current.generation + 1 + drawn % (CONTENDERS - 4);
            assert_eq!((pair.slot, pair.current), (before.slot, Superblock { generation: first + 1, ..before.current }));
            assert!(first - before.current.generation < STEP);
            let slots = read_slots(&file).unwrap();
            let generation = |slot: SuperblockSlot| Superblock::generation_and_session_of(slots.of(slot), slot).unwrap().0;
            assert_eq!((generation(pair.slot.other()), generation(pair.slot)), (first, first + 1));
            assert_eq!((file.len().unwrap(), file.counts().writes), (len.max(DATA_START), writes));
        }
        core::mem::forget(db);
    }

    #[test]
    fn nobody_takes_over_a_store_one_of_whose_slots_is_not_as_it_was_found() {
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            let (db, file) = begun();
            let log = &db.store().engine.log;
            let mut pair = log.with_superblocks(|pair| *pair);
            file.write_at(slot.offset(), &[&late(log, slot)]).unwrap();
            file.reset_counts();
            assert!(matches!(log.contend(log.fence().unwrap(), &mut pair), Err(Error::Fenced)));
            assert_eq!(file.counts().writes, 0);
            core::mem::forget(db);
        }
    }

    #[cfg(feature = "encrypt")]
    #[test]
    fn a_damaged_copy_of_the_page_of_keys_is_written_again_in_front_of_the_first_append() {
        use crate::unlock::{PAGE_LEN, PAGE_PLACES};
        for place in PAGE_PLACES {
            let file = FaultStorage::new(MemoryStorage::new());
            file.set_shared(true);
            let db = opened(&file, true);
            db.insert("a", "value").unwrap();
            db.close().unwrap();
            let page = || {
                let mut page = alloc::vec![0; PAGE_LEN];
                file.read_at(place, &mut page).unwrap();
                page
            };
            let whole = page();
            file.write_at(place + 100, &[&[!page()[100]]]).unwrap();
            let db = opened(&file, true);
            assert!(page() != whole, "opening writes nothing");
            db.insert("b", "value").unwrap();
            assert!(page() == whole, "the copy at {place}");
        }
    }
}
