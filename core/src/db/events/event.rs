//! An event that was read, as its own copy.

use super::EventRef;
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

impl EventRef<'_> {
    /// A copy that lives on its own.
    pub fn to_event(&self) -> Event {
        Event::new(self)
    }
}

impl Event {
    fn new(event: &EventRef<'_>) -> Self {
        let (stream, value) = (event.stream().as_bytes(), event.value);
        // Lengths in front of the type: number, version, time, id.
        let kind_at = event.view.kind.as_ptr().addr() - value.as_ptr().addr() + stream.len();
        let end = stream.len() + value.len();
        Self {
            number: event.number(),
            version: event.version(),
            time: event.time_ms(),
            id: event.id(),
            stream: 0..stream.len(),
            kind: kind_at..kind_at + event.kind().len(),
            payload: end - event.payload().len()..end,
            bytes: [stream, value].concat(),
        }
    }

    fn text(&self, range: &Range<usize>) -> &str {
        self.bytes.get(range.clone()).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The memory that it holds beside itself, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The same event, in this copy's bytes.
    fn view(&self) -> Option<EventRef<'_>> {
        EventRef::of_parts(self.stream(), self.bytes.get(self.stream.end..)?)
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
        self.view().map(|view| view.metadata()).unwrap_or_default()
    }

    /// The tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.view().into_iter().flat_map(|view| view.tags())
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
