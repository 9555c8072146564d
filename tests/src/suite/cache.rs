//! Failed syncs on a page cache: a store lives through several sessions over one file whose syncs fail now and then, as Linux has it. What
//! a failed sync should have stored counts as clean from then on: the next session reads it, syncs without an error, and a power cut takes
//! it all the same, unless somebody has written it again.
//!
//! What must hold: each session finds everything that the ones before have written; and a power cut at any moment leaves everything that
//! any of them was told is flushed.

use crate::check::{After, examine, find_state};
use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Host, Player, Setup};
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive, index};
use crate::tape::{Mix, Op, Tape, Times};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Power cuts.
    pub cuts: Quota,
    /// Those at a moment when something was in the memory of the system only.
    pub clean: AtomicU64,
    /// Syncs that failed.
    pub failed: AtomicU64,
    /// Stores that lived.
    pub lives: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` power cuts.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { cuts: Quota::new("page cache", least), clean: zero(), failed: zero(), lives: zero() }
    }
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Power cuts to go for.
    pub cuts: u64,
    /// Seed of the first life; the others count up from it.
    pub seed: u64,
}

/// Sessions of one store.
const SESSIONS: usize = 5;
/// Power cuts at one moment.
const CUTS_PER_MOMENT: usize = 2;

/// Runs lives until the cuts are used up.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| counts.cuts.count() < budget.cuts);
    for_each(seeds, |seed, watch| live(seed, counts, watch))
}

/// One life: what a seed replays.
pub fn live(seed: u64, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed}");
    watch.begin(replay.clone());
    counts.lives.fetch_add(1, Ordering::Relaxed);
    let mut life = Life::new(seed, counts, watch);
    guard(|| life.run()).unwrap_or_else(Fault::wrong).map_err(|fault| Failure::new(replay, format!("{fault}\n{}", life.story)))
}

struct Life<'a> {
    rng: Rng,
    setup: Setup,
    mix: Mix,
    tag: u32,
    entropy: u64,
    disk: Disk,
    counts: &'a Counts,
    watch: &'a Watch,
    story: String,
}

impl<'a> Life<'a> {
    fn new(seed: u64, counts: &'a Counts, watch: &'a Watch) -> Self {
        let mut rng = derive(seed, 0xcac4e);
        let (segment_size, replay_debt_max) = (4096 << choose(&mut rng, &[0, 0, 1]), choose(&mut rng, &[8192, 1 << 20]));
        let setup = Setup { segment_size, replay_debt_max, clock: Times::of(seed).clock(), sealed: Setup::seals(seed) };
        let mix = Mix {
            ops: 4 + index(&mut rng, 16),
            keys: 3 + rng.below(12) as u16,
            namespaces: rng.below(3) as u8,
            value_len: 20 + rng.below(500) as u32,
            large_len: choose(&mut rng, &[700, 9000]),
            reopens: true,
            times: Times::of(seed),
        };
        let disk = Disk::default();
        Self { rng, setup, mix, tag: 0, entropy: seed << 8, disk, counts, watch, story: String::new() }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut history = History::new(State::default());
        for session in 0..SESSIONS {
            history = self.session(session, history).map_err(|fault| fault.at(format!("session {session}")))?;
        }
        Ok(())
    }

    /// One session on what the ones before have left, in the cache or on the medium.
    fn session(&mut self, session: usize, mut history: History) -> Result<History, Fault> {
        self.entropy += 1;
        let host = DiskHost::new(self.disk.clone(), self.setup.clone(), self.entropy);
        let fails_at = self.rng.chance(3, 4).then(|| 1 + self.rng.below(14));
        let mut tape = Tape::generate(&mut self.rng, &self.mix, &mut self.tag);
        if self.rng.chance(1, 2) {
            // What is flushed first is all that the session before has left.
            tape.0.insert(0, Op::Flush);
        }
        self.story.push_str(&format!("  [session {session}, sync {fails_at:?} fails] {tape}\n"));
        let db = host.open()?;
        let found = find_state(&db, self.setup.now_of(&db), &history, history.flushed, history.newest())?;
        // What had not got so far never was.
        history.states.truncate(found + 1);
        let mut player = Player::going_on(host, db, history);
        self.disk.record();
        self.disk.fail_sync(fails_at);
        for (at, op) in tape.0.iter().enumerate() {
            self.watch.tick();
            let before = player.history.flushed;
            let played = player.play(op);
            if played.is_err() {
                let begun = std::mem::take(&mut player.in_doubt);
                player.history.states.extend(begun);
            }
            let place = format!("operation {at} `{op}`");
            self.cut(&player.history, before).map_err(|fault| fault.at(&place))?;
            match played {
                Ok(()) => {}
                Err(Fault::Engine(_)) if self.disk.has_failed_a_sync() => {
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(fault) => return Err(fault.at(place)),
            }
        }
        if !self.disk.has_failed_a_sync() && self.rng.chance(1, 2) {
            self.disk.fail_sync(None);
            let before = player.history.flushed;
            player.play(&Op::Reopen)?;
            self.cut(&player.history, before).map_err(|fault| fault.at("closed at the end"))?;
        }
        self.disk.fail_sync(None);
        self.disk.kill();
        Ok(player.history)
    }

    /// Cuts the power behind each call of the last operation. What was flushed before it is there in any case.
    fn cut(&mut self, history: &History, flushed_before: usize) -> Result<(), Fault> {
        let moments = self.disk.take_moments();
        let last = moments.len().saturating_sub(1);
        for (io, moment) in moments.iter().enumerate() {
            let low = if io == last { history.flushed } else { flushed_before };
            for turn in 0..CUTS_PER_MOMENT {
                let image = match turn {
                    0 => moment.crash.synced_image(),
                    _ => moment.crash.random_image(&mut self.rng),
                };
                self.watch.tick();
                self.entropy += 1;
                self.counts.cuts.add(1);
                self.counts.clean.fetch_add(u64::from(moment.crash.marked_clean_sectors() > 0), Ordering::Relaxed);
                let after = choose(&mut self.rng, &After::ALL);
                examine(&image, &self.setup, history, (low, history.newest()), after, self.entropy)
                    .map_err(|fault| fault.at(format!("power cut {turn} behind I/O {io} ({})", moment.io)))?;
            }
        }
        Ok(())
    }
}
