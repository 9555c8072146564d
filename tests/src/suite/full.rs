//! A medium that is full: nothing acknowledged is lost, reads and removes go on, and space that becomes free is written again
//! after a reopen.

use crate::check::find_state;
use crate::disk::Disk;
use crate::drive::{Fault, Host, Player, Setup, check_state};
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::tape::{Op, Val};
use pipkin::storage::crash::CrashStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a store on a full medium gets room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    /// The medium grows, or somebody else's files go.
    Grow,
    /// Records are removed and the store is compacted.
    Compact,
}

/// A host with a capacity.
struct FullHost {
    fault: FaultStorage<CrashStorage>,
    setup: Setup,
    opens: Arc<AtomicU64>,
}

impl Host for FullHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.setup.open(self.fault.clone(), self.opens.fetch_add(1, Ordering::Relaxed))
    }

    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        drop(db);
        self.open()
    }
}

/// Fills `stores` stores, one after the other.
pub fn run(stores: u64, seed: u64, quota: &Quota) -> Outcome {
    for_each(seed..seed + stores, |seed, watch| one(seed, quota, watch))
}

/// Fills one store: what a seed replays.
pub fn one(seed: u64, quota: &Quota, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_FULL_SEED={seed}");
    watch.begin(replay.clone());
    quota.add(1);
    let mut rng = derive(seed, 0xf011);
    let capacity = 64 * 1024 + rng.below(400 * 1024);
    let relief = choose(&mut rng, &[Relief::Grow, Relief::Compact]);
    guard(|| fill(&mut rng, capacity, relief))
        .unwrap_or_else(Fault::wrong)
        .map_err(|fault| Failure::new(replay, format!("capacity {capacity}, {relief:?}: {fault}")))
}

fn fill(rng: &mut Rng, capacity: u64, relief: Relief) -> Result<(), Fault> {
    let fault = FaultStorage::new(CrashStorage::new());
    // Not the smallest: the list of a hundred segments would fill most of one, and none is left to compact into.
    let segment_size = 8192 << rng.below(3);
    let capacity = capacity.max(12 * u64::from(segment_size));
    fault.set_capacity(Some(capacity));
    let setup = Setup { segment_size, replay_debt_max: choose(rng, &[16 * 1024, 1 << 20]), clock: None, sealed: false };
    let host = FullHost { fault: fault.clone(), setup: setup.clone(), opens: Arc::default() };
    let mut player = Player::open(host, State::default())?;
    let keys = 20 + rng.below(400) as u16;
    let mut tag = 0;
    let mut put = |rng: &mut Rng| {
        tag += 1;
        // More and more keys: otherwise a small store goes on for ever, for compaction makes room as fast as writes take it.
        let key = rng.below(u64::from(keys) + u64::from(tag) / 3) as u16;
        Op::Put(rng.below(2) as u8, key, Val { len: rng.below(900) as u32, tag })
    };
    until_full(&mut player, || put(rng))?;
    let digest = player.history.now().clone();
    check_state(&player.db()?, &digest).map_err(|stop| stop.at("reading on the full medium"))?;
    player.play(&Op::Flush).map_err(|stop| stop.at("flush on the full medium"))?;
    remove_most(&mut player).map_err(|stop| stop.at("removing on the full medium"))?;
    player.play(&Op::Flush).map_err(|stop| stop.at("flush behind the removes"))?;
    power_cut(&fault, &setup, &player.history, rng)?;
    player.play(&Op::Reopen).map_err(|stop| stop.at("reopen on the full medium"))?;
    match relief {
        Relief::Grow => fault.set_capacity(Some(capacity * 2)),
        Relief::Compact => player.play(&Op::Compact).map_err(|stop| stop.at("compact on the full medium"))?,
    }
    // Half of what was removed fits again, at the very least.
    for _ in 0..20 {
        player.play(&put(rng)).map_err(|stop| stop.at("writing once there is room again"))?;
    }
    player.play(&Op::Flush).map_err(|stop| stop.at("flush once there is room again"))?;
    power_cut(&fault, &setup, &player.history, rng)?;
    player.play(&Op::Reopen).map_err(|stop| stop.at("the last reopen"))
}

/// Writes until there is no space. The write that fails changes nothing.
fn until_full(player: &mut Player<FullHost>, mut op: impl FnMut() -> Op) -> Result<(), Fault> {
    for _ in 0..1_000_000 {
        let op = op();
        match player.play(&op) {
            Ok(()) => {}
            Err(Fault::Engine(Error::NoSpace)) => {
                let partly: Vec<State> = std::mem::take(&mut player.in_doubt);
                if partly.len() == 2 && player.db()?.list_namespaces().len() + 1 == partly[0].spaces.len() {
                    // The namespace was made, the record was not.
                    player.history.states.push(partly[0].clone());
                }
                return Ok(());
            }
            Err(other) => return Err(other.at(format!("filling up, `{op}`"))),
        }
        let newest = player.history.newest();
        if newest > 2000 {
            player.history.states.drain(..newest - 500);
            player.history.flushed = player.history.flushed.saturating_sub(newest - 500);
        }
    }
    Fault::wrong("the medium never got full")
}

/// Removes four of five records, each of which must work.
fn remove_most(player: &mut Player<FullHost>) -> Result<(), Fault> {
    let all: Vec<(u8, u16)> =
        player.history.now().spaces.iter().flat_map(|(&ns, space)| space.keys().map(move |&key| (ns, key))).collect();
    for (i, (ns, key)) in all.into_iter().enumerate() {
        if i % 5 != 0 {
            let op = Op::Del(ns, key);
            player.play(&op).map_err(|stop| stop.at(format!("remove number {i}, `{op}`")))?;
        }
    }
    Ok(())
}

fn power_cut(fault: &FaultStorage<CrashStorage>, setup: &Setup, history: &History, rng: &mut Rng) -> Result<(), Fault> {
    let image = fault.inner().random_image(rng);
    let db =
        setup.open(Disk::from_image(&image).storage(), 5).map_err(|error| Fault::from(error).at("open after a power cut"))?;
    find_state(&db, 0, history, history.flushed, history.newest()).map(drop).map_err(|stop| stop.at("after a power cut"))
}
