//! The index of events: where each is, by its number, and which is the newest of each stream, type and tag. Everything else is in the events
//! themselves: each names the one before in its stream, of its type and of its tags, so an index that was lost is built from the log.
//!
//! Appending holds one lock from the look at the newest events to their successors' place in the log: numbers and versions have no gaps, and
//! rise in log order. Reading locks the index for one look-up; an offset that it has read stays valid as long as its pin, which it took before.

mod chain;
mod follow;
mod heads;
mod in_order;
mod load;
mod milestones;
mod places;
mod query;
mod read;
mod retain;
mod stage;
mod store;

pub(crate) use chain::{Chain, In};
pub(crate) use in_order::Place;
pub(crate) use query::QueryItem;
pub(crate) use read::Stored;
pub(crate) use retain::Stub;
pub(crate) use stage::{NoMatch, Planned, Range, Staged, Written};

use crate::log::{Log, Placed};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, RwLock};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use heads::Heads;
use milestones::Milestones;
use places::Places;

/// Prefix of the system namespaces of logs of events.
pub(crate) const EVENTS_PREFIX: &str = "\0events\0";

/// What the retention of a log has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// No event of the log in front of this number is more than a stub.
    pub(crate) from: u64,
    /// The first of the events that it keeps by their number; 0: not counted yet.
    pub(crate) limit: u64,
    /// The newest event of the store when they were counted.
    pub(crate) counted: u64,
}

/// The index of the events of a store.
#[derive(Debug, Default)]
pub(crate) struct EventIndex {
    state: RwLock<State>,
    /// Held by whoever appends events, and while the log is cut for a checkpoint.
    appending: Mutex<()>,
    is_loaded: AtomicBool,
    milestones: RwLock<Milestones>,
    /// Offsets of the events behind the index snapshot, until the index is loaded.
    tail: Mutex<Vec<u64>>,
    /// Retention, by the namespace of the log.
    kept: Mutex<BTreeMap<u32, Kept>>,
    /// The index snapshot that is being written has what was appended so far: what comes now is from after it.
    is_cut: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    places: Places,
    heads: Heads,
    /// Every event up to this number is counted in the heads.
    last: u64,
    /// Every event below this number is gone, or only a stub of it is left.
    first: u64,
    /// The number of the newest event that could not be counted because it is damaged, and where the damage is; 0: there is none. Of which
    /// chains it is nobody knows: only those that go on behind it have a newest event.
    unread: (u64, u64),
    /// Where the log was damaged when the places were read from it: an event that is not found may have been there.
    damage: Option<u64>,
    /// Chunks of places that the running dump has written.
    dumped: Vec<usize>,
}

/// The event `number` stands at `placed` now. No event has a higher number than an append may give; a file that was made by hand may say so.
fn put(places: &mut Places, log: &Log, number: u64, placed: Placed) {
    if number > heads::NUMBER_MAX {
        return;
    }
    let salt = |offset: u64| log.segment_stats.salt(log.geometry.extent_of(offset));
    let own = salt(placed.offset);
    places.put(number, (placed.offset, placed.len), |other| salt(other) == own);
}

impl EventIndex {
    /// Keeps others from appending events.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.appending.lock()
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// What the retention of a log has come to.
    pub(crate) fn kept(&self, namespace: u32) -> Kept {
        self.kept.lock().get(&namespace).copied().unwrap_or_default()
    }

    pub(crate) fn set_kept(&self, namespace: u32, change: impl FnOnce(&mut Kept)) {
        change(self.kept.lock().entry(namespace).or_default());
    }

    /// The newest event's number; 0: there is none.
    pub(crate) fn last(&self) -> u64 {
        self.state.read().last
    }

    /// The next number from this one on that an event may have: passes over those that none has, in a file that salvage or somebody by hand has
    /// written. Where damage may have held events, there is none to pass over.
    pub(crate) fn next_from(&self, number: u64) -> Option<u64> {
        let state = self.state.read();
        if state.damage.is_some() { Some(number) } else { state.places.next_from(number) }
    }

    /// The next one back from this one.
    pub(crate) fn next_back_from(&self, number: u64) -> Option<u64> {
        let state = self.state.read();
        if state.damage.is_some() { Some(number) } else { state.places.next_back_from(number) }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.read();
        (state.places.bytes() + state.heads.bytes() + self.milestones.read().bytes()) as u64
    }

    /// Compaction has moved events: their numbers, and where their copies stand.
    pub(crate) fn moved(&self, log: &Log, events: &[(u64, Placed)]) {
        let mut state = self.state.write();
        events.iter().for_each(|&(number, placed)| put(&mut state.places, log, number, placed));
    }

    /// While true, what is appended is from after the cut of the log for a checkpoint.
    pub(crate) fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }
}
