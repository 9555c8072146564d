//! Ranges of the file and of memory.

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// The pages with the range, as a range.
pub(super) fn pages(offset: u64, len: u64) -> (u64, u64) {
    let from = offset - offset % PAGE;
    (from, (offset - from + len).next_multiple_of(PAGE))
}

/// Copies as much as there is and fits, and returns how much that is.
pub(super) fn copy(source: &[u8], out: &mut [u8]) -> usize {
    let len = source.len().min(out.len());
    if let (Some(out), Some(source)) = (out.get_mut(..len), source.get(..len)) {
        out.copy_from_slice(source);
    }
    len
}
