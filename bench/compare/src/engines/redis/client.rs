//! As much of the protocol of Redis as a key-value store needs.

use crate::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Number(u64),
    /// The value is in [`Connection::value`].
    Value,
    Nothing,
    /// So many answers follow.
    List(u64),
}

/// A connection, with room for a request and a value.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    value: Vec<u8>,
}

impl Connection {
    pub(super) fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream), request: Vec::new(), value: Vec::new() })
    }

    /// Sends one command and reads the first part of its answer.
    pub(super) fn ask<'a>(&mut self, words: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Answer> {
        self.request.clear();
        write!(self.request, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.request, "${}\r\n", word.len())?;
            self.request.extend_from_slice(word);
            self.request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.request)?;
        self.answer()
    }

    pub(super) fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err("the server has closed the connection".into()) };
        match (kind, rest) {
            ("+", _) => Ok(Answer::Done),
            ("$", "-1") => Ok(Answer::Nothing),
            (":", number) => Ok(Answer::Number(number.parse()?)),
            ("*", number) => Ok(Answer::List(number.parse()?)),
            ("$", len) => {
                let len: usize = len.parse()?;
                self.value.resize(len + 2, 0);
                self.stream.read_exact(&mut self.value)?;
                self.value.truncate(len);
                Ok(Answer::Value)
            }
            _ => Err(line.to_owned().into()),
        }
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}
