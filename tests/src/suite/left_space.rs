//! Space that an earlier session left: closing cuts the file after its last byte, and what is reserved of it again may not be taken for
//! reserved before.

use crate::disk::Disk;
use crate::parallel::{Failure, Outcome};
use crate::rng::derive;
use pipkin::Db;
use std::fmt::Display;

/// Sessions of one store.
const SESSIONS: u64 = 6;

/// Stores that are filled, thinned out, compacted and closed, several times, on a disk that refuses writes into space that was never reserved.
pub fn run(stores: u64, seed: u64) -> Outcome {
    (seed..seed + stores).try_for_each(one)
}

/// One store: what a seed replays.
pub fn one(seed: u64) -> Outcome {
    let fail = |what: &dyn Display| Failure::new(format!("PIPKIN_LEFT_SEED={seed}"), what);
    let mut rng = derive(seed, 0x1ef7);
    let disk = Disk::default();
    for session in 0..SESSIONS {
        let builder = Db::builder().segment_size(8192).entropy([seed as u8; 32]).background(false);
        let db = builder.open_storage(Box::new(disk.storage())).map_err(|error| fail(&error))?;
        let mut work = || {
            for _ in 0..20 + rng.below(60) {
                db.insert(rng.below(100).to_le_bytes(), vec![session as u8; rng.below(600) as usize])?;
            }
            // The snapshot of the session before is superseded here, and its space free for the next one to take.
            db.checkpoint()?;
            db.checkpoint()?;
            for _ in 0..rng.below(80) {
                db.remove(rng.below(100).to_le_bytes())?;
                if rng.below(4) == 0 {
                    db.compact_step()?;
                }
            }
            db.flush()
        };
        work().map_err(|error| fail(&format_args!("session {session}: {error}")))?;
        db.close().map_err(|error| fail(&error))?;
    }
    Ok(())
}
