//! What retention leaves of an event: a stub, which says as much as the events behind it need. It follows the event in the log, and so takes its
//! place. Compaction drops it once nothing in front of it is left.

use super::{Chain, EventIndex, Stored};
use crate::error::{Error, Result};
use crate::frame::{encode_event, event_number, own_tags};
use crate::log::{Frame, Log, Placed};
use alloc::vec::Vec;

/// The stub of an event.
#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) namespace: u32,
    pub(crate) stream: Vec<u8>,
    pub(crate) value: Vec<u8>,
    number: u64,
    /// The event that it replaces.
    old: Placed,
}

impl Stub {
    pub(crate) fn of(stored: &Stored<'_>) -> Result<Self> {
        let event = stored.event()?;
        let tags: Vec<(&[u8], u64)> = event.tags().filter(|(key, _)| !key.starts_with(own_tags::METADATA)).collect();
        let head = (event.number, event.version, event.time, event.id);
        let frame = stored.frame();
        Ok(Self {
            namespace: stored.namespace(),
            stream: stored.stream().to_vec(),
            value: encode_event(head, event.kind, tags.into_iter(), &[]),
            number: event.number,
            old: Placed { offset: frame.offset, len: frame.header.frame_len() as u64 },
        })
    }
}

impl EventIndex {
    /// Enters stubs that were appended. The caller holds [`EventIndex::lock`]. Cannot fail.
    pub(crate) fn publish_stubs(&self, log: &Log, stubs: &[Stub], placed: &[Placed]) {
        let mut state = self.state.write();
        let is_cut = self.is_cut();
        for (stub, placed) in stubs.iter().zip(placed) {
            let live = |placed: Placed, change: i64| {
                log.segment_stats.change_live(log.geometry.extent_of(placed.offset), change, is_cut);
            };
            live(stub.old, -(stub.old.len as i64));
            live(*placed, placed.len as i64);
            super::put(&mut state.places, log, stub.number, *placed);
        }
    }

    /// True when the stub of an event was dropped. Its frames may be in the log still, in segments that are not retired yet.
    pub(crate) fn is_gone(&self, number: u64) -> bool {
        self.state.read().places.is_gone(number)
    }

    /// Before a compaction: finds the first event that is more than a stub. The caller holds a pin.
    pub(crate) fn find_first(&self, log: &Log) -> Result<()> {
        let (mut first, last) = {
            let state = self.state.read();
            (state.first, state.last)
        };
        while let Some(next) = self.next_from(first).filter(|&next| next <= last) {
            first = next;
            match self.by_number(log, first) {
                Ok(Some(stored)) if !stored.is_stub() => break,
                Ok(_) => first += 1,
                Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        self.state.write().first = first;
        Ok(())
    }

    /// True when compaction may drop a stub: nothing in front of it is left, and its stream has a newer event, which has the version. The index
    /// does not find it from here on.
    pub(crate) fn drop_stub(&self, log: &Log, seed: u64, frame: &Frame<'_>) -> Result<bool> {
        let number = event_number(frame.value());
        if number >= self.state.read().first {
            return Ok(false);
        }
        let newest = match self.newest(log, seed, frame.header.namespace, Chain::Stream(frame.key())) {
            Err(Error::Corrupt { .. }) => return Ok(false),
            newest => newest?,
        };
        if newest.is_none_or(|newest| newest.frame().offset == frame.offset) {
            return Ok(false);
        }
        self.state.write().places.drop_event(number);
        Ok(true)
    }
}
