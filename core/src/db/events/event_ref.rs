//! An event, read in place.

use crate::error::{Error, Result};
use crate::events::Stored;
use crate::frame::{EventView, own_tags};
use core::fmt;

/// An event in the log's own bytes, where the host maps the file: nothing of it is copied. From [`EventReader::for_each`](crate::EventReader::for_each)
/// and [`Events::get_with`](crate::Events::get_with).
#[derive(Clone, Copy)]
pub struct EventRef<'a> {
    pub(super) view: EventView<'a>,
    stream: &'a str,
    kind: &'a str,
    /// The value as it is stored.
    pub(super) value: &'a [u8],
}

impl<'a> EventRef<'a> {
    #[inline]
    pub(super) fn of(stored: &'a Stored<'_>) -> Result<Self> {
        Self::of_bytes(stored.stream(), stored.frame().value(), ("", "")).map_or_else(
            || stored.event().and(Err(Error::corrupt(stored.frame().offset, "an event whose names are no text"))),
            Ok,
        )
    }

    /// The event of these bytes; `None` if they are no event, or its names are no text. Stream and type of the event `before` are known to be text:
    /// most often they are those of this one, and comparing them takes half of what looking takes.
    #[inline]
    pub(super) fn of_bytes(stream: &'a [u8], value: &'a [u8], before: (&'a str, &'a str)) -> Option<Self> {
        let text = |bytes: &'a [u8], before: &'a str| {
            if bytes == before.as_bytes() { Some(before) } else { core::str::from_utf8(bytes).ok() }
        };
        let view = EventView::decode(value)?;
        Some(Self { stream: text(stream, before.0)?, kind: text(view.kind, before.1)?, view, value })
    }

    pub(super) fn of_parts(stream: &'a str, value: &'a [u8]) -> Option<Self> {
        let view = EventView::decode(value)?;
        Some(Self { view, stream, kind: core::str::from_utf8(view.kind).ok()?, value })
    }

    /// Its number: it rises over all events of the store, in the order of their commits.
    pub const fn number(&self) -> u64 {
        self.view.number
    }

    /// Its version: its place in its stream, from 1.
    pub const fn version(&self) -> u64 {
        self.view.version
    }

    /// The stream.
    pub const fn stream(&self) -> &'a str {
        self.stream
    }

    /// The type.
    pub const fn kind(&self) -> &'a str {
        self.kind
    }

    /// When it happened, in milliseconds since 1970.
    pub const fn time_ms(&self) -> u64 {
        self.view.time
    }

    /// Its id.
    pub const fn id(&self) -> [u8; 16] {
        self.view.id
    }

    /// The payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.view.payload
    }

    /// The metadata; empty without any.
    pub fn metadata(&self) -> &'a [u8] {
        self.view.tags().filter_map(|(key, _)| key.strip_prefix(own_tags::METADATA)).next().unwrap_or_default()
    }

    /// The tags.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let users = self.view.tags().filter(|(key, _)| key.first() != Some(&0));
        users.filter_map(|(key, _)| core::str::from_utf8(key).ok())
    }
}

impl fmt::Debug for EventRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRef")
            .field("number", &self.number())
            .field("stream", &self.stream())
            .field("version", &self.version())
            .field("kind", &self.kind())
            .field("payload_len", &self.payload().len())
            .finish_non_exhaustive()
    }
}
