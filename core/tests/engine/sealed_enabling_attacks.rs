//! A store that is being sealed, against somebody who has the file and not the key: plain segments count only as they were.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::{FIRST, bytes, frames, headers, repair_superblock, sum_again};
use crate::sealed_enabling::{EXTENT, Shown, lived, open_plain, open_sealed, shown};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Db, Error, SalvageOptions};

/// A store that has begun to be sealed, with plain segments that count, and what is in it.
fn begun() -> (Vec<u8>, Shown) {
    let base = MemoryStorage::new();
    let now = lived(&base, 4);
    let image = CrashImage::from_bytes(&bytes(&base));
    let mut most = (0, Vec::new());
    for io in 1..60 {
        let file = CrashStorage::from_image(&image);
        let db = open_plain(file.clone()).unwrap();
        file.stop_at(Some(io));
        let _ = db.enable_encryption(crate::sealed_enabling::KEY);
        let left = file.freeze().latest_image().to_memory();
        killed(db);
        let Ok(db) = open_sealed(left.clone()) else { continue };
        if db.key_rotation_pending() {
            killed(db);
            let plain = plain_segments(&bytes(&left)).len();
            if plain > most.0 {
                most = (plain, bytes(&left));
            }
        }
    }
    assert!(most.0 > 5, "{} plain segments", most.0);
    (most.1, now)
}

/// Where plain segments of the log begin.
fn plain_segments(bytes: &[u8]) -> Vec<usize> {
    let starts = headers(bytes, EXTENT).into_iter().map(|(at, ..)| at);
    starts.filter(|&at| bytes[at + 20] == 1 && bytes[at + 80..at + 88] == [0; 8]).collect()
}

fn opened(bytes: Vec<u8>) -> pipkin::Result<Shown> {
    let db = open_sealed(MemoryStorage::from_vec(bytes))?;
    let found = shown(&db);
    killed(db);
    Ok(found)
}

/// Fails unless the change is noticed, or was one of bytes that do not count. True if it was noticed.
fn is_noticed(changed: Vec<u8>, now: &Shown, what: &str) -> bool {
    match opened(changed) {
        Ok(found) => assert!(&found == now, "{what}: shown"),
        Err(Error::Forged { .. }) => return true,
        Err(error) => panic!("{what}: {error:?}"),
    }
    false
}

#[test]
fn a_plain_segment_that_was_changed_dropped_or_exchanged_is_forged() {
    let (whole, now) = begun();
    assert_eq!(opened(whole.clone()).unwrap(), now);
    let starts = plain_segments(&whole);
    let (mut changed, mut dropped, mut exchanged) = (0, 0, 0);
    for &at in &starts {
        let (salt, found) = frames(&whole, at);
        for &(frame, len) in &found {
            let mut bytes = whole.clone();
            bytes[frame + len - 1] ^= 1;
            sum_again(&mut bytes, salt, frame, len);
            changed += u32::from(is_noticed(bytes, &now, &format!("the frame at {frame}")));
        }
        let mut bytes = whole.clone();
        bytes[at..at + EXTENT].fill(0);
        dropped += u32::from(is_noticed(bytes, &now, &format!("without the segment at {at}")));
        for &other in starts.iter().filter(|&&other| other > at) {
            let mut bytes = whole.clone();
            bytes[at..at + EXTENT].copy_from_slice(&whole[other..other + EXTENT]);
            bytes[other..other + EXTENT].copy_from_slice(&whole[at..at + EXTENT]);
            exchanged += u32::from(is_noticed(bytes, &now, &format!("the segments at {at} and {other} exchanged")));
        }
    }
    assert!(changed > 20 && dropped > 3 && exchanged > 3, "{changed}, {dropped}, {exchanged}");
}

/// The last frame of a segment is made one that is not there: a removal is forgotten.
#[test]
fn a_plain_segment_does_not_lose_its_end() {
    let (whole, now) = begun();
    let mut noticed = 0;
    for at in plain_segments(&whole) {
        // What stands in the trailer only says where to look.
        let (_, found) = frames(&whole, at);
        let is_record = |frame: usize| whole[frame + 4] & 0x0f != 11;
        let Some(&(last, len)) = found.iter().rfind(|(frame, _)| is_record(*frame)) else { continue };
        let mut bytes = whole.clone();
        bytes[last..last + len].fill(0);
        noticed += u32::from(is_noticed(bytes, &now, &format!("without the frame at {last}")));
    }
    assert!(noticed > 3, "{noticed}");
}

/// The older superblock is a plain one. Made the newer one, it leads nobody who has the key to an older state.
#[test]
fn the_superblock_of_before_is_never_taken_for_the_newer_one() {
    let base = MemoryStorage::new();
    let now = lived(&base, 3);
    let before = bytes(&base);
    let db = open_plain(base.clone()).unwrap();
    assert!(db.enable_encryption(crate::sealed_enabling::KEY).unwrap().is_finished);
    db.insert("MARKER newest", "yes").unwrap();
    db.close().unwrap();
    let (whole, _) = begun();
    for (mut bytes, is_begun) in [(bytes(&base), false), (whole, true)] {
        for slot in [0, 4096] {
            for generation in [1_u64, 1 << 40] {
                bytes[slot..slot + 512].copy_from_slice(&before[slot..slot + 512]);
                bytes[slot + 48..slot + 56].copy_from_slice(&generation.to_le_bytes());
                repair_superblock(&mut bytes, slot);
                match opened(bytes.clone()) {
                    Err(Error::NotSealed | Error::Forged { .. } | Error::Corrupt { .. }) => {}
                    Ok(_) if is_begun && generation == 1 => {}
                    other => panic!("slot {slot}, generation {generation}: {:?}", other.map(|found| found == now)),
                }
            }
        }
    }
}

/// Once it has finished, plain segments count nowhere: not those of before, in the places that they had, and not with the front of the file from while it
/// was being sealed.
#[test]
fn behind_the_end_no_plain_segment_counts() {
    let (whole, now) = begun();
    let file = MemoryStorage::from_vec(whole.clone());
    let db = open_sealed(file.clone()).unwrap();
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    db.insert("MARKER newest", "yes").unwrap();
    db.close().unwrap();
    let finished = bytes(&file);
    let starts = plain_segments(&whole);
    let (mut tried, mut refused) = (0, 0);
    for is_front_of_before in [false, true] {
        for &at in &starts {
            let len = finished.len().max(at + EXTENT);
            let mut mixed = finished.clone();
            mixed.resize(len, 0);
            mixed[at..at + EXTENT].copy_from_slice(&whole[at..at + EXTENT]);
            let (salt, found) = frames(&mixed, at);
            // With a record that was never written.
            if let Some(&(frame, len)) = found.iter().find(|(_, len)| *len > 300) {
                mixed[frame + len - 200..frame + len].fill(b'!');
                sum_again(&mut mixed, salt, frame, len);
            }
            if is_front_of_before {
                mixed[..FIRST].copy_from_slice(&whole[..FIRST]);
            }
            tried += 1;
            match opened(mixed) {
                Ok(found) => {
                    assert!(!found.values().any(|value| value.ends_with(b"!!!!")), "the segment at {at} counts");
                    assert!(!is_front_of_before || found.len() >= now.len());
                }
                Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::RolledBack) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    assert!(tried > 10 && refused > 5, "{refused} of {tried}");
}

/// What is changed while the store is open is noticed before it is sealed.
#[test]
fn a_plain_segment_that_is_changed_under_an_open_store_is_not_copied() {
    let (whole, _) = begun();
    let mut noticed = 0;
    for at in plain_segments(&whole) {
        let file = MemoryStorage::from_vec(whole.clone());
        let db = open_sealed(file.clone()).unwrap();
        let (salt, found) = frames(&whole, at);
        let Some(&(frame, len)) = found.iter().find(|(_, len)| *len > 300) else { continue };
        let mut bytes = whole.clone();
        bytes[frame + len - 200..frame + len].fill(b'!');
        sum_again(&mut bytes, salt, frame, len);
        pipkin::Storage::write_at(&file, frame as u64, &[&bytes[frame..frame + len]]).unwrap();
        match db.finish_key_rotation(|_| {}) {
            Err(Error::Forged { .. }) => noticed += 1,
            // Nothing of it counts any more.
            Ok(report) => assert!(report.is_finished && !shown(&db).values().any(|value| value.ends_with(b"!!!!"))),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(noticed > 2, "{noticed}");
}

/// With the key, salvage copies what is plain and as it was, and leaves out what is not.
#[test]
fn salvage_copies_the_plain_segments_that_count() {
    let (whole, now) = begun();
    let salvaged = |bytes: Vec<u8>| {
        let target = Db::open_in_memory().unwrap();
        let from = Db::builder().encryption_key(crate::sealed_enabling::KEY);
        let report = from.salvage(&MemoryStorage::from_vec(bytes), &target, SalvageOptions::default(), &mut |_, _| ()).unwrap();
        (shown(&target), report)
    };
    let (found, report) = salvaged(whole.clone());
    assert_eq!(found, now, "{report:?}");
    let mut left_out = 0;
    for at in plain_segments(&whole) {
        let (salt, found) = frames(&whole, at);
        let Some(&(frame, len)) = found.iter().find(|(_, len)| *len > 300) else { continue };
        let mut bytes = whole.clone();
        bytes[frame + len - 200..frame + len].fill(b'!');
        sum_again(&mut bytes, salt, frame, len);
        let (found, _) = salvaged(bytes);
        assert!(!found.values().any(|value| value.ends_with(b"!!!!")), "the segment at {at}");
        left_out += u32::from(found != now);
    }
    assert!(left_out > 2, "{left_out}");
}
