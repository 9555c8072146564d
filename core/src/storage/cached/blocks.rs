//! The blocks of the file that were read most recently, in memory.
//!
//! Records are read in place. Such a view may be in use until the engine call ends, so a block that was viewed is
//! neither reused nor freed before that: when it is evicted, it is set aside until then.

use super::block::{BLOCK, Block};
use alloc::vec::Vec;

/// Limit of blocks set aside (1 MiB). Once it is reached, a read does not replace a viewed block until the engine call ends.
const ASIDE_MAX: usize = 256;

/// A direct-mapped table: a block's place is its number modulo the table's length. Neighbours never evict each other, and a file
/// that is smaller than the table stays in it whole.
#[derive(Debug)]
pub(super) struct Blocks {
    places: Vec<Option<Block>>,
    aside: Vec<Block>,
    /// Number of the current engine call.
    call: u32,
}

impl Blocks {
    /// A table of `bytes` of blocks at most.
    pub(super) fn new(bytes: usize) -> Self {
        let mut places = Vec::new();
        places.resize_with(bytes / BLOCK, || None);
        Self { places, aside: Vec::new(), call: 1 }
    }

    fn place(&mut self, number: u32) -> Option<&mut Option<Block>> {
        let place = number.checked_rem(self.places.len() as u32)?;
        self.places.get_mut(place as usize)
    }

    fn get(&self, number: u32) -> Option<&Block> {
        let place = number.checked_rem(self.places.len() as u32)?;
        self.places.get(place as usize)?.as_ref().filter(|block| block.number() == number)
    }

    /// Fills `out` with the bytes from `offset` on. False if one of them is not cached; `out` is then unspecified.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        pieces(offset, out.len()).all(|piece| {
            let target = out.get_mut(piece.at..piece.at + piece.len);
            let source = self.get(piece.number).and_then(|block| block.bytes(piece.inside, piece.len));
            target.zip(source).map(|(target, source)| target.copy_from_slice(source)).is_some()
        })
    }

    /// The bytes from `offset` on, in place, if they are cached in one block.
    ///
    /// # Safety
    ///
    /// The slice is used neither after [`Self::end_call`] nor after this table is dropped, and nobody [writes](Self::write) to its range
    /// before.
    pub(super) unsafe fn view<'a>(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let (number, inside) = split(offset);
        let block = self.get(number)?;
        let bytes = block.bytes(inside, len)?;
        block.note_view(self.call);
        // SAFETY: a block that was viewed in this call keeps its memory until the call ends (`put` and `cut` set it aside, `end_call` frees
        // it), and until then the caller ensures that nobody writes to these bytes.
        Some(unsafe { core::slice::from_raw_parts(bytes.as_ptr(), len) })
    }

    /// Ends an engine call: no earlier view is used any more. Frees the blocks set aside.
    pub(super) fn end_call(&mut self) {
        self.aside.clear();
        self.call = self.call.wrapping_add(1);
    }

    /// True if the record at `offset` has been verified since its block was last fetched or written to.
    pub(super) fn is_checked(&self, offset: u64, salt: u64) -> bool {
        let (number, inside) = split(offset);
        self.get(number).is_some_and(|block| block.is_checked(inside, salt))
    }

    /// Notes that the record at `offset`, as cached, matches its checksum.
    pub(super) fn set_checked(&self, offset: u64, salt: u64) {
        let (number, inside) = split(offset);
        if let Some(block) = self.get(number) {
            block.set_checked(inside, salt);
        }
    }

    /// Follows a write to the file: updates cached blocks, and adds blocks that `bytes` covers whole.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, bytes.len()) {
            let Some(source) = bytes.get(piece.at..piece.at + piece.len) else { continue };
            if let Some(block) = self.get(piece.number) {
                block.write(piece.inside, source);
            } else if let Ok(whole) = <&[u8; BLOCK]>::try_from(source) {
                self.put(piece.number, whole);
            }
        }
    }

    /// Adds a block. Does nothing if its place holds a viewed block and no more can be set aside.
    fn put(&mut self, number: u32, bytes: &[u8; BLOCK]) {
        let (call, may_set_aside) = (self.call, self.aside.len() < ASIDE_MAX);
        let Some(place) = self.place(number) else { return };
        let was_viewed = place.as_ref().is_some_and(|block| block.is_viewed(call));
        if was_viewed && !may_set_aside {
            return;
        }
        match place.as_mut().filter(|_| !was_viewed) {
            Some(block) => block.become_block(number, bytes),
            None => {
                let old = place.replace(Block::new(number, bytes));
                self.aside.extend(old);
            }
        }
    }

    /// Drops every block that reaches past `len`: the file ends there now.
    pub(super) fn cut(&mut self, len: u64) {
        let (call, first) = (self.call, split(len).0);
        let behind = self.places.iter_mut().filter(|place| place.as_ref().is_some_and(|block| block.number() >= first));
        self.aside.extend(behind.filter_map(Option::take).filter(|block| block.is_viewed(call)));
    }

    /// False if the table has no places: nothing is cached.
    pub(super) fn is_used(&self) -> bool {
        !self.places.is_empty()
    }
}

/// Number of the block with the byte at `offset`, and the offset inside that block. Files have at most 4 TiB, so the number fits.
fn split(offset: u64) -> (u32, usize) {
    ((offset / BLOCK as u64).min(u32::MAX.into()) as u32, (offset % BLOCK as u64) as usize)
}

/// The part of a range that lies in one block.
struct Piece {
    number: u32,
    /// Offset inside the block.
    inside: usize,
    /// Offset inside the range.
    at: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (number, inside) = split(offset + at as u64);
        let piece = Piece { number, inside, at, len: (BLOCK - inside).min(len - at) };
        at += piece.len;
        (piece.len > 0).then_some(piece)
    })
}
