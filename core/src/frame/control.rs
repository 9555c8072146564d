//! The values of frames of the store's own book-keeping.

use super::FRAME_LEN_MIN;

/// Length in bytes of a sync mark's value.
pub(crate) const MARK_VALUE_LEN: usize = 16;
/// Length in bytes of a `Next` frame.
pub(crate) const NEXT_LEN: usize = FRAME_LEN_MIN + 24;

/// Value of a sync mark: how far the log is synced, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The log is synced up to this position.
    pub(crate) synced: u64,
    /// The store's clock, in milliseconds since 1970; 0 when nothing depends on it.
    pub(crate) clock: u64,
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; MARK_VALUE_LEN] {
        (u128::from(self.synced) | u128::from(self.clock) << 64).to_le_bytes()
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let both = u128::from_le_bytes(value.try_into().ok()?);
        Some(Self { synced: both as u64, clock: (both >> 64) as u64 })
    }
}

/// Value of a `Next` frame: where the next segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    pub(crate) base: u64,
    pub(crate) salt: u64,
}

impl Next {
    pub(crate) fn encode(&self) -> [u8; 24] {
        let mut out = [0; 24];
        let fields = [u64::from(self.extent) | u64::from(self.extents) << 32, self.base, self.salt];
        for (place, field) in out.as_chunks_mut().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let value: &[u8; 24] = value.try_into().ok()?;
        let &[places, base, salt] = value.as_chunks::<8>().0 else { return None };
        let places = u64::from_le_bytes(places);
        let next = Self {
            extent: places as u32,
            extents: (places >> 32) as u32,
            base: u64::from_le_bytes(base),
            salt: u64::from_le_bytes(salt),
        };
        (next.extents > 0).then_some(next)
    }
}
