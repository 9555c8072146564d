//! A life of which a fuzzer chooses every step.

use super::lives::{begin, end};
use super::model::Model;
use super::steps::{Setup, Stop};
use crate::rng::{Choices, Script, Scripted, derive};
use crate::suite::Checked;
use crate::watched::Watched;
use pipkin::storage::crash::{CrashImage, CrashStorage};

/// Steps of the longest session.
const STEPS_MOST: usize = 100;

/// Two sessions, of which the first takes what it does from the bytes. True if events were there at its end.
pub(super) fn play(bytes: &[u8]) -> Checked<bool> {
    let mut script = Script::new(bytes);
    let mut rng = derive(script.next_u64(), 0xe7e9);
    let setup = Setup::choose(&mut script);
    let watched = Watched::new(CrashStorage::from_image(&CrashImage::from_bytes(&[])), u64::MAX);
    let mut player = begin(&watched, Model::new(), &setup, &mut rng).map_err(Stop::words)?;
    player.rng = Scripted::new(script.rest(), rng.split());
    for _ in 0..STEPS_MOST {
        if player.rng.is_empty() {
            break;
        }
        player.step().map_err(Stop::words)?;
    }
    player.agrees()?;
    let (image, model) = end(player, &watched, &setup, &mut rng)?;
    let had_events = model.now().events > 0;
    let watched = Watched::new(CrashStorage::from_image(&image), u64::MAX);
    let mut player = begin(&watched, model, &setup, &mut rng).map_err(Stop::words)?;
    player.refused().map_err(Stop::words)?;
    player.append().map_err(Stop::words)?;
    player.agrees()?;
    end(player, &watched, &setup, &mut rng)?;
    Ok(had_events)
}
