//! Files that somebody has made with care: headers inside of values and in free space, seeds of the hash, names of the snapshot.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::SnapshotState;
use alloc::vec;

/// A value larger than a segment may contain a valid segment header: its checksum is keyed by the id of the store, which every backup
/// shows. Stores were lost after a clean close, a torn tail was taken for damage, and records in the value were replayed.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn headers_inside_of_values_do_not_count() {
    use crate::log::Geometry;
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
        // Half of them name this run as their predecessor, half of them the segment before it.
        let of_run = (run.base, run.salt, segment.end);
        let before_run = (run.previous_base, run.previous_salt, run.previous_end);
        let previous = if inside % 2 == 0 { of_run } else { before_run };
        let forged = forged_segment(&forged_header((1 << 62) - 4096, previous, run.session), id, start);
        let place = (start as usize).checked_sub(at).unwrap();
        let Some(stretch) = value.get_mut(place..place + forged.len()) else { break };
        stretch.copy_from_slice(&forged);
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
    change_superblocks(&mut other, |superblock| superblock[208..224].copy_from_slice(&[0x5e; 16]));
    assert_eq!(order(&other), by([0x5e; 16]));
    assert_ne!(order(&other), order(&bytes));
    assert_eq!(sixteen(&other, 32), id);
}

/// The snapshot has the names of the namespaces in a separate part. When that part had another number for a name than the log, with a valid
/// checksum, compaction dropped all records of the namespace.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
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
    let geometry = crate::log::Geometry::new(4096, 4096);
    let directory = word(&bytes, newest_superblock(&bytes) + 96);
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
        // Salvage dropped them, too, without a word.
        for with_damage in [false, true] {
            let mut bytes = forged.clone();
            if with_damage {
                let at = find(&bytes, &[7; 100]);
                bytes[at] ^= 1;
            }
            let target = Db::open_in_memory().unwrap();
            let report = crate::salvage(&MemoryStorage::from_vec(bytes), &target, &mut |_, _| ()).unwrap();
            let users = target.namespace("users").unwrap();
            let lost = u64::from(with_damage);
            assert_eq!((users.len().unwrap(), target.len().unwrap()), (40 - lost, 40), "{lie}: {report:?}");
            assert!(report.damage.iter().any(|damage| damage.what.contains("namespaces")), "{lie}: {report:?}");
        }
        let (db, storage) = open(&forged).unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Loaded, "{lie}");
        db.insert("new", "x").unwrap();
        assert!(matches!(db.compact(), Err(Error::Corrupt { .. })), "{lie}");
        while let Ok(Some(_)) = db.compact_step() {}
        db.flush().unwrap();
        // The log alone has everything.
        let mut mended = storage.to_vec();
        drop(db);
        drop_snapshot(&mut mended);
        let (db, _) = open(&mended).unwrap();
        let users = db.find_namespace("users").unwrap();
        assert_eq!((users.len().unwrap(), db.len().unwrap()), (40, 41), "{lie}");
    }
}

/// Free space may contain a valid header that a value has carried there; it can name any number of extents, anywhere. Two of them
/// ended the process that opened the file.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn forged_headers_in_free_space_end_no_open_and_hide_nothing_that_was_flushed() {
    use crate::log::{Front, read_superblocks};
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
        // A store opens in spite of a header that nothing leads to and that no session of it can have written.
        let is_possible = |header: &SegmentHeader| {
            let is_near = header.base < (1 << 20) + bytes.len() as u64;
            header.synced <= header.base && header.session <= pair.current.session && is_near
        };
        let geometry = pair.current.geometry();
        let live = crate::recover::Chain::follow(&store, &pair).unwrap().live_segments();
        let last = *live.last().unwrap();
        let snapshot = |at: usize| bytes[at + 16..at + 21] == *b"PSEG\x02";
        let is_free = |extent: &u32| live.iter().all(|used| *extent < used.extent || *extent >= used.extent + used.extents);
        let free: Vec<u32> = (0..geometry.extents_in(bytes.len() as u64)).filter(is_free).collect();
        for extent in free.into_iter().filter(|&extent| !snapshot(geometry.start(extent) as usize)) {
            let start = geometry.start(extent);
            if start as usize + 704 > bytes.len() {
                continue;
            }
            for extents in [1, 2, 99, 100, 1 << 20, u32::MAX - extent, u32::MAX] {
                for (base, previous) in
                    [(1 << 20, (0, 0)), (last.base + 8192, (last.base, last.salt)), ((1 << 62) - 4096, (7, 7)), (4096, (0, 0))]
                {
                    for (synced, ahead) in [(0, 0), (1 << 61, 0), (1 << 61, 1), (base, 0), (base, 1)] {
                        let leads_there = (previous.0, previous.1) == (last.base, last.salt);
                        let previous = (previous.0, previous.1, last.end);
                        let header = forged_header(base, previous, pair.current.session + ahead);
                        // Every other one has a number that a session may come to.
                        let number = if extents % 2 == 0 { 1 << 61 } else { pair.current.headers + 40 };
                        let header = SegmentHeader { extents, synced, number, ..header };
                        let segment = forged_segment(&header, pair.current.store_id, start);
                        let mut forged = bytes.clone();
                        let room = segment.len().min(forged.len() - start as usize);
                        forged[start as usize..][..room].copy_from_slice(&segment[..room]);
                        let _ = crate::verify_storage(&MemoryStorage::from_vec(forged.clone()));
                        match open(&forged) {
                            Ok((db, _)) => {
                                opened += 1;
                                let mut found = keys(&db);
                                found.retain(|key| key != b"evil");
                                assert_eq!(found, before, "extent {extent}, {header:?}");
                                if opened % 16 == 0 {
                                    // Its number and base would have used up those of the store.
                                    db.insert("again", "y").unwrap();
                                    let _ = db.compact().and_then(|_| db.close());
                                }
                            }
                            Err(Error::Corrupt { .. }) => {
                                assert!(is_possible(&header) || leads_there, "extent {extent}, {header:?}");
                                refused += 1;
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
    assert!(opened > 50 && refused > 0, "{opened} opened, {refused} refused");
}
