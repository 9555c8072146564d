//! Everything in one store: records that expire, groups, namespaces, compressed values, transactions, event streams with cursors and retention,
//! snapshots, readers of changes, backups, salvage. Capabilities that each hold alone must hold beside each other, behind every crash, and when a
//! store goes on that a crash has left.

mod check;
mod commit;
mod model;

pub use super::stores::Budget;
use super::{Checked, stores, words};
use crate::parallel::{Outcome, Watch};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::watched::Watched;
use check::{answers_like, content, difference, is_state};
use commit::{Cursors, commit};
use model::{Shown, State};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::testing::TestClock;
use pipkin::{Changes, Compression, Db, IndexMemory, Snapshot, Storage, salvage};
use std::time::Duration;

/// Commits in the life of a store.
const COMMITS: u64 = 90;
/// Commits behind a crash.
const COMMITS_BEHIND: u64 = 12;
/// A crash comes behind one of so many calls of the storage.
const CALLS_BETWEEN: u64 = 15;
/// The namespaces; the first is the default one.
const SPACES: [&str; 3] = ["", "a", "b"];
/// The logs of events.
const LOGS: [&str; 2] = ["x", "y"];
/// When the first store is made.
const BEGIN: u64 = 1_700_000_000_000;

/// Runs stores until the images are used up.
pub fn run(budget: &Budget, images: &Quota) -> Outcome {
    stores::run(budget, images, one)
}

/// One store.
pub fn one(seed: u64, images: &Quota, watch: &Watch) -> Outcome {
    stores::one(seed, images, watch, live)
}

/// How the stores of a seed are opened.
#[derive(Clone)]
struct Setup {
    clock: TestClock,
    segment: u32,
    debt: Option<u64>,
}

impl Setup {
    fn now(&self) -> u64 {
        pipkin::Clock::now_ms(&self.clock)
    }

    fn open(&self, rng: &mut Rng, storage: impl Storage + 'static) -> Checked<Db> {
        let compression = [Compression::Off, Compression::OnWrite, Compression::OnCompaction][rng.below(3) as usize];
        let builder = Db::builder().clock(self.clock.clone()).segment_size(self.segment).background(false).ordered(true);
        let index = if rng.chance(1, 3) { IndexMemory::InFile { newer_max: rng.below(3) * 4000 } } else { IndexMemory::Resident };
        let builder = builder.compression(compression).verify_on_read(rng.chance(3, 4)).index_memory(index);
        let builder = match self.debt {
            Some(debt) => builder.replay_debt_max(debt),
            None => builder,
        };
        builder.open_storage(Box::new(storage)).map_err(words)
    }
}

/// What watches the store from inside, and what it has to show.
#[derive(Default)]
struct Watchers {
    snapshot: Option<(Snapshot, State, u64)>,
    changes: Option<Changes>,
}

/// A store that lives, and what it should hold.
struct Life {
    setup: Setup,
    watched: Watched,
    db: Db,
    /// The content behind each commit.
    states: Vec<State>,
    watchers: Watchers,
    cursors: Cursors,
}

fn live(seed: u64, images: &Quota, watch: &Watch) -> Checked {
    let mut rng = derive(seed, 0x313);
    let setup = Setup {
        clock: TestClock::new(BEGIN),
        segment: 4096 << rng.below(3),
        debt: rng.chance(1, 2).then(|| 4096 << rng.below(4)),
    };
    let watched = Watched::new(CrashStorage::new(), CALLS_BETWEEN);
    let db = setup.open(&mut rng, watched.clone())?;
    db.flush().map_err(words)?;
    watched.watch(rng.split(), 0);
    let states = vec![State::default()];
    let mut life = Life { setup, watched, db, states, watchers: Watchers::default(), cursors: Cursors::default() };
    for number in 0..COMMITS {
        life.go_on(&mut rng).map_err(|what| format!("commit {number}: {what}"))?;
    }
    let Life { setup, watched, states, .. } = life;
    for moment in &watched.stop() {
        watch.tick();
        for (image, least) in moment.images(&mut rng) {
            images.add(1);
            let range = states.get(least..=moment.begun).unwrap_or_default();
            is_one_of(&image, &setup, &mut rng, range)
                .map_err(|what| format!("of commits {least}..={}: {what}", moment.begun))?;
        }
    }
    Ok(())
}

impl Life {
    fn state(&self) -> State {
        self.states.last().cloned().unwrap_or_default()
    }

    /// One commit, perhaps something else behind it, and a look at all of it.
    fn go_on(&mut self, rng: &mut Rng) -> Checked {
        let mut next = self.state();
        self.watched.begin();
        commit(rng, &self.db, &mut next, &mut self.cursors, self.setup.now())?;
        self.watched.end();
        self.states.push(next);
        self.other(rng)?;
        answers_like(rng, &self.db, &self.state(), self.setup.now())?;
        self.watchers.agree()
    }

    /// What changes no record.
    fn other(&mut self, rng: &mut Rng) -> Checked {
        match rng.below(30) {
            0..4 => drop(self.db.compact().map_err(words)?),
            4 => while self.db.compact_step().map_err(words)?.is_some() {},
            5 | 6 => self.db.checkpoint().map_err(words)?,
            7 => self.watchers.snapshot = Some((self.db.snapshot(), self.state(), self.setup.now())),
            8 => self.watchers.snapshot = None,
            9 => self.watchers.changes = Some(self.db.changes().appended(rng.chance(1, 2)).start().map_err(words)?),
            10 | 11 => {
                (self.watchers, self.cursors) = Default::default();
                let other = Db::open_in_memory().map_err(words)?;
                std::mem::replace(&mut self.db, other).close().map_err(words)?;
                self.db = self.setup.open(rng, self.watched.clone())?;
                self.watched.durable(self.states.len() - 1);
            }
            12 | 13 => {
                self.db.flush().map_err(words)?;
                self.watched.flushed();
            }
            14 => self.setup.clock.advance(Duration::from_millis(rng.below(40_000))),
            15 => drop(self.db.sweep_expired().map_err(words)?),
            16 => {
                let copy = CrashStorage::new();
                self.db.backup_to_storage(&copy).map_err(words)?;
                let copy = self.setup.open(rng, copy)?;
                answers_like(rng, &copy, &self.state(), self.setup.now()).map_err(|what| format!("a backup: {what}"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Watchers {
    fn agree(&mut self) -> Checked {
        if let Some(changes) = &mut self.changes {
            // What it tells is for the suite `changes`; here it holds segments, and must not fail.
            changes.drain().map_err(words)?;
        }
        let Some((snapshot, state, taken)) = &self.snapshot else { return Ok(()) };
        for name in SPACES {
            let shown: Shown = match name {
                "" => snapshot.default_namespace().iter().collect::<pipkin::Result<_>>().map_err(words)?,
                _ => match snapshot.namespace(name).map_err(words)? {
                    Some(space) => space.iter().collect::<pipkin::Result<_>>().map_err(words)?,
                    None => Shown::new(),
                },
            };
            if shown != state.shown(name, *taken) {
                return Err(format!(
                    "a snapshot shows {} records of {name:?}, not {}",
                    shown.len(),
                    state.shown(name, *taken).len()
                ));
            }
        }
        Ok(())
    }
}

/// Checks that what a crash has left is one of these states, and goes on from there.
fn is_one_of(image: &CrashImage, setup: &Setup, rng: &mut Rng, states: &[State]) -> Checked {
    let storage = CrashStorage::from_image(image);
    let mut db = setup.open(rng, storage.clone())?;
    let found = content(&db)?;
    // The latest that fits: a commit that changes nothing does not show.
    let Some(state) = states.iter().rev().find(|state| is_state(&found, state, setup.now())) else {
        let last = states.last().cloned().unwrap_or_default();
        return Err(format!("none of {} states; of the last: {}", states.len(), difference(&found, &last, setup.now())));
    };
    let report = db.verify().map_err(words)?;
    if !report.is_ok() {
        return Err(format!("{:?}", report.damage));
    }
    let mut state = state.clone();
    settle(&db, &mut state)?;
    answers_like(rng, &db, &state, setup.now())?;
    if rng.chance(1, 2) {
        let mut cursors = Cursors::default();
        for number in 0..COMMITS_BEHIND {
            let behind = |what: String| format!("commit {number} behind the crash: {what}");
            commit(rng, &db, &mut state, &mut cursors, setup.now()).map_err(behind)?;
            match rng.below(6) {
                0 => drop(db.compact().map_err(words)?),
                1 => db.checkpoint().map_err(words)?,
                2 => {
                    cursors.clear();
                    db.close().map_err(words)?;
                    db = setup.open(rng, storage.clone())?;
                }
                _ => {}
            }
            answers_like(rng, &db, &state, setup.now()).map_err(behind)?;
        }
    }
    if rng.chance(1, 8) {
        salvaged(image, setup, rng, states)?;
    }
    Ok(())
}

/// Events that were appended and removed again leave numbers and versions that no walk shows: takes over how far these have come.
fn settle(db: &Db, state: &mut State) -> Checked {
    for name in LOGS.iter().filter(|name| db.list_events().iter().any(|known| known == *name)) {
        let events = db.events(name).map_err(words)?;
        state.last = events.last_number().map_err(words)?;
        for (stream, version) in state.logs.get_mut(name).into_iter().flat_map(|log| &mut log.versions) {
            *version = events.version(stream).map_err(words)?;
        }
    }
    Ok(())
}

/// A salvaged copy of what is not torn is one of the states, too.
fn salvaged(image: &CrashImage, setup: &Setup, rng: &mut Rng, states: &[State]) -> Checked {
    let target = setup.open(rng, MemoryStorage::new())?;
    let report = salvage(&CrashStorage::from_image(image), &target, &mut |_, _| ()).map_err(words)?;
    let found = content(&target)?;
    if !report.damage.is_empty() || report.unfinished > 0 || states.iter().any(|state| is_state(&found, state, setup.now())) {
        return Ok(());
    }
    let last = states.last().cloned().unwrap_or_default();
    Err(format!("salvage has left something else: {}", difference(&found, &last, setup.now())))
}
