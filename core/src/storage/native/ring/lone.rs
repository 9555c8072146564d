//! One read past the system's cache: whole pages into memory of the thread, which keeps them for the read that follows.

use super::epochs::Epochs;
use super::range::{PAGE, copy, pages};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Most bytes of one system call.
const PIECE: u64 = 256 * 1024;

/// What the thread has read last.
struct Last {
    /// Which storage; 0 for none.
    storage: u64,
    from: u64,
    got: usize,
    asked: u64,
    /// [`Epochs::of`] the pages before they were read.
    seen: u64,
    /// Longer than what is used of it, which begins at a page's border.
    memory: Vec<u8>,
}

thread_local! {
    static LAST: RefCell<Last> =
        const { RefCell::new(Last { storage: 0, from: 0, got: 0, asked: 0, seen: 0, memory: Vec::new() }) };
}

/// The file, and what is known of it.
pub(super) struct Source<'a> {
    pub(super) storage: u64,
    pub(super) direct: &'a File,
    pub(super) epochs: &'a Epochs,
}

impl Source<'_> {
    /// Copies what the thread's last read has from `offset` on. Returns how many bytes that were.
    pub(super) fn take_last(&self, offset: u64, out: &mut [u8]) -> usize {
        LAST.try_with(|last| last.try_borrow().map_or(0, |last| last.copy(self, offset, out))).unwrap_or(0)
    }

    /// Reads from `offset` on, and `ahead` bytes in any case. Returns how many bytes of `out` are filled: fewer where the file ends, or where the
    /// system refuses.
    pub(super) fn read(&self, offset: u64, out: &mut [u8], ahead: u64) -> usize {
        let read = |last: &RefCell<Last>| last.try_borrow_mut().map_or(0, |mut last| last.read(self, offset, out, ahead));
        LAST.try_with(read).unwrap_or(0)
    }
}

impl Last {
    fn copy(&self, source: &Source<'_>, offset: u64, out: &mut [u8]) -> usize {
        let is_it = self.storage == source.storage && source.epochs.of(self.from, self.asked) == self.seen;
        let Some(inside) = offset.checked_sub(self.from).filter(|_| is_it) else { return 0 };
        let bytes = self.memory.get(start(&self.memory)..).and_then(|memory| memory.get(..self.got));
        let Some(rest) = bytes.and_then(|bytes| bytes.get(usize::try_from(inside).ok()?..)) else { return 0 };
        copy(rest, out)
    }

    fn read(&mut self, source: &Source<'_>, offset: u64, out: &mut [u8], ahead: u64) -> usize {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let (from, len) = pages(at, ahead.max(rest.len() as u64));
            if self.fetch(source, from, len.min(PIECE)).is_err() {
                break;
            }
            let copied = self.copy(source, at, rest);
            if copied == 0 {
                break;
            }
            done += copied;
        }
        done
    }

    fn fetch(&mut self, source: &Source<'_>, from: u64, len: u64) -> io::Result<()> {
        self.storage = 0;
        let (len, page) = (len as usize, PAGE as usize);
        if self.memory.len() < len + page {
            self.memory = vec![0; len + page];
        }
        let start = start(&self.memory);
        let memory = self.memory.get_mut(start..start + len).unwrap_or_default();
        let seen = source.epochs.of(from, len as u64);
        let got = loop {
            match source.direct.read_at(memory, from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        (self.storage, self.from, self.got, self.asked, self.seen) = (source.storage, from, got, len as u64, seen);
        Ok(())
    }
}

/// Where the first page begins.
fn start(memory: &[u8]) -> usize {
    memory.as_ptr().align_offset(PAGE as usize)
}
