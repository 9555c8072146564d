//! The life of one store: sessions that end in each way, and what crashes leave at moments in between.

use super::answers::{agrees, state_of, which};
use super::model::Model;
use super::rotten;
use super::steps::{Player, Setup, Step, Stop, has_logs};
use crate::parallel::Watch;
use crate::quota::Quota;
use crate::rng::Rng;
use crate::suite::{Checked, words};
use crate::watched::{Moment, Watched};
use pipkin::storage::crash::{CrashImage, CrashStorage};

const SESSIONS: u64 = 3;
/// Steps of a session.
const STEPS: u64 = 50;
/// Steps of what goes on behind a crash.
const STEPS_BEHIND: u64 = 8;
/// A crash comes behind one of so many calls of the storage, in stores with few events and with many.
const CALLS_BETWEEN: [u64; 2] = [5, 40];

/// Runs one store; what crashes leave of it counts as images.
pub(super) fn live(mut rng: Rng, images: &Quota, watch: &Watch) -> Checked {
    let setup = Setup::choose(&mut rng);
    // More than one chunk of places, more than what lets the newest events be written again, or few.
    let many = match rng.below(200) {
        0 => 4200,
        1..=8 => 1100,
        _ => 0,
    };
    let mut image = CrashImage::from_bytes(&[]);
    let mut model = Model::new();
    for session in 0..SESSIONS {
        let watched = Watched::new(CrashStorage::from_image(&image), CALLS_BETWEEN[usize::from(many > 0)]);
        let mut player = begin(&watched, model, &setup, &mut rng).map_err(Stop::words)?;
        let at = |stop: Stop| format!("in session {session}: {}", stop.words());
        if session == 0 && many > 0 {
            player.append_many(many + rng.below(100)).map_err(at)?;
        }
        for _ in 0..STEPS {
            watch.tick();
            player.step().map_err(at)?;
        }
        let moments = watched.stop();
        for moment in &moments {
            watch.tick();
            crashed(moment, &player.model, &setup, &mut rng, images)
                .map_err(|what| format!("crashed in session {session}: {what}"))?;
        }
        rotten::moments(&moments, &player.model, &setup, &mut rng, images)?;
        (image, model) = end(player, &watched, &setup, &mut rng).map_err(|what| format!("after session {session}: {what}"))?;
    }
    rotten::closed(&image, model, &setup, &mut rng, images, watch)
}

/// Opens what is there. Its logs are durable from here on.
pub(super) fn begin(watched: &Watched, model: Model, setup: &Setup, rng: &mut Rng) -> Step<Player> {
    let mut player = Player::new(setup.open(watched.clone())?, watched.clone(), model, setup, rng.split())?;
    player.saw(state_of(&player.db)?)?;
    player.db.flush()?;
    watched.watch(rng.split(), player.model.states.len() - 1);
    player.observe()?;
    Ok(player)
}

/// Ends a session, and finds how many commits are there.
pub(super) fn end(player: Player, watched: &Watched, setup: &Setup, rng: &mut Rng) -> Checked<(CrashImage, Model)> {
    let Player { db, mut model, .. } = player;
    let file = watched.file();
    let all = model.states.len() - 1;
    let (image, least) = match rng.below(3) {
        0 if setup.checkpoints => {
            db.clone().close().map_err(words)?;
            (file.latest_image(), all)
        }
        1 => (file.random_image(rng), watched.least()),
        _ => (file.latest_image(), all),
    };
    file.stop();
    drop(db);
    let found = is_a_prefix(&image, &model, setup, least..all + 1, rng)?;
    model.cut(found);
    Ok((image, model))
}

/// Checks that an image has a prefix of the commits; returns how many.
pub(super) fn is_a_prefix(
    image: &CrashImage,
    model: &Model,
    setup: &Setup,
    range: std::ops::Range<usize>,
    rng: &mut Rng,
) -> Checked<usize> {
    let db = setup.open(CrashStorage::from_image(image)).map_err(words)?;
    has_logs(&db)?;
    let (found, state) = which(&db, model, range.start, range.end - 1)?;
    agrees(&db, model, &state, rng)?;
    Ok(found)
}

/// Checks what crashes leave at a moment, and goes on with some of it.
fn crashed(moment: &Moment, model: &Model, setup: &Setup, rng: &mut Rng, images: &Quota) -> Checked {
    for (image, least) in moment.images(rng) {
        images.add(1);
        let range = least..moment.begun + 1;
        let found =
            is_a_prefix(&image, model, setup, range.clone(), rng).map_err(|what| format!("of commits {range:?}: {what}"))?;
        if rng.chance(1, 6) {
            goes_on(&image, model, found, setup, rng).map_err(|what| format!("it has gone on behind commit {found}: {what}"))?;
        }
    }
    Ok(())
}

/// A wrong expectation is refused behind a crash and a right one accepted; all is there after another end.
fn goes_on(image: &CrashImage, model: &Model, commits: usize, setup: &Setup, rng: &mut Rng) -> Checked {
    let mut model = model.clone();
    model.cut(commits);
    let watched = Watched::new(CrashStorage::from_image(image), u64::MAX);
    let mut player = begin(&watched, model, setup, rng).map_err(Stop::words)?;
    player.refused().map_err(Stop::words)?;
    player.append().map_err(Stop::words)?;
    for _ in 0..STEPS_BEHIND {
        player.step().map_err(Stop::words)?;
    }
    player.agrees()?;
    end(player, &watched, setup, rng).map(drop)
}
