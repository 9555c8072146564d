//! Random crashes: a store lives through several generations of work, each cut at many moments in many ways; one of the
//! images of each generation is what the next one goes on with.

mod rotten;

use crate::check::{After, examine, find_state};
use crate::disk::{Disk, Moment};
use crate::drive::{DiskHost, Fault, Host, Player, Setup};
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive, index};
use crate::tape::{Mix, Op, Tape, Times, Val};
use pipkin::storage::crash::{CrashImage, CrashPoint};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Images that were opened and looked at, of every kind.
    pub images: Quota,
    /// Those cut inside a recovery.
    pub in_recovery: AtomicU64,
    /// Those cut inside a compaction or checkpoint.
    pub in_compaction: AtomicU64,
    /// Those with a flipped bit.
    pub rotten: AtomicU64,
    /// Those of them whose list of segments was damaged, and nothing else; and of these, those that opened.
    pub lists: AtomicU64,
    /// See [`Self::lists`].
    pub unlisted: AtomicU64,
    /// Stores that lived.
    pub lives: AtomicU64,
    /// Images of stores with records that expire; and those of them under a clock that was set back.
    pub expiring: AtomicU64,
    /// See [`Self::expiring`].
    pub set_back: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` images.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            images: Quota::new("crash", least),
            in_recovery: zero(),
            in_compaction: zero(),
            rotten: zero(),
            lists: zero(),
            unlisted: zero(),
            lives: zero(),
            expiring: zero(),
            set_back: zero(),
        }
    }
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Images to go for.
    pub images: u64,
    /// Seed of the first life; the others count up from it.
    pub seed: u64,
    /// Begin no life after this many seconds.
    pub seconds: f64,
    /// Flipped bits at the end of each generation.
    pub flips: u64,
}

/// Generations of one store.
const GENERATIONS: usize = 4;
/// Flipped bits at the end of each generation in the normal run.
pub const FLIPS: u64 = 20;
/// Images of a crash point.
const CUTS_PER_POINT: usize = 8;

/// Runs lives until the images are used up.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| counts.images.count() < budget.images && counts.images.seconds() < budget.seconds);
    for_each(seeds, |seed, watch| live(seed, budget.flips, counts, watch))
}

/// One life: what a seed replays.
pub fn live(seed: u64, flips: u64, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed}");
    watch.begin(replay.clone());
    counts.lives.fetch_add(1, Ordering::Relaxed);
    let mut life = Life::new(seed, flips, counts, watch);
    guard(|| life.run())
        .unwrap_or_else(Fault::wrong)
        .map_err(|fault| Failure::new(replay, format!("{fault}\n  setup: {:?}\n{}", life.setup, life.story())))
}

/// An operation and the events it caused.
struct Span {
    op: Option<Op>,
    end: usize,
    /// The store's time after it.
    time: u64,
    /// Newest state before and after it; flushed floor before and after it.
    newest: (usize, usize),
    flushed: (usize, usize),
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// It is killed between two calls: nothing written is lost.
    Killed,
    /// It is killed inside of a write, part of which has landed.
    KilledInside,
    /// The power goes: sectors are lost, kept, stale or torn, in any order.
    Power,
    /// The power goes, and nothing reached the medium since the last sync.
    PowerAllLost,
}

impl Cut {
    /// Every kind, the one that leaves most to chance most often.
    const ALL: [Self; 8] =
        [Self::Killed, Self::KilledInside, Self::PowerAllLost, Self::Power, Self::Power, Self::Power, Self::Power, Self::Power];

    fn image(self, moment: &Moment, before: &CrashPoint, rng: &mut Rng) -> CrashImage {
        match self {
            Self::Killed => moment.crash.latest_image(),
            Self::KilledInside => moment.killed_inside(before, rng),
            Self::Power => moment.crash.random_image(rng),
            Self::PowerAllLost => moment.crash.synced_image(),
        }
    }
}

/// What the next generation goes on with.
struct Next {
    image: CrashImage,
    state: State,
    setup: Setup,
    how: String,
}

struct Life<'a> {
    rng: Rng,
    setup: Setup,
    mix: Mix,
    tag: u32,
    entropy: u64,
    flips: u64,
    counts: &'a Counts,
    watch: &'a Watch,
    tapes: Vec<(String, Tape)>,
}

impl<'a> Life<'a> {
    fn new(seed: u64, flips: u64, counts: &'a Counts, watch: &'a Watch) -> Self {
        let mut rng = derive(seed, 0xc4a5);
        let segment_size = 4096 << choose(&mut rng, &[0, 0, 0, 1, 2]);
        let replay_debt_max = choose(&mut rng, &[4096, 20_000, 1 << 20]);
        let mix = Mix {
            ops: 12 + index(&mut rng, 50),
            keys: 3 + rng.below(30) as u16,
            namespaces: rng.below(4) as u8,
            value_len: 20 + rng.below(600) as u32,
            large_len: if rng.chance(1, 3) { 9000 } else { 600 },
            reopens: true,
            times: Times::of(seed),
        };
        let setup = Setup { segment_size, replay_debt_max, clock: mix.times.clock(), sealed: Setup::seals(seed) };
        Self { rng, setup, mix, tag: 0, entropy: seed << 8, flips, counts, watch, tapes: Vec::new() }
    }

    fn story(&self) -> String {
        self.tapes.iter().map(|(how, tape)| format!("  [{how}] {tape}\n")).collect()
    }

    fn entropy(&mut self) -> u64 {
        self.entropy += 1;
        self.entropy
    }

    fn count_image(&self) {
        self.counts.images.add(1);
        self.counts.expiring.fetch_add(u64::from(self.mix.times != Times::Unused), Ordering::Relaxed);
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut image = CrashImage::from_bytes(&[]);
        let mut state = State::default();
        for generation in 0..GENERATIONS {
            let tape = Tape::generate(&mut self.rng, &self.mix, &mut self.tag);
            self.tapes.push((format!("generation {generation}"), tape.clone()));
            let next = self.generation(&image, state, &tape).map_err(|fault| fault.at(format!("generation {generation}")))?;
            (image, state, self.setup) = (next.image, next.state, next.setup);
            if let Some((text, _)) = self.tapes.last_mut() {
                text.push_str(&format!(", went on from {} at {}", next.how, self.setup.host_now()));
            }
        }
        Ok(())
    }

    /// Plays a tape on an image, crashes it everywhere, and chooses what to go on with.
    fn generation(&mut self, image: &CrashImage, state: State, tape: &Tape) -> Result<Next, Fault> {
        let disk = Disk::from_image(image);
        let mut before = disk.crash();
        disk.record();
        let host = DiskHost::new(disk.clone(), self.setup.clone(), self.entropy());
        let mut player = Player::open(host, state)?;
        let begin = player.time();
        let mut spans = vec![Span { op: None, end: disk.moments_len(), time: begin, newest: (0, 0), flushed: (0, 0) }];
        for (i, op) in tape.0.iter().enumerate() {
            self.watch.tick();
            let (newest, flushed) = (player.history.newest(), player.history.flushed);
            player.play(op).map_err(|fault| fault.at(format!("operation {i} `{op}`")))?;
            spans.push(Span {
                op: Some(op.clone()),
                end: disk.moments_len(),
                time: player.time(),
                newest: (newest, player.history.newest()),
                flushed: (flushed, player.history.flushed),
            });
        }
        let moments = disk.take_moments();
        let history = std::mem::replace(&mut player.history, History::new(State::default()));
        disk.kill();
        drop(player);
        let chosen = index(&mut self.rng, moments.len().max(1));
        let mut next = None;
        let mut first = 0;
        for (at, span) in spans.iter().enumerate() {
            for (io, moment) in moments.iter().enumerate().take(span.end).skip(first) {
                let place = format!("operation {} {}, behind I/O {io} {}", at as i64 - 1, label(span), moment.io);
                let done = io + 1 == span.end;
                self.point(moment, &before, span, done, (&history, begin)).map_err(|fault| fault.at(&place))?;
                if io == chosen {
                    next = Some(self.choose(moment, &before, span, (&history, begin), &place)?);
                }
                before = moment.crash.clone();
            }
            first = span.end;
        }
        self.rot(&disk.image(), &history)?;
        let end = || Next { image: disk.image(), state: history.now().clone(), setup: self.setup.clone(), how: "the end".into() };
        Ok(next.unwrap_or_else(end))
    }

    /// Where a crash inside `span` may come back to: `(least, newest)`.
    fn bounds(span: &Span, done: bool, cut: Cut, history: &History) -> (usize, usize) {
        let low = match (cut, done) {
            (Cut::Killed, true) => span.newest.1,
            (Cut::Killed | Cut::KilledInside, _) => span.newest.0,
            (Cut::Power | Cut::PowerAllLost, true) => span.flushed.1,
            (Cut::Power | Cut::PowerAllLost, false) => span.flushed.0,
        };
        (history.commit_at(low), span.newest.1)
    }

    /// How an image of a span is opened: then, later, or, where the mix has it, with the clock set back, but not to before the session's
    /// `begin`: what had expired there may be forgotten.
    fn setup_after(&mut self, span: &Span, begin: u64) -> Setup {
        if self.mix.times == Times::Unused {
            return self.setup.clone();
        }
        let time = match self.rng.below(4) {
            0 => span.time + self.rng.below(40_000),
            1 if self.mix.times == Times::Both => begin + self.rng.below(span.time - begin + 1),
            _ => span.time,
        };
        self.counts.set_back.fetch_add(u64::from(time < span.time), Ordering::Relaxed);
        self.setup.at(time)
    }

    fn point(
        &mut self,
        moment: &Moment,
        before: &CrashPoint,
        span: &Span,
        done: bool,
        (history, begin): (&History, u64),
    ) -> Result<(), Fault> {
        let structural = matches!(span.op, None | Some(Op::Step | Op::Compact | Op::Checkpoint | Op::Reopen | Op::Kill));
        if !structural && self.rng.chance(1, 2) {
            return Ok(());
        }
        let mut seen = HashSet::new();
        for _ in 0..CUTS_PER_POINT {
            let cut = choose(&mut self.rng, &Cut::ALL);
            let image = cut.image(moment, before, &mut self.rng);
            let bounds = Self::bounds(span, done, cut, history);
            if !seen.insert((xxh3_64(&image.to_vec()), bounds.0)) {
                continue;
            }
            self.watch.tick();
            if structural {
                self.counts.in_compaction.fetch_add(1, Ordering::Relaxed);
            }
            self.count_image();
            let setup = self.setup_after(span, begin);
            let outcome = if self.rng.chance(1, 30) {
                self.crash_in_recovery(&image, &setup, history, bounds)
            } else {
                let after = choose(&mut self.rng, &After::ALL);
                let entropy = self.entropy();
                examine(&image, &setup, history, bounds, after, entropy).map(drop)
            };
            outcome.map_err(|fault| fault.at(format!("cut {cut:?}, opened at {}", setup.host_now())))?;
        }
        Ok(())
    }

    /// Crashes the recovery of an image, and the first operation behind it, at each I/O: recovery leaves its writing to that. What
    /// the first recovery has found, the next one finds too, for the image's own bytes are safe.
    fn crash_in_recovery(
        &mut self,
        image: &CrashImage,
        setup: &Setup,
        history: &History,
        (low, high): (usize, usize),
    ) -> Result<(), Fault> {
        let disk = Disk::from_image(image);
        let mut before = disk.crash();
        disk.record();
        let host = DiskHost::new(disk.clone(), setup.clone(), self.entropy());
        let db = host.open().map_err(|error| Fault::from(error).at("opening the image"))?;
        let now = setup.now_of(&db);
        let place = find_state(&db, now, history, low, high)?;
        let mut player = Player::going_on(host, db, History::new(history.states[place].at(now)));
        let (put, other) = (Val { len: 60, tag: 800_001 }, Val { len: 700, tag: 800_002 });
        let firsts = [
            Op::Put(0, 1, put),
            Op::Txn(true, vec![(0, 2, None), (0, 3, Some(other)), (0, 4, Some(put))]),
            Op::Compact,
            Op::Checkpoint,
            Op::Reopen,
            Op::Flush,
        ];
        let first = &firsts[index(&mut self.rng, firsts.len())];
        player.play(first).map_err(|fault| fault.at(format!("`{first}` right behind recovery")))?;
        let moments = disk.take_moments();
        disk.kill();
        for (io, moment) in moments.iter().enumerate() {
            let done = io + 1 == moments.len();
            let cut = choose(&mut self.rng, &Cut::ALL);
            let again = cut.image(moment, &before, &mut self.rng);
            let newest = player.history.newest();
            let low = match (cut, done) {
                (Cut::Killed, true) => newest,
                (Cut::Power | Cut::PowerAllLost, true) => player.history.flushed,
                _ => 0,
            };
            let after = choose(&mut self.rng, &After::ALL);
            let entropy = self.entropy();
            self.count_image();
            self.counts.in_recovery.fetch_add(1, Ordering::Relaxed);
            examine(&again, setup, &player.history, (low, newest), after, entropy).map_err(|fault| {
                fault.at(format!("recovery and `{first}` crashed behind I/O {io} ({}), cut {cut:?}", moment.io))
            })?;
            before = moment.crash.clone();
        }
        Ok(())
    }

    fn choose(
        &mut self,
        moment: &Moment,
        before: &CrashPoint,
        span: &Span,
        (history, begin): (&History, u64),
        place: &str,
    ) -> Result<Next, Fault> {
        let cut = choose(&mut self.rng, &Cut::ALL);
        let how = format!("{place}, cut {cut:?}");
        let image = cut.image(moment, before, &mut self.rng);
        let (low, high) = Self::bounds(span, false, cut, history);
        let entropy = self.entropy();
        let setup = self.setup_after(span, begin);
        let db = setup.open(Disk::from_image(&image).storage(), entropy).map_err(|error| Fault::from(error).at(&how))?;
        let now = setup.now_of(&db);
        let found = find_state(&db, now, history, low, high).map_err(|fault| fault.at(&how))?;
        Ok(Next { image, state: history.states[found].at(now), setup, how })
    }
}

fn label(span: &Span) -> String {
    span.op.as_ref().map_or_else(|| "open".to_string(), |op| format!("`{op}`"))
}
