//! Whether CSV ends inside of a quoted cell. The parser ends such a cell with the file, which hides that a file was cut short.

use std::io::{self, Read};

/// Passes bytes on, and keeps in mind whether a quoted cell is open behind them.
pub(crate) struct Quotes<R> {
    input: R,
    delimiter: u8,
    place: Place,
    /// Bytes so far of the mark that text in UTF-8 may begin with, which is part of no cell.
    mark: usize,
    has_ended: bool,
}

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    CellStart,
    Plain,
    Quoted,
    /// Behind a quote in a quoted cell: the cell's end, or the first half of a quote that belongs to it.
    QuoteInQuoted,
}

impl<R: Read> Quotes<R> {
    pub(crate) const fn new(input: R, delimiter: u8) -> Self {
        Self { input, delimiter, place: Place::CellStart, mark: 0, has_ended: false }
    }

    /// True when the input has ended, and in a quoted cell.
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
