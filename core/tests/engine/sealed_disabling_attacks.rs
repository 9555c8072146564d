//! A store that is being made plain, against somebody who has the file and not the key: it never passes for a sealed one, and what is still sealed counts only
//! as it was.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::{FIRST, bytes, frames, headers, repair_header, repair_superblock, sum_again};
use crate::sealed_disabling::{make_plain, sealed};
use crate::sealed_enabling::{EXTENT, KEY, Shown, builder, open_plain, open_sealed, shown};
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, Storage, StorageErrorKind};
use pipkin::{Db, Error, SalvageOptions};

/// Says in which state the store is.
const STATE: &str = "MARKER state";
/// What nobody with the key has written.
const FORGED: u8 = b'!';

fn has_forged(found: &Shown) -> bool {
    found.values().any(|value| value.ends_with(&[FORGED; 40]))
}

/// A store that is held up by a full medium while it is made plain, with sealed segments that count and plain ones, and what is in it.
fn begun() -> (Vec<u8>, Shown) {
    let base = MemoryStorage::new();
    sealed(&base, 4);
    let before = bytes(&base);
    let of = |extents: u64| {
        let file = MemoryStorage::from_vec(before.clone());
        let full = FaultStorage::new(file.clone());
        full.set_capacity(Some(before.len() as u64 + extents * EXTENT as u64));
        let db = open_sealed(full.clone()).ok()?;
        let is_held_up = matches!(db.disable_encryption(), Err(Error::NoSpace)) && db.key_rotation_pending();
        full.set_capacity(None);
        is_held_up.then_some((file, db))
    };
    let (file, db) = (0..24).find_map(of).unwrap();
    for step in 0..9_u8 {
        db.insert([b"MARKER late ".as_slice(), &[step]].concat(), vec![step; 700]).unwrap();
    }
    db.flush().unwrap();
    let now = shown(&db);
    killed(db);
    let bytes = bytes(&file);
    assert!(segments(&bytes, true).len() > 3 && segments(&bytes, false).len() > 1);
    (bytes, now)
}

/// Where segments of the log begin, the sealed ones or the plain ones.
fn segments(bytes: &[u8], is_sealed: bool) -> Vec<usize> {
    let starts = headers(bytes, EXTENT).into_iter().map(|(at, ..)| at);
    starts.filter(|&at| bytes[at + 20] == 1 && (bytes[at + 80..at + 152] != [0; 72]) == is_sealed).collect()
}

/// What an opening without the word shows.
fn opened(bytes: Vec<u8>) -> pipkin::Result<Shown> {
    let db = open_sealed(MemoryStorage::from_vec(bytes))?;
    let found = shown(&db);
    killed(db);
    Ok(found)
}

/// What the store has become in the end.
fn became(bytes: Vec<u8>) -> pipkin::Result<Shown> {
    let db = make_plain(MemoryStorage::from_vec(bytes))?;
    let found = db.iter().collect::<pipkin::Result<Shown>>()?;
    killed(db);
    Ok(found)
}

/// Changes the end of the value of the first long frame of the segment at `start`, and repairs its checksum. False without one.
fn forge_record(bytes: &mut [u8], start: usize) -> bool {
    let (salt, found) = frames(bytes, start);
    let Some(&(frame, len)) = found.iter().find(|&&(at, len)| len > 300 && bytes[at + 4] & 0x0f == 1) else { return false };
    bytes[frame + len - 100..frame + len].fill(FORGED);
    sum_again(bytes, salt, frame, len);
    true
}

#[test]
fn a_forged_plain_segment_is_shown_to_nobody_who_has_not_said_the_word() {
    let (whole, now) = begun();
    let mut shown_to_those_who_have = 0;
    for at in segments(&whole, false) {
        let mut forged = whole.clone();
        if !forge_record(&mut forged, at) {
            continue;
        }
        for read_only in [false, true] {
            let file = MemoryStorage::from_vec(forged.clone());
            let opened = builder().encryption_key(KEY).read_only(read_only).open_storage(Box::new(file.clone()));
            assert!(matches!(opened.map(drop), Err(Error::DisablingEncryption)), "the segment at {at}");
            let followed = builder().encryption_key(KEY).follow(true).open_storage(Box::new(file.clone()));
            assert!(matches!(followed.map(drop), Err(Error::DisablingEncryption)), "the segment at {at}");
            assert!(matches!(open_plain(file).map(drop), Err(Error::KeyNeeded)), "the segment at {at}");
        }
        shown_to_those_who_have += u32::from(has_forged(&became(forged).unwrap()));
    }
    assert!(shown_to_those_who_have > 0, "nothing was forged");
    assert!(became(whole).is_ok_and(|found| !found.is_empty() && found.iter().all(|(key, value)| now.get(key) == Some(value))));
}

/// Somebody has kept the front of the file and the plain segments from while the store was made plain, and puts them over the store that was sealed again under the
/// same key, with what was written since.
#[test]
fn what_was_kept_of_a_disabling_is_refused_in_the_place_of_a_later_store() {
    let (mut kept, _) = begun();
    let file = MemoryStorage::from_vec(kept.clone());
    segments(&kept.clone(), false).into_iter().for_each(|at| _ = forge_record(&mut kept, at));
    let db = make_plain(file.clone()).unwrap();
    assert!(!db.key_rotation_pending());
    assert!(db.enable_encryption(KEY).unwrap().is_finished);
    db.insert(STATE, "newest").unwrap();
    let newest = shown(&db);
    db.close().unwrap();
    let later = bytes(&file);
    assert_eq!(opened(later.clone()).unwrap(), newest);
    let parts = [0..1024, 1024..4096, 4096..5120, 5120..8192, 12_288..15_360];
    let (mut refused, mut told) = (0, 0);
    for choice in 1..1_u32 << (parts.len() + 1) {
        let mut mixed = later.clone();
        mixed.resize(later.len().max(kept.len()), 0);
        let has = |part: usize| choice & 1 << part != 0;
        for (_, range) in parts.iter().enumerate().filter(|(part, _)| has(*part)) {
            mixed[range.clone()].copy_from_slice(&kept[range.clone()]);
        }
        if has(parts.len()) {
            mixed[FIRST..kept.len()].copy_from_slice(&kept[FIRST..]);
        }
        match opened(mixed.clone()) {
            // The third copy of the page, or a copy beside whole ones, changes nothing.
            Ok(found) => assert_eq!(found, newest, "choice {choice:b}"),
            Err(Error::DisablingEncryption) => told += 1,
            Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::WrongKey | Error::RolledBack) => refused += 1,
            Err(error) => panic!("choice {choice:b}: {error:?}"),
        }
    }
    assert!(refused > 10 && told > 0, "{refused}, {told}");
}

/// In front of the border nothing plain counts, even for who has said the word: no plain segment in the place of a sealed one, no plain frame in one, and none
/// without its header.
#[test]
fn in_front_of_the_border_nothing_plain_counts() {
    let (whole, _) = begun();
    let plain = *segments(&whole, false).iter().find(|&&at| frames(&whole, at).1.iter().any(|&(_, len)| len > 300)).unwrap();
    let (mut refused, mut tried) = (0, 0);
    for at in segments(&whole, true) {
        let mut without_seal = whole.clone();
        for copy in [at, at + 512] {
            without_seal[copy + 80..copy + 152].fill(0);
        }
        repair_header(&mut without_seal, at);
        let mut with_plain_frames = without_seal.clone();
        copy_frames(&mut with_plain_frames, plain, at);
        let mut without_header = with_plain_frames.clone();
        without_header[at..at + 704].fill(0);
        let mut plain_frames_in_sealed = whole.clone();
        copy_frames(&mut plain_frames_in_sealed, plain, at);
        for (way, forged) in [without_seal, with_plain_frames, without_header, plain_frames_in_sealed].into_iter().enumerate() {
            let what = format!("the segment at {at}, way {way}");
            assert!(matches!(opened(forged.clone()), Err(Error::DisablingEncryption)), "{what}");
            tried += 1;
            match became(forged) {
                Ok(found) => assert!(!has_forged(&found), "{what}"),
                Err(Error::Forged { .. } | Error::Corrupt { .. }) => refused += 1,
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
    }
    assert!(refused > 10, "{refused} of {tried}");
}

/// Puts the frames of the segment at `from` into that at `to`, with a forged value and checksums that fit.
fn copy_frames(bytes: &mut [u8], from: usize, to: usize) {
    let salt = u64::from_le_bytes(bytes[to..to + 8].try_into().unwrap());
    let mut at = to + 704;
    for (frame, len) in frames(bytes, from).1 {
        if bytes[frame + 4] & 0x0f == 1 && at + len < to + EXTENT - 64 {
            bytes.copy_within(frame..frame + len, at);
            if len > 300 {
                bytes[at + len - 100..at + len].fill(FORGED);
            }
            sum_again(bytes, salt, at, len);
            at += len;
        }
    }
}

/// Behind the border nothing sealed counts: no sealed segment in the place of a plain one.
#[test]
fn behind_the_border_nothing_sealed_counts() {
    let (whole, now) = begun();
    let default = |found: &Shown| found.iter().all(|(key, value)| now.get(key) == Some(value));
    let mut tried = 0;
    for from in segments(&whole, true) {
        for to in segments(&whole, false) {
            let mut forged = whole.clone();
            forged.copy_within(from..from + EXTENT, to);
            let mut named = forged.clone();
            // With the base and salt of the plain one.
            for copy in [0, 512] {
                named[to + copy..to + copy + 16].copy_from_slice(&whole[to..to + 16]);
                named[to + copy + 32..to + copy + 80].copy_from_slice(&whole[to + 32..to + 80]);
            }
            repair_header(&mut named, to);
            for forged in [forged, named] {
                assert!(matches!(opened(forged.clone()), Err(Error::DisablingEncryption)));
                tried += 1;
                match became(forged) {
                    // It is an end of the log, and nothing that was never written.
                    Ok(found) => assert!(found.keys().all(|key| now.contains_key(key)) || default(&found)),
                    Err(Error::Forged { .. } | Error::Corrupt { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

/// The states of a store over time, as files: sealed twice, in the middle twice, plain twice.
fn states() -> Vec<(Vec<u8>, u8)> {
    let file = MemoryStorage::new();
    sealed(&file, 2);
    let db = open_sealed(file.clone()).unwrap();
    let mut states = Vec::new();
    let mut state = |db: &Db, number: u8| {
        db.insert(STATE, [number]).unwrap();
        db.flush().unwrap();
        states.push((bytes(&file), number));
    };
    state(&db, 0);
    let held = db.snapshot();
    for step in 0..9_u8 {
        db.insert([b"MARKER key ".as_slice(), &[step % 7]].concat(), vec![step; 700]).unwrap();
    }
    state(&db, 1);
    assert!(!db.disable_encryption().unwrap().is_finished);
    state(&db, 2);
    db.checkpoint().unwrap();
    state(&db, 3);
    drop(held);
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    state(&db, 4);
    db.checkpoint().unwrap();
    state(&db, 5);
    killed(db);
    states
}

/// Each slot, the page, and what is behind them, from different moments: the key alone opens sealed states only, and the newest superblock cannot be taken away.
#[test]
fn parts_of_the_file_from_different_moments_give_a_sealed_state_or_an_error() {
    let states = states();
    let len = states.iter().map(|(bytes, _)| bytes.len()).max().unwrap();
    let (mut sealed, mut refused, mut told, mut plain) = (0, 0, 0, 0);
    for choice in 0..6_usize.pow(4) {
        let of = |part: u32| &states[choice / 6_usize.pow(part) % 6];
        let mut mixed = vec![0; len];
        mixed[..of(3).0.len()].copy_from_slice(&of(3).0);
        let ranges = [(0, 0..1024), (1, 4096..5120), (2, 1024..4096), (2, 5120..8192), (2, 12_288..15_360)];
        ranges.into_iter().for_each(|(part, range)| mixed[range.clone()].copy_from_slice(&of(part).0[range]));
        let what = [0, 1, 2, 3].map(|part| of(part).1);
        let state = |found: Shown| found.get(STATE.as_bytes()).map(|value| value[0]);
        match opened(mixed.clone()) {
            Ok(found) => {
                sealed += 1;
                assert!(state(found).is_none_or(|state| state < 2), "{what:?}");
            }
            Err(Error::DisablingEncryption) => {
                told += 1;
                assert!(
                    matches!(open_plain(MemoryStorage::from_vec(mixed.clone())).map(drop), Err(Error::KeyNeeded)),
                    "{what:?}"
                );
                if let Ok(found) = became(mixed) {
                    assert!(state(found).is_none_or(|state| state < 6), "{what:?}");
                }
            }
            // A newer plain superblock is what a plain store has.
            Err(Error::NotSealed) => plain += 1,
            Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::WrongKey | Error::RolledBack) => refused += 1,
            Err(error) => panic!("{what:?}: {error:?}"),
        }
    }
    assert!(sealed > 10 && refused > 100 && told > 50 && plain > 100, "{sealed}, {refused}, {told}, {plain}");
}

/// Which superblock is the newer one is not for somebody without the key to say.
#[test]
fn no_superblock_is_made_newer() {
    for (bytes, number) in states().into_iter().take(4) {
        for slot in [0, 4096] {
            let mut forged = bytes.clone();
            forged[slot + 48..slot + 56].copy_from_slice(&(1_u64 << 40).to_le_bytes());
            repair_superblock(&mut forged, slot);
            let word = if number < 2 { opened(forged.clone()) } else { became(forged) };
            assert!(matches!(word, Err(Error::Forged { .. })), "state {number}, slot {slot}: {word:?}");
        }
    }
}

/// With the key, salvage copies both sides of the border, and says that one of them is not authenticated.
#[test]
fn salvage_copies_both_sides_and_says_which_is_not_authenticated() {
    let salvaged = |bytes: Vec<u8>| {
        let target = Db::open_in_memory().unwrap();
        let from = Db::builder().encryption_key(KEY);
        let report = from.salvage(&MemoryStorage::from_vec(bytes), &target, SalvageOptions::default(), &mut |_, _| ()).unwrap();
        (shown(&target), report)
    };
    let (whole, now) = begun();
    let (found, report) = salvaged(whole.clone());
    assert_eq!(found, now, "{report:?}");
    assert!(report.unauthenticated && report.damage.is_empty(), "{report:?}");
    for at in segments(&whole, true) {
        let mut forged = whole.clone();
        if forge_record(&mut forged, at) {
            let (found, report) = salvaged(forged);
            assert!(!has_forged(&found) && !report.damage.is_empty(), "the segment at {at}: {report:?}");
        }
    }
    // Where the file is damaged so that it does not open.
    let at = segments(&whole, true)[1];
    let mut damaged = whole;
    damaged[at..at + 704].fill(0);
    assert!(became(damaged.clone()).is_err());
    let (found, report) = salvaged(damaged);
    assert!(report.unauthenticated && found.len() + 3 > now.len(), "{report:?}");
    let (_, report) = salvaged(states().remove(0).0);
    assert!(!report.unauthenticated);
}

/// What is changed in a sealed segment under an open store is noticed before it is copied.
#[test]
fn a_sealed_record_that_is_changed_under_an_open_store_is_not_copied() {
    let (whole, now) = begun();
    let mut noticed = 0;
    for at in segments(&whole, true) {
        let mut forged = whole.clone();
        if !forge_record(&mut forged, at) {
            continue;
        }
        let file = MemoryStorage::from_vec(whole.clone());
        let full = FaultStorage::new(file.clone());
        // Held up by a medium that gives no block.
        full.arm(Fault::from_nth(1, Io::Reserve | Io::SetLen, Effect::Error(StorageErrorKind::NoSpace)));
        let db = make_plain(full.clone()).unwrap();
        assert!(db.key_rotation_pending());
        file.write_at(at as u64, &[&forged[at..at + EXTENT]]).unwrap();
        full.disarm();
        match db.finish_key_rotation(|_| {}) {
            Ok(report) if report.is_finished => assert_eq!(shown(&db), now, "the segment at {at} does not count any more"),
            Ok(_) | Err(Error::Forged { .. } | Error::Corrupt { .. }) => noticed += 1,
            Err(error) => panic!("{error:?}"),
        }
        let values = db.iter().filter_map(Result::ok).map(|(_, value)| value);
        assert!(values.into_iter().all(|value| !value.ends_with(&[FORGED; 40])), "the segment at {at}");
    }
    assert!(noticed > 2, "{noticed}");
}
