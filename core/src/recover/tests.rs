//! The rows of the recovery table in `core/FORMAT.md`, one test each where a single file shows it. The crash suites go through the
//! combinations.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use crate::storage::MemoryStorage;
use crate::{Db, Error, SnapshotState};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Offset of the first frame of the first segment.
const FIRST: usize = 16_384 + 704;

fn open(bytes: &[u8]) -> Result<(Db, MemoryStorage), Error> {
    let storage = MemoryStorage::from_vec(bytes.to_vec());
    let db = Db::builder().segment_size(4096).entropy([7; 32]).open_storage(Box::new(storage.clone()))?;
    Ok((db, storage))
}

/// A store with `a` = `1` flushed, then `b` = `2`, then a commit of `c` and `d`; not closed.
fn killed() -> Vec<u8> {
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    db.flush().unwrap();
    db.insert("b", "2").unwrap();
    db.insert_many([("c", "3"), ("d", "4")]).unwrap();
    let bytes = storage.to_vec();
    drop(db);
    bytes
}

fn closed() -> Vec<u8> {
    let (db, storage) = open(&killed()).unwrap();
    db.insert("e", "5").unwrap();
    db.close().unwrap();
    storage.to_vec()
}

/// Offset of a key that is directly followed by its value.
fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

fn keys(db: &Db) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = db.keys().map(Result::unwrap).collect();
    keys.sort();
    keys
}

fn corrupt_at(bytes: &[u8]) -> u64 {
    match open(bytes).err() {
        Some(Error::Corrupt { offset, .. }) => offset,
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn r1_a_creation_that_was_cut_short_is_a_new_store() {
    let (_db, storage) = open(&[]).unwrap();
    let whole = storage.to_vec();
    for len in [0, 3, 100, 511, 512] {
        let mut bytes = vec![0; 16_384];
        bytes[..len].copy_from_slice(&whole[..len]);
        let (db, _) = open(&bytes).unwrap();
        assert_eq!(db.open_report().created, len < 512, "{len} bytes");
        db.insert("k", "v").unwrap();
    }
}

#[test]
fn r2_a_foreign_file_is_refused_and_stays_as_it_is() {
    for bytes in [b"hello".to_vec(), vec![1; 20_000], vec![0; 16_385]] {
        let storage = MemoryStorage::from_vec(bytes.clone());
        let error = Db::builder().open_storage(Box::new(storage.clone())).unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(storage.to_vec(), bytes);
    }
}

#[test]
fn r3_and_r4_one_superblock_serves_and_none_is_an_error() {
    let mut bytes = closed();
    bytes[40] ^= 1;
    let (db, storage) = open(&bytes).unwrap();
    assert!(db.open_report().damaged_superblock);
    assert_eq!(db.len().unwrap(), 5);
    db.insert("f", "6").unwrap();
    db.close().unwrap();
    assert!(!open(&storage.to_vec()).unwrap().0.open_report().damaged_superblock);
    bytes[4096 + 40] ^= 1;
    assert_eq!(corrupt_at(&bytes), 0);
}

#[test]
fn r5_a_newer_version_is_refused() {
    let mut bytes = closed();
    for slot in [0, 4096] {
        bytes[slot + 8] = 2;
        let crc = crate::frame::crc32c(&bytes[slot..slot + 508]) ^ crate::frame::bind(0, slot as u64);
        bytes[slot + 508..slot + 512].copy_from_slice(&crc.to_le_bytes());
    }
    assert!(matches!(open(&bytes), Err(Error::NewerVersion { found: 2, supported: 1 })));
}

#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn r7_a_damaged_snapshot_costs_nothing() {
    let (db, storage) = open(&killed()).unwrap();
    db.checkpoint().unwrap();
    db.insert("e", "5").unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    assert_eq!(open(&bytes).unwrap().0.open_report().snapshot, SnapshotState::Loaded);
    let place = |at: usize| u64::from_le_bytes(bytes[4096 + at..4096 + at + 8].try_into().unwrap()) as usize;
    let snapshot = place(96);
    // In the directory, and in the part before it.
    for at in [snapshot + 20, snapshot - 4] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        let (db, _) = open(&damaged).unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Damaged);
        assert_eq!(db.len().unwrap(), 5);
        db.checkpoint().unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
}

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
#[cfg_attr(miri, ignore = "as above")]
#[test]
fn r6_a_damaged_list_is_made_again_where_nothing_else_is_wrong() {
    let (bytes, before) = with_gap(true);
    let newest = if word(&bytes, 48) > word(&bytes, 4096 + 48) { 0 } else { 4096 };
    let list = word(&bytes, newest + 88) as usize;
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
#[cfg_attr(miri, ignore = "as above")]
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
    let newest = if word(&bytes, 48) > word(&bytes, 4096 + 48) { 0 } else { 4096 };
    let list = word(&bytes, newest + 88) as usize;
    bytes[list + 20] ^= 4;
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!((db.len().unwrap(), db.open_report().damaged_list), (60, true));
    assert_eq!(keys(&db), before);
    db.compact().unwrap();
    assert_eq!(keys(&db), before);
    db.close().unwrap();
    assert_eq!(keys(&open(&storage.to_vec()).unwrap().0), before);
}

/// A dead record had rotted before the checkpoint, in the segment that took appends when the process was killed. The store opened, and
/// every write to it was refused: what an unclean end leaves is written again, and that verified the whole segment.
#[test]
fn damage_in_front_of_the_checkpoint_does_not_refuse_the_first_write_behind_an_unclean_end() {
    let (db, storage) = open(&[]).unwrap();
    db.insert("dead", "1").unwrap();
    db.insert("dead", "2").unwrap();
    db.checkpoint().unwrap();
    db.insert("b", "3").unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    let at = find(&bytes, b"dead1");
    bytes[at] ^= 1;
    let (db, _) = open(&bytes).unwrap();
    db.insert("c", "4").unwrap();
    db.flush().unwrap();
    assert_eq!(db.len().unwrap(), 3);
}

/// A damaged list, and one more fault that the list would have revealed.
#[cfg_attr(miri, ignore = "as above")]
#[test]
fn r6_a_damaged_list_is_an_error_where_anything_else_is_wrong() {
    for with_snapshot in [true, false] {
        let (whole, before) = with_gap(with_snapshot);
        let mut bytes = whole;
        let newest = if word(&bytes, 48) > word(&bytes, 4096 + 48) { 0 } else { 4096 };
        let list = word(&bytes, newest + 88) as usize;
        if !with_snapshot {
            // As left by a checkpoint that had no room for a snapshot.
            for slot in [0, 4096] {
                bytes[slot + 96..slot + 120].fill(0);
                let crc = crate::frame::crc32c(&bytes[slot..slot + 508]) ^ crate::frame::bind(0, slot as u64);
                bytes[slot + 508..slot + 512].copy_from_slice(&crc.to_le_bytes());
            }
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
        for slot in [0, 4096] {
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

#[test]
fn r10_a_torn_tail_is_dropped_and_reported() {
    let mut bytes = killed();
    let at = find(&bytes, b"b2");
    bytes[at + 1] ^= 1;
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!(keys(&db), [b"a"]);
    assert!(db.open_report().torn_bytes > 0);
    assert_eq!(db.open_report().torn_at, Some(at as u64 - 7));
    db.insert("new", "x").unwrap();
    drop(db);
    let (db, _) = open(&storage.to_vec()).unwrap();
    assert!(db.open_report().clean);
    assert_eq!(keys(&db), [&b"a"[..], b"new"]);
}

#[test]
fn r11_damage_in_front_of_a_sync_mark_is_an_error() {
    let mut bytes = killed();
    bytes[FIRST + 8] ^= 1;
    assert_eq!(corrupt_at(&bytes), FIRST as u64);
}

#[test]
fn r12_a_commit_without_its_end_does_not_count() {
    let mut bytes = killed();
    let at = find(&bytes, b"d4");
    bytes[at] ^= 1;
    assert_eq!(keys(&open(&bytes).unwrap().0), [b"a", b"b"]);
}

#[test]
fn r13_and_r14_a_closed_store_goes_on_where_it_stood_and_a_killed_one_in_a_fresh_segment() {
    let (db, _) = open(&closed()).unwrap();
    assert!(db.open_report().clean);
    let before = db.stats().unwrap().segments;
    db.insert("f", "6").unwrap();
    assert_eq!(db.stats().unwrap().segments, before);
    let (db, _) = open(&killed()).unwrap();
    assert!(!db.open_report().clean);
    let before = db.stats().unwrap().segments;
    db.insert("f", "6").unwrap();
    assert_eq!(db.stats().unwrap().segments, before + 1);
}

#[test]
fn r15_what_a_retired_segment_held_does_not_come_back() {
    let (db, storage) = open(&[]).unwrap();
    for round in 0..30u8 {
        for key in 0..20u8 {
            db.insert([key], [round; 100]).unwrap();
        }
    }
    for key in 0..10u8 {
        db.remove([key]).unwrap();
    }
    db.checkpoint().unwrap();
    while db.compact_step().unwrap().is_some() {}
    assert_eq!(db.len().unwrap(), 10);
    let (copy, _) = open(&storage.to_vec()).unwrap();
    assert_eq!(keys(&copy), (10..20u8).map(|key| vec![key]).collect::<Vec<_>>());
}

#[test]
fn r16_a_closed_store_that_was_cut_is_an_error() {
    let bytes = closed();
    assert!(matches!(open(&bytes[..bytes.len() - 1]), Err(Error::Corrupt { .. })));
    assert!(matches!(open(&bytes[..FIRST]), Err(Error::Corrupt { .. })));
}

#[test]
fn r17_a_header_torn_by_a_crash_serves_and_is_made_whole() {
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    bytes[FIRST - 64..FIRST].fill(0);
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert!(db.verify().unwrap().is_ok());
    db.insert("b", "2").unwrap();
    assert_eq!(storage.to_vec()[FIRST - 128..FIRST], {
        let (whole, other) = open(&[]).unwrap();
        whole.insert("a", "1").unwrap();
        other.to_vec()[FIRST - 128..FIRST].to_vec()
    });
    db.flush().unwrap();
    // It was synced, so no crash can have lost it.
    let mut bytes = storage.to_vec();
    drop(db);
    bytes[FIRST - 64..FIRST].fill(0);
    let (db, _) = open(&bytes).unwrap();
    assert!(!db.verify().unwrap().is_ok());
}

#[test]
fn a_store_cut_in_its_superblocks_is_refused_and_stays_as_it_is() {
    // One superblock is damaged, the other names a checkpoint that the file does not hold any more.
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    bytes.truncate(12_000);
    bytes[100] ^= 1;
    let storage = MemoryStorage::from_vec(bytes.clone());
    let refused = Db::builder().entropy([7; 32]).open_storage(Box::new(storage.clone()));
    assert!(matches!(refused, Err(Error::Corrupt { .. })));
    assert_eq!(storage.to_vec(), bytes);
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

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[cfg_attr(miri, ignore = "as above")]
#[test]
fn history_is_read_around_and_never_written_over() {
    // Without its snapshot, which knows nothing of history.
    let mut bytes = with_list(|list| list.figures[0].history = true);
    for slot in [0, 4096] {
        bytes[slot + 96..slot + 120].fill(0);
        let crc = crate::frame::crc32c(&bytes[slot..slot + 508]) ^ crate::frame::bind(0, slot as u64);
        bytes[slot + 508..slot + 512].copy_from_slice(&crc.to_le_bytes());
    }
    assert!(matches!(open(&bytes), Err(Error::Unsupported { .. })));
    let storage = MemoryStorage::from_vec(bytes.clone());
    let db = Db::builder().read_only(true).open_storage(Box::new(storage.clone())).unwrap();
    let (first, all) = (db.get([0]).unwrap(), keys(&db).len());
    assert_eq!(first, None, "a record of history counts");
    assert!((20..40).contains(&all), "{all} keys");
    assert!(db.verify().unwrap().is_ok());
    assert!(storage.to_vec() == bytes);
}

/// A value larger than a segment may contain a valid segment header: its checksum is keyed by the id of the store, which every backup
/// shows. Stores were lost after a clean close, a torn tail was taken for damage, and records in the value were replayed.
#[cfg_attr(miri, ignore = "as above")]
#[test]
fn headers_inside_of_values_do_not_count() {
    use crate::log::{Geometry, SegmentHeader, SegmentKind};
    let geometry = Geometry::new(4096, 4096);
    let large = |value: &[u8]| {
        let (db, storage) = open(&[]).unwrap();
        db.insert("a", "1").unwrap();
        db.flush().unwrap();
        db.insert("large", value).unwrap();
        (db, storage)
    };
    // Its future offset, and the content of the headers before it: the entropy is the same each time.
    let (_db, storage) = large(&[1; 15_000]);
    let bytes = storage.to_vec();
    let id: [u8; 16] = bytes[32..48].try_into().unwrap();
    let at = find(&bytes, &[1; 64]);
    let run = SegmentHeader::read(&storage, id, geometry.start(geometry.extent_of(at as u64))).unwrap().unwrap();
    assert!(run.extents > 3, "{run:?}");
    let first = geometry.extent_of(at as u64);
    let segment = run.segment(geometry, first);
    let mut value = alloc::vec![1; 15_000];
    for inside in first + 1..first + run.extents {
        let start = geometry.start(inside);
        let header = SegmentHeader {
            salt: 77,
            kind: SegmentKind::Log,
            base: (1 << 62) - 4096,
            extents: 1,
            carried_over: 0,
            // Half of them name this run as their predecessor, half of them the segment before it.
            previous_base: if inside % 2 == 0 { run.base } else { run.previous_base },
            previous_salt: if inside % 2 == 0 { run.salt } else { run.previous_salt },
            previous_end: if inside % 2 == 0 { segment.end } else { run.previous_end },
            synced: 1 << 61,
            session: run.session,
            number: 1 << 61,
            fresh: false,
            linked: false,
        };
        let place = (start as usize).checked_sub(at).unwrap();
        let encoded = header.encode(id, start);
        if place + encoded.len() + 30 > value.len() {
            break;
        }
        value[place..place + encoded.len()].copy_from_slice(&encoded);
        let meta = crate::frame::Meta::plain(0);
        let spec = crate::frame::FrameSpec { kind: crate::frame::Kind::Put, continues: false, meta, key: b"evil", value: b"x" };
        let mut frame = Vec::new();
        spec.encode_into(&mut frame, 77, start + encoded.len() as u64);
        value[place + encoded.len()..][..frame.len()].copy_from_slice(&frame);
    }
    let good = |bytes: &[u8], what: &str| {
        let (db, storage) = open(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((db.get("evil").unwrap(), db.get("a").unwrap()), (None, Some(b"1".to_vec())), "{what}");
        db.insert("b", "2").unwrap();
        db.close().unwrap();
        let (db, _) = open(&storage.to_vec()).unwrap_or_else(|error| panic!("{what}, closed: {error}"));
        assert_eq!((db.get("evil").unwrap(), db.get("b").unwrap()), (None, Some(b"2".to_vec())), "{what}");
        let large = db.get("large").unwrap();
        assert!(db.verify().unwrap().is_ok(), "{what}");
        large
    };
    let (db, storage) = large(&value);
    let killed = storage.to_vec();
    assert!(good(&killed, "killed").as_deref() == Some(&value[..]));
    // Torn, and nothing had been flushed.
    let mut torn = killed.clone();
    torn[at + 14_990] ^= 1;
    assert_eq!(good(&torn, "torn"), None);
    db.flush().unwrap();
    assert!(good(&storage.to_vec(), "flushed").is_some());
    let (closed, storage) = open(&storage.to_vec()).unwrap();
    closed.checkpoint().unwrap();
    closed.insert("c", "3").unwrap();
    assert!(good(&storage.to_vec(), "behind a checkpoint").is_some());
    closed.close().unwrap();
    assert!(good(&storage.to_vec(), "closed").is_some());
    // In space that is free by now.
    let (db, storage) = open(&storage.to_vec()).unwrap();
    db.remove("large").unwrap();
    db.checkpoint().unwrap();
    while db.compact_step().unwrap().is_some() {}
    db.insert("d", "4").unwrap();
    let mut torn = storage.to_vec();
    let at = torn.windows(2).rposition(|window| window == b"d4").unwrap();
    torn[at] ^= 1;
    assert_eq!(good(&torn, "torn, with the value in free space"), None);
}

/// Re-signs both superblocks after a change of theirs.
fn sign_superblocks(bytes: &mut [u8]) {
    for slot in [0, 4096] {
        let crc = crate::frame::crc32c(&bytes[slot..slot + 508]) ^ crate::frame::bind(0, slot as u64);
        bytes[slot + 508..slot + 512].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The hashes of keys used to be seeded by the id of the store, which every header and every backup shows: a thousand keys of one slot were
/// found in a moment.
#[test]
fn where_keys_stand_does_not_follow_from_the_id_of_the_store() {
    use crate::index::{KeyHash, seed_of};
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(4096).entropy(core::array::from_fn(|index| index as u8));
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    for key in 0..100_u8 {
        db.insert([key], "x").unwrap();
    }
    let bytes = storage.to_vec();
    drop(db);
    let sixteen = |bytes: &[u8], at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap();
    let order = |bytes: &[u8]| {
        let db = open(bytes).unwrap().0;
        let mut keys = Vec::new();
        let end = db.page(crate::Cursor::default(), |key, _| {
            keys.push(key.to_vec());
            true
        });
        assert_eq!((end.unwrap(), keys.len()), (None, 100));
        assert!(db.verify().unwrap().is_ok());
        keys
    };
    let by = |seed: [u8; 16]| {
        let mut keys: Vec<Vec<u8>> = (0..100_u8).map(|key| vec![key]).collect();
        keys.sort_by_key(|key| KeyHash::new(seed_of(&seed), 0, key).bits());
        keys
    };
    let (id, seed) = (sixteen(&bytes, 32), sixteen(&bytes, 208));
    assert_eq!(order(&bytes), by(seed));
    assert_ne!(order(&bytes), by(id), "as it was derived before");
    // The same id and another seed: the same store, and every key has another slot.
    let mut other = bytes.clone();
    for slot in [0, 4096] {
        other[slot + 208..slot + 224].copy_from_slice(&[0x5e; 16]);
    }
    sign_superblocks(&mut other);
    assert_eq!(order(&other), by([0x5e; 16]));
    assert_ne!(order(&other), order(&bytes));
    assert_eq!(sixteen(&other, 32), id);
}

/// The snapshot has the names of the namespaces in a separate part. When that part had another number for a name than the log, with a valid
/// checksum, compaction dropped all records of the namespace.
#[cfg_attr(miri, ignore = "as above")]
#[test]
fn compaction_drops_nothing_on_the_word_of_names_that_are_not_those_of_the_log() {
    let (db, storage) = open(&[]).unwrap();
    let users = db.namespace("users").unwrap();
    for key in 0..40_u8 {
        users.insert([key], [key; 100]).unwrap();
        db.insert([key], [key; 100]).unwrap();
    }
    for key in 0..40_u8 {
        db.insert([key], [key; 101]).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let newest = if word(&bytes, 48) > word(&bytes, 4096 + 48) { 0 } else { 4096 };
    let geometry = crate::log::Geometry::new(4096, 4096);
    let directory = word(&bytes, newest + 96);
    let start = (0..geometry.extent_of(directory) + 1)
        .map(|extent| geometry.start(extent))
        .rfind(|&at| bytes[at as usize + 16..at as usize + 21] == *b"PSEG\x02")
        .unwrap() as usize;
    let salt = word(&bytes, start);
    let name = start + bytes[start..].windows(5).position(|window| window == b"users").unwrap();
    // The chunk's header of 8, the next number, the default namespace, and lengths and number before the name.
    let chunk = name - 7 - 7 - 4 - 8;
    let len = u32::from_le_bytes(bytes[chunk..chunk + 4].try_into().unwrap()) as usize;
    for lie in ["another number", "another name"] {
        let mut forged = bytes.clone();
        match lie {
            "another number" => forged[name - 5] = 9,
            _ => forged[name] = b'x',
        }
        let sum = crate::frame::crc32c(&forged[chunk + 8..chunk + 8 + len]) ^ crate::frame::bind(salt, chunk as u64);
        forged[chunk + 4..chunk + 8].copy_from_slice(&sum.to_le_bytes());
        let (db, storage) = open(&forged).unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Loaded, "{lie}");
        db.insert("new", "x").unwrap();
        assert!(matches!(db.compact(), Err(Error::Corrupt { .. })), "{lie}");
        while let Ok(Some(_)) = db.compact_step() {}
        db.flush().unwrap();
        // The log alone has everything.
        let mut mended = storage.to_vec();
        drop(db);
        for slot in [0, 4096] {
            mended[slot + 96..slot + 120].fill(0);
        }
        sign_superblocks(&mut mended);
        let (db, _) = open(&mended).unwrap();
        let users = db.find_namespace("users").unwrap();
        assert_eq!((users.len().unwrap(), db.len().unwrap()), (40, 41), "{lie}");
    }
}

/// Free space may contain a valid header that a value has carried there; it can name any number of extents, anywhere. Two of them
/// ended the process that opened the file.
#[cfg_attr(miri, ignore = "as above")]
#[test]
fn forged_headers_in_free_space_end_no_open_and_hide_nothing_that_was_flushed() {
    use crate::log::{Front, SegmentHeader, SegmentKind, read_superblocks};
    let (db, storage) = open(&[]).unwrap();
    for key in 0..120_u8 {
        db.insert([key], [key; 200]).unwrap();
    }
    db.checkpoint().unwrap();
    for key in 0..100_u8 {
        db.remove([key]).unwrap();
    }
    while db.compact_step().unwrap().is_some() {}
    db.insert("last", "x").unwrap();
    db.flush().unwrap();
    let killed = storage.to_vec();
    let before = keys(&db);
    db.close().unwrap();
    let (mut opened, mut refused) = (0, 0);
    for bytes in [killed, storage.to_vec()] {
        let store = MemoryStorage::from_vec(bytes.clone());
        let Ok(Front::Store(pair)) = read_superblocks(&store) else { panic!("no store") };
        let geometry = pair.current.geometry();
        let live = super::Chain::follow(&store, &pair).unwrap().live_segments();
        let last = *live.last().unwrap();
        let snapshot = |at: usize| bytes[at + 16..at + 21] == *b"PSEG\x02";
        let is_free = |extent: &u32| live.iter().all(|used| *extent < used.extent || *extent >= used.extent + used.extents);
        let free: Vec<u32> = (0..geometry.extents_in(bytes.len() as u64)).filter(is_free).collect();
        for extent in free.into_iter().filter(|&extent| !snapshot(geometry.start(extent) as usize)) {
            let start = geometry.start(extent);
            if start as usize + 704 > bytes.len() {
                continue;
            }
            for extents in [1, 2, 100, 1 << 20, u32::MAX - extent, u32::MAX] {
                for (base, previous) in
                    [(1 << 20, (0, 0)), (last.base + 8192, (last.base, last.salt)), ((1 << 62) - 4096, (7, 7)), (4096, (0, 0))]
                {
                    for synced in [0, 1 << 61] {
                        let header = SegmentHeader {
                            salt: 77,
                            kind: SegmentKind::Log,
                            base,
                            extents,
                            carried_over: 0,
                            previous_base: previous.0,
                            previous_salt: previous.1,
                            previous_end: last.end,
                            synced,
                            session: pair.current.session,
                            number: 1 << 61,
                            fresh: false,
                            linked: false,
                        };
                        let mut forged = bytes.clone();
                        let encoded = header.encode(pair.current.store_id, start);
                        forged[start as usize..start as usize + encoded.len()].copy_from_slice(&encoded);
                        // A record after it, as if it had been written by the store.
                        let meta = crate::frame::Meta::plain(0);
                        let spec = crate::frame::FrameSpec {
                            kind: crate::frame::Kind::Put,
                            continues: false,
                            meta,
                            key: b"evil",
                            value: b"x",
                        };
                        let (mut frame, at) = (Vec::new(), start + encoded.len() as u64);
                        spec.encode_into(&mut frame, 77, at);
                        if let Some(place) = forged.get_mut(at as usize..at as usize + frame.len()) {
                            place.copy_from_slice(&frame);
                        }
                        let _ = crate::verify_storage(&MemoryStorage::from_vec(forged.clone()));
                        match open(&forged) {
                            Ok((db, _)) => {
                                opened += 1;
                                let mut found = keys(&db);
                                found.retain(|key| key != b"evil");
                                assert_eq!(found, before, "extent {extent}, {header:?}");
                                if opened % 16 == 0 {
                                    let _ = db.insert("again", "y").and_then(|()| db.compact()).and_then(|_| db.close());
                                }
                            }
                            Err(Error::Corrupt { .. }) => refused += 1,
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
    assert!(opened > 50 && refused > 0, "{opened} opened, {refused} refused");
}
