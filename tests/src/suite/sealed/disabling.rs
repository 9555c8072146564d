//! A sealed store that is made plain while it is open, cut at every write: it opens with its key, or with a word that it is to become plain, or plainly, with
//! everything that was acknowledged; and a plain one has nothing left that was sealed.

use super::{Checked, FIRST_FRAME, KEY, SEGMENT, Shown, bytes_of, repair};
use crate::forge::bind;
use crate::parallel::Watch;
use crate::quota::Quota;
use crate::suite::words;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Builder, Db, Error};
use std::collections::HashSet;

/// Bytes of the plain records of the store: checksum, head, lengths, key, value; and of the sealed ones.
const PLAIN: usize = 4 + 3 + 1 + 40;
const SEALED: usize = PLAIN + 16;
/// Bytes of a sealed record that no other place in the file has.
const PART: usize = 16;
/// What a power cut may have left, besides all and nothing, at each write.
const CUTS: usize = 6;
/// Where the copies of the page of keys stand.
const PAGES: [usize; 3] = [1024, 5120, 12_288];

fn builder() -> Builder {
    Db::builder().segment_size(4096).background(false)
}

fn sealed(storage: impl Storage + 'static) -> pipkin::Result<Db> {
    builder().encryption_key(KEY).open_storage(Box::new(storage))
}

fn shown(db: &Db) -> Checked<Shown> {
    db.iter().collect::<pipkin::Result<_>>().map_err(words)
}

/// Cuts a sealed store on its way to a plain one at each write.
pub(super) fn run(trials: &Quota, watch: &Watch) -> Checked {
    let base = MemoryStorage::new();
    let db = sealed(base.clone()).map_err(words)?;
    (0..60_u8).try_for_each(|number| db.insert([number], [number; 40])).map_err(words)?;
    db.close().map_err(words)?;
    let truth: Shown = (0..60_u8).map(|number| (vec![number], vec![number; 40])).collect();
    let image = CrashImage::from_bytes(&bytes_of(&base)?);
    let secrets = secrets(&bytes_of(&base)?)?;
    let (mut rng, mut changed, mut became) = (Rng::new(1), 0, 0);
    for io in 1.. {
        let crash = CrashStorage::from_image(&image);
        let db = sealed(crash.clone()).map_err(words)?;
        crash.stop_at(Some(io));
        let disabled = db.disable_encryption().is_ok_and(|report| report.is_finished);
        let point = crash.freeze();
        // As a kill leaves it: nothing is written any more.
        drop(db);
        let images = [point.synced_image(), point.latest_image()];
        for image in images.into_iter().chain((0..CUTS).map(|_| point.random_image(&mut rng))) {
            watch.tick();
            trials.add(1);
            let file = image.to_memory();
            let what = |what: &dyn std::fmt::Debug| format!("cut at {io}: {what:?}");
            let db = match sealed(file.clone()) {
                Ok(db) if db.key_rotation_pending() => return Err(format!("cut at {io}: the key alone opens it")),
                Ok(db) => db,
                Err(Error::DisablingEncryption) => {
                    changed += change_records(&bytes_of(&file)?, trials, watch)?;
                    let db = builder().encryption_key(KEY).disable_encryption_in(Box::new(file.clone()));
                    db.map_err(|error| what(&error))?
                }
                Err(Error::NotSealed) => builder().open_storage(Box::new(file.clone())).map_err(|error| what(&error))?,
                Err(error) => return Err(what(&error)),
            };
            let found = shown(&db)?;
            if found != truth {
                return Err(format!("cut at {io}: {} of {} records are left", found.len(), truth.len()));
            }
            let is_plain = db.cipher().is_none();
            db.close().map_err(|error| what(&error))?;
            if is_plain {
                became += 1;
                nothing_is_left(&bytes_of(&file)?, &secrets).map_err(|left| format!("cut at {io}: {left}"))?;
            }
        }
        if disabled && !crash.is_stopped() {
            break;
        }
    }
    let is_enough = changed > 50 && became > 100;
    if is_enough { Ok(()) } else { Err(format!("{changed} plain records were changed, and {became} stores became plain")) }
}

/// A part of each sealed record.
fn secrets(bytes: &[u8]) -> Checked<HashSet<Vec<u8>>> {
    let mut found = HashSet::new();
    for start in (SEGMENT..bytes.len().saturating_sub(704)).step_by(4096) {
        let salt = u64::from_le_bytes(bytes[start..start + 8].try_into().unwrap_or_default());
        let is_record = |at: &usize| {
            bytes[at + 4..at + 7] == [0x81, 1, 56]
                && bytes[*at..at + 4]
                    == (pipkin::frame::crc32c(&bytes[at + 4..at + SEALED]) ^ bind(salt, *at as u64)).to_le_bytes()
        };
        let end = (start + 4096).min(bytes.len()).saturating_sub(SEALED);
        let records = (start + FIRST_FRAME - SEGMENT..end).filter(is_record);
        found.extend(records.map(|at| bytes[at + 8..at + 8 + PART].to_vec()));
    }
    if found.len() > 50 { Ok(found) } else { Err(format!("{} sealed records were found", found.len())) }
}

/// Fails if anything in a plain file is from when it was sealed.
fn nothing_is_left(bytes: &[u8], secrets: &HashSet<Vec<u8>>) -> Checked {
    if let Some(at) = bytes.windows(PART).position(|window| secrets.contains(window)) {
        return Err(format!("a sealed record is left at {at}"));
    }
    for slot in [0, 4096] {
        let is_plain = [16..24, 192..208, 224..508].into_iter().flatten().all(|place: usize| bytes[slot + place] == 0);
        if !is_plain {
            return Err(format!("the superblock at {slot} is not plain"));
        }
    }
    match PAGES.into_iter().find(|&page| bytes[page..page + 3072].iter().any(|&byte| byte != 0)) {
        Some(page) => Err(format!("the page of keys is left at {page}")),
        None => Ok(()),
    }
}

/// Changes the value of a plain record of each segment, with a checksum that fits: the key alone opens none of that. Returns how many there were.
fn change_records(bytes: &[u8], trials: &Quota, watch: &Watch) -> Checked<u64> {
    let mut refused = 0;
    for start in (SEGMENT..bytes.len().saturating_sub(4096)).step_by(4096) {
        let salt = u64::from_le_bytes(bytes[start..start + 8].try_into().unwrap_or_default());
        let is_record = |at: &usize| {
            bytes[at + 4] & 0x8f == 1
                && bytes[at + 5..at + 7] == [1, 40]
                && bytes[*at..at + 4]
                    == (pipkin::frame::crc32c(&bytes[at + 4..at + PLAIN]) ^ bind(salt, *at as u64)).to_le_bytes()
        };
        let Some(at) = (start + FIRST_FRAME - SEGMENT..start + 4096 - PLAIN).find(is_record) else { continue };
        watch.tick();
        trials.add(1);
        let mut changed = bytes.to_vec();
        changed[at + PLAIN - 1] ^= 1;
        repair(&mut changed, at + 4, at + PLAIN, at, bind(salt, at as u64));
        match sealed(MemoryStorage::from_vec(changed)) {
            Err(Error::DisablingEncryption) => refused += 1,
            other => return Err(format!("a plain record at {at} was changed: {:?}", other.map(|db| db.len()))),
        }
    }
    Ok(refused)
}
