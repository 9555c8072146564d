//! An event that is to be appended.

use crate::db::batch_bytes::BatchBytes;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// An event to append: a type, a payload, and what else is known of it.
///
/// ```
/// use pipkin::{Expected, NewEvent};
///
/// let db = pipkin::Db::open_in_memory()?;
/// let orders = db.events("orders")?;
/// let event = NewEvent::new("Paid", "12 EUR").tag("customer:ada").metadata("request 4711").id([7; 16]).time_ms(1_700_000_000_000);
/// orders.append("order-7", Expected::Any, [event])?;
/// let event = orders.all().iter()?.next().unwrap()?;
/// assert_eq!((event.kind(), event.payload(), event.metadata()), ("Paid", &b"12 EUR"[..], &b"request 4711"[..]));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewEvent<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) payload: Cow<'a, [u8]>,
    pub(super) tags: Vec<Cow<'a, str>>,
    pub(super) metadata: Cow<'a, [u8]>,
    pub(super) id: Option<[u8; 16]>,
    pub(super) time: Option<u64>,
}

impl<'a> NewEvent<'a> {
    /// An event of a type, with a payload: borrowed by reference, owned by value.
    pub fn new(kind: impl Into<Cow<'a, str>>, payload: impl BatchBytes<'a>) -> Self {
        let payload = payload.into_bytes();
        Self { kind: kind.into(), payload, tags: Vec::new(), metadata: Cow::Borrowed(&[]), id: None, time: None }
    }

    /// A tag, by which the event is found: by [`Events::tagged`](crate::Events::tagged) and by conditions. An event may have up to 64.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Cow<'a, str>>) -> Self {
        let tag = tag.into();
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
        self
    }

    /// Bytes beside the payload, of at most 60 KiB.
    #[must_use]
    pub fn metadata(mut self, metadata: impl BatchBytes<'a>) -> Self {
        self.metadata = metadata.into_bytes();
        self
    }

    /// Its id. Two events with one id are the same event: see [`Events::append`](crate::Events::append). Without this call it gets one of its own.
    #[must_use]
    pub const fn id(mut self, id: [u8; 16]) -> Self {
        self.id = Some(id);
        self
    }

    /// When it happened, in milliseconds since 1970, at most 2^48 - 1. Without this call, the time of the append by the clock of the store; 0
    /// where there is none.
    #[must_use]
    pub const fn time_ms(mut self, time: u64) -> Self {
        self.time = Some(time);
        self
    }

    /// The same event, with everything in it owned.
    pub fn into_owned(self) -> NewEvent<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(String::from(text));
        NewEvent {
            kind: owned(self.kind),
            payload: Cow::Owned(self.payload.into_owned()),
            tags: self.tags.into_iter().map(owned).collect(),
            metadata: Cow::Owned(self.metadata.into_owned()),
            id: self.id,
            time: self.time,
        }
    }

    /// The memory that it takes, in bytes.
    pub(in crate::db) fn memory_bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + size_of::<Cow<'_, str>>()).sum();
        size_of::<Self>() + self.kind.len() + self.payload.len() + self.metadata.len() + tags
    }
}
