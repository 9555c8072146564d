//! Calls of the storage that fail: the store is closed to writes where it must be, answers like the model all the same, and has a commit that
//! failed whole or not at all when it is opened again.

use super::answers::state_of;
use super::lives::is_a_prefix;
use super::model::Model;
use super::steps::{Player, Setup, Stop};
use crate::parallel::Watch;
use crate::quota::Quota;
use crate::rng::{Rng, choose};
use crate::suite::{Checked, words};
use crate::watched::Watched;
use pipkin::storage::crash::CrashStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Error, Expected, NewEvent, StorageErrorKind};

/// Stores with one fault each.
const STORES: u64 = 10;
/// Steps of each.
const STEPS: u64 = 40;

/// Runs stores of which one call fails, or all from one on.
pub(super) fn sweep(mut rng: Rng, images: &Quota, watch: &Watch) -> Checked {
    let setup = Setup { reopens: false, ..Setup::choose(&mut rng) };
    for _ in 0..STORES {
        watch.tick();
        let on = choose(&mut rng, &[Io::Write, Io::Write, Io::Sync, Io::SetLen, Io::Reserve, Io::Reserve, Io::Discard]);
        let nth = 1 + rng.below(if on == Io::Write { 120 } else { 12 });
        let order = Fault { on, nth, for_good: rng.chance(1, 3), effect: effect(on, &mut rng) };
        images.add(1);
        one(&setup, order, rng.split()).map_err(|what| format!("{order:?}: {what}"))?;
    }
    Ok(())
}

fn effect(io: Io, rng: &mut Rng) -> Effect {
    let (other, full) = (Effect::Error(StorageErrorKind::Other), Effect::Error(StorageErrorKind::NoSpace));
    match io {
        Io::Write => choose(rng, &[other, full, Effect::Late, Effect::Torn { bytes: 1 }, Effect::Torn { bytes: 100 }]),
        Io::Sync => choose(rng, &[other, Effect::LostSync, Effect::Late]),
        Io::Reserve | Io::SetLen => choose(rng, &[other, full]),
        _ => other,
    }
}

fn one(setup: &Setup, order: Fault, mut rng: Rng) -> Checked {
    let file = CrashStorage::new();
    let storage = FaultStorage::new(file.clone());
    let watched = Watched::new(file.clone(), u64::MAX);
    let db = setup.open(storage.clone()).map_err(words)?;
    let mut player = Player::new(db, watched.clone(), Model::new(), setup, rng.split()).map_err(words)?;
    player.db.flush().map_err(words)?;
    watched.watch(rng.split(), 0);
    storage.arm(order);
    for _ in 0..STEPS {
        match player.step() {
            Ok(()) => continue,
            Err(Stop::Wrong(what)) => return Err(what),
            Err(Stop::Engine(error)) if storage.counts().failed == 0 => return Err(words(error)),
            Err(Stop::Engine(_)) => {}
        }
        is_resolved(&mut player)?;
        player.agrees().map_err(|what| format!("behind the failed call: {what}"))?;
        if player.db.is_poisoned() {
            is_closed_to_events(&player)?;
            break;
        }
    }
    let Player { db, mut model, doubt, .. } = player;
    let (killed, cut, least) = (file.latest_image(), file.random_image(&mut rng), watched.least());
    // What has come back is there after a kill; the commit that has failed may be, too.
    let sure = model.states.len() - 1;
    model.states.extend(doubt);
    file.stop();
    drop(db);
    for (image, least) in [(killed, sure), (cut, least)] {
        is_a_prefix(&image, &model, setup, least..model.states.len(), &mut rng)
            .map_err(|what| format!("opened again behind {sure} commits: {what}"))?;
    }
    Ok(())
}

/// Finds out whether a commit that has failed was made. One that failed and left the store open was not.
fn is_resolved(player: &mut Player) -> Checked {
    let found = state_of(&player.db).map_err(words)?;
    let made = player.doubt.iter().rposition(|state| player.model.is_in(&found, state)).map(|place| place + 1);
    match made {
        None if player.db.is_poisoned() => {}
        Some(made) if player.db.is_poisoned() => {
            // Of those behind nobody knows.
            let left = player.doubt.split_off(made);
            player.resolve(made);
            player.doubt = left;
        }
        made => player.resolve(made.unwrap_or(0)),
    }
    player.saw(found).map_err(|what| format!("behind the failed call, {what}"))
}

/// Nothing is written any more, and what an append expects does not matter.
fn is_closed_to_events(player: &Player) -> Checked {
    for expected in [Expected::Any, Expected::NoStream] {
        match player.db.events("orders").and_then(|log| log.append("new", expected, [NewEvent::new("T", "")])) {
            Err(Error::Poisoned(_)) => {}
            answer => return Err(format!("a poisoned store answers an append with {answer:?}")),
        }
    }
    Ok(())
}
