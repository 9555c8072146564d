//! Salvage of sealed stores with the key: every authentic record of a damaged file, and never one that somebody without the key has made, changed or
//! moved.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "salvage", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{contents, killed};
use crate::sealed_bytes::{FIRST, bytes, frame_len, frames, headers, repair_header, repair_superblock, sum_again};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::CrashStorage;
use pipkin::{Builder, Cipher, Db, Error, Expected, NewEvent, Result, SalvageOptions, SalvageReport, Ttl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KEY: [u8; 32] = [7; 32];
/// Bytes of an extent.
const EXTENT: usize = 4096;
const PAGES: [usize; 3] = [1024, 5120, 12_288];

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn sealed() -> Builder {
    Db::builder().encryption_key(KEY).segment_size(EXTENT as u32).background(false)
}

fn open(file: &MemoryStorage) -> Db {
    sealed().open_storage(Box::new(file.clone())).unwrap()
}

fn plain() -> Db {
    Db::builder().background(false).in_memory().unwrap()
}

/// Everything, also what had been removed or cut off.
fn all() -> SalvageOptions {
    SalvageOptions::default().unfinished(true).revived(true).stranded(true)
}

fn salvaged_with(builder: &Builder, bytes: Vec<u8>, options: SalvageOptions) -> Result<(SalvageReport, Records)> {
    let target = plain();
    let report = builder.salvage(&MemoryStorage::from_vec(bytes), &target, options, &mut |_, _| ())?;
    let records = target.iter().map(Result::unwrap).collect();
    Ok((report, records))
}

fn salvaged(bytes: &[u8]) -> (SalvageReport, Records) {
    salvaged_with(&sealed(), bytes.to_vec(), SalvageOptions::default()).unwrap()
}

/// A file, everything that was ever written to it, and what it shows.
struct Life {
    bytes: Vec<u8>,
    versions: Vec<Vec<u8>>,
    written: BTreeSet<(Vec<u8>, Vec<u8>)>,
    now: Records,
    kept_page: Vec<u8>,
}

impl Life {
    /// Sessions that overwrite, remove, checkpoint and compact; some are killed.
    fn lived(seed: u8) -> Self {
        let file = MemoryStorage::new();
        let (mut versions, mut written, mut now) = (Vec::new(), BTreeSet::new(), Records::new());
        let mut kept_page = Vec::new();
        for session in 0..9_u8 {
            let db = open(&file);
            for step in 0..8_u8 {
                let key = vec![seed, (session.wrapping_mul(3) + step) % 9];
                if step == 5 {
                    db.remove(&key).unwrap();
                    now.remove(&key);
                } else {
                    let value = vec![session * 16 + step; 300 + usize::from(step) * 90];
                    db.insert(&key, &value).unwrap();
                    written.insert((key.clone(), value.clone()));
                    now.insert(key, value);
                }
            }
            match session % 4 {
                1 => drop(db.compact().unwrap()),
                2 => db.checkpoint().unwrap(),
                _ => drop(db.flush().unwrap()),
            }
            kept_page = db.export_key_page().unwrap();
            if session % 3 == 0 {
                killed(db);
            } else {
                db.close().unwrap();
            }
            versions.push(bytes(&file));
        }
        Self { bytes: bytes(&file), versions, written, now, kept_page }
    }

    /// Salvages a changed file: whatever is left in it, nothing comes out that was not written.
    fn salvage(&self, bytes: Vec<u8>, what: &str) -> Option<(SalvageReport, Records)> {
        let forged = |records: &Records| {
            records.iter().find(|(key, value)| !self.written.contains(&((*key).clone(), (*value).clone()))).is_some()
        };
        for options in [all(), SalvageOptions::default()] {
            match salvaged_with(&sealed(), bytes.clone(), options) {
                Ok((report, records)) => {
                    assert!(!forged(&records), "{what}: a record that nobody wrote: {:?}", records.keys());
                    assert!(
                        records == self.now || !report.damage.is_empty() || report.history_unproven,
                        "{what}: nothing said: {report:?}"
                    );
                    if options == SalvageOptions::default() {
                        return Some((report, records));
                    }
                }
                Err(Error::Corrupt { .. } | Error::WrongKey | Error::Forged { .. } | Error::NotAStore { .. }) => {}
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
        None
    }

    /// The same, where nothing may be lost.
    fn whole(&self, bytes: Vec<u8>, what: &str) -> SalvageReport {
        let (report, records) = self.salvage(bytes, what).unwrap_or_else(|| panic!("{what}: not salvaged"));
        assert!(records == self.now, "{what}: {report:?}");
        report
    }
}

fn with(base: &[u8], at: usize, part: &[u8]) -> Vec<u8> {
    let mut out = base.to_vec();
    out.resize(out.len().max(at + part.len()), 0);
    out[at..at + part.len()].copy_from_slice(part);
    out
}

fn part(bytes: &[u8], from: usize, to: usize) -> Vec<u8> {
    let mut part = bytes.get(from.min(bytes.len())..to.min(bytes.len())).unwrap_or_default().to_vec();
    part.resize(to - from, 0);
    part
}

#[test]
fn an_undamaged_store_comes_out_as_it_is_into_plain_and_sealed_targets() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let file = MemoryStorage::new();
        let db = sealed().cipher(cipher).open_storage(Box::new(file.clone())).unwrap();
        db.insert_many((0..40_u8).map(|number| ([number], vec![number; 200]))).unwrap();
        db.insert("large", vec![7; 150_000]).unwrap();
        db.insert_with_ttl("code", "1234", Duration::from_secs(3600)).unwrap();
        db.insert_with_ttl("logo", "...", Ttl::Never).unwrap();
        db.remove([3]).unwrap();
        db.compact().unwrap();
        db.namespace("users").unwrap().insert("ada", "Ada").unwrap();
        let log = db.events("orders").unwrap();
        for number in 0..20_u8 {
            log.append("cart", Expected::Any, [NewEvent::new("added", [number; 9]).tag("a tag")]).unwrap();
        }
        drop(log);
        let (truth, expires) = (contents(&db), db.expires_at("code").unwrap());
        db.close().unwrap();
        for target in [plain(), sealed().in_memory().unwrap()] {
            let report = sealed().salvage(&file, &target, SalvageOptions::default(), &mut |_, _| ()).unwrap();
            assert!(report.damage.is_empty() && !report.history_unproven && report.unsure == 0, "{report:?}");
            assert_eq!((contents(&target), target.expires_at("code").unwrap()), (truth.clone(), expires));
            let payloads: Vec<Vec<u8>> = target
                .events("orders")
                .unwrap()
                .stream("cart")
                .iter()
                .unwrap()
                .map(|event| event.unwrap().payload().to_vec())
                .collect();
            assert_eq!(payloads, (0..20_u8).map(|number| vec![number; 9]).collect::<Vec<_>>());
            assert!(target.verify().unwrap().is_ok());
        }
    }
}

#[test]
fn without_its_key_nothing_is_copied() {
    let file = MemoryStorage::new();
    open(&file).insert("color", "green").unwrap();
    let target = plain();
    let with = |builder: Builder| builder.salvage(&file, &target, all(), &mut |_, _| ()).map(drop);
    assert!(matches!(pipkin::salvage(&file, &target, &mut |_, _| ()), Err(Error::KeyNeeded)));
    assert!(matches!(with(Db::builder()), Err(Error::KeyNeeded)));
    assert!(matches!(with(Db::builder().encryption_key([8; 32])), Err(Error::WrongKey)));
    assert!(matches!(with(Db::builder().encryption_passphrase("none")), Err(Error::WrongKey)));
    assert!(target.is_empty().unwrap());
    let other = MemoryStorage::new();
    Db::builder().open_storage(Box::new(other.clone())).unwrap().insert("color", "green").unwrap();
    assert!(matches!(sealed().salvage(&other, &target, all(), &mut |_, _| ()).map(drop), Err(Error::NotSealed)));
    assert_eq!(Db::builder().salvage(&other, &target, all(), &mut |_, _| ()).unwrap().records, 1);
}

#[test]
fn a_record_whose_checksum_somebody_has_repaired_is_left_out_and_the_others_are_kept() {
    let life = Life::lived(1);
    assert!(life.whole(life.bytes.clone(), "undamaged").damage.is_empty());
    let foreign = Life::lived(2).bytes;
    let (mut forged, mut lost) = (0, 0);
    for (start, ..) in headers(&life.bytes, EXTENT) {
        let (salt, found) = frames(&life.bytes, start);
        let (_, others) = frames(&foreign, start);
        for (index, &(at, len)) in found.iter().enumerate() {
            let mut tries: Vec<(&str, Vec<u8>)> = Vec::new();
            for place in [at + 4, at + 5, at + len / 2, at + len - 1] {
                let mut changed = life.bytes.clone();
                changed[place] ^= 1;
                let len = frame_len(&changed, at).unwrap_or(len).min(changed.len() - at);
                sum_again(&mut changed, salt, at, len);
                tries.push(("a changed byte", changed));
            }
            let mut plain = life.bytes.clone();
            plain[at + 4..at + len].fill(0x55);
            plain[at + 4..at + 7].copy_from_slice(&[1, 1, (len - 8).min(0x7f) as u8]);
            sum_again(&mut plain, salt, at, 8 + (len - 8).min(0x7f));
            tries.push(("a plain record", plain));
            for (other, what) in [(found.get(index + 1), "the next one"), (others.get(index), "one of another store")] {
                let source = if what == "the next one" { &life.bytes } else { &foreign };
                if let Some(&(from, other_len)) = other.filter(|(_, other_len)| *other_len <= len) {
                    let mut moved = with(&life.bytes, at, &source[from..from + other_len]);
                    sum_again(&mut moved, salt, at, other_len);
                    tries.push((what, moved));
                }
            }
            for (what, changed) in tries {
                let (report, records) = life.salvage(changed, what).unwrap();
                forged += usize::from(!report.damage.is_empty());
                lost = lost.max(life.now.iter().filter(|(key, value)| records.get(*key) != Some(value)).count());
            }
        }
    }
    assert!(forged > 100, "{forged}");
    // A frame in a segment is all that one change can cost, and the one behind it where a length was changed.
    assert!(lost <= 2, "{lost}");
}

#[test]
fn segments_and_headers_that_were_moved_or_are_of_another_store_count_for_nothing() {
    let life = Life::lived(1);
    let foreign = Life::lived(2).bytes;
    let all = headers(&life.bytes, EXTENT);
    assert!(all.len() > 3);
    for &(one, ..) in &all {
        for &(two, ..) in all.iter().filter(|(two, ..)| *two != one) {
            for len in [704, EXTENT] {
                let mut moved = with(&life.bytes, one, &part(&life.bytes, two, two + len));
                repair_header(&mut moved, one);
                let (report, _) = life.salvage(moved, "a moved segment").unwrap();
                assert!(report.history_unproven && report.damage.iter().any(|damage| damage.offset == one as u64), "{report:?}");
            }
        }
        let mut spliced = with(&life.bytes, one, &part(&foreign, FIRST, FIRST + EXTENT));
        repair_header(&mut spliced, one);
        assert!(life.salvage(spliced, "a segment of another store").unwrap().0.history_unproven);
    }
    let mut front = with(&life.bytes, 0, &part(&foreign, 0, FIRST));
    assert!(life.salvage(front.clone(), "the front of another store").is_none_or(|(_, records)| records.is_empty()));
    // With a page of keys that was kept, the store has its id again.
    for slot in [0, EXTENT] {
        front[slot..slot + 512].fill(9);
    }
    let (report, records) = salvaged_with(&sealed().key_page(life.kept_page.clone()), front, SalvageOptions::default()).unwrap();
    assert!(records == life.now && report.history_unproven);
}

#[test]
fn parts_of_earlier_versions_bring_back_nothing_that_was_not_written_and_are_told_of() {
    let life = Life::lived(3);
    for (number, other) in life.versions.iter().enumerate() {
        let name = |what: &str| format!("{what} of version {number}");
        life.salvage(with(&life.bytes, 0, &part(other, 0, FIRST)), &name("the front"));
        for slot in [0, EXTENT] {
            life.salvage(with(&life.bytes, slot, &part(other, slot, slot + 512)), &name("a superblock"));
        }
        for at in (FIRST..life.bytes.len().max(other.len())).step_by(EXTENT) {
            life.salvage(with(&life.bytes, at, &part(other, at, at + EXTENT)), &name("a segment"));
            life.salvage(with(&life.bytes, at, &part(other, at, at + 704)), &name("a header"));
        }
    }
}

#[test]
fn superblocks_that_are_lost_or_forged_cost_no_record_while_the_id_of_the_store_is_known() {
    let life = Life::lived(1);
    let slots = [0, EXTENT];
    for slot in slots {
        let report = life.whole(with(&life.bytes, slot, &[9; 512]), "one lost");
        assert!(report.history_unproven && !report.damage.is_empty());
    }
    for place in (48..480).step_by(9) {
        let mut changed = life.bytes.clone();
        for slot in slots {
            changed[slot + place] ^= 1;
        }
        let report = life.whole(changed.clone(), "both damaged");
        assert!(report.history_unproven && report.damage.len() >= 2, "{report:?}");
        for slot in slots {
            repair_superblock(&mut changed, slot);
        }
        assert!(life.whole(changed, "both forged").history_unproven);
    }
    // A forged one of a later version, of a plain store, and of another size of segments.
    for (place, value) in [(8, 9), (16, 0), (192, 0), (65, 0x20), (16, 3)] {
        let mut changed = life.bytes.clone();
        for slot in slots {
            changed[slot + place] = value;
            repair_superblock(&mut changed, slot);
        }
        assert!(life.whole(changed, "another kind of store").history_unproven, "byte {place}");
    }
    let mut gone = life.bytes.clone();
    for slot in slots {
        gone[slot..slot + 512].fill(9);
    }
    let salvage = |builder: Builder, bytes: &[u8]| salvaged_with(&builder, bytes.to_vec(), SalvageOptions::default());
    assert!(matches!(salvage(sealed(), &gone), Err(Error::Corrupt { what, .. }) if what.contains("the id of the store")));
    let kept = sealed().key_page(life.kept_page.clone());
    let (report, records) = salvage(kept.clone(), &gone).unwrap();
    assert!(records == life.now && report.history_unproven && report.damage.len() >= 2, "{report:?}");
    // All pages of keys, too.
    for place in PAGES {
        gone[place..place + 3072].fill(9);
    }
    assert!(salvage(sealed(), &gone).is_err());
    assert!(salvage(kept.clone(), &gone).unwrap().1 == life.now);
    let mut no_page = life.bytes.clone();
    for place in PAGES {
        no_page[place..place + 3072].fill(9);
    }
    assert!(matches!(salvage(sealed(), &no_page), Err(Error::Corrupt { what, .. }) if what.contains("page of keys")));
    let (report, records) = salvage(kept, &no_page).unwrap();
    assert!(records == life.now && !report.history_unproven && report.damage.len() == 3, "{report:?}");
    let wrong = Db::builder().encryption_key([8; 32]).key_page(life.kept_page.clone());
    assert!(salvage(wrong, &no_page).is_err());
}

#[test]
fn copies_of_headers_and_the_list_of_segments_may_be_lost() {
    let life = Life::lived(1);
    for (start, ..) in headers(&life.bytes, EXTENT) {
        for copy in [start, start + 512] {
            life.whole(with(&life.bytes, copy, &[9; 192]), "a copy of a header");
            let mut forged = life.bytes.clone();
            forged[copy + 8] ^= 1;
            repair_header(&mut forged, start);
            assert!(life.whole(forged, "a forged copy of a header").history_unproven);
        }
        // Both are lost: the list has the seal, or it is that of the session of the segment before.
        life.salvage(with(&life.bytes, start, &[9; 704]), "a header").unwrap();
    }
    // The checkpoint: a control frame, whose kind is readable.
    let mut lists = 0;
    for (start, ..) in headers(&life.bytes, EXTENT) {
        let (_, found) = frames(&life.bytes, start);
        for (at, len) in found.into_iter().filter(|(at, _)| life.bytes[at + 4] & 0x0f == CHECKPOINT) {
            lists += 1;
            life.salvage(with(&life.bytes, at + 8, &vec![9; len - 8]), "a list").unwrap();
        }
    }
    assert!(lists > 0);
}

/// The kind of a checkpoint, in the low bits of a frame's head.
const CHECKPOINT: u8 = 4;

#[test]
fn a_store_that_lost_a_listed_header_keeps_every_record() {
    let file = MemoryStorage::new();
    let db = open(&file);
    for number in 0..30_u8 {
        db.insert([number], vec![number; 400]).unwrap();
    }
    db.checkpoint().unwrap();
    let truth: Records = db.iter().map(Result::unwrap).collect();
    db.close().unwrap();
    let bytes = bytes(&file);
    let mut all = headers(&bytes, EXTENT);
    // The index snapshot is no record.
    all.retain(|&(start, ..)| bytes[start + 20] == 1);
    assert!(all.len() > 3);
    for &(start, ..) in &all {
        let (report, records) = salvaged(&with(&bytes, start, &[9; 704]));
        assert!(records == truth && !report.damage.is_empty(), "{start}: {report:?}");
    }
}

#[test]
fn a_rotation_of_the_key_that_is_cut_anywhere_is_salvaged_under_both_keys() {
    let file = MemoryStorage::new();
    let db = open(&file);
    for number in 0..24_u8 {
        db.insert([number % 20], vec![number; 400]).unwrap();
    }
    let truth: Records = db.iter().map(Result::unwrap).collect();
    db.close().unwrap();
    let base = bytes(&file);
    let new = Db::builder().encryption_key([8; 32]);
    let (mut under_new, mut under_old) = (0, 0);
    for io in 1.. {
        let file = CrashStorage::from_bytes(&base);
        let db = sealed().open_storage(Box::new(file.clone())).unwrap();
        file.stop_at(Some(io));
        let is_whole = db.rotate_encryption_key([8; 32]).is_ok() && !file.is_stopped();
        let mut left = file.freeze().latest_image().to_vec();
        killed(db);
        for what in ["as it was cut", "and without superblocks"] {
            let by = |builder: &Builder| salvaged_with(builder, left.clone(), SalvageOptions::default());
            let is_whole = |found: Result<(SalvageReport, Records)>| match found {
                Ok((report, records)) => {
                    assert!(records == truth, "cut at {io}, {what}: {report:?}");
                    true
                }
                Err(_) => false,
            };
            let (one, other) = (is_whole(by(&new)), is_whole(by(&sealed())));
            assert!(one || other, "cut at {io}, {what}");
            (under_new, under_old) = (under_new + usize::from(one), under_old + usize::from(other));
            for slot in [0, EXTENT] {
                left[slot + 60] ^= 1;
            }
        }
        if is_whole {
            break;
        }
    }
    assert!(under_new > 10 && under_old > 2, "{under_new}, {under_old}");
}
