//! Memory that the kernel writes to.

use memmap2::{Advice, MmapMut, MmapRaw};
use std::io;

/// Whole pages, which no child process inherits: a page that both have would be copied when the parent writes to it, and the kernel might go on
/// writing to the old one.
#[derive(Debug)]
pub(super) struct Memory(Option<MmapRaw>);

impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let map = MmapMut::map_anon(len)?;
        map.advise(Advice::DontFork)?;
        Ok(Self(Some(MmapRaw::from(map))))
    }

    /// Address and length of a part; `None` past the end.
    pub(super) fn part(&self, at: usize, len: usize) -> Option<*mut u8> {
        let map = self.0.as_ref()?;
        (at.checked_add(len)? <= map.len()).then(|| map.as_mut_ptr().wrapping_add(at))
    }

    /// Never gives the memory back: the kernel may still write to it, or it is not there in this process.
    pub(super) fn leak(&mut self) {
        core::mem::forget(self.0.take());
    }
}
