//! Writing the index of events into the index snapshot: the chunks that have changed, and the newest events of chains now and then.

use super::EventIndex;
use super::places::parts_of;
use crate::error::Result;
use crate::planted::{Bug, is};
use crate::snapshot::{EventParts, SnapshotWriter, put, put_long};
use alloc::vec::Vec;

/// Chains of a part.
const TOGETHER: usize = 4096;
/// The newest events of the chains are written again when so many events have come, and a quarter of the chains: reading them when the index is
/// loaded takes no longer than reading what was written.
const EVENTS_LEAST: u64 = 1024;

impl EventIndex {
    /// Writes what has changed since `before`, or everything. Followed by [`Self::end_dump`].
    pub(crate) fn dump(&self, writer: &mut SnapshotWriter<'_>, before: &EventParts, whole: bool) -> Result<EventParts> {
        let mut next = EventParts { last: before.last, ..EventParts::default() };
        let (chunks, unread, is_damaged) = {
            let state = self.state.read();
            (state.places.chunks(), state.unread.0, state.damage.is_some())
        };
        if is_damaged {
            // The next session has to read the log again: what was not found may be of the damage.
            return Ok(EventParts::default());
        }
        for index in chunks {
            let known = before.chunk(index).filter(|_| !whole);
            let bytes = {
                let mut state = self.state.write();
                let Some((anchors, last, is_changed)) = state.places.chunk(index).filter(|(anchors, ..)| !anchors.is_empty())
                else {
                    continue;
                };
                if let (Some(place), false) = (known, is_changed && !is(Bug::PlacesOfChangesLost)) {
                    next.chunks.push((index, place));
                    continue;
                }
                let bytes = encode_chunk(anchors, last);
                state.places.set_changed(index, false);
                state.dumped.push(index);
                bytes
            };
            next.chunks.push((index, writer.part(&bytes)?));
        }
        let (last, chains) = {
            let state = self.state.read();
            (state.last, state.heads.len() as u64)
        };
        let behind = last - before.last.min(last);
        // The next session has to meet what could not be counted again.
        let is_unread = unread > 0;
        if is_unread && whole {
            next.last = 0;
            return Ok(next);
        }
        if !whole && (is_unread || !before.heads.is_empty() && behind < EVENTS_LEAST + chains / 4) {
            next.heads.extend_from_slice(&before.heads);
            if is(Bug::ChainsClaimTooMuch) {
                next.last = last;
            }
            return Ok(next);
        }
        let (entries, last) = {
            let state = self.state.read();
            (state.heads.entries(), state.last)
        };
        next.last = last;
        for entries in entries.chunks(TOGETHER) {
            let mut bytes = Vec::with_capacity(8 * TOGETHER);
            entries.iter().for_each(|entry| put(&mut bytes, *entry, 8));
            next.heads.push(writer.part(&bytes)?);
        }
        Ok(next)
    }

    /// The snapshot is written, or it is not.
    pub(crate) fn end_dump(&self, is_written: bool) {
        self.set_cut(false);
        let mut state = self.state.write();
        for index in core::mem::take(&mut state.dumped) {
            if !is_written {
                state.places.set_changed(index, true);
            }
        }
    }
}

fn encode_chunk(anchors: &[u64], last: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * anchors.len() + 2);
    put_long(&mut bytes, last);
    let mut before = 0;
    for &one in anchors {
        let (within, offset) = parts_of(one);
        put_long(&mut bytes, within - before);
        put(&mut bytes, offset, 6);
        before = within;
    }
    bytes
}
