//! The index of events of a follower: what the log says since, and what a newer index of the same file has.

use super::{Chain, EventIndex};
use crate::error::Result;
use crate::log::{EventChange, Log, Placed};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// What becomes of the index.
enum Step {
    /// The event, or its stub, stands there now. Of a new event: the hashes of its chains, and the event before in each.
    At { number: u64, placed: Placed, chains: Vec<(u64, u64)> },
    /// What stood between two file offsets and was not moved is gone.
    Gone(u64, u64),
}

impl EventIndex {
    /// There is no event yet: all will come by [`Self::follow`].
    pub(crate) fn begin_empty(&self) {
        self.is_loaded.store(true, super::Ordering::Release);
    }

    /// Something that was read at opening was damaged, or has been used again meanwhile.
    pub(crate) fn has_met_damage(&self) -> bool {
        let state = self.state.read();
        state.damage.is_some() || state.unread.0 > 0
    }

    /// Applies what the log says, all at once, in its order. Returns the number of the newest event.
    ///
    /// # Errors
    ///
    /// Those of reading the events; nothing is changed then.
    pub(crate) fn follow(&self, log: &Log, seed: u64, changes: &[EventChange]) -> Result<u64> {
        let mut last = self.last();
        let mut steps = Vec::with_capacity(changes.len());
        for change in changes {
            steps.push(match *change {
                EventChange::Gone(from, behind) => Step::Gone(from, behind),
                EventChange::At(offset) => {
                    let stored = Self::verified(log, offset)?;
                    let placed = Placed { offset, len: stored.frame().header.frame_len() as u64 };
                    if stored.is_stub() && is(Bug::FollowedEventsKept) {
                        continue;
                    }
                    let event = stored.event()?;
                    let (number, is_new) = (event.number, event.number > last);
                    let mut chains = Vec::new();
                    if is_new {
                        last = number;
                        let all = Chain::all(stored.stream(), &event).into_iter();
                        chains.extend(all.map(|(chain, before)| (chain.hash(seed, stored.namespace()), before)));
                    }
                    Step::At { number, placed, chains }
                }
            });
        }
        let mut state = self.state.write();
        for step in steps {
            match step {
                Step::At { number, placed, chains } => {
                    super::put(&mut state.places, log, number, placed);
                    for (hash, before) in chains {
                        if !is(Bug::FollowedChainsForgotten) {
                            state.heads.set(hash, before, number);
                        }
                    }
                }
                Step::Gone(from, behind) if !is(Bug::FollowedRetiredEvents) => state.places.drop_between(from, behind),
                Step::Gone(..) => {}
            }
        }
        state.last = last;
        Ok(last)
    }

    /// Takes over a newer index of the same file.
    pub(crate) fn adopt(&self, newer: &Self) {
        let state = core::mem::take(&mut *newer.state.write());
        *self.state.write() = state;
    }
}
