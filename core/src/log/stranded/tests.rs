use super::*;

#[test]
fn what_may_be_verified_grows_with_the_range_from_a_least_on() {
    let least = LONG_MIN / LONG_FACTOR;
    assert_eq!([0, least - 1, least].map(budget), [LONG_MIN; 3]);
    assert_eq!((budget(least + 1), budget(u64::MAX)), (LONG_MIN + LONG_FACTOR, u64::MAX));
}

#[test]
fn stranded_records_add_up_from_the_first_one_on() {
    let mut sum = Stranded::default();
    sum.add(Stranded { records: 2, bytes: 30, at: Some(7) });
    sum.add(Stranded { records: 1, bytes: 5, at: Some(3) });
    sum.add(Stranded::default());
    assert_eq!(sum, Stranded { records: 3, bytes: 35, at: Some(7) });
}

#[cfg(feature = "testing")]
mod stores {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;
    use crate::Db;
    use crate::log::SegmentHeader;
    use crate::storage::MemoryStorage;
    use alloc::boxed::Box;

    fn store() -> (Db, MemoryStorage) {
        let file = MemoryStorage::new();
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
        let db = builder.open_storage(Box::new(file.clone())).unwrap();
        (0..3_u8).for_each(|key| db.insert([key], [key + 1; 3_000]).unwrap());
        (db, file)
    }

    /// The extents of three segments that were kept; `kept` are the places of those that still are.
    #[test]
    fn segments_that_no_list_names_are_freed_but_for_those_that_are_kept() {
        for kept in [&[][..], &[1], &[0, 2], &[0, 1, 2]] {
            let (db, file) = store();
            let log = &db.store().engine.log;
            let all = log.segments();
            let start = |segment: &Segment| log.geometry.start(segment.extent);
            let header = |segment: &Segment| SegmentHeader::read(&file, log.store_id, start(segment)).unwrap().unwrap();
            {
                let mut tail = log.tail.lock();
                tail.unlisted.clone_from(&all);
                tail.torn_headers = all.iter().map(|segment| (start(segment), header(segment))).collect();
            }
            let is_kept = |segment: &Segment| kept.iter().any(|&at| all[at].base == segment.base);
            log.free_unlisted(&is_kept);
            let left: Vec<u64> = all.iter().filter(|segment| is_kept(segment)).map(|segment| segment.base).collect();
            let bases = |segments: &[Segment]| segments.iter().map(|segment| segment.base).collect::<Vec<_>>();
            assert_eq!((bases(&log.unlisted()), bases(&log.segments())), (left.clone(), left), "kept: {kept:?}");
            let tail = log.tail.lock();
            let torn: Vec<u64> = tail.torn_headers.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(torn, all.iter().filter(|segment| is_kept(segment)).map(start).collect::<Vec<_>>());
            for segment in &all {
                assert_eq!(tail.space.is_free(segment.extent), !is_kept(segment));
            }
            drop(tail);
            core::mem::forget(db);
        }
    }

    #[test]
    fn a_segment_that_a_list_names_by_now_is_not_freed() {
        let (db, _file) = store();
        let log = &db.store().engine.log;
        let all = log.segments();
        log.tail.lock().unlisted.clone_from(&all);
        log.free_unlisted(&|_| {
            log.tail.lock().unlisted.clear();
            false
        });
        assert_eq!(log.segments(), all);
    }

    /// What is found behind the front of a segment of a commit of two records and of two single ones, the bytes of some of which were changed.
    fn found(changed: &[usize]) -> (Stranded, Vec<usize>) {
        let file = MemoryStorage::new();
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
        let db = builder.open_storage(Box::new(file.clone())).unwrap();
        db.insert_many([(b"a", [1; 500]), (b"b", [2; 500])]).unwrap();
        db.insert("c", [3; 500]).unwrap();
        db.insert("d", [4; 500]).unwrap();
        let log = &db.store().engine.log;
        let segment = log.segments()[0];
        let first = segment.first_frame(log.geometry);
        let len = log.header(first).unwrap().frame_len() as u64;
        assert_eq!(segment.end, first + 4 * len);
        changed.iter().for_each(|&at| file.write_at(first + at as u64 * len + 100, &[&[9]]).unwrap());
        let torn = Segment { end: first, ..segment };
        let (found, offsets) = (in_segment(&file, log.geometry, &torn).unwrap(), log.stranded_offsets(&torn).unwrap());
        assert_eq!((found.bytes, found.at), (found.records * len, offsets.first().copied()));
        let places = offsets.iter().map(|offset| ((offset - first) / len) as usize).collect();
        core::mem::forget(db);
        (found, places)
    }

    #[test]
    fn valid_records_are_counted_but_for_those_of_an_incomplete_commit() {
        let counted = |changed: &[usize], expected: &[usize]| {
            let (found, places) = found(changed);
            assert_eq!((places.as_slice(), found.records), (expected, expected.len() as u64), "changed: {changed:?}");
        };
        counted(&[], &[0, 1, 2, 3]);
        counted(&[0], &[1, 2, 3]);
        counted(&[1], &[2, 3]);
        counted(&[2], &[0, 1, 3]);
        counted(&[1, 3], &[2]);
        counted(&[0, 1, 2, 3], &[]);
    }

    /// Their checksums fit all the same.
    #[cfg(feature = "encrypt")]
    #[test]
    fn sealed_records_in_a_plain_store_are_none() {
        let file = MemoryStorage::new();
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).encryption_key([8; 32]);
        let db = builder.open_storage(Box::new(file.clone())).unwrap();
        db.insert("a", [1; 500]).unwrap();
        db.insert("b", [2; 500]).unwrap();
        let log = &db.store().engine.log;
        let segment = log.segments()[0];
        let torn = Segment { end: segment.first_frame(log.geometry), ..segment };
        let plain = MemoryStorage::from_vec(file.to_vec());
        assert_eq!(in_segment(&plain, log.geometry, &torn).unwrap(), Stranded::default());
    }
}
