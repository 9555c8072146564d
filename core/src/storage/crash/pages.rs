//! File content as a table of shared pages: a copy of a file costs one counter per page, a write copies only the page it touches.

use crate::storage::{StorageError, StorageErrorKind};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const PAGE_LEN: usize = 4096;
/// The unit in which a medium keeps or loses what was written.
pub(super) const SECTOR_LEN: usize = 512;
pub(super) const SECTORS_PER_PAGE: u64 = (PAGE_LEN / SECTOR_LEN) as u64;

pub(super) type Sector = [u8; SECTOR_LEN];
type Page = Arc<[u8; PAGE_LEN]>;

/// Bytes from `len` on are zero in every page.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    len: u64,
    /// `None`, and every page past the end of the table, is all zeros.
    pages: Vec<Option<Page>>,
}

impl Pages {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let pages = bytes.chunks(PAGE_LEN).map(|chunk| {
            let mut page = [0; PAGE_LEN];
            if let Some(target) = page.get_mut(..chunk.len()) {
                target.copy_from_slice(chunk);
            }
            Some(Arc::new(page))
        });
        Self { len: bytes.len() as u64, pages: pages.collect() }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut out = alloc::vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.copy_out(0, &mut out);
        out
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.cut(len);
        }
        self.len = len;
    }

    /// Sets the length and clears the pages after it.
    pub(super) fn cut(&mut self, len: u64) {
        let (index, within) = place(len);
        if let Some(Some(last)) = self.pages.get_mut(index)
            && last.iter().skip(within).any(|byte| *byte != 0)
            && let Some(tail) = Arc::make_mut(last).get_mut(within..)
        {
            tail.fill(0);
        }
        self.pages.truncate(if within == 0 { index } else { index.saturating_add(1) });
        self.len = len;
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err(StorageError::out_of_range(offset, out.len(), self.len));
        }
        self.copy_out(offset, out);
        Ok(())
    }

    /// Like `read`, but with zeros past the end.
    fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let (mut index, mut within) = place(offset);
        let mut rest = out;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE_LEN - within));
            match self.page(index).and_then(|page| page.get(within..within + now.len())) {
                Some(source) => now.copy_from_slice(source),
                None => now.fill(0),
            }
            (index, within, rest) = (index.saturating_add(1), 0, later);
        }
    }

    /// Writes and grows. A failure may leave a part of the bytes and never a longer file.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let (mut index, mut within) = place(offset);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PAGE_LEN - within));
            if let Some(target) = self.page_mut(index)?.get_mut(within..within + now.len()) {
                target.copy_from_slice(now);
            }
            (index, within, rest) = (index.saturating_add(1), 0, later);
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset.saturating_add(bytes.len() as u64));
        }
        Ok(())
    }

    /// Fills a sector inside the file with zeros.
    pub(super) fn zero_sector(&mut self, sector: u64) {
        let (index, within) = place(sector.saturating_mul(SECTOR_LEN as u64));
        if let Some(Some(page)) = self.pages.get_mut(index)
            && let Some(target) = Arc::make_mut(page).get_mut(within..within + SECTOR_LEN)
        {
            target.fill(0);
        }
    }

    pub(super) fn sector(&self, sector: u64) -> Sector {
        let mut out = [0; SECTOR_LEN];
        self.copy_out(sector.saturating_mul(SECTOR_LEN as u64), &mut out);
        out
    }

    /// Replaces a sector, even past the end of the file. The caller sets the length afterwards.
    pub(super) fn put_sector(&mut self, sector: u64, content: &Sector) {
        let (index, within) = place(sector.saturating_mul(SECTOR_LEN as u64));
        // This fails only for lack of memory; the sector then keeps its old content, which a crash could leave, too.
        if let Ok(page) = self.page_mut(index)
            && let Some(target) = page.get_mut(within..within + SECTOR_LEN)
        {
            target.copy_from_slice(content);
        }
    }

    /// Takes over one page of another file without a copy. The caller sets the length afterwards.
    pub(super) fn adopt_page(&mut self, source: &Self, page: u64) {
        let Ok(index) = usize::try_from(page) else { return };
        let shared = source.pages.get(index).cloned().flatten();
        if index >= self.pages.len() && (shared.is_none() || self.extend_table(index).is_err()) {
            return;
        }
        if let Some(slot) = self.pages.get_mut(index) {
            *slot = shared;
        }
    }

    /// The sectors from `first` on that may hold anything but zeros.
    pub(super) fn stored_sectors(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        let first_page = usize::try_from(first / SECTORS_PER_PAGE).unwrap_or(usize::MAX);
        self.pages.iter().enumerate().skip(first_page).filter(|(_, page)| page.is_some()).flat_map(move |(index, _)| {
            let start = index as u64 * SECTORS_PER_PAGE;
            start.max(first)..start + SECTORS_PER_PAGE
        })
    }

    fn page(&self, index: usize) -> Option<&[u8; PAGE_LEN]> {
        self.pages.get(index)?.as_deref()
    }

    fn page_mut(&mut self, index: usize) -> Result<&mut [u8; PAGE_LEN], StorageError> {
        self.extend_table(index)?;
        let slot = self.pages.get_mut(index).ok_or_else(no_memory)?;
        Ok(Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; PAGE_LEN]))))
    }

    fn extend_table(&mut self, index: usize) -> Result<(), StorageError> {
        if index >= self.pages.len() {
            let wanted = index.checked_add(1).ok_or_else(no_memory)?;
            self.pages.try_reserve(wanted - self.pages.len()).map_err(|_| no_memory())?;
            self.pages.resize(wanted, None);
        }
        Ok(())
    }
}

/// Index of the page and offset inside it. An offset that this machine cannot address maps to past the last page.
fn place(offset: u64) -> (usize, usize) {
    let index = usize::try_from(offset / PAGE_LEN as u64).unwrap_or(usize::MAX);
    (index, (offset % PAGE_LEN as u64) as usize)
}

fn no_memory() -> StorageError {
    StorageError::new(StorageErrorKind::NoSpace, "write", "out of memory")
}
