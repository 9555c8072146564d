//! What only the holder of a shard's lock sees.

use super::calendar::Calendar;
use super::parked::Parked;
use super::slot::Slot;
use super::table::OldTable;
use crate::pins::Ticket;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Number of removed slots that are remembered even of the smallest shard.
const REMOVED_LEAST: usize = 64;

/// The state of a shard. Without a box until it differs from that of a shard that has never been used: in a store of a few
/// records most shards have none.
#[derive(Debug, Default)]
pub(super) struct LazyState(Option<Box<State>>);

impl LazyState {
    /// The state of a shard that has never been used.
    const UNUSED: &State = &State::unused();

    /// Frees the box if it says nothing.
    pub(super) fn shrink(&mut self) {
        if self.0.as_ref().is_some_and(|state| state.is_unused()) {
            self.0 = None;
        }
    }
}

impl Deref for LazyState {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_deref().unwrap_or(Self::UNUSED)
    }
}

impl DerefMut for LazyState {
    fn deref_mut(&mut self) -> &mut State {
        self.0.get_or_insert_with(|| Box::new(State::unused()))
    }
}

/// That of one shard.
#[derive(Debug)]
pub(super) struct State {
    /// Slots that are not empty.
    pub(super) used: usize,
    /// Number of records by namespace. A list is enough: few namespaces have records in one shard of a small store.
    pub(super) counts: Vec<(u32, u64)>,
    /// What has changed since the last dump of this shard.
    pub(super) changes: Changes,
    /// What the shard must be built from, if it is parked.
    pub(super) parked: Option<Parked>,
    /// Which records expire; `None` until one does.
    pub(super) calendar: Option<Box<Calendar>>,
    /// Tables that readers may still use.
    pub(super) old: Vec<(Ticket, OldTable)>,
}

impl State {
    const fn unused() -> Self {
        Self { used: 0, counts: Vec::new(), changes: Changes::Unknown, parked: None, calendar: None, old: Vec::new() }
    }

    /// True when it says nothing. Its changes do not count: of an empty shard the next snapshot writes no part, whatever they are.
    pub(super) fn is_unused(&self) -> bool {
        let Self { used, counts, changes: _, parked, calendar, old } = self;
        *used == 0 && counts.is_empty() && parked.is_none() && calendar.is_none() && old.is_empty()
    }
}

/// Changes of a shard since the newest snapshot.
#[derive(Debug)]
pub(super) enum Changes {
    /// Too many changes, or no snapshot has the shard: the next one writes all of it.
    Unknown,
    /// The slots that were removed or replaced. Added ones are not listed: their offsets are after the last snapshot.
    Known { any: bool, removed: Vec<Slot> },
}

impl Changes {
    pub(super) const fn none() -> Self {
        Self::Known { any: false, removed: Vec::new() }
    }

    #[inline]
    pub(super) fn add(&mut self) {
        if let Self::Known { any, .. } = self {
            *any = true;
        }
    }

    /// Notes a slot removed from a shard of `len` records.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot, len: usize) {
        if let Self::Known { any, removed } = self {
            *any = true;
            removed.push(slot);
            // With more removals, writing the whole shard takes no more bytes.
            if removed.len() > REMOVED_LEAST + len / 4 {
                *self = Self::Unknown;
            }
        }
    }
}
