//! An event as it was read.

use crate::error::{Error, Result};
use crate::events::Stored;
use crate::frame::{EventView, own_tags};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// An event; from the iterators of [`EventReader`](crate::EventReader) and from [`Subscription`](crate::Subscription).
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// The stream, then the value as it is stored.
    bytes: Vec<u8>,
    number: u64,
    version: u64,
    time: u64,
    id: [u8; 16],
    stream: Range<usize>,
    kind: Range<usize>,
    payload: Range<usize>,
}

impl Event {
    pub(super) fn of(stored: &Stored<'_>) -> Result<Self> {
        let (stream, view) = (stored.stream(), stored.event()?);
        let value = stored.frame().value();
        let is_text = |bytes: &[u8]| core::str::from_utf8(bytes).is_ok();
        if !is_text(stream) || !is_text(view.kind) {
            return Err(Error::corrupt(stored.frame().offset, "an event whose names are no text"));
        }
        // Lengths in front of the type: number, version, time, id.
        let kind_at = view.kind.as_ptr().addr() - value.as_ptr().addr() + stream.len();
        let payload_at = stream.len() + value.len() - view.payload.len();
        Ok(Self {
            number: view.number,
            version: view.version,
            time: view.time,
            id: view.id,
            stream: 0..stream.len(),
            kind: kind_at..kind_at + view.kind.len(),
            payload: payload_at..stream.len() + value.len(),
            bytes: [stream, value].concat(),
        })
    }

    fn text(&self, range: &Range<usize>) -> &str {
        self.bytes.get(range.clone()).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn view(&self) -> Option<EventView<'_>> {
        EventView::decode(self.bytes.get(self.stream.end..)?)
    }

    /// Its number: it rises over all events of the store, in the order of their commits.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Its version: its place in its stream, from 1.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The stream.
    pub fn stream(&self) -> &str {
        self.text(&self.stream)
    }

    /// The type.
    pub fn kind(&self) -> &str {
        self.text(&self.kind)
    }

    /// When it happened, in milliseconds since 1970.
    pub const fn time_ms(&self) -> u64 {
        self.time
    }

    /// Its id.
    pub const fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload.clone()).unwrap_or_default()
    }

    /// The metadata; empty without any.
    pub fn metadata(&self) -> &[u8] {
        let tags = self.view().into_iter().flat_map(|view| view.tags());
        tags.filter_map(|(key, _)| key.strip_prefix(own_tags::METADATA)).next().unwrap_or_default()
    }

    /// The tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.view().into_iter().flat_map(|view| view.tags());
        tags.filter(|(key, _)| key.first() != Some(&0)).filter_map(|(key, _)| core::str::from_utf8(key).ok())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("number", &self.number)
            .field("stream", &self.stream())
            .field("version", &self.version)
            .field("kind", &self.kind())
            .field("payload_len", &self.payload.len())
            .finish_non_exhaustive()
    }
}
