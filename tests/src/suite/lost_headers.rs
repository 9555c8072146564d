//! A block of the medium is lost in which both copies of a segment's header are. What a flush had acknowledged is there, or the store says that
//! something is missing; salvage finds all of it.

use crate::parallel::{Failure, Outcome, for_each};
use crate::quota::Quota;
use crate::rng::{Rng, index};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, SegmentUse, salvage};

/// Bytes at the start of a segment that are lost.
const LOST: usize = 704;

/// Stores whose headers are lost, one after the other.
pub fn run(stores: u64, quota: &Quota) -> Outcome {
    for_each(0..stores, |seed, watch| {
        watch.begin(format!("PIPKIN_HEADER_SEED={seed}"));
        one(seed, quota).map_err(|what| Failure::new(format!("PIPKIN_HEADER_SEED={seed}"), what))
    })
}

/// One store, flushed and killed.
fn one(seed: u64, quota: &Quota) -> Result<(), String> {
    let words = |error: Error| error.to_string();
    let mut rng = Rng::new(seed);
    let storage = MemoryStorage::new();
    let db = Db::builder().segment_size(4096).background(false).open_storage(Box::new(storage.clone())).map_err(words)?;
    let records = 30 + index(&mut rng, 60) as u32;
    for key in 0..records {
        db.insert(key.to_le_bytes(), vec![key as u8; 50 + index(&mut rng, 400)]).map_err(words)?;
        match index(&mut rng, 40) {
            0 => db.checkpoint().map_err(words)?,
            1 => db.flush().map(drop).map_err(words)?,
            _ => {}
        }
    }
    db.flush().map_err(words)?;
    let segments = db.segments().map_err(words)?;
    let bytes = storage.to_vec();
    drop(db);
    let mut starts: Vec<usize> = segments.iter().filter_map(start_of_log).collect();
    // The first one of a session is named by nothing but its own header.
    starts.sort_unstable();
    for &start in starts.iter().skip(1) {
        let mut damaged = bytes.clone();
        damaged.get_mut(start..start + LOST).ok_or("a segment past the end of the file")?.fill(0xee);
        let file = MemoryStorage::from_vec(damaged);
        match Db::builder().segment_size(4096).background(false).open_storage(Box::new(file.clone())) {
            Ok(db) => {
                let there = (0..records).filter(|key| db.get(key.to_le_bytes()).is_ok_and(|value| value.is_some())).count();
                if there != records as usize {
                    return Err(format!(
                        "without the header at {start} {there} of {records} flushed records are there, and no word"
                    ));
                }
            }
            Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(words(error)),
        }
        let target = Db::open_in_memory().map_err(words)?;
        let report = salvage(&file, &target, &mut |_, _| ()).map_err(words)?;
        if target.len().map_err(words)? != u64::from(records) || report.damage.is_empty() {
            return Err(format!("without the header at {start} salvage finds {} of {records} records", report.records));
        }
        quota.add(1);
    }
    Ok(())
}

fn start_of_log(entry: &SegmentUse) -> Option<usize> {
    match entry {
        SegmentUse::Log { offset, .. } => Some(*offset as usize),
        _ => None,
    }
}
