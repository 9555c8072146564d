//! Somebody without the key, who has every earlier version of the file, other stores of the same key, and the specification: whatever is cut, moved,
//! put in or set back, and whatever checksum is repaired, the store answers with an error or shows a whole state that it was in.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::{FIRST, bytes, frames, headers, repair_header, repair_superblock, sum_again};
use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Db, Error, verify_storage};
use std::collections::{BTreeMap, BTreeSet};

const KEY: [u8; 32] = [7; 32];
/// Bytes of an extent.
const EXTENT: usize = 4096;

type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

fn sealed() -> Builder {
    Db::builder().encryption_key(KEY).segment_size(EXTENT as u32).background(false)
}

fn open(file: &MemoryStorage) -> pipkin::Result<Db> {
    sealed().open_storage(Box::new(file.clone()))
}

fn shown(bytes: Vec<u8>) -> pipkin::Result<Shown> {
    let builder = sealed().read_only(true).verify_on_read(false);
    builder.open_storage(Box::new(MemoryStorage::from_vec(bytes)))?.iter().collect()
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Forged { .. } | Error::Corrupt { .. } | Error::RolledBack | Error::WrongKey | Error::NotAStore { .. })
}

/// Versions of the file as they were left, and every state that the store was in.
struct Life {
    versions: Vec<Vec<u8>>,
    states: BTreeSet<Shown>,
}

impl Life {
    /// Sessions that overwrite, remove and compact, so that places in the file are used again; some are closed, others killed.
    fn lived(seed: u8) -> Self {
        let file = MemoryStorage::new();
        let (mut versions, mut states, mut now) = (Vec::new(), BTreeSet::from([Shown::new()]), Shown::new());
        for session in 0..12_u8 {
            let db = open(&file).unwrap();
            for step in 0..8_u8 {
                let key = vec![seed, (session.wrapping_mul(3) + step) % 9];
                if step == 5 {
                    db.remove(&key).unwrap();
                    now.remove(&key);
                } else {
                    let value = vec![session * 16 + step; 300 + usize::from(step) * 90];
                    db.insert(&key, &value).unwrap();
                    now.insert(key, value);
                }
                states.insert(now.clone());
            }
            match session % 4 {
                1 => drop(db.compact().unwrap()),
                2 => db.checkpoint().unwrap(),
                _ => drop(db.flush().unwrap()),
            }
            if session % 3 == 0 {
                db.close().unwrap();
            } else {
                killed(db);
            }
            versions.push(bytes(&file));
        }
        let life = Self { versions, states };
        for version in &life.versions {
            assert!(life.states.contains(&shown(version.clone()).unwrap()));
        }
        life
    }

    fn newest(&self) -> &Vec<u8> {
        &self.versions[self.versions.len() - 1]
    }

    /// Checks that a file shows a state that was, or nothing; true for the latter.
    fn refuses(&self, bytes: Vec<u8>, what: &str) -> bool {
        match shown(bytes) {
            Ok(found) => {
                assert!(self.states.contains(&found), "{what}: a state that never was: {:?}", found.keys());
                false
            }
            Err(error) => {
                assert!(is_refusal(&error), "{what}: {error:?}");
                true
            }
        }
    }
}

fn part(bytes: &[u8], from: usize, to: usize) -> Vec<u8> {
    let mut part = bytes.get(from.min(bytes.len())..to.min(bytes.len())).unwrap_or_default().to_vec();
    part.resize(to - from, 0);
    part
}

fn with(base: &[u8], at: usize, part: &[u8]) -> Vec<u8> {
    let mut out = base.to_vec();
    out.resize(out.len().max(at + part.len()), 0);
    out[at..at + part.len()].copy_from_slice(part);
    out
}

#[test]
fn parts_of_earlier_versions_never_show_a_state_that_was_not() {
    let life = Life::lived(1);
    let (mut refused, mut tried) = (0, 0);
    let mut check = |bytes: Vec<u8>, what: String| {
        tried += 1;
        refused += usize::from(life.refuses(bytes, &what));
    };
    for (new, base) in life.versions.iter().enumerate() {
        for (old, other) in life.versions.iter().enumerate().filter(|(old, _)| *old != new) {
            let name = |what: &str| format!("{what} of version {old} in version {new}");
            check(with(base, 0, &part(other, 0, FIRST)), name("the front"));
            for slot in [0, EXTENT] {
                check(with(base, slot, &part(other, slot, slot + 512)), name("a superblock"));
            }
            for at in (FIRST..base.len().max(other.len())).step_by(EXTENT) {
                check(with(base, at, &part(other, at, at + EXTENT)), name("a segment"));
                check(with(base, at, &part(other, at, at + 704)), name("a header"));
                // With the front of that version, too.
                let front = with(base, 0, &part(other, 0, FIRST));
                check(with(&front, at, &part(other, at, at + EXTENT)), name("a segment and the front"));
            }
        }
    }
    assert!(tried > 1000 && refused > 100, "{refused} of {tried}");
}

#[test]
fn segments_that_change_places_and_those_of_other_stores_are_forged() {
    let life = Life::lived(1);
    let good = life.newest();
    let other = Life::lived(2);
    let foreign = other.newest();
    let all = headers(good, EXTENT);
    assert!(all.len() > 3);
    let forged = |bytes: Vec<u8>, what: &str| {
        assert!(matches!(shown(bytes), Err(Error::Forged { .. })), "{what}");
    };
    for &(one, ..) in &all {
        for &(two, ..) in all.iter().filter(|(two, ..)| *two != one) {
            // Each header, and each whole segment, at the place of another one.
            for len in [704, EXTENT] {
                let mut moved = with(good, one, &part(good, two, two + len));
                repair_header(&mut moved, one);
                forged(moved, "a header at another place");
            }
        }
        let mut spliced = with(good, one, &part(foreign, FIRST, FIRST + EXTENT));
        repair_header(&mut spliced, one);
        forged(spliced, "a segment of another store of the same key");
    }
    // The front, the page of keys and the superblocks of the other store: neither their records nor these.
    for (from, to) in [(0, FIRST), (1024, 4096), (0, 512)] {
        assert!(life.refuses(with(good, from, &part(foreign, from, to)), "the front of another store"));
    }
    let mut keys = good.clone();
    for at in [1024, 5120, 12_288] {
        keys[at..at + 3072].copy_from_slice(&foreign[at..at + 3072]);
    }
    assert!(matches!(shown(keys), Err(Error::WrongKey)), "the page of keys of another store of the same key");
    // A superblock in the other slot.
    for (from, to) in [(0, EXTENT), (EXTENT, 0)] {
        let mut moved = with(good, to, &part(good, from, from + 512));
        repair_superblock(&mut moved, to);
        forged(moved, "a superblock in the other slot");
    }
}

#[test]
fn frames_that_are_cut_out_or_moved_up_show_a_prefix_or_an_error() {
    let life = Life::lived(1);
    let mut refused = 0;
    for (number, version) in life.versions.iter().enumerate() {
        for (start, ..) in headers(version, EXTENT) {
            let (salt, found) = frames(version, start);
            let Some(&(last, last_len)) = found.last() else { continue };
            let end = last + last_len;
            for &(at, len) in &found {
                // The rest of the segment from here on is gone.
                let mut cut = version.clone();
                cut[at..end].fill(0);
                refused += usize::from(life.refuses(cut, &format!("version {number}, cut at {at}")));
                // This one is gone, and the others move up.
                let mut up = version.clone();
                up.copy_within(at + len..end, at);
                up[end - len..end].fill(0);
                let mut place = at;
                for &(_, len) in found.iter().filter(|(other, _)| *other > at) {
                    sum_again(&mut up, salt, place, len);
                    place += len;
                }
                refused += usize::from(life.refuses(up, &format!("version {number}, without the frame at {at}")));
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn a_sealed_store_without_superblocks_is_checked_and_salvaged_only_with_the_key_and_a_plain_one_has_no_sealed_record() {
    let life = Life::lived(1);
    let mut lost = life.newest().clone();
    lost[..512].fill(1);
    lost[EXTENT..EXTENT + 512].fill(1);
    let file = MemoryStorage::from_vec(lost);
    let report = verify_storage(&file).unwrap();
    assert!(report.unauthenticated && report.bytes_checked > 1000);
    let target = Db::open_in_memory().unwrap();
    assert!(matches!(pipkin::salvage(&file, &target, &mut |_, _| ()), Err(Error::KeyNeeded)));

    let plain = MemoryStorage::new();
    let db = Db::builder().segment_size(EXTENT as u32).background(false).open_storage(Box::new(plain.clone())).unwrap();
    db.insert("color", vec![1; 60]).unwrap();
    db.flush().unwrap();
    killed(db);
    let mut bytes = bytes(&plain);
    let salt = u64::from_le_bytes(bytes[FIRST..FIRST + 8].try_into().unwrap());
    let at = FIRST + 704;
    assert_eq!(bytes[at + 4..at + 7], [1, 5, 60]);
    bytes[at + 4] |= 0x80;
    sum_again(&mut bytes, salt, at, 4 + 3 + 5 + 60);
    let found = Db::builder().open_storage(Box::new(MemoryStorage::from_vec(bytes)));
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{:?}", found.map(drop));
}
