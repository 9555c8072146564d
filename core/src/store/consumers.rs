//! The consumers of changes: their cursors, as records of a system namespace keep them, and what these hold.
//!
//! ```text
//! "c"       the names of all consumers: length (2) and bytes of each
//! "c" NAME  log position (8) and salt (8) of the cursor, bytes of log that may be kept for it (8)
//! "n"       numbers that namespaces had before they were cleared or dropped: number (4), log position (8), length (2) and bytes of the name
//! ```

use super::Store;
use crate::error::Result;
use crate::position::Position;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The system namespace of consumers.
pub(crate) const NAMESPACE: &str = "\0changes";
/// Key of the names of consumers, and the prefix of their own.
pub(crate) const CONSUMERS: &[u8] = b"c";
/// Key of the numbers.
pub(crate) const NUMBERS: &[u8] = b"n";
/// How many numbers are recorded.
const NUMBERS_MAX: usize = 1000;

/// A consumer as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) name: String,
    /// It has taken note of everything before.
    pub(crate) cursor: Position,
    /// Bytes of log that may be kept for it.
    pub(crate) retain: u64,
}

impl Registered {
    pub(crate) fn key(name: &str) -> Vec<u8> {
        [CONSUMERS, name.as_bytes()].concat()
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        [&self.cursor.to_bytes()[..], &self.retain.to_le_bytes()].concat()
    }

    fn decode(name: &str, value: &[u8]) -> Option<Self> {
        let (cursor, rest) = value.split_first_chunk::<16>()?;
        let retain = u64::from_le_bytes(*rest.first_chunk()?);
        Some(Self { name: name.into(), cursor: Position::from_bytes(*cursor), retain })
    }
}

/// The names of consumers as one value.
pub(crate) fn encode_names(consumers: &[Registered]) -> Vec<u8> {
    let mut out = Vec::new();
    for Registered { name, .. } in consumers {
        put_name(&mut out, name);
    }
    out
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn take_name<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (len, after) = rest.split_first_chunk::<2>()?;
    let (name, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
    *rest = after;
    core::str::from_utf8(name).ok()
}

/// A number that a namespace had.
struct Number<'a> {
    number: u32,
    lsn: u64,
    name: &'a str,
}

fn decode_numbers(value: &[u8]) -> Vec<Number<'_>> {
    let mut rest = value;
    let mut take = || {
        let (number, after) = rest.split_first_chunk::<4>()?;
        let (lsn, mut after) = after.split_first_chunk::<8>()?;
        let name = take_name(&mut after)?;
        rest = after;
        Some(Number { number: u32::from_le_bytes(*number), lsn: u64::from_le_bytes(*lsn), name })
    };
    core::iter::from_fn(&mut take).collect()
}

impl Store {
    /// The value of a record of the system namespace; `None` without it.
    fn consumers_record(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(number) = self.names.read().get(NAMESPACE).and_then(|name| name.number()) else { return Ok(None) };
        let engine = &self.engine;
        let pin = engine.pins.pin();
        let frame = engine.find(&pin, engine.full_key(number, key))?;
        frame.map(|frame| engine.log.check(&frame).map(|()| frame.value().to_vec())).transpose()
    }

    /// All consumers.
    pub(crate) fn consumers(&self) -> Result<Vec<Registered>> {
        if let Some(known) = &*self.consumers.lock() {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        let names = self.consumers_record(CONSUMERS)?.unwrap_or_default();
        let mut rest = &names[..];
        while let Some(name) = take_name(&mut rest) {
            let value = self.consumers_record(&Registered::key(name))?;
            found.extend(value.and_then(|value| Registered::decode(name, &value)));
        }
        Ok(self.consumers.lock().get_or_insert(found).clone())
    }

    /// Changes what is known of the consumers, which [`Self::consumers`] has loaded.
    pub(crate) fn change_consumers(&self, change: impl FnOnce(&mut Vec<Registered>)) {
        if let Some(known) = &mut *self.consumers.lock() {
            change(known);
        }
    }

    /// The name of a namespace that had this number while history was kept.
    pub(crate) fn recorded_name(&self, number: u32) -> Result<Option<Arc<str>>> {
        let value = self.consumers_record(NUMBERS)?.unwrap_or_default();
        Ok(decode_numbers(&value).iter().find(|known| known.number == number).map(|known| known.name.into()))
    }

    /// The recorded numbers and one more, without those that no history needs.
    pub(crate) fn numbers_with(&self, number: u32, name: &str) -> Result<Vec<u8>> {
        let (floor, end) = (self.engine.log.floor(), self.engine.log.end());
        let value = self.consumers_record(NUMBERS)?.unwrap_or_default();
        let mut known = decode_numbers(&value);
        known.retain(|known| known.lsn >= floor && known.number != number);
        known.drain(..known.len().saturating_sub(NUMBERS_MAX - 1));
        known.push(Number { number, lsn: end, name });
        let mut out = Vec::new();
        for Number { number, lsn, name } in known {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&lsn.to_le_bytes());
            put_name(&mut out, name);
        }
        Ok(out)
    }
}
