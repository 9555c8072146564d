//! One cached block of the file.

use alloc::boxed::Box;
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

/// Length of a block in bytes. Reads from below are multiples of it.
pub(super) const BLOCK: usize = 4096;

/// Bytes per bit of `checked`. Records are longer than this, so no two of them begin in one unit.
const UNIT: usize = 4;

/// A block in separately allocated memory, which keeps its address when this value is moved.
#[derive(Debug)]
pub(super) struct Block(NonNull<Held>);

struct Held {
    number: Cell<u32>,
    /// Number of the last engine call that viewed bytes of it.
    viewed: Cell<u32>,
    /// Salt of the segment that `checked` is valid for.
    salt: Cell<Option<u64>>,
    /// One bit per unit: the record that begins there matches its checksum.
    checked: [Cell<u32>; BLOCK / UNIT / 32],
    bytes: UnsafeCell<[u8; BLOCK]>,
}

// SAFETY: it is the only owner of its memory. Views of it are shared slices, which any thread may read.
unsafe impl Send for Block {}

impl Block {
    pub(super) fn new(number: u32, bytes: &[u8; BLOCK]) -> Self {
        let held = Held {
            number: Cell::new(number),
            viewed: Cell::new(0),
            salt: Cell::new(None),
            checked: [const { Cell::new(0) }; _],
            bytes: UnsafeCell::new(*bytes),
        };
        Self(NonNull::from(Box::leak(Box::new(held))))
    }

    fn held(&self) -> &Held {
        // SAFETY: the memory lives until `drop`, and nobody ever has it exclusively.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn number(&self) -> u32 {
        self.held().number.get()
    }

    /// `len` bytes at `from` of the block; `None` past its end. Nobody writes to them while the slice is in use: the contract of
    /// `Blocks::view` requires that of the caller.
    pub(super) fn bytes(&self, from: usize, len: usize) -> Option<&[u8]> {
        if from > BLOCK || len > BLOCK - from {
            return None;
        }
        let start = self.held().bytes.get().cast::<u8>();
        // SAFETY: the range lies inside the block.
        let start = unsafe { start.add(from) };
        // SAFETY: the memory lives as long as this, and its bytes are initialised.
        Some(unsafe { core::slice::from_raw_parts(start, len) })
    }

    /// Copies bytes into the block, as far as they fit. Must not overlap bytes that are viewed.
    pub(super) fn write(&self, from: usize, source: &[u8]) {
        let held = self.held();
        held.salt.set(None);
        if from > BLOCK || source.len() > BLOCK - from {
            return;
        }
        // SAFETY: the range lies inside the block.
        let start = unsafe { held.bytes.get().cast::<u8>().add(from) };
        // SAFETY: the source is somewhere else, and nobody has a slice of the target.
        unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), start, source.len()) };
    }

    /// Reuses the memory for another block. The old block must not be viewed any more.
    pub(super) fn become_block(&mut self, number: u32, bytes: &[u8; BLOCK]) {
        self.held().number.set(number);
        self.write(0, bytes);
    }

    pub(super) fn note_view(&self, call: u32) {
        self.held().viewed.set(call);
    }

    pub(super) fn is_viewed(&self, call: u32) -> bool {
        self.held().viewed.get() == call
    }

    fn bit(&self, inside: usize) -> (Option<&Cell<u32>>, u32) {
        let unit = inside / UNIT;
        (self.held().checked.get(unit / 32), 1 << (unit % 32))
    }

    /// True if the record that begins at `inside` was verified under this salt and the block has not changed since.
    pub(super) fn is_checked(&self, inside: usize, salt: u64) -> bool {
        let (word, bit) = self.bit(inside);
        self.held().salt.get() == Some(salt) && word.is_some_and(|word| word.get() & bit != 0)
    }

    pub(super) fn set_checked(&self, inside: usize, salt: u64) {
        let held = self.held();
        if held.salt.replace(Some(salt)) != Some(salt) {
            held.checked.iter().for_each(|word| word.set(0));
        }
        let (word, bit) = self.bit(inside);
        if let Some(word) = word {
            word.set(word.get() | bit);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, and only this value owns it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
