//! Two sessions on one file that nobody can lock, as under WASI, under a scheduler that decides before every call of the storage who goes on.
//!
//! The story: `wasmtime serve` runs each request in an instance of its own. Two of them wrote to one store, lost updates, and left a file
//! that never opened again.
//!
//! Each run is two scripts and a plan: how many calls of its storage one session makes before the other one goes on, again and again; it may be
//! killed there, or the power may go. Whatever the plan: the file opens, nothing in it is damaged, what a session was told is flushed is there, and a
//! session that was overtaken says so in its own words.

use crate::parallel::{Failure, Outcome, Watch, for_each};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::{CacheOptions, CachedStorage};
use pipkin::{Db, Durability, Error, Storage, StorageError, StorageErrorKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opens the store, if it is not open.
    Open,
    /// A record under a key of its own.
    Put,
    /// A record that takes several segments.
    Long,
    /// One more on a counter that both have: read, then written.
    Count,
    /// Many records over the same few keys: work for compaction.
    Churn,
    /// What was written is to be safe.
    Flush,
    /// A snapshot and the list of segments.
    Checkpoint,
    /// Compacts what is worth it.
    Compact,
    /// Closes the store.
    Close,
}

use Op::{Checkpoint, Churn, Close, Compact, Count, Flush, Long, Open, Put};

/// What happens where a plan hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The other one goes on.
    Pause,
    /// The one that was running is killed.
    Kill,
    /// The power goes.
    Cut,
}

/// So many calls, then a turn.
pub type Plan = Vec<(u32, Turn)>;

/// What stands in the file at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Blank,
    /// A store that was closed.
    Closed,
    /// One whose writer was killed.
    Killed,
}

/// Whether the sessions know that they share the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// They do not: how it was before there was a fence.
    ThoughtLocked,
    /// A host without locks.
    Plain,
    /// The same, with the layer of the component above it, in which reads stay and writes gather.
    Cached,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was there.
    pub start: Start,
    /// What it runs on.
    pub host: Host,
    /// What the first and the second one do.
    pub scripts: [Vec<Op>; 2],
    /// Who goes on when.
    pub plan: Plan,
    /// For entropy, and for what a power cut leaves.
    pub seed: u64,
}

/// What `verify` says of a store behind a power cut though nothing counts there: a trailer torn in front of a segment that is there, and one
/// copy of the header of a segment that was given up.
const LEFT_BY_CUTS: [&str; 2] = ["names the next segment", "a copy of a segment header"];
const KILLED: &str = "the test has ended this session";
/// Who sleeps in front of a call for longer than so many sessions of others may write where somebody else does.
const SESSIONS_REMEMBERED: u32 = 4;
const SEGMENT: u32 = 4096;

#[derive(Debug, Default)]
struct State {
    running: usize,
    done: [bool; 2],
    killed: [bool; 2],
    /// What is left of the plan, in reverse.
    plan: Plan,
    /// Calls since the plan ran out.
    free_calls: Vec<Call>,
    cut: Option<CrashImage>,
    /// Sessions that each has opened, and how many the other one had when this one was last seen.
    opened: [u32; 2],
    opening: [bool; 2],
    seen: [u32; 2],
    /// Somebody slept while the other one went through more than one session.
    slept_through: bool,
    calls: u64,
}

/// What a call of a storage is, as far as it matters to the other session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Reads,
    Looks,
    Writes,
}

struct Scheduler {
    state: Mutex<State>,
    turned: Condvar,
    disk: CrashStorage,
    seed: u64,
}

impl Scheduler {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `who` may make its next call.
    fn step(&self, who: usize, call: Call) -> Result<(), StorageError> {
        let mut state = self.lock();
        loop {
            while state.running != who && !state.killed[who] {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.killed[who] {
                return Err(StorageError::new(StorageErrorKind::Other, "call", KILLED));
            }
            // Only whoever runs alone has nobody to hand over to.
            let is_due = state.plan.last().is_some_and(|&(left, _)| left == 0);
            if !is_due || (state.done[1 - who] && state.plan.last().is_some_and(|&(_, turn)| turn == Turn::Pause)) {
                break;
            }
            let turn = state.plan.pop().map_or(Turn::Pause, |(_, turn)| turn);
            match turn {
                Turn::Pause => {}
                Turn::Kill => state.killed[who] = true,
                Turn::Cut => {
                    let mut rng = derive(self.seed, 7);
                    state.cut = Some(self.disk.random_image(&mut rng));
                    state.killed = [true; 2];
                }
            }
            self.hand_over(&mut state, who);
        }
        let state = &mut *state;
        match state.plan.last_mut() {
            Some((left, _)) => *left = left.saturating_sub(1),
            None if !state.done[1 - who] => state.free_calls.push(call),
            None => {}
        }
        state.calls += 1;
        state.opened[who] += u32::from(std::mem::take(&mut state.opening[who]));
        let slept = state.opened[1 - who] - state.seen[who];
        state.slept_through |= slept > SESSIONS_REMEMBERED;
        state.seen[who] = state.opened[1 - who];
        Ok(())
    }

    fn hand_over(&self, state: &mut State, who: usize) {
        if !state.done[1 - who] {
            state.running = 1 - who;
        }
        self.turned.notify_all();
    }

    fn end(&self, who: usize) {
        let mut state = self.lock();
        state.done[who] = true;
        if state.running == who {
            self.hand_over(&mut state, who);
        }
    }
}

/// A replay shows every call.
fn trace() -> bool {
    static TRACE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *TRACE.get_or_init(|| std::env::var("PIPKIN_TRIAL").is_ok() || std::env::var("PIPKIN_SEED").is_ok())
}

/// Superblocks and headers of segments, for a replay.
fn dump(file: &[u8]) {
    let word = |at: usize| file.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    for slot in [0, 4096] {
        let [generation, session] = [48, 56].map(|at| word(slot + at));
        let rest = [72, 88, 96, 120, 128, 160, 176, 184].map(|at| word(slot + at));
        println!(
            "superblock: generation {generation:x}, session {session:x}; checkpoint, its offset, directory, end, synced, active, where, headers: {rest:x?}"
        );
    }
    for start in (16_384..file.len()).step_by(4096).filter(|&start| file.get(start + 16..start + 20) == Some(b"PSEG")) {
        let [salt, base, before, end, synced, session, number] = [0, 8, 32, 48, 56, 64, 72].map(|at| word(start + at));
        let kind = file.get(start + 20).copied().unwrap_or(0);
        println!(
            "{start}: kind {kind} base {base} before {before} ends {end} synced {synced} session {session:x} number {number} salt {salt:x}"
        );
    }
}

/// The file as one of the two sees it.
struct Seat {
    who: usize,
    scheduler: Arc<Scheduler>,
    is_exclusive: bool,
}

impl Seat {
    fn call<T>(
        &self,
        call: Call,
        what: fmt::Arguments<'_>,
        then: impl FnOnce(&CrashStorage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.scheduler.step(self.who, call)?;
        let shown = then(&self.scheduler.disk);
        if trace() {
            println!(
                "{}{what} -> {}",
                if self.who == 0 { "" } else { "                                        " },
                if shown.is_ok() { "" } else { "failed" }
            );
        }
        shown
    }
}

impl Storage for Seat {
    fn len(&self) -> Result<u64, StorageError> {
        self.call(Call::Reads, format_args!("len"), Storage::len)
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.call(Call::Writes, format_args!("set_len {len}"), |disk| disk.set_len(len))
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let len = out.len();
        self.call(Call::Reads, format_args!("read {offset} + {len}"), |disk| disk.read_at(offset, out))
    }
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.call(Call::Looks, format_args!("look at {offset}"), |disk| disk.read_now(offset, out))
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let what = match parts.first().and_then(|part| part.get(48..144)) {
            Some(part) if trace() && offset < 8192 && len == 512 => {
                let word =
                    |at: usize| part.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
                format!("generation {:x} session {:x} end {:x} flags {}", word(0), word(8), word(72), word(88))
            }
            _ => String::new(),
        };
        self.call(Call::Writes, format_args!("write {offset} + {len} {what}"), |disk| disk.write_at(offset, parts))
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.call(Call::Looks, format_args!("sync"), Storage::sync)
    }
    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

/// What a session was told, of its keys.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Written, then flushed.
    written: BTreeMap<Vec<u8>, Vec<u8>>,
    flushed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Values that a key may have besides: in doubt, or overwritten since by this session.
    others: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    counted: u64,
    counted_flushed: u64,
    counts_tried: u64,
    was_fenced: bool,
    flushes: u64,
}

impl Told {
    fn put(&mut self, key: &[u8], value: &[u8], put: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.others.entry(key.to_vec()).or_default().push(value.to_vec());
        put()?;
        self.written.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn is_flushed(&mut self) {
        self.flushes += 1;
        self.flushed.append(&mut self.written.clone());
        self.counted_flushed = self.counted;
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    free_calls: Vec<Call>,
    /// A session slept between two of its calls while the other one went through several.
    slept_through: bool,
    /// Records that were written and not flushed by a session that was fenced off, and are gone.
    pub written_lost: u64,
    /// Sessions that were fenced off.
    pub fenced: u64,
    /// Flushes that were acknowledged.
    pub flushes: u64,
    /// Calls of the storage.
    pub calls: u64,
}

struct Session {
    who: usize,
    host: Host,
    scheduler: Arc<Scheduler>,
    seed: u64,
    db: Option<Db>,
    told: Told,
    puts: u32,
}

impl Session {
    fn open(&mut self) -> Result<(), Error> {
        if self.db.is_some() {
            return Ok(());
        }
        let opened = {
            let mut state = self.scheduler.lock();
            state.opening[self.who] = true;
            state.opened[self.who]
        };
        let seat = Seat { who: self.who, scheduler: self.scheduler.clone(), is_exclusive: self.host == Host::ThoughtLocked };
        let storage: Box<dyn Storage> = match self.host {
            Host::Cached => Box::new(CachedStorage::<_, 65_536>::new(seat, CacheOptions::default())?),
            Host::Plain | Host::ThoughtLocked => Box::new(seat),
        };
        let mut entropy = [0; 32];
        derive(self.seed, u64::from(opened) * 2 + self.who as u64).fill(&mut entropy);
        let builder = Db::builder().background(false).segment_size(SEGMENT).entropy(entropy).replay_debt_max(64 * 1024);
        self.db = Some(builder.open_storage(storage)?);
        Ok(())
    }

    fn run(&mut self, op: Op) -> Result<(), Error> {
        if op == Open {
            return self.open();
        }
        let Some(db) = self.db.clone() else { return Ok(()) };
        let who = self.who as u8;
        match op {
            Open => {}
            Put | Long => {
                self.puts += 1;
                let key = format!("{who}/{}", self.puts).into_bytes();
                let value = vec![who; if op == Long { 9000 } else { 40 + self.puts as usize }];
                self.told.put(&key, &value, || db.insert(&key, &value))?;
            }
            Churn => {
                for round in 0..6_u8 {
                    self.puts += 1;
                    let key = format!("{who}/churn {}", round % 2).into_bytes();
                    let value = vec![self.puts as u8; 900];
                    self.told.put(&key, &value, || db.insert(&key, &value))?;
                }
            }
            Count => {
                let old = db.get("count")?.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
                self.told.counts_tried += 1;
                db.insert("count", (old + 1).to_le_bytes())?;
                self.told.counted += 1;
            }
            Flush => {
                db.flush()?;
                self.told.is_flushed();
            }
            Checkpoint => db.checkpoint()?,
            Compact => drop(db.compact()?),
            Close => {
                self.db = None;
                db.close()?;
                self.told.is_flushed();
            }
        }
        Ok(())
    }

    /// Runs a script. Fenced off, it opens the store again and goes on behind.
    fn play(&mut self, script: &[Op]) -> Result<(), String> {
        let mut times = 0;
        for &op in script {
            match self.run(op) {
                Ok(()) => {}
                Err(Error::Fenced) => {
                    self.told.was_fenced = true;
                    self.db = None;
                    // What was not flushed may be gone.
                    self.told.written = self.told.flushed.clone();
                    self.told.counted = self.told.counted_flushed;
                    times += 1;
                    if times > 3 {
                        break;
                    }
                    match self.open() {
                        Ok(()) | Err(Error::Fenced) => {}
                        Err(_) if self.is_killed() => return Ok(()),
                        Err(error) => {
                            if trace() {
                                dump(&self.scheduler.disk.latest_image().to_vec());
                            }
                            return Err(format!("session {} opened again: {error}", self.who));
                        }
                    }
                }
                Err(_) if self.is_killed() => return Ok(()),
                Err(error) => return Err(format!("session {} was told at {op:?}: {error}", self.who)),
            }
        }
        Ok(())
    }

    fn is_killed(&self) -> bool {
        self.scheduler.lock().killed[self.who]
    }
}

/// The file that a run begins with.
fn image_of(start: Start) -> CrashStorage {
    static IMAGES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
    if start == Start::Blank {
        return CrashStorage::new();
    }
    let images = IMAGES.get_or_init(|| {
        [Start::Closed, Start::Killed].map(|start| {
            let disk = CrashStorage::new();
            let builder = Db::builder().background(false).segment_size(SEGMENT).entropy([5; 32]);
            let db = builder.open_storage(Box::new(disk.clone())).expect("a store in memory");
            for number in 0..6_u8 {
                db.insert([number % 4], [number; 700]).expect("a record");
            }
            db.flush().expect("a flush");
            let killed = disk.latest_image();
            db.close().expect("a close");
            if start == Start::Closed { disk.latest_image().to_vec() } else { killed.to_vec() }
        })
    });
    let [closed, killed] = images;
    CrashStorage::from_bytes(if start == Start::Closed { closed } else { killed })
}

/// Runs a trial and looks at what it leaves.
pub fn run_one(trial: &Trial) -> Result<Report, String> {
    let mut plan = trial.plan.clone();
    plan.reverse();
    let scheduler = Arc::new(Scheduler {
        state: Mutex::new(State { plan, ..State::default() }),
        turned: Condvar::new(),
        disk: image_of(trial.start),
        seed: trial.seed,
    });
    let play = |who: usize| {
        let (host, seed) = (trial.host, trial.seed);
        let mut session = Session { who, host, scheduler: scheduler.clone(), seed, db: None, told: Told::default(), puts: 0 };
        let played = crate::parallel::guard(|| session.play(&trial.scripts[who])).and_then(|played| played);
        // What is left open is closed by dropping it.
        session.db = None;
        scheduler.end(who);
        (session.told, played)
    };
    let [first, second] = std::thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        let first = play(0);
        [first, other.join().unwrap_or_else(|_| (Told::default(), Err("a session panicked".into())))]
    });
    let state = std::mem::take(&mut *scheduler.lock());
    let mut report = Report {
        free_calls: state.free_calls,
        slept_through: state.slept_through,
        fenced: u64::from(first.0.was_fenced) + u64::from(second.0.was_fenced),
        flushes: first.0.flushes + second.0.flushes,
        calls: state.calls,
        ..Report::default()
    };
    let is_cut = state.cut.is_some();
    let image = state.cut.unwrap_or_else(|| scheduler.disk.latest_image());
    if trace() {
        dump(&scheduler.disk.latest_image().to_vec());
        dump(&image.to_vec());
    }
    let checked = first.1.and(second.1).and_then(|()| check(&image, [&first.0, &second.0], is_cut, &mut report));
    match checked {
        // Counted by whoever runs this, and named in the documents.
        Err(what) if report.slept_through => Err(format!("{SLEPT}: {what}")),
        checked => checked.map(|()| report),
    }
}

const SLEPT: &str = "slept through another session's end and the next one's beginning";

/// The file opens, is whole, has what was flushed, and takes more.
fn check(image: &CrashImage, told: [&Told; 2], is_cut: bool, report: &mut Report) -> Result<(), String> {
    match pipkin::verify_storage(&image.fork()) {
        Ok(verified) => {
            // The power may go while a superblock is written: the other one serves.
            let counts = |damage: &&pipkin::Damage| !is_cut || ![0, 4096].contains(&damage.offset);
            if let Some(damage) = verified.damage.iter().find(counts) {
                return Err(format!("damage at {}: {}", damage.offset, damage.what));
            }
        }
        // Its creation was cut short.
        Err(Error::NotAStore { .. }) if told.iter().all(|told| told.flushes == 0) => {}
        Err(error) => return Err(format!("verify: {error}")),
    }
    let file = image.fork();
    let open = || Db::builder().background(false).segment_size(SEGMENT).open_storage(Box::new(file.clone()));
    let db = open().map_err(|error| format!("the store does not open: {error}"))?;
    let get = |key: &[u8]| db.get(key).map_err(|error| format!("get {:?}: {error}", key.escape_ascii().to_string()));
    for (who, told) in told.into_iter().enumerate() {
        for (key, value) in &told.flushed {
            let found = get(key)?;
            let is_later = |found: &Vec<u8>| told.others.get(key).is_some_and(|others| others.contains(found));
            if found.as_ref() != Some(value) && !found.as_ref().is_some_and(is_later) {
                let key = key.escape_ascii().to_string();
                return Err(format!(
                    "session {who} was told that {key:?} is flushed, and it is {}",
                    if found.is_some() { "another" } else { "gone" }
                ));
            }
        }
        for key in told.others.keys().filter(|key| !told.flushed.contains_key(*key)) {
            report.written_lost += u64::from(!is_cut && get(key)?.is_none());
        }
    }
    let count = get(b"count")?.and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes);
    let least: u64 = told.iter().map(|told| told.counted_flushed).sum();
    let most: u64 = told.iter().map(|told| told.counts_tried).sum();
    if !(least..=most).contains(&count) {
        return Err(format!("the counter is {count}, {least} were flushed and {most} tried"));
    }
    let goes_on = || {
        db.insert("after", "wards")?;
        db.flush()?;
        let found = db.get("count")?;
        drop(db);
        let db = open()?;
        Ok::<_, Error>((db.get("after")?.is_some() && db.get("count")? == found, db.verify()?.damage))
    };
    match goes_on() {
        Ok((true, damage))
            if damage.iter().all(|damage| is_cut && LEFT_BY_CUTS.iter().any(|what| damage.what.contains(what))) =>
        {
            Ok(())
        }
        Ok((has_all, damage)) => Err(format!("written to afterwards: has all: {has_all}, damage: {damage:?}")),
        Err(error) => Err(format!("written to afterwards: {error}")),
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, host, scripts: [first, second], plan, seed } = self;
        write!(f, "{start:?} {host:?} {first:?} | {second:?} with {plan:?}, seed {seed}")
    }
}

/// A trial from the words that a failure prints.
pub fn parse(text: &str) -> Option<Trial> {
    let (what, plan) = text.split_once(" with ")?;
    let (first, second) = what.split_once(" | ")?;
    let (begin, first) = first.split_once('[')?;
    let mut words = begin.split_whitespace();
    let starts = [Start::Blank, Start::Closed, Start::Killed];
    let hosts = [Host::Plain, Host::Cached, Host::ThoughtLocked];
    let ops = [Open, Put, Long, Count, Churn, Flush, Checkpoint, Compact, Close];
    let start = words.next()?;
    let host = words.next()?;
    let script = |text: &str| {
        let words = text.trim_matches(['[', ']', ' ']).split(", ").filter(|word| !word.is_empty());
        words.map(|word| ops.into_iter().find(|op| format!("{op:?}") == word)).collect::<Option<Vec<Op>>>()
    };
    let (plan, seed) = plan.split_once("], seed ")?;
    let turns = [Turn::Pause, Turn::Kill, Turn::Cut];
    let turn = |text: &str| {
        let (calls, turn) = text.trim_matches(['(', ')', ' ']).split_once(", ")?;
        Some((calls.parse().ok()?, turns.into_iter().find(|known| format!("{known:?}") == turn)?))
    };
    let plan = plan.trim_matches(['[', ' ']).split("), ").filter(|turn| !turn.is_empty()).map(turn).collect::<Option<Plan>>()?;
    Some(Trial {
        start: starts.into_iter().find(|known| format!("{known:?}") == start)?,
        host: hosts.into_iter().find(|known| format!("{known:?}") == host)?,
        scripts: [script(first)?, script(second)?],
        plan,
        seed: seed.trim().parse().ok()?,
    })
}

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Pauses in the plans that are all tried, counted at every call.
    pub pauses: usize,
    /// The same where reads that follow each other count as one.
    pub pauses_coarse: usize,
    /// Plans from seeds.
    pub random: u64,
    /// The first seed.
    pub seed: u64,
    /// How the sessions share the file.
    pub hosts: &'static [Host],
}

/// What was done.
#[derive(Debug)]
pub struct Counts {
    /// Runs.
    pub runs: Quota,
    /// Flushes that were acknowledged, and are there.
    pub flushes: AtomicU64,
    /// Sessions that were fenced off.
    pub fenced: AtomicU64,
    /// Records that were written, not flushed, and are gone.
    pub written_lost: AtomicU64,
    /// Runs in which one did.
    pub runs_written_lost: AtomicU64,
    /// Runs in which a session slept through several of the other one, and those of them that damaged the store or lost something flushed.
    pub slept: AtomicU64,
    /// See [`Self::slept`].
    pub slept_lost: AtomicU64,
    /// Calls of the storage.
    pub calls: AtomicU64,
}

impl Counts {
    /// None so far; `least` are owed.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            runs: Quota::new("two writers", least),
            flushes: zero(),
            fenced: zero(),
            written_lost: zero(),
            runs_written_lost: zero(),
            slept: zero(),
            slept_lost: zero(),
            calls: zero(),
        }
    }

    fn add(&self, outcome: &Result<Report, String>) {
        self.runs.add(1);
        match outcome {
            Ok(report) => {
                let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
                add(&self.flushes, report.flushes);
                add(&self.fenced, report.fenced);
                add(&self.written_lost, report.written_lost);
                add(&self.runs_written_lost, u64::from(report.written_lost > 0));
                add(&self.slept, u64::from(report.slept_through));
                add(&self.calls, report.calls);
            }
            Err(_) => {
                self.slept.fetch_add(1, Ordering::Relaxed);
                self.slept_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Runs a trial; a failure that is not among those that the documents name ends the suite.
fn try_one(trial: &Trial, counts: &Counts, watch: &Watch) -> Outcome<Report> {
    let replay = || format!("PIPKIN_TRIAL='{trial}'");
    watch.begin(replay());
    let outcome = run_one(trial);
    match outcome {
        Err(what) if !what.starts_with(SLEPT) => Err(Failure::new(replay(), what)),
        outcome => {
            counts.add(&outcome);
            Ok(outcome.unwrap_or_default())
        }
    }
}

/// Every plan of at most `pauses` pauses that begins with that of `trial`; at the last one the session may also be killed, or the power go.
fn explore(trial: &Trial, pauses: usize, coarse: bool, counts: &Counts, watch: &Watch) -> Outcome {
    let report = try_one(trial, counts, watch)?;
    if pauses == 0 {
        return Ok(());
    }
    for (calls, &call) in report.free_calls.iter().enumerate() {
        let is_between_reads = calls > 0 && call == Call::Reads && report.free_calls.get(calls - 1) == Some(&Call::Reads);
        if coarse && is_between_reads {
            continue;
        }
        let with = |turn: Turn| {
            let mut next = trial.clone();
            next.plan.push((calls as u32, turn));
            next
        };
        explore(&with(Turn::Pause), pauses - 1, coarse, counts, watch)?;
        if call != Call::Reads {
            try_one(&with(Turn::Kill), counts, watch)?;
            try_one(&with(Turn::Cut), counts, watch)?;
        }
    }
    Ok(())
}

/// The scripts whose plans are all tried.
fn short() -> Vec<(Start, [Vec<Op>; 2])> {
    let request = || vec![Open, Count, Flush, Close];
    let mut all = Vec::new();
    for start in [Start::Blank, Start::Closed, Start::Killed] {
        all.push((start, [request(), request()]));
    }
    let long = |ops: &[Op]| [&[Open], ops, &[Put, Flush, Close]].concat();
    all.push((Start::Closed, [long(&[Put, Flush, Long]), request()]));
    all.push((Start::Killed, [long(&[Checkpoint]), request()]));
    all.push((Start::Closed, [long(&[Churn, Compact]), request()]));
    all
}

/// Plans of the normal run and of the nightly one.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let mut jobs = Vec::new();
    for (start, scripts) in short() {
        for &host in budget.hosts {
            for is_swapped in [false, true] {
                let [first, second] = scripts.clone();
                let scripts = if is_swapped { [second, first] } else { [first, second] };
                let trial = Trial { start, host, scripts, plan: Vec::new(), seed: budget.seed };
                jobs.push((trial.clone(), budget.pauses, false));
                // The layer in between changes nothing of the order in which a session looks and writes.
                if budget.pauses_coarse > budget.pauses && (host == Host::Plain || budget.pauses > 1) {
                    jobs.push((trial, budget.pauses_coarse, true));
                }
            }
        }
    }
    for_each(jobs.into_iter(), |(trial, pauses, coarse), watch| explore(&trial, pauses, coarse, counts, watch))?;
    let seeds = budget.seed..budget.seed + budget.random;
    for_each(seeds, |seed, watch| try_one(&random(seed, budget.hosts), counts, watch).map(drop))
}

/// A trial from a seed.
pub fn random(seed: u64, hosts: &[Host]) -> Trial {
    let mut rng = derive(seed, 1);
    let start = choose(&mut rng, &[Start::Blank, Start::Closed, Start::Killed]);
    let host = choose(&mut rng, hosts);
    let script = |rng: &mut Rng| {
        let ops = [Put, Put, Put, Count, Count, Flush, Flush, Flush, Long, Churn, Checkpoint, Compact, Close, Open];
        let mut script = vec![Open];
        for _ in 0..4 + rng.below(12) {
            let op = choose(rng, &ops);
            script.push(op);
            if op == Close {
                script.push(Open);
            }
        }
        script
    };
    let scripts = [script(&mut rng), script(&mut rng)];
    let longest = 1 << rng.below(9);
    let mut plan: Plan = (0..rng.below(40)).map(|_| (rng.below(longest) as u32, Turn::Pause)).collect();
    if let Some((_, turn)) = plan.last_mut() {
        *turn = choose(&mut rng, &[Turn::Pause, Turn::Kill, Turn::Cut]);
    }
    Trial { start, host, scripts, plan, seed }
}
