//! The frames of a commit, as an append asks for them: a slice of them, or a source that makes one at a time, so that a commit of millions
//! needs no memory for each.

use crate::error::Result;
use crate::frame::FrameSpec;

/// The frames of one commit, in order.
pub(crate) trait Frames {
    /// How many there are.
    fn count(&self) -> usize;

    /// Bytes of the frame at `index`; 0 behind the last one.
    fn len_of(&self, index: usize) -> u64;

    /// Calls `put` with the frame at `index`. It has the length that [`Self::len_of`] returned: space was planned by that.
    fn with(&self, index: usize, put: impl FnOnce(&FrameSpec<'_>) -> Result<()>) -> Result<()>;
}

impl Frames for [FrameSpec<'_>] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn len_of(&self, index: usize) -> u64 {
        self.get(index).map_or(0, |frame| frame.len() as u64)
    }

    #[inline]
    fn with(&self, index: usize, put: impl FnOnce(&FrameSpec<'_>) -> Result<()>) -> Result<()> {
        self.get(index).map_or(Ok(()), put)
    }
}

/// Frames with the lengths that they have in a sealed store.
#[cfg(feature = "encrypt")]
pub(super) struct Lengthened<'a, F: ?Sized>(pub(super) &'a F);

#[cfg(feature = "encrypt")]
impl<F: Frames + ?Sized> Frames for Lengthened<'_, F> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn len_of(&self, index: usize) -> u64 {
        let mut len = 0;
        // A source that fails here fails again when its frame is put.
        let _ = self.0.with(index, |frame| {
            len = frame.sealed_len() as u64;
            Ok(())
        });
        len
    }

    fn with(&self, index: usize, put: impl FnOnce(&FrameSpec<'_>) -> Result<()>) -> Result<()> {
        self.0.with(index, put)
    }
}
