//! The least that a group commit needs: who comes while another one syncs shares the next sync.

use super::map::Map;
use crate::Result;
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Default)]
pub(super) struct Group {
    state: Mutex<State>,
    synced: Condvar,
}

#[derive(Default)]
struct State {
    /// What waits for the next sync.
    waiting: Vec<u8>,
    /// The sync that covers it; the first has the number 1.
    next: u64,
    /// The last sync that is done.
    done: u64,
    /// Whether one is under way.
    busy: bool,
}

impl Group {
    pub(super) fn write(&self, map: &Map, parts: &[&[u8]]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().for_each(|part| state.waiting.extend_from_slice(part));
        let mine = state.next + 1;
        loop {
            if state.done >= mine {
                return Ok(());
            }
            if state.busy {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy = true;
            state.next += 1;
            let bytes = std::mem::take(&mut state.waiting);
            drop(state);
            map.write_durable(&bytes)?;
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.done += 1;
            state.busy = false;
            self.synced.notify_all();
        }
    }
}
