//! Chains of events: those of a stream, of a type, with a tag.

use crate::frame::{EventView, own_tags};
use crate::index::KeyHash;
use alloc::vec::Vec;

/// One log of events of the store: a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct In {
    pub(crate) seed: u64,
    pub(crate) namespace: u32,
}

/// A chain of one log of events, which is a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chain<'a> {
    Stream(&'a [u8]),
    Type(&'a [u8]),
    Tag(&'a [u8]),
}

impl<'a> Chain<'a> {
    /// Its hash.
    pub(super) fn hash(self, seed: u64, namespace: u32) -> u64 {
        let (salt, name) = match self {
            Self::Stream(name) => (0x5eed_0001, name),
            Self::Type(name) => (0x5eed_0002, name),
            Self::Tag(name) => (0x5eed_0003, name),
        };
        KeyHash::new(seed ^ salt, namespace, name).bits()
    }

    /// The number of the event in front of this one in the chain, 0 if there is none; `None` if the event is not of the chain.
    pub(crate) fn before(self, stream: &[u8], event: &EventView<'_>) -> Option<u64> {
        match self {
            Self::Stream(name) => event.before(own_tags::STREAM).filter(|_| name == stream),
            Self::Type(name) => event.before(own_tags::TYPE).filter(|_| name == event.kind),
            Self::Tag(name) => event.before(name),
        }
    }

    /// All chains of an event, each with the number of the event in front of it.
    pub(super) fn all(stream: &'a [u8], event: &EventView<'a>) -> Vec<(Self, u64)> {
        let of = |(key, before): (&'a [u8], u64)| match key {
            own_tags::STREAM => Some((Self::Stream(stream), before)),
            own_tags::TYPE => Some((Self::Type(event.kind), before)),
            [0, ..] => None,
            tag => Some((Self::Tag(tag), before)),
        };
        event.tags().filter_map(of).collect()
    }
}
