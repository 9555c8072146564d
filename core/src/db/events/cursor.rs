//! Cursors of subscriptions, as records of the log's own namespace.
//!
//! ```text
//! "c" NAME  number of the last event that was dealt with (8), token of the subscription that may move it (8)
//! ```

use super::Events;
use crate::error::{Error, Result};
use crate::planted::{Bug, dawdle, is};
use crate::ttl::Ttl;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest name of a cursor, in bytes.
const NAME_LEN_MAX: usize = 255;
const PREFIX: &[u8] = b"c";

/// The record of a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::db) struct Cursor {
    pub(in crate::db) number: u64,
    pub(in crate::db) token: u64,
}

impl Cursor {
    pub(in crate::db) fn decode(value: &[u8]) -> Option<Self> {
        let (number, rest) = value.split_first_chunk::<8>()?;
        Some(Self { number: u64::from_le_bytes(*number), token: u64::from_le_bytes(*rest.first_chunk()?) })
    }

    pub(in crate::db) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    pub(in crate::db) fn key(name: &str) -> Vec<u8> {
        [PREFIX, name.as_bytes()].concat()
    }
}

pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        return Err(Error::InvalidArgument("a cursor needs a name of 1 to 255 bytes"));
    }
    Ok(())
}

impl Events {
    /// The names of the cursors that the store keeps for this log, each with the number of the last event that was acknowledged, in order.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// orders.all().cursor("mailer")?;
    /// assert_eq!(orders.cursors()?, [("mailer".to_owned(), 0)]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn cursors(&self) -> Result<Vec<(String, u64)>> {
        let mut cursors = Vec::new();
        for record in self.space.iter() {
            let (key, value) = record?;
            let name = key.strip_prefix(PREFIX).and_then(|name| core::str::from_utf8(name).ok());
            if let (Some(name), Some(cursor)) = (name, Cursor::decode(&value)) {
                cursors.push((name.into(), cursor.number));
            }
        }
        cursors.sort_unstable();
        Ok(cursors)
    }

    /// Forgets a cursor; returns whether there was one. The subscription that uses it can acknowledge nothing any more.
    pub fn remove_cursor(&self, name: &str) -> Result<bool> {
        self.space.remove(Cursor::key(name))
    }

    /// Takes a cursor over: from here on only who has its token may move it.
    pub(super) fn take_cursor(&self, name: &str, begin: u64) -> Result<Cursor> {
        check_name(name)?;
        let store = &self.space.store;
        store.writable()?;
        // Whoever writes a cursor moves the end of the log, so no two get one token.
        let _one = store.acknowledging.lock();
        let token = store.engine.log.end();
        let key = Cursor::key(name);
        let early = if is(Bug::CursorTakenAsItWas) { Some(self.space.get(&key)?) } else { None };
        if early.is_some() {
            dawdle();
        }
        let mut cursor = Cursor { number: begin, token };
        // Read and written at once: the one that has it may move it until then.
        self.space.with_ttl(Ttl::Never).update(&key, |known| {
            let known = early.as_ref().map_or(known, |early| early.as_deref());
            cursor.number = known.and_then(Cursor::decode).map_or(begin, |known| known.number);
            Some(cursor.encode().to_vec())
        })?;
        Ok(cursor)
    }

    /// Moves a cursor.
    ///
    /// # Errors
    ///
    /// [`Error::CursorTaken`] when another subscription has taken it over, or it was removed.
    pub(super) fn move_cursor(&self, name: &str, to: Cursor) -> Result<()> {
        self.space.with_ttl(Ttl::Never).try_update(Cursor::key(name), |old| match old.and_then(Cursor::decode) {
            Some(known) if known.token == to.token || is(Bug::CursorTakenUnnoticed) => Ok(Some(to.encode().to_vec())),
            _ => Err(Error::CursorTaken),
        })?
    }
}
