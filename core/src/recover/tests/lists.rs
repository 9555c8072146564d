//! Damaged segment lists (R6), and lists that name history.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;

/// Five segments, of which compaction has retired one in the middle; its copies follow the list. `with_snapshot` or without.
fn with_gap(with_snapshot: bool) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (db, storage) = open(&[]).unwrap();
    for key in 0..60_u8 {
        db.insert([key], [key; 200]).unwrap();
    }
    let users = db.namespace("users").unwrap();
    users.insert("u", "1").unwrap();
    // The third segment, whatever it holds, and the first records: these keys stay, with new values.
    for key in 30..46_u8 {
        db.insert([key], [key; 201]).unwrap();
    }
    db.remove([0]).unwrap();
    if with_snapshot {
        db.checkpoint().unwrap();
        while db.compact_step().unwrap().is_some() {}
    }
    db.checkpoint().unwrap();
    db.insert("behind", "x").unwrap();
    db.flush().unwrap();
    let bytes = storage.to_vec();
    let keys = keys(&db);
    drop(db);
    (bytes, keys)
}

/// The segment list is stored only once. One damaged bit of it made a store unreadable in which nothing else was wrong.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn r6_a_damaged_list_is_made_again_where_nothing_else_is_wrong() {
    let (bytes, before) = with_gap(true);
    let list = list_of(&bytes);
    let len = crate::frame::Header::decode(&bytes[list..]).unwrap().frame_len();
    let mut opened = 0;
    for at in list..list + len {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        match open(&damaged) {
            Err(Error::Corrupt { offset, .. }) => assert_eq!(offset, list as u64, "byte {}", at - list),
            Err(other) => panic!("{other}"),
            Ok((db, storage)) => {
                opened += 1;
                assert_eq!((keys(&db), db.open_report().damaged_list), (before.clone(), true));
                if at % 16 != 0 {
                    continue;
                }
                assert_eq!(db.get([1]).unwrap().unwrap(), [1; 200]);
                assert!(!db.verify().unwrap().is_ok());
                // Nothing is written until a caller writes, and then a new list.
                assert!(storage.to_vec() == damaged);
                db.insert("new", "y").unwrap();
                db.close().unwrap();
                let (db, _) = open(&storage.to_vec()).unwrap();
                assert!(!db.open_report().damaged_list);
                assert_eq!(db.len().unwrap(), before.len() as u64 + 1);
            }
        }
    }
    // All but its head and its lengths.
    assert!(opened >= len - 5, "{opened} of {len}");
}

/// After the list, compaction had retired segments, and the log had reused their extents: what the snapshot has there does not count any
/// more.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn r6_what_was_retired_behind_a_damaged_list_stays_retired() {
    let (db, storage) = open(&[]).unwrap();
    for key in 0..60_u8 {
        db.insert([key], [key; 200]).unwrap();
    }
    db.checkpoint().unwrap();
    for key in 0..40_u8 {
        db.remove([key]).unwrap();
    }
    while db.compact_step().unwrap().is_some() {}
    db.flush().unwrap();
    for key in 100..140_u8 {
        db.insert([key], [key; 200]).unwrap();
    }
    db.flush().unwrap();
    let mut bytes = storage.to_vec();
    let before = keys(&db);
    drop(db);
    let list = list_of(&bytes);
    bytes[list + 20] ^= 4;
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!((db.len().unwrap(), db.open_report().damaged_list), (60, true));
    assert_eq!(keys(&db), before);
    db.compact().unwrap();
    assert_eq!(keys(&db), before);
    db.close().unwrap();
    assert_eq!(keys(&open(&storage.to_vec()).unwrap().0), before);
}

/// A damaged list, and one more fault that the list would have revealed.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn r6_a_damaged_list_is_an_error_where_anything_else_is_wrong() {
    for with_snapshot in [true, false] {
        let (mut bytes, before) = with_gap(with_snapshot);
        let (newest, list) = (newest_superblock(&bytes), list_of(&bytes));
        if !with_snapshot {
            drop_snapshot(&mut bytes);
        }
        bytes[list + 20] ^= 4;
        let (db, _) = open(&bytes).unwrap();
        assert_eq!(keys(&db), before, "with a snapshot: {with_snapshot}");
        drop(db);
        let refused = |bytes: &[u8], what: &str| assert_eq!(corrupt_at(bytes), list as u64, "{what}");
        let geometry = crate::log::Geometry::new(4096, 4096);
        let (base, mut live) = (word(&bytes, newest + 72), 0);
        let segments: Vec<usize> = (0..geometry.extents_in(bytes.len() as u64))
            .map(|extent| geometry.start(extent) as usize)
            .filter(|&at| bytes[at + 16..at + 21] == *b"PSEG\x01" && word(&bytes, at + 8) < base)
            .collect();
        for at in segments {
            let mut damaged = bytes.clone();
            damaged[at..at + 704].fill(0);
            if open(&damaged).is_err() {
                live += 1;
                refused(&damaged, "a header");
                // One bit of any of its records, dead or alive.
                for record in (at + 704..at + 4000).step_by(97) {
                    let mut damaged = bytes.clone();
                    damaged[record] ^= 1;
                    refused(&damaged, "a record");
                }
            }
        }
        assert!(live > 3);
        for slot in [0, SECOND_SUPERBLOCK] {
            let mut damaged = bytes.clone();
            damaged[slot + 300] ^= 1;
            refused(&damaged, "a superblock");
        }
        let behind = find(&bytes, b"behind");
        let mut damaged = bytes.clone();
        damaged[behind] ^= 1;
        refused(&damaged, "the record behind the list");
        if with_snapshot {
            let mut damaged = bytes.clone();
            damaged[word(&bytes, newest + 96) as usize - 4] ^= 1;
            refused(&damaged, "the snapshot");
        }
    }
}

/// A store of several segments with a checkpoint, in whose list `change` was made.
fn with_list(change: impl Fn(&mut crate::log::SegmentList)) -> Vec<u8> {
    let (db, storage) = open(&[]).unwrap();
    for key in 0..40_u8 {
        db.insert([key], [key; 300]).unwrap();
    }
    db.checkpoint().unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    let (offset, salt) = (word(&bytes, 88) as usize, word(&bytes, 80));
    let geometry = crate::log::Geometry::new(4096, 4096);
    let header = crate::frame::Header::decode(&bytes[offset..]).unwrap();
    let value = offset + header.header_len()..offset + header.frame_len();
    let extents = geometry.extents_in(bytes.len() as u64);
    let mut list = crate::log::SegmentList::decode(&bytes[value.clone()], geometry, extents).unwrap();
    assert!(list.segments.len() > 2);
    change(&mut list);
    let list = list.encode(geometry);
    assert_eq!(list.len(), value.len());
    bytes[value].copy_from_slice(&list);
    let end = offset + header.frame_len();
    let sum = crate::frame::crc32c(&bytes[offset + 4..end]) ^ crate::frame::bind(salt, offset as u64);
    bytes[offset..offset + 4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn history_is_read_around_and_never_written_over() {
    // Without its snapshot, which knows nothing of history.
    let mut bytes = with_list(|list| list.figures[0].history = true);
    drop_snapshot(&mut bytes);
    let storage = MemoryStorage::from_vec(bytes.clone());
    let db = Db::builder().read_only(true).open_storage(Box::new(storage.clone())).unwrap();
    let (first, all) = (db.get([0]).unwrap(), keys(&db).len());
    assert_eq!(first, None, "a record of history counts");
    assert!((20..40).contains(&all), "{all} keys");
    assert!(db.verify().unwrap().is_ok());
    assert!(storage.to_vec() == bytes);
    // Nobody holds it: a session that writes lets it go.
    let db = Db::builder().segment_size(4096).open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
    let held = db.stats().unwrap().history_bytes;
    db.insert("more", "1").unwrap();
    db.compact().unwrap();
    db.compact().unwrap();
    assert_eq!((held, db.stats().unwrap().history_bytes, db.len().unwrap()), (4096, 0, all as u64 + 1));
}

/// The figures are those of the list, as the snapshot has them.
#[test]
fn r6_a_list_that_is_made_again_tells_how_much_of_each_segment_counts() {
    let (db, storage) = open(&[]).unwrap();
    for key in 0..60_u8 {
        db.insert([key], [key; 200]).unwrap();
    }
    for key in 0..5_u8 {
        db.remove([key]).unwrap();
    }
    db.checkpoint().unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    let figures = |bytes: &[u8]| {
        let storage = MemoryStorage::from_vec(bytes.to_vec());
        let crate::log::Front::Store(pair) = crate::log::read_superblocks(&storage).unwrap() else { panic!("a new store") };
        let chain = crate::recover::Chain::follow(&storage, &pair).unwrap();
        let figures = chain.listed.figures.iter().map(|figures| (figures.live, figures.tombstones));
        (chain.damaged_list, figures.collect::<Vec<_>>())
    };
    let (_, whole) = figures(&bytes);
    let list = list_of(&bytes);
    bytes[list + 20] ^= 4;
    assert_eq!(figures(&bytes), (true, whole.clone()));
    let sums = whole.iter().fold((0, 0), |sums, figures| (sums.0 + figures.0, sums.1 + figures.1));
    assert_eq!(sums, (55 * 209, 5 * 8));
    assert!(whole.len() > 2);
}
