//! Blocks of the file that were read last, in the memory of the instance: a call of the host costs more than most records do.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a block: a multiple of it is read at a time.
pub(crate) const BLOCK: usize = 4096;

type Block = Box<[u8; BLOCK]>;

/// A table with one place for each block number, counted modulo its length: neighbours never push each other out, and a file
/// that is smaller than the table stays in it whole.
pub(crate) struct Blocks {
    places: Vec<Option<(u64, Block)>>,
}

impl Blocks {
    /// A table of at most `bytes` of blocks.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut places = Vec::new();
        places.resize_with(bytes / BLOCK, || None);
        Self { places }
    }

    fn place(&mut self, number: u64) -> Option<&mut Option<(u64, Block)>> {
        let place = number.checked_rem(self.places.len() as u64)?;
        self.places.get_mut(usize::try_from(place).ok()?)
    }

    fn get(&mut self, number: u64) -> Option<&mut [u8; BLOCK]> {
        match self.place(number)? {
            Some((held, block)) if *held == number => Some(block),
            _ => None,
        }
    }

    /// Fills `out` with the bytes from `offset` on, if all of them are here.
    pub(crate) fn read(&mut self, offset: u64, out: &mut [u8]) -> bool {
        pieces(offset, out.len()).all(|piece| {
            let target = out.get_mut(piece.at..piece.at + piece.len);
            let source = self.get(piece.number).and_then(|block| block.get(piece.inside..piece.inside + piece.len));
            target.zip(source).map(|(target, source)| target.copy_from_slice(source)).is_some()
        })
    }

    /// The file has these bytes from `offset` on: blocks that are here follow, blocks that are covered whole come in.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, bytes.len()) {
            let Some(source) = bytes.get(piece.at..piece.at + piece.len) else { continue };
            if let Ok(whole) = <&[u8; BLOCK]>::try_from(source) {
                self.put(piece.number, whole);
            } else if let Some(target) =
                self.get(piece.number).and_then(|block| block.get_mut(piece.inside..piece.inside + piece.len))
            {
                target.copy_from_slice(source);
            }
        }
    }

    fn put(&mut self, number: u64, bytes: &[u8; BLOCK]) {
        match self.place(number) {
            Some(Some((held, block))) => {
                *held = number;
                **block = *bytes;
            }
            Some(place) => *place = Some((number, Box::new(*bytes))),
            None => {}
        }
    }

    /// The file ends at `len` now: what lay behind is not true any more.
    pub(crate) fn cut(&mut self, len: u64) {
        for place in &mut self.places {
            if place.as_ref().is_some_and(|(number, _)| *number >= len / BLOCK as u64) {
                *place = None;
            }
        }
    }

    /// False for a table without places.
    pub(crate) fn is_used(&self) -> bool {
        !self.places.is_empty()
    }
}

/// The part of a range that lies in one block.
struct Piece {
    number: u64,
    /// Where it begins inside the block.
    inside: usize,
    /// Where it begins inside the range.
    at: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let position = offset + at as u64;
        let inside = (position % BLOCK as u64) as usize;
        let piece = Piece { number: position / BLOCK as u64, inside, at, len: (BLOCK - inside).min(len - at) };
        at += piece.len;
        (piece.len > 0).then_some(piece)
    })
}
