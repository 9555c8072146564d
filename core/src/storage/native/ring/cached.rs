//! What the system's cache has of the file.
//!
//! A read that may not wait (`RWF_NOWAIT`) would tell, too, but on Linux 6.18 it begins to fetch the page that is not there.

use super::range::{PAGE, pages};
use crate::storage::native::map::Map;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Pages that are asked for in one call.
const PAGES: usize = 64;

/// The file and a map of it, which is asked about and never read.
#[derive(Clone, Copy)]
pub(super) struct Cached<'a> {
    pub(super) file: &'a File,
    pub(super) map: &'a Map,
}

impl Cached<'_> {
    /// True if the cache has every byte of the range, which lies inside the file. Written bytes that are not on the medium yet are always there.
    pub(super) fn has(&self, offset: u64, len: u64) -> bool {
        #[cfg(feature = "testing")]
        if crate::testing::is_system_cache_ignored() {
            return false;
        }
        let (from, len) = pages(offset, len);
        let Some(address) = self.map.address(self.file, from, len) else { return false };
        let mut found = [0_u8; PAGES];
        let piece = PAGES * PAGE as usize;
        let mut begins = (0..len as usize).step_by(piece);
        begins.all(|begin| {
            let len = piece.min(len as usize - begin);
            // SAFETY: the range is mapped, whatever the length of the file, and there is a byte for each of its pages.
            let asked = unsafe { libc::mincore(address.wrapping_add(begin).cast_mut().cast(), len, found.as_mut_ptr()) };
            asked == 0 && found.iter().take(len / PAGE as usize).all(|page| page & 1 == 1)
        })
    }

    /// Fills the front of `out`, as far as the file goes, if the cache has all of it up to `file_len`; else nothing. Returns how many bytes that
    /// were.
    pub(super) fn read(&self, file_len: u64, offset: u64, out: &mut [u8]) -> usize {
        let len = (out.len() as u64).min(file_len.saturating_sub(offset));
        let Some(out) = out.get_mut(..len as usize).filter(|_| len > 0 && self.has(offset, len)) else { return 0 };
        self.file.read_exact_at(out, offset).map_or(0, |()| out.len())
    }
}
