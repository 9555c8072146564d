//! Reads a byte stream line by line, through one buffer, with a limit on the length of a line.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line that is read: room for a value at the limit in base64 or with escapes.
const LINE_LEN_MAX: u64 = 2 * 1024 * 1024 * 1024;
const READ_AHEAD: usize = 256 * 1024;

/// Reads line by line.
pub(crate) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    number: u64,
    position: u64,
}

impl Lines {
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input: BufReader::with_capacity(READ_AHEAD, input), line: Vec::new(), number: 0, position: 0 }
    }

    /// Reads the next line; false at the end.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        let len = (&mut self.input).take(LINE_LEN_MAX).read_until(b'\n', &mut self.line)?;
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        if len == LINE_LEN_MAX && !self.line.ends_with(b"\n") {
            let line = self.number.saturating_add(1);
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {line} has no end within {LINE_LEN_MAX} bytes"),
            ));
        }
        self.number = self.number.saturating_add(1);
        self.position = self.position.saturating_add(len);
        Ok(len > 0)
    }

    /// The line without its line break; the first one also without a byte order mark.
    pub(crate) fn line(&self) -> &[u8] {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line }
    }

    /// The number of the line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read up to the end of the line.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}
