//! The place of a walk in pages.

/// Where a walk in pages goes on. Good for as long as the store exists, also after it has been opened again.
///
/// ```
/// use pipkin::{Cursor, Db};
///
/// let db = Db::open_in_memory()?;
/// db.insert_many((0..100_u8).map(|n| ([n], "value")))?;
/// let mut seen = 0;
/// let next = db.page(Cursor::default(), |_, _| { seen += 1; false })?;
/// let token = next.map(Cursor::to_bits); // may be sent elsewhere, and kept
/// db.page(token.map_or(Cursor::default(), Cursor::from_bits), |_, _| { seen += 1; true })?;
/// assert_eq!(seen, 100);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    pub(crate) shard: u32,
    pub(crate) tag: u32,
}

impl Cursor {
    /// As a number, for those who have to send it somewhere.
    ///
    /// ```
    /// let token = pipkin::Cursor::default().to_bits();
    /// assert_eq!(token, 0);
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.shard as u64) << 32 | self.tag as u64
    }

    /// From the number that [`Self::to_bits`] gave. Any other number is the place of some record, or behind all of them.
    ///
    /// ```
    /// use pipkin::Cursor;
    ///
    /// let cursor = Cursor::from_bits(7 << 32 | 5);
    /// assert_eq!(cursor.to_bits(), 7 << 32 | 5);
    /// ```
    pub const fn from_bits(bits: u64) -> Self {
        Self { shard: (bits >> 32) as u32, tag: bits as u32 }
    }
}
