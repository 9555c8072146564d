//! Detects CSV that ends inside a quoted cell. The parser accepts the end of the file as the end of the cell, which hides a truncated file.

use std::io::{self, Read};

/// Forwards bytes, and tracks whether a quoted cell is open after them.
pub(crate) struct Quotes<R> {
    input: R,
    delimiter: u8,
    place: Place,
    /// Bytes seen so far of a UTF-8 byte order mark at the start, which belongs to no cell.
    mark: usize,
    has_ended: bool,
}

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    CellStart,
    Plain,
    Quoted,
    /// After a quote in a quoted cell: the end of the cell, or the first of two quotes that stand for one.
    QuoteInQuoted,
}

impl<R: Read> Quotes<R> {
    pub(crate) const fn new(input: R, delimiter: u8) -> Self {
        Self { input, delimiter, place: Place::CellStart, mark: 0, has_ended: false }
    }

    /// True when the input has ended inside a quoted cell.
    pub(crate) fn end_inside(&self) -> bool {
        self.has_ended && self.place == Place::Quoted
    }

    const fn next(&self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::Quoted, b'"') => Place::QuoteInQuoted,
            (Place::Quoted, _) | (Place::CellStart | Place::QuoteInQuoted, b'"') => Place::Quoted,
            (_, b'\n' | b'\r') => Place::CellStart,
            (_, byte) if byte == self.delimiter => Place::CellStart,
            _ => Place::Plain,
        }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(out)?;
        self.has_ended = len == 0 && !out.is_empty();
        for &byte in out.iter().take(len) {
            if MARK.get(self.mark) == Some(&byte) {
                self.mark += 1;
            } else {
                self.mark = MARK.len();
                self.place = self.next(byte);
            }
        }
        Ok(len)
    }
}
