//! A plain store that is sealed while it is open, cut at every write: it opens plain or with the key, with everything that was acknowledged, and somebody
//! without the key changes no plain record of one that has begun to be sealed.

use super::{Checked, FIRST_FRAME, KEY, SEGMENT, Shown, bytes_of, repair};
use crate::forge::bind;
use crate::parallel::Watch;
use crate::quota::Quota;
use crate::suite::words;
use pipkin::frame::crc32c;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error};

/// Bytes of the records of the store: checksum, head, lengths, key, value.
const RECORD: usize = 4 + 3 + 1 + 40;
/// What a power cut may have left, besides all and nothing, at each write.
const CUTS: usize = 24;

fn plain(storage: impl Storage + 'static) -> pipkin::Result<Db> {
    Db::builder().segment_size(4096).background(false).open_storage(Box::new(storage))
}

fn sealed(bytes: Vec<u8>) -> pipkin::Result<(Shown, bool)> {
    let db = Db::builder().encryption_key(KEY).read_only(true).open_storage(Box::new(MemoryStorage::from_vec(bytes)))?;
    Ok((db.iter().collect::<pipkin::Result<_>>()?, db.key_rotation_pending()))
}

/// Cuts the sealing of a plain store at each write.
pub(super) fn run(trials: &Quota, watch: &Watch) -> Checked {
    let base = MemoryStorage::new();
    let db = plain(base.clone()).map_err(words)?;
    (0..60_u8).try_for_each(|number| db.insert([number], [number; 40])).map_err(words)?;
    db.close().map_err(words)?;
    let truth: Shown = (0..60_u8).map(|number| (vec![number], vec![number; 40])).collect();
    let image = CrashImage::from_bytes(&bytes_of(&base)?);
    let (mut rng, mut changed) = (Rng::new(1), 0);
    for io in 1.. {
        let crash = CrashStorage::from_image(&image);
        let db = plain(crash.clone()).map_err(words)?;
        crash.stop_at(Some(io));
        let enabled = db.enable_encryption(KEY).is_ok_and(|report| report.is_finished);
        let point = crash.freeze();
        // As a kill leaves it: nothing is written any more.
        drop(db);
        let images = [point.synced_image(), point.latest_image()];
        for image in images.into_iter().chain((0..CUTS).map(|_| point.random_image(&mut rng))) {
            watch.tick();
            trials.add(1);
            let bytes = bytes_of(&image.to_memory())?;
            let (found, has_begun) = match sealed(bytes.clone()) {
                Err(Error::NotSealed) => {
                    let db = plain(MemoryStorage::from_vec(bytes.clone())).map_err(words)?;
                    (db.iter().collect::<pipkin::Result<_>>().map_err(words)?, false)
                }
                found => found.map_err(|error| format!("cut at {io}: {error:?}"))?,
            };
            if found != truth {
                return Err(format!("cut at {io}: {} of {} records are left", found.len(), truth.len()));
            }
            if has_begun {
                changed += change_records(&bytes, &truth, trials, watch)?;
            }
        }
        if enabled && !crash.is_stopped() {
            break;
        }
    }
    if changed > 50 { Ok(()) } else { Err(format!("{changed} plain records that count were changed")) }
}

/// Changes the value of some plain records, with a checksum that fits; returns of how many that was noticed. The others do not count any more.
fn change_records(bytes: &[u8], truth: &Shown, trials: &Quota, watch: &Watch) -> Checked<u64> {
    let mut noticed = 0;
    for start in (SEGMENT..bytes.len().saturating_sub(4096)).step_by(4096) {
        let salt = u64::from_le_bytes(bytes[start..start + 8].try_into().unwrap_or_default());
        let is_record = |at: &usize| {
            bytes[at + 4..at + 7] == [1, 1, 40]
                && bytes[*at..at + 4] == (crc32c(&bytes[at + 4..at + RECORD]) ^ bind(salt, *at as u64)).to_le_bytes()
        };
        let Some(at) = (start + FIRST_FRAME - SEGMENT..start + 4096 - RECORD).find(is_record) else { continue };
        watch.tick();
        trials.add(1);
        let mut changed = bytes.to_vec();
        changed[at + RECORD - 1] ^= 1;
        repair(&mut changed, at + 4, at + RECORD, at, bind(salt, at as u64));
        match sealed(changed) {
            Err(Error::Forged { .. }) => noticed += 1,
            Ok((found, _)) if &found == truth => {}
            other => return Err(format!("a plain record at {at} was changed: {:?}", other.map(|(found, _)| found.len()))),
        }
    }
    Ok(noticed)
}
