#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;

fn segment(base: u64, extent: u32, extents: u32) -> Segment {
    Segment { base, extent, extents, end: 0, salt: base, linked: false }
}

/// Emptied at the second time, the long one would have taken the records of the first new one out of the index.
#[test]
fn a_run_of_extents_is_handed_out_once_however_many_segments_begin_in_it() {
    let (left, long, right) = (segment(1, 0, 2), segment(2, 2, 4), segment(3, 6, 1));
    let mut present = vec![left, long, right];
    let bases = |segments: &[Segment]| segments.iter().map(|segment| segment.base).collect::<Vec<_>>();
    let mut begin = |new: Segment| {
        let old = take_over(&mut present, &new);
        present.push(new);
        bases(&old)
    };
    assert_eq!(begin(segment(4, 3, 1)), [2]);
    assert_eq!(begin(segment(5, 4, 2)), [0_u64; 0]);
    assert_eq!(begin(segment(6, 2, 1)), [0_u64; 0]);
    // These lie beside each other, and this one over the ends of two.
    assert_eq!(begin(segment(7, 1, 2)), [1, 6]);
    assert_eq!(bases(&present), [3, 4, 5, 7]);
}

#[cfg(feature = "followers")]
mod behind_a_writer {
    use super::*;
    use crate::Db;
    use crate::storage::MemoryStorage;

    /// A writer of one record, and its follower.
    fn pair() -> (Db, Db) {
        let file = MemoryStorage::new();
        let small = || Db::builder().segment_size(4096).entropy([7; 32]).background(false);
        let db = small().open_storage(Box::new(file.clone())).unwrap();
        db.insert("a", "1").unwrap();
        db.flush().unwrap();
        let reader = small().follow(true).open_storage(Box::new(file)).unwrap();
        (db, reader)
    }

    #[test]
    fn behind_the_last_change_is_quiet_whatever_was_written_there() {
        let (db, reader) = pair();
        let log = &reader.store().engine.log;
        let end = || log.at_the_end(|end| Position::new(end.lsn, end.salt));
        let after = |write: &dyn Fn(&Db)| {
            write(&db);
            db.flush().unwrap();
            reader.refresh().unwrap();
            end()
        };
        // A frame that changes no record.
        let quiet = |db: &Db| db.store().engine.log.set_floor((0, 0), false).unwrap();
        let first = end();
        assert_eq!(log.quiet_behind(first), None, "nothing was followed");
        let second = after(&quiet);
        assert!(second.lsn > first.lsn);
        let in_front = Position::new(first.lsn - 1, first.salt);
        assert_eq!([in_front, first, second].map(|at| log.quiet_behind(at)), [None, Some(second), None]);
        let third = after(&quiet);
        assert_eq!([in_front, first, second, third].map(|at| log.quiet_behind(at)), [None, Some(third), Some(third), None]);
        let fourth = after(&|db| db.insert("a", "2").unwrap());
        assert_eq!([first, second, third, fourth].map(|at| log.quiet_behind(at)), [None; 4]);
        let fifth = after(&quiet);
        assert_eq!([third, fourth, fifth].map(|at| log.quiet_behind(at)), [None, Some(fifth), None]);
        // What was read as a whole, from another place on, was not looked through.
        log.tail.lock().history.quiet = Some(Quiet { from: first, to: fourth });
        let sixth = after(&quiet);
        assert_eq!([fourth, fifth].map(|at| log.quiet_behind(at)), [None, Some(sixth)]);
        assert_eq!(db.store().engine.log.quiet_behind(first), None, "a writer follows nobody");
    }

    #[test]
    fn a_retired_segment_is_forgotten_once_and_only_where_no_floor_holds_it() {
        let (db, reader) = pair();
        let keep = |db: &Db, base: u64, is_recorded: bool| {
            let engine = &db.store().engine;
            let kept = Kept { segment: segment(base, 1, 1), retired: Retired::found(1, 1, 0, &engine.pins), is_recorded };
            engine.log.tail.lock().history.kept.insert(base, kept);
        };
        let log = &reader.store().engine.log;
        keep(&reader, 5, false);
        keep(&reader, 6, true);
        assert_eq!([4, 5, 5, 6, 6].map(|base| log.forget_retired(base)), [false, true, false, false, false]);
        assert_eq!(log.tail.lock().history_len(), 1);
        keep(&db, 5, false);
        assert!(!db.store().engine.log.forget_retired(5), "it is the writer");
    }

    #[test]
    fn what_the_file_says_to_be_synced_counts_up_to_the_end_and_never_back() {
        let (_, reader) = pair();
        let log = &reader.store().engine.log;
        let end = log.end();
        log.sync_state.start_at(end - 10);
        let synced = |lsn: u64| {
            log.is_synced_to(lsn);
            end - log.sync_state.synced()
        };
        assert_eq!([end - 11, end - 10, end - 9, end - 12, end + 5, end - 1].map(synced), [10, 10, 9, 9, 0, 0]);
    }
}
