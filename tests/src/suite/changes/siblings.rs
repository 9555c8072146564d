//! Two copies of one store are written on: no reader of one takes a position of the other for its own.

use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Position};

/// Writes to a copy of a store; returns the positions that its readers were told.
fn go_on(image: &[u8], rng: &mut Rng) -> Checked<(Db, Vec<Position>)> {
    let storage = MemoryStorage::from_vec(image.to_vec());
    let db = Db::builder().background(false).open_storage(Box::new(storage)).map_err(words)?;
    // One of the two may write before anybody asks for a position.
    for _ in 0..if rng.below(2) == 0 { rng.below(4) } else { 0 } {
        db.insert("early", [7; 20]).map_err(words)?;
    }
    let before = db.position().map_err(words)?;
    let mut changes = db.changes().start().map_err(words)?;
    let mut told = Vec::new();
    for number in 0..30_u64 {
        db.insert("sibling", vec![number as u8; rng.below(300) as usize]).map_err(words)?;
        if rng.below(4) == 0 {
            db.flush().map_err(words)?;
            told.extend(changes.drain().map_err(words)?.iter().map(|commit| commit.position()));
        }
    }
    told.retain(|position| *position != before);
    Ok((db, told))
}

pub(super) fn check(image: &[u8], mut rng: Rng) -> Checked {
    let stores = [go_on(image, &mut rng)?, go_on(image, &mut rng)?];
    for (own, other) in [(0, 1), (1, 0)] {
        for &position in &stores[own].1 {
            match stores[other].0.changes().from(position).start() {
                Err(Error::UnknownPosition | Error::Compacted { .. }) => {}
                answer => return Err(format!("a copy answers a position of its sibling with {answer:?}")),
            }
        }
    }
    Ok(())
}
