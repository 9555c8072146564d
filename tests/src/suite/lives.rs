//! Chained unclean ends: a store is opened, does a little, dies, and again, many times over, on a medium that is full or has room. After any
//! number of them removals find a way out, compaction frees what is dead, inserts fit again, and the file stays bounded.

use crate::check::find_state;
use crate::drive::{Fault, Host, Player, Setup};
use crate::medium::Medium;
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::tape::{Op, Val};
use pipkin::limits::DATA_START;
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Error, Storage};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Sessions that ended without a close.
    pub deaths: Quota,
    /// Of these the ones on a full medium.
    pub full: AtomicU64,
    /// Those inside of a call of the storage.
    pub inside: AtomicU64,
    /// Power cuts.
    pub cuts: AtomicU64,
    /// Removals that had to work.
    pub removals: AtomicU64,
    /// Of these and of compactions the ones for which what was stranded had to be given up.
    pub given_up: AtomicU64,
    /// Stores that lived.
    pub lives: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` deaths.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        let deaths = Quota::new("lives", least);
        Self { deaths, full: zero(), inside: zero(), cuts: zero(), removals: zero(), given_up: zero(), lives: zero() }
    }
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Deaths to go for.
    pub deaths: u64,
    /// Seed of the first life; the others count up from it.
    pub seed: u64,
}

/// Runs lives until the deaths are used up.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| counts.deaths.count() < budget.deaths);
    for_each(seeds, |seed, watch| one(seed, counts, watch))
}

/// One life: what a seed replays.
pub fn one(seed: u64, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_LIFE_SEED={seed}");
    watch.begin(replay.clone());
    counts.lives.fetch_add(1, Ordering::Relaxed);
    let mut life = Life::new(seed, counts, watch);
    let outcome = guard(|| life.run()).unwrap_or_else(Fault::wrong);
    outcome.map_err(|fault| {
        let story: Vec<&str> = life.story.iter().rev().take(40).rev().map(String::as_str).collect();
        let what =
            format!("{fault}\n  {:?}, {} bytes, full: {}\n  ...{}", life.setup, life.capacity, life.is_full, story.join("; "));
        Failure::new(replay, what)
    })
}

/// Steps of compaction in stores of tiny segments, whose lists are long beside what is dead: they end.
pub fn steps() -> Outcome {
    let fail = |what: &dyn std::fmt::Display| Failure::new("none", what);
    for (records, len, apart) in [(3_000, 40, 3), (12_000, 90, 7), (20_000, 20, 5)] {
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).auto_compact_dead_share(2.0).replay_debt_max(4096);
        let db = builder.in_memory().map_err(|error| fail(&error))?;
        let key = u32::to_be_bytes;
        (0..records).try_for_each(|number| db.insert(key(number), vec![1; len])).map_err(|error| fail(&error))?;
        let removed = (0..records).step_by(apart).try_for_each(|number| db.remove(key(number)).map(drop));
        removed.map_err(|error| fail(&error))?;
        let most = 4 * db.stats().map_err(|error| fail(&error))?.segments;
        let mut steps = 0;
        while db.compact_step().map_err(|error| fail(&error))?.is_some() {
            steps += 1;
            if steps > most {
                return Err(fail(&format!("more than {most} steps, {records} records of {len} bytes")));
            }
        }
    }
    Ok(())
}

/// Sessions that write one record and are forgotten: what they leave unused is compacted by later ones.
pub fn forgotten() -> Outcome {
    let fail = |what: &dyn std::fmt::Display| Failure::new("none", what);
    let storage = MemoryStorage::new();
    for _ in 0..100 {
        let builder = Db::builder().segment_size(64 * 1024).background(false);
        let db = builder.open_storage(Box::new(storage.clone())).map_err(|error| fail(&error))?;
        db.insert("the only key", "a value").map_err(|error| fail(&error))?;
        std::mem::forget(db);
        let len = storage.len().map_err(|error| fail(&error))?;
        if len > 30 * 64 * 1024 {
            return Err(fail(&format!("{len} bytes of file for one record")));
        }
    }
    Ok(())
}

/// A full medium of which a quarter was removed here and there has room for as much again, nearly, without a call of anybody.
pub fn room() -> Outcome {
    let fail = |what: &dyn std::fmt::Display| Failure::new("none", what);
    let db = Db::builder().segment_size(16 * 1024).background(false).open_storage(Box::new(Medium::new(40 * 16 * 1024)));
    let db = db.map_err(|error| fail(&error))?;
    let keys = (0_u32..).take_while(|key| db.insert(key.to_le_bytes(), [7; 500]).is_ok()).count() as u32;
    let removed = (0..keys).step_by(4);
    removed.clone().try_for_each(|key| db.remove(key.to_le_bytes()).map(drop)).map_err(|error| fail(&error))?;
    let again = removed.clone().take_while(|key| db.insert(key.to_le_bytes(), [8; 500]).is_ok()).count();
    if again * 5 > removed.len() * 4 { Ok(()) } else { Err(fail(&format!("{again} of {} were written again", removed.len()))) }
}

/// A full medium whose store is closed, several times, while somebody else takes every byte that it gives back: what is removed then here and
/// there makes room.
pub fn taken() -> Outcome {
    let fail = |what: &dyn std::fmt::Display| Failure::new("none", what);
    let medium = FaultStorage::new(MemoryStorage::new());
    medium.set_capacity(Some(40 * 16 * 1024));
    let builder = || Db::builder().segment_size(16 * 1024).background(false);
    let open = || builder().open_storage(Box::new(medium.clone())).map_err(|error| fail(&error));
    let db = open()?;
    let keys = (0_u32..).take_while(|key| db.insert(key.to_le_bytes(), [7; 500]).is_ok()).count() as u32;
    let mut left = (0..keys).filter(|key| key % 10 < 3);
    let mut remove = |db: &Db, count: u32| {
        let removed = left.by_ref().take(count as usize).try_for_each(|key| db.remove(key.to_le_bytes()).map(drop));
        removed.map_err(|error| fail(&format!("remove: {error}")))
    };
    let close = |db: Db| {
        db.close().map_err(|error| fail(&error))?;
        medium.set_capacity(Some(medium.len().map_err(|error| fail(&error))?));
        Ok(())
    };
    close(db)?;
    // Sessions that remove one record, and then one that removes the rest.
    for count in [1, 1, 1, keys] {
        let db = open()?;
        remove(&db, count)?;
        if count == keys {
            db.compact().map_err(|error| fail(&format!("compact: {error}")))?;
            let again = (0..keys / 6).try_for_each(|key| db.insert(format!("again {key}"), [8; 500]));
            again.map_err(|error| fail(&format!("insert: {error}")))?;
        }
        close(db)?;
    }
    Ok(())
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The process is killed: nothing written is lost, but the end of the last write.
    Kill,
    /// The power goes: sectors are lost, kept, stale or torn, in any order.
    Power,
    /// The power goes, and nothing reached the medium since the last sync.
    PowerAllLost,
}

/// The file of a life as a host: every session opens it with entropy of its own.
struct MediumHost {
    medium: Medium,
    setup: Setup,
    entropy: u64,
}

impl Host for MediumHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.setup.open(self.medium.clone(), self.entropy)
    }

    fn kill(&self, _: Db) -> pipkin::Result<Db> {
        Err(Error::Closed)
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Played {
    Done,
    Refused,
    Died,
}

struct Life<'a> {
    rng: Rng,
    setup: Setup,
    capacity: u64,
    is_full: bool,
    /// Nobody compacts it.
    is_left_alone: bool,
    medium: Medium,
    state: State,
    tag: u32,
    entropy: u64,
    session: usize,
    counts: &'a Counts,
    watch: &'a Watch,
    story: Vec<String>,
}

const KEYS_MAX: u64 = 2000;

impl<'a> Life<'a> {
    fn new(seed: u64, counts: &'a Counts, watch: &'a Watch) -> Self {
        let mut rng = derive(seed, 0x11fe);
        let segment_size = 8192 << rng.below(3);
        let is_full = !rng.chance(1, 4);
        let capacity = if is_full { u64::from(segment_size) * (12 + rng.below(20)) } else { 1 << 40 };
        let setup = Setup {
            segment_size,
            replay_debt_max: choose(&mut rng, &[16 * 1024, 200_000, 32 << 20]),
            clock: None,
            sealed: false,
        };
        Self {
            rng,
            setup,
            capacity,
            is_full,
            is_left_alone: seed.is_multiple_of(2),
            medium: Medium::new(capacity),
            state: State::default(),
            tag: 0,
            entropy: seed << 16,
            session: 0,
            counts,
            watch,
            story: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let sessions = if self.is_full { 10 } else { 60 } + self.rng.below(50);
        if self.is_full {
            self.fill()?;
        }
        for _ in 0..sessions {
            let ops = self.rng.below(5) as usize;
            self.live(ops, Self::little)?;
            self.bounded()?;
        }
        if self.is_full {
            self.way_out()?;
            self.room_by_itself()?;
        }
        self.compacted()
    }

    /// Each session leaves a segment behind at most, and that only until there are a few of them.
    fn bounded(&self) -> Result<(), Fault> {
        let live: u64 = self.state.spaces[&0].values().map(|val| u64::from(val.len) + 40).sum();
        let (len, bound) =
            (self.medium.len().map_err(Error::from)?, 4 * live + 40 * u64::from(self.setup.segment_size) + 300_000);
        if self.is_full || len <= bound {
            Ok(())
        } else {
            Fault::wrong(format!("{len} bytes of file for {live}, more than {bound}"))
        }
    }

    fn put(&mut self) -> Op {
        self.tag += 1;
        let len = choose(&mut self.rng, &[20, 100, 300, 300, 900]);
        Op::Put(0, self.rng.below(KEYS_MAX) as u16, Val { len: self.rng.below(len) as u32, tag: self.tag })
    }

    fn removal(&mut self) -> Op {
        let keys: Vec<u16> = self.state.spaces[&0].keys().copied().collect();
        if keys.is_empty() { Op::Flush } else { Op::Del(0, choose(&mut self.rng, &keys)) }
    }

    fn little(&mut self) -> Op {
        match self.rng.below(if self.is_left_alone { 16 } else { 20 }) {
            0..=5 => self.put(),
            6..=13 => self.removal(),
            14 | 15 => Op::Flush,
            16 => Op::Step,
            17 => Op::Compact,
            18 => Op::Checkpoint,
            _ => {
                self.tag += 2;
                let val = |tag| Val { len: 200, tag };
                Op::Many(0, vec![(3, val(self.tag - 1)), (4, val(self.tag))])
            }
        }
    }

    /// Sessions that write until there is no space, some of which die on the way.
    fn fill(&mut self) -> Result<(), Fault> {
        for _ in 0..1000 {
            let refused = self.live(120, |life| {
                let (tag, len) = (life.tag + 1, 200 + life.rng.below(900) as u32);
                life.tag = tag;
                // The same keys again and again would never fill it.
                Op::Put(0, (tag % 60_000) as u16, Val { len, tag })
            })?;
            if refused {
                return Ok(());
            }
        }
        Fault::wrong("the medium never got full")
    }

    /// Removes four of five records, each of which must work, with deaths in between; then there is room.
    fn way_out(&mut self) -> Result<(), Fault> {
        let keys: Vec<u16> = self.state.spaces[&0].keys().copied().collect();
        let mut left: Vec<u16> = keys.iter().enumerate().filter(|(at, _)| at % 5 != 0).map(|(_, &key)| key).rev().collect();
        let most = left.len() * 4 + 200;
        for _ in 0..most {
            left.retain(|key| self.state.get(0, *key).is_some());
            if left.is_empty() {
                break;
            }
            let mut queue = left.clone();
            let some = 1 + self.rng.below(60) as usize;
            self.live(some.min(queue.len()), |_| queue.pop().map_or(Op::Flush, |key| Op::Del(0, key)))?;
        }
        left.retain(|key| self.state.get(0, *key).is_some());
        if left.is_empty() { Ok(()) } else { Fault::wrong("the sessions came to no end") }
    }

    /// What was removed makes room for what comes, without a call of anybody.
    fn room_by_itself(&mut self) -> Result<(), Fault> {
        let mut player = self.open()?;
        let stats = player.db()?.stats()?;
        let kept = player.db()?.open_report().stranded_bytes;
        let taken = DATA_START + 2 * stats.live_bytes + 10 * stats.segment_size + 2 * kept;
        for number in 0..self.capacity.saturating_sub(taken) / 1200 {
            let op = self.put();
            player.play(&op).map_err(|fault| fault.at(format!("`{op}`, number {number} behind the removals")))?;
        }
        self.state.clone_from(player.history.now());
        player.db()?.close().map_err(|error| Fault::from(error).at("closing behind the removals"))?;
        Ok(())
    }

    /// The end of a life: one compaction frees what is dead, and what was removed fits again.
    fn compacted(&mut self) -> Result<(), Fault> {
        let mut player = self.open()?;
        player.play(&Op::Compact).map_err(|fault| fault.at("the compaction at the end"))?;
        // What power cuts have left behind the ends of the log is kept until somebody gives it up.
        if player.db()?.verify()?.stranded_records > 0 {
            player.db()?.drop_stranded().map_err(|error| Fault::from(error).at("giving up at the end"))?;
        }
        let stats = player.db()?.stats()?;
        let segment = u64::from(self.setup.segment_size);
        let bound = DATA_START + 2 * stats.live_bytes + 10 * segment;
        if stats.file_bytes > bound {
            return Fault::wrong(format!("{} bytes of file after a compaction, more than {bound}: {stats:?}", stats.file_bytes));
        }
        let room = if self.is_full { self.capacity.saturating_sub(bound) / 3 } else { 0 };
        let mut written = 0;
        while written < room {
            let op = self.put();
            player
                .play(&op)
                .map_err(|fault| fault.at(format!("`{op}` behind the compaction at the end, {written} of {room}")))?;
            written += 300;
        }
        player.play(&Op::Verify)?;
        player.db()?.close().map_err(|error| Fault::from(error).at("closing at the end"))?;
        Ok(())
    }

    fn open(&mut self) -> Result<Player<MediumHost>, Fault> {
        self.watch.tick();
        self.entropy += 1;
        self.session += 1;
        let host = MediumHost { medium: self.medium.clone(), setup: self.setup.clone(), entropy: self.entropy };
        Player::open(host, self.state.clone()).map_err(|fault| fault.at(format!("session {}", self.session)))
    }

    /// One session: so many operations, then it dies, unless it died before. True when there was no space for several of them.
    fn live(&mut self, ops: usize, mut next: impl FnMut(&mut Self) -> Op) -> Result<bool, Fault> {
        let mut player = self.open()?;
        let death = choose(&mut self.rng, &[Death::Kill, Death::Kill, Death::Power, Death::PowerAllLost]);
        let file = self.medium.file().clone();
        if self.rng.chance(1, 2) {
            let most = choose(&mut self.rng, &[4, 12, 60, 400]);
            file.stop_at(Some(file.io_count() + 1 + self.rng.below(most)));
        }
        let mut refused = 0;
        for _ in 0..ops {
            let op = next(self);
            let played = self.play(&mut player, &op).map_err(|fault| {
                let segments = player.db().and_then(|db| Ok(db.segments()?)).unwrap_or_default();
                fault.at(format!("session {}, `{op}`, with {segments:?}", self.session))
            })?;
            self.story.push(format!("{op} ({played:?})"));
            self.state.clone_from(player.history.now());
            refused += usize::from(played == Played::Refused);
            if played == Played::Died || refused > 3 {
                break;
            }
        }
        self.die(player, death)?;
        Ok(refused > 3)
    }

    /// Plays an operation; what may be refused on a full medium changes nothing.
    fn play(&mut self, player: &mut Player<MediumHost>, op: &Op) -> Result<Played, Fault> {
        let outcome = player.play(op);
        if self.medium.file().is_stopped() {
            return Ok(Played::Died);
        }
        match outcome {
            Ok(()) => {
                self.counts.removals.fetch_add(u64::from(matches!(op, Op::Del(..))), Ordering::Relaxed);
                Ok(Played::Done)
            }
            // Whoever is told to give up what is kept does so, and goes on.
            Err(Fault::Engine(Error::StrandedInTheWay { bytes })) if self.is_full => {
                player.in_doubt.clear();
                self.counts.given_up.fetch_add(1, Ordering::Relaxed);
                self.story.push(format!("{op} (Stranded in the way: {bytes} bytes)"));
                let dropped = player.db()?.drop_stranded();
                if self.medium.file().is_stopped() {
                    return Ok(Played::Died);
                }
                dropped.map_err(|error| Fault::from(error).at("giving up what is stranded"))?;
                match player.play(op) {
                    _ if self.medium.file().is_stopped() => Ok(Played::Died),
                    Ok(()) => Ok(Played::Done),
                    Err(fault) => Err(fault.at("after giving up what was stranded")),
                }
            }
            Err(Fault::Engine(Error::NoSpace)) if self.is_full && !matches!(op, Op::Del(..) | Op::Flush) => {
                player.in_doubt.clear();
                Ok(Played::Refused)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The session ends without a close; what it leaves is opened, and must be what a crash may leave.
    fn die(&mut self, player: Player<MediumHost>, death: Death) -> Result<(), Fault> {
        let file = self.medium.file();
        let inside = file.is_stopped();
        let point = file.freeze();
        file.stop();
        let image = match death {
            Death::Kill => point.killed_image(self.rng.below(point.in_flight_len() + 1)),
            Death::Power => point.random_image(&mut self.rng),
            Death::PowerAllLost => point.synced_image(),
        };
        self.counts.deaths.add(1);
        self.counts.full.fetch_add(u64::from(self.is_full), Ordering::Relaxed);
        self.counts.inside.fetch_add(u64::from(inside), Ordering::Relaxed);
        self.counts.cuts.fetch_add(u64::from(death != Death::Kill), Ordering::Relaxed);
        self.story.push(format!("[{death:?}, inside: {inside}]"));
        let Player { db, mut history, in_doubt, .. } = player;
        drop(db);
        let low = if death == Death::Kill { history.newest() } else { history.flushed };
        history.states.extend(in_doubt);
        let high = history.newest();
        self.medium = self.medium.after(&image);
        let place =
            self.look(&image, &history, low, high).map_err(|fault| fault.at(format!("what session {} left", self.session)))?;
        self.state = history.states[place].clone();
        Ok(())
    }

    /// Opens a copy of what a session left.
    fn look(&mut self, image: &CrashImage, history: &History, low: usize, high: usize) -> Result<usize, Fault> {
        self.entropy += 1;
        let db = self.setup.open(CrashStorage::from_image(image), self.entropy)?;
        find_state(&db, 0, history, low, high)
    }
}
