//! All records of a namespace as a transaction sees it, in pages that hold nothing between two of them. Records of the snapshot and own writes
//! come in one order, that of their hashes: so whatever is written between two pages, a record has one place in the walk.

use super::TransactionNamespace;
use super::writes::Write;
use crate::cursor::Cursor;
use crate::db::page::place;
use crate::db::snapshot_walks::Met;
use crate::error::{Error, Result};
use crate::index::{KeyHash, SHARDS};
use crate::log::Frame;
use crate::sorted::sort_by_key;
use alloc::vec::{self, Vec};
use core::iter::Peekable;

impl TransactionNamespace<'_> {
    /// Hands records to `each` until it returns `false`; returns where to continue, or `None` once there are no more. See
    /// [`Namespace::page`](crate::Namespace::page): the same order, and the same errors. All of the namespace counts as read, and each page sees what
    /// the transaction has written by then.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many((0..100_u8).map(|n| ([n], "value")))?;
    /// let mut tx = db.begin()?;
    /// tx.insert([100], "its own")?;
    /// let (mut seen, mut cursor) = (0, Some(pipkin::Cursor::default()));
    /// while let Some(from) = cursor {
    ///     let full = seen + 10;
    ///     cursor = tx.namespace(&db)?.page(from, |_, _| { seen += 1; seen < full })?;
    /// }
    /// assert_eq!(seen, 101);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn page(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        let mut page = Page { own: self.own_from(from), each: &mut each, full_at: None, refused: None, has_met_damage: false };
        let Some(number) = self.number else {
            page.own_before(END);
            return Ok(page.next(None));
        };
        let transaction = self.transaction;
        transaction.reads.lock().set.whole(number);
        let engine = transaction.taken.engine();
        let found = engine.page_at(&transaction.taken.moment, number, from, &mut |met| {
            let frame = match met {
                Met::Record(frame) => frame,
                Met::Damage(at) => {
                    page.has_met_damage = true;
                    return page.stored(at, None);
                }
            };
            let at = place_of(engine.full_key(number, frame.key()).hash);
            let is_own = self.own.is_some_and(|own| own.contains_key(frame.key()));
            let frame = if is_own { None } else { Some(transaction.met(frame)) };
            page.stored(at, frame)
        });
        match transaction.seen(found) {
            Ok(next) => {
                if next.is_none() {
                    page.own_before(END);
                }
                Ok(page.next(next))
            }
            Err(error) => page.damaged(error),
        }
    }

    /// What the transaction has written, from a place on, in the order of the places.
    fn own_from(&self, from: Cursor) -> OwnWrites<'_> {
        let engine = self.transaction.taken.engine();
        // Without a number nothing is stored: any hash will do that is the same each time.
        let number = self.number.unwrap_or_default();
        let all = self.own.into_iter().flatten();
        let places = all.map(|(key, write)| (place_of(engine.full_key(number, key).hash), key.as_slice(), write));
        let mut own: Vec<OwnWrite<'_>> = places.filter(|(at, ..)| *at >= from).collect();
        sort_by_key(&mut own, |(at, ..)| at.to_bits());
        own.into_iter().peekable()
    }
}

/// Behind every record.
const END: Cursor = Cursor { shard: SHARDS as u32, tag: 0 };

fn place_of(hash: KeyHash) -> Cursor {
    place(hash.shard(), hash.tag())
}

type OwnWrite<'a> = (Cursor, &'a [u8], &'a Write);
type OwnWrites<'a> = Peekable<vec::IntoIter<OwnWrite<'a>>>;

/// A page that is being handed out. Records of one place come in one page: a cursor cannot tell them apart.
struct Page<'a, 'e> {
    own: OwnWrites<'a>,
    each: &'e mut dyn FnMut(&[u8], &[u8]) -> bool,
    /// Where `each` has said that it has enough.
    full_at: Option<Cursor>,
    /// The first stored record that has to wait for the next page.
    refused: Option<Cursor>,
    /// A stored record could not be read.
    has_met_damage: bool,
}

impl Page<'_, '_> {
    fn has_room_at(&self, at: Cursor) -> bool {
        self.full_at.is_none_or(|full| full == at)
    }

    fn hand_out(&mut self, at: Cursor, key: &[u8], value: &[u8]) {
        if !(self.each)(key, value) {
            self.full_at = Some(at);
        }
    }

    /// Hands out own writes that come before a place. Returns whether that was all of them.
    fn own_before(&mut self, end: Cursor) -> bool {
        while let Some(&(at, key, write)) = self.own.peek().filter(|(at, ..)| *at < end) {
            if !self.has_room_at(at) {
                return false;
            }
            self.own.next();
            if let Some(value) = &write.value {
                self.hand_out(at, key, value);
            }
        }
        true
    }

    /// Hands out what comes before a stored record or has its place, then the record, unless the transaction has written its key. Returns whether
    /// there is room for more.
    fn stored(&mut self, at: Cursor, frame: Option<Frame<'_>>) -> bool {
        let behind = Cursor { tag: at.tag + 1, ..at };
        if !self.own_before(behind) || !self.has_room_at(at) {
            self.refused = self.refused.or(Some(at));
            return false;
        }
        if let Some(frame) = frame {
            self.hand_out(at, frame.key(), frame.value());
        }
        self.full_at.is_none()
    }

    /// Where the next page begins, if `stored` is where the next stored record may be.
    fn next(&mut self, stored: Option<Cursor>) -> Option<Cursor> {
        let own = self.own.peek().map(|(at, ..)| *at);
        [self.refused, stored, own].into_iter().flatten().min()
    }

    /// Reports damage, unless something before it has to wait for the next page, which then meets it again.
    fn damaged(mut self, error: Error) -> Result<Option<Cursor>> {
        if !matches!(error, Error::Corrupt { .. }) {
            return Err(error);
        }
        // Without a record that it is of, nobody knows where in a shard the damage is: everything in front of the next one comes first.
        let has_own = !self.has_met_damage && !self.own_before(error.next_page().unwrap_or(END));
        if has_own || self.refused.is_some() {
            return Ok(self.next(None));
        }
        // Own writes between the damaged record and the next stored one come with the next page.
        let next = self.next(error.next_page());
        Err(error.with_next_page(next))
    }
}
