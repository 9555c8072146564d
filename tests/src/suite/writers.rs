//! Power cuts and kills under several writers: threads write, flush and maintain one store while every call of its storage may be the last.
//! Each writer knows what was acknowledged to it, and how; whatever a crash leaves has, of each writer, a prefix of its commits, each
//! whole, with all that was acknowledged, and what they share agrees with all of these prefixes.

use crate::drive::{Fault, Setup};
use crate::parallel::{Failure, Outcome, Watch, for_each};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::tape::START;
use crate::whole::Whole;
use crate::witness::{LONG_MS, Model, Spaces, WRITERS, expires};
use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::testing::TestClock;
use pipkin::{Db, Durability, FlushPolicy, Storage, StorageError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Images that were opened and looked at.
    pub images: Quota,
    /// Those of a power cut.
    pub cuts: AtomicU64,
    /// Commits that had been acknowledged as durable when the power went, and were found.
    pub durable: AtomicU64,
    /// Records that expired while an image was looked at.
    pub expired: AtomicU64,
    /// Stores that lived.
    pub lives: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` images.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { images: Quota::new("writers", least), cuts: zero(), durable: zero(), expired: zero(), lives: zero() }
    }
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Images to go for.
    pub images: u64,
    /// Seed of the first life; the others count up from it.
    pub seed: u64,
}

/// Commits of a writer in one life.
const COMMITS: u64 = 60;
/// A crash comes behind one of so many calls of the storage.
const CALLS_BETWEEN: u64 = 9;
/// Images of a crash point.
const IMAGES_PER_POINT: usize = 3;
/// What the writers share.
const SHARED: &[u8] = b"shared by all writers";

/// Runs lives until the images are used up. Which thread comes first is up to the system: a seed repeats the work, not the order.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| counts.images.count() < budget.images);
    for_each(seeds, |seed, watch| one(seed, counts, watch))
}

/// One life.
pub fn one(seed: u64, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_WRITERS_SEED={seed}");
    watch.begin(replay.clone());
    counts.lives.fetch_add(1, Ordering::Relaxed);
    live(seed, counts, watch).map_err(|fault| Failure::new(replay, fault))
}

/// Of each writer, the numbers of its commits that were begun, came back, and came back before a flush that came back.
#[derive(Debug, Default)]
struct Progress {
    begun: [AtomicU64; WRITERS as usize],
    written: [AtomicU64; WRITERS as usize],
    flushed: [AtomicU64; WRITERS as usize],
}

type Numbers = [u64; WRITERS as usize];

fn numbers(of: &[AtomicU64; WRITERS as usize]) -> Numbers {
    std::array::from_fn(|writer| of[writer].load(Ordering::SeqCst))
}

/// A moment at which a crash may come.
struct Moment {
    point: CrashPoint,
    written: Numbers,
    flushed: Numbers,
    begun: Numbers,
}

/// The file, which notes moments as it is used.
#[derive(Clone)]
struct Watched {
    file: CrashStorage,
    progress: Arc<Progress>,
    state: Arc<Mutex<(Rng, Vec<Moment>)>>,
}

impl Watched {
    fn note(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.0.chance(1, CALLS_BETWEEN) {
            return;
        }
        // What had come back before the file was frozen is in it; what begins behind that is not.
        let (written, flushed) = (numbers(&self.progress.written), numbers(&self.progress.flushed));
        let point = self.file.freeze();
        let begun = numbers(&self.progress.begun);
        state.1.push(Moment { point, written, flushed, begun });
    }
}

impl Storage for Watched {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len)?;
        self.note();
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.file.write_at(offset, parts)?;
        self.note();
        Ok(())
    }

    /// Takes its time, so that writers append and others come to wait while it runs.
    fn sync(&self) -> Result<Durability, StorageError> {
        let achieved = self.file.sync()?;
        std::thread::yield_now();
        self.note();
        Ok(achieved)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.discard(offset, len)?;
        self.note();
        Ok(())
    }
}

fn live(seed: u64, counts: &Counts, watch: &Watch) -> Result<(), Fault> {
    let mut rng = derive(seed, 0x3717);
    let setup = Setup {
        segment_size: 16_384 << rng.below(3),
        replay_debt_max: choose(&mut rng, &[30_000, 200_000, 1 << 20]),
        clock: expires(seed).then(|| TestClock::new(START)),
        sealed: Setup::seals(seed),
    };
    let policy = choose(&mut rng, &[FlushPolicy::Group, FlushPolicy::Group, FlushPolicy::OnEachFlush, FlushPolicy::WriteThrough]);
    let progress = Arc::<Progress>::default();
    let file = CrashStorage::new();
    let state = Arc::new(Mutex::new((rng.split(), Vec::new())));
    let watched = Watched { file, progress: progress.clone(), state: state.clone() };
    let db = setup.builder(seed << 8).flush_policy(policy).open_storage(Box::new(watched))?;
    let spaces = Spaces::open(&db)?;
    db.flush()?;
    // What stands before the writers begin is not what is looked for.
    state.lock().unwrap_or_else(PoisonError::into_inner).1.clear();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, spaces, progress, done) = (&db, &spaces, &progress, &done);
                scope.spawn(move || {
                    let outcome = write(db, spaces, progress, policy, seed, writer);
                    done.fetch_add(1, Ordering::SeqCst);
                    outcome
                })
            })
            .collect();
        let mut outcome = Ok(());
        for turn in 0_u64.. {
            if done.load(Ordering::SeqCst) == WRITERS {
                break;
            }
            let kept = match turn % 5 {
                0 => db.checkpoint(),
                3 => db.compact().map(drop),
                _ => db.compact_step().map(drop),
            };
            outcome = outcome.and(kept);
            if let Some(clock) = &setup.clock {
                clock.advance(Duration::from_millis(1));
            }
            std::thread::yield_now();
        }
        writers.into_iter().fold(outcome, |outcome, writer| outcome.and(writer.join().unwrap()))
    })?;
    let moments = std::mem::take(&mut state.lock().unwrap_or_else(PoisonError::into_inner).1);
    for moment in &moments {
        watch.tick();
        examine(moment, &setup, seed, &mut rng, counts)?;
    }
    drop(spaces);
    db.close()?;
    Ok(())
}

/// What one writer does. Each of its commits has a number; every third one is of the key that all share.
fn write(db: &Db, spaces: &Spaces, progress: &Progress, policy: FlushPolicy, seed: u64, writer: u64) -> pipkin::Result<()> {
    let mut rng = derive(seed, 0x3000 + writer);
    let own = writer as usize;
    for number in 1..=COMMITS {
        progress.begun[own].store(number, Ordering::SeqCst);
        spaces.play(seed, writer, number)?;
        if is_shared(number) {
            db.update(SHARED, |old| {
                let mut all = shared_of(old);
                all[own] = number;
                Some(all.iter().flat_map(|number| number.to_le_bytes()).collect())
            })?;
        }
        progress.written[own].store(number, Ordering::SeqCst);
        if policy == FlushPolicy::WriteThrough {
            progress.flushed[own].store(number, Ordering::SeqCst);
        } else if rng.chance(1, 4) {
            db.flush()?;
            progress.flushed[own].store(number, Ordering::SeqCst);
        }
    }
    Ok(())
}

fn is_shared(number: u64) -> bool {
    number.is_multiple_of(3)
}

fn shared_of(value: Option<&[u8]>) -> Numbers {
    let word = |at: usize| value.and_then(|value| value.get(at * 8..)?.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    std::array::from_fn(word)
}

fn examine(moment: &Moment, setup: &Setup, seed: u64, rng: &mut Rng, counts: &Counts) -> Result<(), Fault> {
    for turn in 0..IMAGES_PER_POINT {
        let (image, low, how) = match turn {
            0 => (moment.point.latest_image(), moment.written, "a kill"),
            1 if rng.chance(1, 3) => (moment.point.synced_image(), moment.flushed, "a power cut that took all"),
            _ => (moment.point.random_image(rng), moment.flushed, "a power cut"),
        };
        counts.images.add(1);
        if turn > 0 {
            counts.cuts.fetch_add(1, Ordering::Relaxed);
            counts.durable.fetch_add(low.iter().sum(), Ordering::Relaxed);
        }
        // Long after all that lives shortly has expired, or after everything has that ever does.
        let time = if rng.chance(1, 3) { LONG_MS } else { LONG_MS / 2 };
        let expired = look(&image, &setup.at(time), seed, low, moment.begun, rng.next_u64() >> 20)
            .map_err(|fault| fault.at(format!("{how}, {low:?} acknowledged, {:?} begun", moment.begun)))?;
        counts.expired.fetch_add(expired as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Opens an image, finds how far each writer has come in it, and compares the whole of it with that. Returns how many records have expired
/// meanwhile.
fn look(image: &CrashImage, setup: &Setup, seed: u64, low: Numbers, high: Numbers, entropy: u64) -> Result<usize, Fault> {
    let db = setup.open(CrashStorage::from_image(image), entropy).map_err(|error| Fault::from(error).at("opening the image"))?;
    let spaces = Spaces::open(&db)?.under(setup.clock.clone());
    let value = db.get(SHARED)?;
    let shared = shared_of(value.as_deref());
    let mut models = Vec::new();
    for writer in 0..WRITERS {
        let own = writer as usize;
        let found = Model::default().find_between(&spaces, seed, writer, low[own], high[own]).map_err(Fault::Wrong)?;
        if !found.iter().any(|&found| agrees(shared[own], found, low[own])) {
            return Fault::wrong(format!("writer {writer} has come to one of {found:?}, but the shared key holds {shared:?}"));
        }
        let mut model = Model::default();
        model.advance(seed, writer, found.last().copied().unwrap_or(low[own]));
        models.push(model);
    }
    let whole = Whole { models: &models, shared: value.map(|value| (SHARED.to_vec(), value)).into_iter().collect() };
    // It reads the log from its beginning, where the engine trusts the index snapshot.
    // The reader has no keys.
    if !setup.sealed {
        whole.compare_by_reader(&image.to_vec(), setup.host_now()).map_err(Fault::Wrong)?;
    }
    let expired = whole.compare(&spaces).map_err(Fault::Wrong)?;
    drop(spaces);
    // It reads everything once more.
    if !entropy.is_multiple_of(4) {
        return Ok(expired);
    }
    let report = db.verify()?;
    if !report.is_ok() {
        return Fault::wrong(format!("verify finds {:?}", report.damage));
    }
    Ok(expired)
}

/// The shared key holds the newest shared number of a writer that has come to `found`. Its commit comes behind the writer's own one of the same
/// number, so it may be missing where that one is the last, and not acknowledged as a whole.
fn agrees(shared: u64, found: u64, low: u64) -> bool {
    let newest_of = |number: u64| (1..=number).rev().find(|&number| is_shared(number)).unwrap_or(0);
    let newest = newest_of(found);
    shared == newest || newest == found && found > low && shared == newest_of(found - 1)
}
