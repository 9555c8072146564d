//! The error sweep: a workload is played once without faults to count its I/Os, then again for each of them with that one
//! failing, once or for good.
//!
//! What must hold: a failed write or sync closes the store to writes and to no read; what was acknowledged is there after a
//! reopen, and after a power cut what was flushed; nobody retries a sync.

use crate::check::find_state;
use crate::disk::Disk;
use crate::drive::{Fault, Host, Player, Setup, dump};
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::salts::{Drawn, Salts};
use crate::tape::{Mix, Op, Tape, Times, Val};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::{Counts as IoCounts, Effect, Fault as Order, FaultStorage, Io};
use pipkin::testing::TestClock;
use pipkin::{Db, Error, StorageErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Workloads to sweep.
    pub workloads: u64,
    /// Seed of the first one.
    pub seed: u64,
}

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Runs with one fault each.
    pub runs: Quota,
    /// Workloads swept to their last I/O.
    pub workloads: AtomicU64,
    /// Faults that hit a sync.
    pub syncs: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` runs.
    pub fn new(least: u64) -> Self {
        Self { runs: Quota::new("errors", least), workloads: AtomicU64::new(0), syncs: AtomicU64::new(0) }
    }
}

/// Sweeps the workloads of the budget.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    for_each(budget.seed..budget.seed + budget.workloads, |seed, watch| sweep(seed, counts, watch))
}

/// Sweeps one workload: what a seed replays.
pub fn sweep(seed: u64, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed}");
    watch.begin(replay.clone());
    let workload = Workload::new(seed);
    let total = guard(|| workload.count())
        .unwrap_or_else(Fault::wrong)
        .map_err(|fault| Failure::new(&replay, format!("without any fault: {fault}\n  tape: {}", workload.tape)))?;
    let mut rng = derive(seed, 0xe220);
    for (io, name, count) in kinds(total) {
        for nth in 1..=count {
            for for_good in [false, true] {
                watch.tick();
                counts.runs.add(1);
                counts.syncs.fetch_add(u64::from(io == Io::Sync), Ordering::Relaxed);
                let effect = effect(io, &mut rng);
                let order = Order { on: io, nth, for_good, effect };
                guard(|| workload.play(order, &mut rng)).unwrap_or_else(Fault::wrong).map_err(|fault| {
                    let once = if for_good { "and all later ones fail" } else { "fails once" };
                    Failure::new(&replay, format!("{name} {nth} {once} ({effect:?}): {fault}\n  tape: {}", workload.tape))
                })?;
            }
        }
    }
    counts.workloads.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn kinds(total: IoCounts) -> [(Io, &'static str, u64); 6] {
    [
        (Io::Write, "write", total.writes),
        (Io::Sync, "sync", total.syncs),
        (Io::SetLen, "set_len", total.set_lens),
        (Io::Reserve, "reserve", total.reserves),
        (Io::Discard, "discard", total.discards),
        (Io::Read, "read", total.reads.min(60)),
    ]
}

fn effect(io: Io, rng: &mut Rng) -> Effect {
    let other = Effect::Error(StorageErrorKind::Other);
    let full = Effect::Error(StorageErrorKind::NoSpace);
    match io {
        Io::Write => choose(rng, &[other, full, Effect::Late, Effect::Torn { bytes: 1 }, Effect::Torn { bytes: 100 }]),
        Io::Sync => choose(rng, &[other, full, Effect::LostSync, Effect::LostSync, Effect::Late]),
        Io::Reserve | Io::SetLen => choose(rng, &[other, full]),
        _ => other,
    }
}

/// A store over a fault injector over the crash simulator.
struct FaultHost {
    fault: FaultStorage<CrashStorage>,
    setup: Setup,
    opens: Arc<AtomicU64>,
    drawn: Drawn,
}

impl Host for FaultHost {
    fn is_sealed(&self) -> bool {
        self.setup.sealed
    }

    fn clock(&self) -> Option<&TestClock> {
        self.setup.clock.as_ref()
    }

    fn open(&self) -> pipkin::Result<Db> {
        let watched = Salts::new(self.fault.clone(), self.drawn.clone());
        self.setup.open(watched, self.opens.fetch_add(1, Ordering::Relaxed))
    }

    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        drop(db);
        self.open()
    }
}

struct Workload {
    tape: Tape,
    setup: Setup,
}

impl Workload {
    fn new(seed: u64) -> Self {
        let mut rng = derive(seed, 0xe44);
        let mix = Mix {
            ops: 10 + rng.below(25) as usize,
            keys: 3 + rng.below(12) as u16,
            namespaces: rng.below(3) as u8,
            value_len: 50 + rng.below(700) as u32,
            large_len: choose(&mut rng, &[700, 9000]),
            reopens: true,
            times: Times::of(seed),
        };
        let mut tape = Tape::generate(&mut rng, &mix, &mut 0);
        tape.0.retain(|op| !matches!(op, Op::Kill));
        tape.0.push(Op::Flush);
        let setup = Setup {
            segment_size: 4096,
            replay_debt_max: choose(&mut rng, &[8192, 1 << 20]),
            clock: mix.times.clock(),
            sealed: Setup::seals(seed),
        };
        Self { tape, setup }
    }

    fn host(&self) -> FaultHost {
        let fault = FaultStorage::new(CrashStorage::new());
        FaultHost { fault, setup: self.setup.at(self.setup.host_now()), opens: Arc::default(), drawn: Drawn::default() }
    }

    fn count(&self) -> Result<IoCounts, Fault> {
        let host = self.host();
        let fault = host.fault.clone();
        let mut player = Player::open(host, State::default())?;
        player.play_all(&self.tape, |_, _| Ok(()))?;
        Ok(fault.counts())
    }

    fn play(&self, order: Order, rng: &mut Rng) -> Result<(), Fault> {
        let host = self.host();
        let fault = host.fault.clone();
        fault.arm(order);
        let setup = host.setup.clone();
        let mut player = match Player::open(host, State::default()) {
            Ok(player) => player,
            Err(fault_or_wrong) => {
                expect_error(fault_or_wrong)?;
                return reopen(&fault, order, &setup, &History::new(State::default()), 0, rng);
            }
        };
        let mut poisoned = false;
        for op in &self.tape.0 {
            // A fault that hit something that may fail (a hint, room for growth) need not show.
            let closing = is_fatal(order) && fault.counts().failed > 0;
            let Err(stop) = player.play(op) else {
                if closing && changes(op) {
                    return Fault::wrong(format!("`{op}` succeeded behind a failed write or sync"));
                }
                continue;
            };
            let error = expect_error(stop).map_err(|wrong| wrong.at(format!("`{op}`")))?;
            if matches!(error, Error::NoSpace) && player.db.as_ref().is_some_and(Db::is_poisoned) {
                return Fault::wrong(format!("`{op}` closed the store to writes and says that nothing was written: {error}"));
            }
            if fault.counts().failed == 0 {
                return Fault::wrong(format!("`{op}` failed, though no I/O did"));
            }
            self.reads_go_on(&mut player, order, &fault, op)?;
            if is_fatal(order) || player.db.as_ref().is_some_and(Db::is_poisoned) {
                poisoned = true;
                break;
            }
            if player.db.is_none() || order.for_good {
                break;
            }
            // It failed and left the store open: it is in one of the states on the way, and work goes on.
            resolve(&mut player)?;
        }
        if poisoned && let Some(db) = &player.db {
            expect_poisoned(db, &fault)?;
        }
        let extra: Vec<State> = std::mem::take(&mut player.in_doubt);
        let sure = player.history.newest();
        player.history.states.extend(extra);
        player.db = None;
        reopen(&fault, order, &setup, &player.history, sure, rng)
    }

    fn reads_go_on(
        &self,
        player: &mut Player<FaultHost>,
        order: Order,
        fault: &FaultStorage<CrashStorage>,
        op: &Op,
    ) -> Result<(), Fault> {
        if order.on == Io::Read {
            fault.disarm();
        }
        let Some(db) = player.db.clone() else { return Ok(()) };
        let digest = dump(&db).map_err(|stop| stop.at(format!("reading behind the failed `{op}`")))?;
        let now = player.history.now().digest;
        if digest != now && !player.in_doubt.iter().any(|state| state.digest == digest) {
            let differences = crate::drive::differences(&db, player.history.now());
            return Fault::wrong(format!("behind the failed `{op}` the store is in no state on the way:{differences}"));
        }
        Ok(())
    }
}

/// A failed write or sync is final. Room that cannot be had and hints that fail are not; nor is a write of a snapshot for which there is no
/// space: the checkpoint goes without.
fn is_fatal(order: Order) -> bool {
    order.on == Io::Sync || order.on == Io::Write && order.effect != Effect::Error(StorageErrorKind::NoSpace)
}

/// Operations that write when they succeed, whatever is in the store.
fn changes(op: &Op) -> bool {
    matches!(op, Op::Put(..) | Op::Until(..) | Op::Many(..) | Op::Flush | Op::Checkpoint)
}

fn expect_error(stop: Fault) -> Result<Error, Fault> {
    match stop {
        Fault::Engine(error @ (Error::Storage(_) | Error::NoSpace | Error::Poisoned(_))) => Ok(error),
        Fault::Engine(error) => Err(Fault::Engine(error).at("an error of a kind that does not fit a failed I/O")),
        wrong @ Fault::Wrong(_) => Err(wrong),
    }
}

/// After the first failure every write says so, with the first error inside, and no I/O is tried again.
fn expect_poisoned(db: &Db, fault: &FaultStorage<CrashStorage>) -> Result<(), Fault> {
    let before = fault.counts();
    let tries: [(&str, pipkin::Result<()>); 6] = [
        ("insert", db.insert(b"x", b"y")),
        ("insert_many", db.insert_many([(b"x", b"y")])),
        ("transaction", db.transaction(|txn| txn.insert(b"x", b"y"))),
        ("flush", db.flush().map(drop)),
        ("checkpoint", db.checkpoint()),
        ("flush again", db.flush().map(drop)),
    ];
    for (name, result) in tries {
        match result {
            Err(Error::Poisoned(_)) => {}
            other => return Fault::wrong(format!("{name} on a poisoned store gives {other:?}")),
        }
    }
    let after = fault.counts();
    if after.syncs != before.syncs || after.writes != before.writes {
        return Fault::wrong("a poisoned store still writes or syncs");
    }
    Ok(())
}

/// Takes the state that the store is in for the newest, after an operation that failed half-way.
fn resolve(player: &mut Player<FaultHost>) -> Result<(), Fault> {
    let digest = dump(&player.db()?)?;
    if let Some(found) = player.in_doubt.iter().position(|state| state.digest == digest) {
        let done: Vec<State> = player.in_doubt.drain(..=found).collect();
        player.history.states.extend(done);
    }
    player.in_doubt.clear();
    Ok(())
}

/// Opens what is left: as the next process finds it, and as a power cut leaves it.
fn reopen(
    fault: &FaultStorage<CrashStorage>,
    order: Order,
    setup: &Setup,
    history: &History,
    sure: usize,
    rng: &mut Rng,
) -> Result<(), Fault> {
    let look = |image: &CrashImage, low: usize, how: &str| -> Result<(), Fault> {
        let db = setup.open(Disk::from_image(image).storage(), 99).map_err(|error| Fault::from(error).at(how))?;
        find_state(&db, setup.now_of(&db), history, low, history.newest()).map_err(|stop| stop.at(how))?;
        let put = |key| db.insert(key, Val { len: 50, tag: 7 }.bytes());
        put(b"after").and_then(|()| db.flush()).map_err(|error| Fault::from(error).at(format!("{how}, writing on")))?;
        Ok(())
    };
    fault.disarm();
    look(&fault.inner().latest_image(), sure, "reopened")?;
    let floor = history.flushed;
    if order.effect == Effect::LostSync {
        let low = if rng.chance(1, 2) { go_on_in_the_cache(fault, setup, history, sure)? } else { floor };
        fault.lose_unsynced().map_err(|error| Fault::Engine(error.into()))?;
        return look(&fault.inner().latest_image(), low, "reopened after a lost sync and a power cut");
    }
    look(&fault.inner().freeze().synced_image(), floor, "reopened after a power cut that lost everything")?;
    look(&fault.inner().random_image(rng), floor, "reopened after a power cut")
}

/// The next process opens what the memory of the system has, flushes it and is killed. Where it stood then is safe.
fn go_on_in_the_cache(fault: &FaultStorage<CrashStorage>, setup: &Setup, history: &History, sure: usize) -> Result<usize, Fault> {
    let how = "opened again after a lost sync";
    let db = setup.open(fault.clone(), 98).map_err(|error| Fault::from(error).at(how))?;
    let place = find_state(&db, setup.now_of(&db), history, sure, history.newest()).map_err(|stop| stop.at(how))?;
    db.flush().map_err(|error| Fault::from(error).at(format!("{how}, flushing")))?;
    // Dropping a store closes it, and a killed process does not.
    fault.arm(Order::from_nth(1, Io::Change, Effect::Error(StorageErrorKind::Other)));
    drop(db);
    fault.disarm();
    Ok(place)
}
