//! The encoding of messages. A request carries any number of operations, an answer one result for each; numbers are little-endian.
//!
//! The other end is `request.ts` and `answer.ts` in `web/npm/src/`.
//!
//! ```text
//! request  := flags u8, operation*                                   flags: 1 durable, 2 writes (for who passes it on)
//! bytes    := length u32, that many bytes
//! bound    := 0 | 1, key bytes | 2, key bytes                         none | with the key | without it
//! operation of kind 11 := snapshot f64, operation                      a read of a snapshot
//! operation of kind 16 := transaction f64, operation                   a read or a write in a transaction
//! operation of kind 17 := transaction f64, count u32, key bytes*       commits it; keys that it has written, for who passes it on
//! operation of kind 18 := reader f64, flags u8, position?, prefix bytes  a page of changes; flags: 1 appended, 2 after a position
//! write    := 0, key bytes | 1, key bytes, value bytes               removes | stores
//! ttl      := f64                                                    milliseconds; infinite: for ever; NaN: the default of the store
//! answer   := result*
//! result   := 0 failed, code u8, message bytes | 1 written, outcome u8 | 2 no value | 3 value bytes
//!           | 4 count u32, (2 | 3 bytes | 7 key bytes, damage)* | 5 next f64, count u32, (key bytes | key bytes, value bytes)*, count u32, (key, damage)*
//!           | 6 durability u8 | 8 flags u8, position, count u32, commit*   flags: 1 no more for now, 2 begun anew
//! operation of kind 19 := call bytes                                   of event streams, in the full module: see `events`
//! operation of kind 20 := place f64                                    in a transaction, in the full module: where kind 21, with the same number, goes back to
//! position := 16 bytes
//! commit   := position, 0 | 1, length u32, change*                    1: from its position on it comes again
//! change   := 0 key bytes | 1 key bytes, value bytes | 2 key bytes, value bytes, expiry f64 | 3 all is gone
//! damage   := offset f64, what bytes                                  where in the file, and what was damaged
//! key      := 0 | 1 bytes                                             of a damaged record, where it is known
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use core::time::Duration;
use pipkin::limits::EXPIRY_MAX;
use pipkin::{Cursor, Error, Position, Ttl};

use crate::failure::Failure;

/// Kinds of operations.
mod kind {
    pub(super) const GET: u8 = 1;
    pub(super) const HAS: u8 = 2;
    pub(super) const WRITE: u8 = 3;
    pub(super) const DELETE: u8 = 4;
    pub(super) const WRITE_MANY: u8 = 5;
    pub(super) const SWAP: u8 = 6;
    pub(super) const GET_MANY: u8 = 7;
    pub(super) const PAGE: u8 = 8;
    pub(super) const FLUSH: u8 = 9;
    pub(super) const RANGE: u8 = 10;
    pub(super) const AT: u8 = 11;
    pub(super) const WRITE_MANY_FOR: u8 = 12;
    pub(super) const SWAP_FOR: u8 = 13;
    pub(super) const EXPIRES_AT: u8 = 14;
    pub(super) const KEEP: u8 = 15;
    pub(super) const IN: u8 = 16;
    pub(super) const COMMIT: u8 = 17;
    pub(super) const CHANGES: u8 = 18;
    #[cfg(feature = "full")]
    pub(super) const EVENTS: u8 = 19;
    #[cfg(feature = "full")]
    pub(super) const SAVEPOINT: u8 = 20;
    #[cfg(feature = "full")]
    pub(super) const ROLLBACK_TO: u8 = 21;
}

/// A key and its new value; `None` removes it.
pub(crate) type Write<'a> = (&'a [u8], Option<&'a [u8]>);

/// One operation of a request.
#[derive(Clone, Debug)]
pub(crate) enum Op<'a> {
    Get(&'a [u8]),
    Has(&'a [u8]),
    Write(Write<'a>),
    /// Removes a key; the outcome says whether it had a value.
    Delete(&'a [u8]),
    WriteMany(Vec<Write<'a>>),
    /// Writes that say how long their records live.
    WriteManyFor(Vec<(Write<'a>, Ttl)>),
    Swap {
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        new: Option<&'a [u8]>,
        ttl: Ttl,
    },
    /// When a record expires: a value of 8 bytes, a JavaScript number of milliseconds since 1970; none if it never does.
    ExpiresAt(&'a [u8]),
    /// Lets a record live for ever; the outcome says whether it would have expired.
    Keep(&'a [u8]),
    GetMany(Vec<&'a [u8]>),
    /// A page of the records whose keys begin with `prefix`.
    Page {
        from: Cursor,
        values: bool,
        prefix: &'a [u8],
    },
    /// A page of the records between two bounds, in the order of their keys.
    Range(Range<'a>),
    Flush,
    /// A read of the snapshot of that number.
    At(f64, Box<Op<'a>>),
    /// A read or a write in the transaction of that number.
    In(f64, Box<Op<'a>>),
    /// In a transaction: a place of that number.
    #[cfg(feature = "full")]
    Savepoint(f64),
    /// In a transaction: takes back what was written behind the place of that number.
    #[cfg(feature = "full")]
    RollbackTo(f64),
    /// Commits the transaction of that number.
    Commit(f64),
    /// The next page of a reader of changes.
    Changes(Asked<'a>),
    /// A call of event streams.
    #[cfg(feature = "full")]
    Events(&'a [u8]),
}

/// A request for the next page of a reader of changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Of the reader; random, and never used again.
    pub(crate) number: f64,
    /// Where the page before has ended; `None`: from now on.
    pub(crate) after: Option<Position>,
    /// Also commits that are not durable.
    pub(crate) appended: bool,
    /// Of the keys.
    pub(crate) prefix: &'a [u8],
}

/// The bounds of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A read of the records between two bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) bounds: Bounds<'a>,
    /// Return the values, too.
    pub(crate) values: bool,
    /// Start with the last key.
    pub(crate) reverse: bool,
}

/// One decoded message to the store.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// Flush its writes before answering.
    pub(crate) durable: bool,
    /// The name of the sending tab and the number of the request in it, if it may come twice.
    pub(crate) origin: Option<([u8; 16], u64)>,
    pub(crate) ops: Vec<Op<'a>>,
}

pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[cfg(feature = "full")]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte, which stays.
    #[cfg(feature = "full")]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn number(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    fn ttl(&mut self) -> Option<Ttl> {
        Some(match self.number()? {
            ms if ms.is_nan() => Ttl::Default,
            ms if ms >= EXPIRY_MAX as f64 => Ttl::Never,
            ms => Ttl::After(Duration::from_millis(ms as u64)),
        })
    }

    fn swap(&mut self, ttl: Ttl) -> Option<Op<'a>> {
        Some(Op::Swap { key: self.bytes()?, expected: self.optional()?, new: self.optional()?, ttl })
    }

    pub(crate) fn count(&mut self) -> Option<usize> {
        self.array().map(|count| u32::from_le_bytes(count) as usize)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.bytes().map(Some),
            _ => None,
        }
    }

    fn write(&mut self) -> Option<Write<'a>> {
        match self.byte()? {
            0 => Some((self.bytes()?, None)),
            1 => Some((self.bytes()?, Some(self.bytes()?))),
            _ => None,
        }
    }

    fn bound(&mut self) -> Option<Bound<&'a [u8]>> {
        Some(match self.byte()? {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.bytes()?),
            2 => Bound::Excluded(self.bytes()?),
            _ => return None,
        })
    }

    /// Reads a count and that many items. Each takes at least one byte, so memory is not allocated for a count that the message cannot
    /// hold.
    pub(crate) fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn op(&mut self) -> Option<Op<'a>> {
        let kind = self.byte()?;
        if kind != kind::AT && kind != kind::IN {
            return self.op_of(kind);
        }
        let number = self.number()?;
        let inner = self.byte()?;
        let may = match inner {
            kind::GET | kind::HAS | kind::GET_MANY | kind::PAGE | kind::RANGE => true,
            kind::EXPIRES_AT => kind == kind::AT,
            kind::DELETE | kind::WRITE_MANY_FOR => kind == kind::IN,
            #[cfg(feature = "full")]
            kind::EVENTS | kind::SAVEPOINT | kind::ROLLBACK_TO => kind == kind::IN,
            _ => false,
        };
        let op = Box::new(if may { self.op_of(inner)? } else { return None });
        Some(if kind == kind::AT { Op::At(number, op) } else { Op::In(number, op) })
    }

    fn op_of(&mut self, kind: u8) -> Option<Op<'a>> {
        Some(match kind {
            kind::GET => Op::Get(self.bytes()?),
            kind::HAS => Op::Has(self.bytes()?),
            kind::WRITE => Op::Write(self.write()?),
            kind::DELETE => Op::Delete(self.bytes()?),
            kind::WRITE_MANY => Op::WriteMany(self.many(Self::write)?),
            kind::WRITE_MANY_FOR => Op::WriteManyFor(self.many(|reader| Some((reader.write()?, reader.ttl()?)))?),
            kind::SWAP => self.swap(Ttl::Default)?,
            kind::SWAP_FOR => {
                let ttl = self.ttl()?;
                self.swap(ttl)?
            }
            kind::EXPIRES_AT => Op::ExpiresAt(self.bytes()?),
            kind::KEEP => Op::Keep(self.bytes()?),
            kind::GET_MANY => Op::GetMany(self.many(Self::bytes)?),
            kind::PAGE => {
                // A cursor is sent as a JavaScript number, which represents all of its bits exactly.
                let from = Cursor::from_bits(self.number()? as u64);
                Op::Page { from, values: self.byte()? == 1, prefix: self.bytes()? }
            }
            kind::RANGE => {
                let flags = self.byte()?;
                Op::Range(Range { values: flags & 1 != 0, reverse: flags & 2 != 0, bounds: (self.bound()?, self.bound()?) })
            }
            #[cfg(feature = "full")]
            kind::SAVEPOINT => Op::Savepoint(self.number()?),
            #[cfg(feature = "full")]
            kind::ROLLBACK_TO => Op::RollbackTo(self.number()?),
            kind::FLUSH => Op::Flush,
            #[cfg(feature = "full")]
            kind::EVENTS => Op::Events(self.bytes()?),
            kind::COMMIT => {
                let number = self.number()?;
                self.many(Self::bytes)?;
                Op::Commit(number)
            }
            kind::CHANGES => {
                let (number, flags) = (self.number()?, self.byte()?);
                let after = if flags & 2 != 0 { Some(Position::from_bytes(self.array()?)) } else { None };
                Op::Changes(Asked { number, after, appended: flags & 1 != 0, prefix: self.bytes()? })
            }
            _ => return None,
        })
    }
}

/// Decodes a request of `origin`; `None` if it is malformed.
pub(crate) fn decode(request: &[u8], origin: Option<([u8; 16], u64)>) -> Option<Request<'_>> {
    let mut reader = Reader(request);
    let flags = reader.byte()?;
    let mut ops = Vec::new();
    while !reader.0.is_empty() {
        ops.push(reader.op()?);
    }
    Some(Request { durable: flags & 1 != 0, origin, ops })
}

/// The result of one operation.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Failed(Failure),
    /// A write. The outcome is 1 if it found what it looked for, else 0.
    Written(u8),
    Value(Option<Vec<u8>>),
    Values {
        count: u32,
        values: Vec<u8>,
    },
    Page {
        /// Where the next page begins: a number that `Op::Page` takes; any number of at least 0 for `Op::Range`. Below 0 after the last
        /// record.
        next: f64,
        count: u32,
        records: Vec<u8>,
        /// The damaged records among them.
        damage: Vec<Damage>,
    },
    Flushed(u8),
    Changes(ChangesPage),
    /// What a call of event streams has come to.
    #[cfg(feature = "full")]
    Events(Vec<u8>),
}

/// Commits in their order.
#[derive(Clone, Debug)]
pub(crate) struct ChangesPage {
    pub(crate) is_at_end: bool,
    /// It does not go on where an earlier page has ended in this session: commits that have no position of their own come again.
    pub(crate) is_anew: bool,
    /// After the last of them.
    pub(crate) position: Position,
    pub(crate) count: u32,
    pub(crate) commits: Vec<u8>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    offset: u64,
    what: &'static str,
    pub(crate) key: Option<Vec<u8>>,
}

impl Damage {
    /// The damage that an error reports; other errors are returned as they are.
    pub(crate) fn of(error: Error) -> Result<Self, Error> {
        match error {
            Error::Corrupt { offset, what, .. } => Ok(Self { offset, what, key: error.damaged_key().map(<[u8]>::to_vec) }),
            error => Err(error),
        }
    }

    /// The same damage, with the key of its record.
    pub(crate) fn of_key(self, key: &[u8]) -> Self {
        Self { key: Some(key.to_vec()), ..self }
    }
}

/// Appends the length of the bytes, then the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends the value of a key, or that it has none.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.push(2),
        Some(value) => {
            out.push(3);
            put_bytes(out, value);
        }
    }
}

/// Appends where damage is and what it is.
pub(crate) fn put_damage(out: &mut Vec<u8>, damage: &Damage) {
    // A JavaScript number represents the offsets of any file exactly.
    out.extend_from_slice(&(damage.offset as f64).to_le_bytes());
    put_bytes(out, damage.what.as_bytes());
}

/// Marks a value that cannot be read; its key and the damage follow.
pub(crate) const DAMAGED: u8 = 7;

/// Encodes the answers of a request.
pub(crate) fn encode(answers: &[Answer]) -> Vec<u8> {
    let mut out = Vec::new();
    for answer in answers {
        match answer {
            Answer::Failed(failure) => {
                out.extend_from_slice(&[0, failure.code as u8]);
                put_bytes(&mut out, failure.message.as_bytes());
            }
            Answer::Written(outcome) => out.extend_from_slice(&[1, *outcome]),
            Answer::Value(value) => put_value(&mut out, value.as_deref()),
            Answer::Values { count, values } => {
                out.push(4);
                out.extend_from_slice(&count.to_le_bytes());
                out.extend_from_slice(values);
            }
            Answer::Page { next, count, records, damage } => {
                out.push(5);
                out.extend_from_slice(&next.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
                out.extend_from_slice(records);
                out.extend_from_slice(&(damage.len() as u32).to_le_bytes());
                for one in damage {
                    out.push(u8::from(one.key.is_some()));
                    one.key.iter().for_each(|key| put_bytes(&mut out, key));
                    put_damage(&mut out, one);
                }
            }
            #[cfg(feature = "full")]
            Answer::Events(answer) => put_value(&mut out, Some(answer)),
            Answer::Flushed(durability) => out.extend_from_slice(&[6, *durability]),
            Answer::Changes(page) => {
                out.extend_from_slice(&[8, u8::from(page.is_at_end) | u8::from(page.is_anew) << 1]);
                out.extend_from_slice(&page.position.to_bytes());
                out.extend_from_slice(&page.count.to_le_bytes());
                out.extend_from_slice(&page.commits);
            }
        }
    }
    out
}
