//! The data keys of a store: the current one, and while it is being rotated the one before.

use super::keys::{Derived, Key, random};
use crate::error::Result;
use crate::planted::{Bug, is};
use alloc::sync::Arc;

/// A data key, and what is derived from it.
pub(crate) struct KeySet {
    pub(crate) data: Key,
    pub(crate) derived: Derived,
}

impl KeySet {
    /// A new one.
    pub(crate) fn drawn(store_id: &[u8; 16]) -> Result<Self> {
        loop {
            let mut data = Key::new([0; 32]);
            random(data.as_mut_slice())?;
            let drawn = Self::new(data, store_id)?;
            // In a list of segments, this id stands for no key.
            if drawn.derived.id != [0; 8] {
                return Ok(drawn);
            }
        }
    }

    pub(crate) fn new(data: Key, store_id: &[u8; 16]) -> Result<Self> {
        let derived = Derived::new(&data, store_id)?;
        Ok(Self { data, derived })
    }
}

/// Which key a segment is under.
pub(crate) enum KeyOf {
    /// That of its position.
    Known(Arc<KeySet>),
    /// One that this store does not have any more: what is left of a segment from before a rotation.
    Gone,
    /// One that it must not be under: the segment is not from this store's past.
    Forged,
}

/// See the module.
pub(crate) struct Ring {
    pub(crate) current: Arc<KeySet>,
    pub(crate) previous: Option<Arc<KeySet>>,
    /// The log position from which on everything is under the current key; what is in front of it is under the one before.
    pub(crate) border: u64,
    pub(crate) plain: PlainSide,
}

/// Where a sealed store may have plain segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainSide {
    Nowhere,
    /// In front of the border: a plain store is being sealed.
    Before,
    /// Behind it, where nothing is sealed: a sealed store is being made plain.
    Behind,
}

impl Ring {
    /// The key with this id, for a segment that begins at the log position `base`.
    pub(crate) fn of(&self, id: &[u8; 8], base: u64) -> KeyOf {
        let is_in_front = base < self.border;
        if *id == self.current.derived.id {
            let is_its = is_in_front == (self.plain == PlainSide::Behind);
            return if is_its { KeyOf::Known(self.current.clone()) } else { KeyOf::Forged };
        }
        match &self.previous {
            Some(previous) if *id == previous.derived.id && (is_in_front || is(Bug::BorderUnchecked)) => {
                KeyOf::Known(previous.clone())
            }
            Some(previous) if *id == previous.derived.id => KeyOf::Forged,
            _ if is_in_front => KeyOf::Gone,
            _ => KeyOf::Forged,
        }
    }

    /// The current key, and the one before if there is one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<KeySet>> {
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten()
    }
}
