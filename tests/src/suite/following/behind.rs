//! A follower that is behind: segments that it has read are compacted, and their space is used again, before it reads why.

use super::appended::Records;
use super::life::Life;
use super::seen::Seen;
use super::stepped::Stepped;
use crate::rng::Rng;
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Snapshot};

/// Commits between two looks, before the compaction and behind it.
const COMMITS: u64 = 50;

/// Runs a life; returns how often the follower looked.
pub(super) fn run(rng: &mut Rng, operations: u64) -> Result<u64, String> {
    let words = |error: pipkin::Error| format!("behind: {error} ({error:?})");
    let memory = MemoryStorage::new();
    let file = Stepped::new(memory.clone());
    let builder = || Db::builder().segment_size(4096).replay_debt_max(u64::MAX).background(false).auto_compact_dead_share(2.0);
    let life = Life::new(builder().open_storage(Box::new(file.clone())).map_err(words)?, file);
    let mut seen = Seen::new(builder().follow(true).ordered(true).open_storage(Box::new(memory)).map_err(words)?);
    let mut operation = 0;
    let mut write = |rng: &mut Rng, most: u64| -> Result<(), String> {
        for _ in 0..1 + rng.below(most) {
            operation += 1;
            life.write(rng, operation).map_err(words)?;
        }
        Ok(())
    };
    for round in 0..operations / 30 {
        write(rng, COMMITS)?;
        // What stands behind it stays until the next one.
        life.db().checkpoint().map_err(words)?;
        write(rng, COMMITS / 4)?;
        life.look(&mut seen).map_err(|what| format!("behind, round {round}: {what}"))?;
        let snapshot = seen.db.snapshot();
        let before = life.state();
        write(rng, COMMITS)?;
        for _ in 0..1 + rng.below(4) {
            life.db().compact_step().map_err(words)?;
        }
        life.db().flush().map_err(words)?;
        write(rng, 3 * COMMITS)?;
        life.look(&mut seen).map_err(|what| format!("behind, round {round}, later: {what}"))?;
        shows(&snapshot, &before).map_err(|what| format!("behind, round {round}: {what}"))?;
    }
    Ok(seen.looks)
}

/// The snapshot shows the records of its moment, each as it was, or says that it is too old.
fn shows(snapshot: &Snapshot, before: &Records) -> Result<(), String> {
    for ((space, key), value) in before.iter().filter(|((space, _), _)| !space.starts_with('\0')) {
        let space = if space.is_empty() { Ok(None) } else { snapshot.namespace(space).map(Some) };
        let found = match space {
            Ok(None) => snapshot.get(key),
            Ok(Some(Some(space))) => space.get(key),
            Ok(Some(None)) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(found)) if found == *value => {}
            Err(Error::SnapshotTooOld) => return Ok(()),
            found => return Err(format!("a snapshot shows {found:?} under {key:?}")),
        }
    }
    Ok(())
}
