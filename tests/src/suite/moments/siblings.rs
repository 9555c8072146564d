//! Positions of two copies of one file.

use crate::parallel::{Failure, Outcome};
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Position, PositionState};

/// Two copies of a closed file are written on in turns: neither knows a position of the other.
pub fn siblings(seed: u64) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed}"), what);
    positions_of_siblings(&mut derive(seed, 0)).map_err(fail)
}

fn positions_of_siblings(rng: &mut Rng) -> Checked {
    let open =
        |file: MemoryStorage| Db::builder().segment_size(4096).background(false).open_storage(Box::new(file)).map_err(words);
    let file = MemoryStorage::new();
    let db = open(file.clone())?;
    let known = db.insert_with_position("common", "1").map_err(words)?;
    db.close().map_err(words)?;
    let files = [MemoryStorage::from_vec(file.to_vec()), MemoryStorage::from_vec(file.to_vec())];
    let mut positions = [Vec::new(), Vec::new()];
    for session in 0..3 {
        let stores = [open(files[0].clone())?, open(files[1].clone())?];
        for _ in 0..20 {
            let which = rng.below(2) as usize;
            let db = &stores[which];
            match rng.below(3) {
                0 => db.insert("plain", vec![1; rng.below(200) as usize]).map_err(words)?,
                1 => positions[which].push(db.insert_with_position("key", [2; 40]).map_err(words)?),
                _ => positions[which].push(db.position().map_err(words)?),
            }
        }
        for which in 0..2 {
            let is_known = |position: &Position| stores[which].state_of(*position) != PositionState::Unknown;
            if !is_known(&known) || !positions[which].iter().all(is_known) {
                return Err(format!("session {session}: a store does not know a position of its own"));
            }
            // What both have from before their first writes is the same.
            if let Some(wrong) = positions[1 - which].iter().find(|position| **position != known && is_known(position)) {
                return Err(format!("session {session}: a copy knows {wrong:?} of the other copy"));
            }
        }
        for db in stores {
            db.close().map_err(words)?;
        }
    }
    Ok(())
}
