//! Events in the commit of a transaction, and the cursor of the subscription that has handed them out.

use super::Transaction;
use super::writes::Writes;
use crate::db::events::{Appends, Cursor, Events, NewEvent, OwnAppend, Subscription, check_event, planned};
use crate::error::{Error, Result};
use crate::expected::Expected;
use crate::planted::{Bug, is};
use crate::ttl::Ttl;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

impl Transaction {
    /// Appends events in this commit, if the stream is as expected at that time. This transaction does not see them.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// db.transaction(|tx| {
    ///     let count = tx.get("orders")?.map_or(0, |count| count[0]);
    ///     tx.insert("orders", [count + 1])?;
    ///     tx.append(&orders, format!("order-{count}"), Expected::NoStream, [NewEvent::new("Placed", "3 apples")])
    /// })?;
    /// assert_eq!((orders.version("order-0")?, db.len()?), (1, 1));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a log of another store, and as for [`Events::append`]; the commit answers
    /// [`Error::AppendRefused`](crate::Error::AppendRefused).
    pub fn append<'a>(
        &mut self,
        to: &Events,
        stream: impl Into<String>,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Result<()> {
        let events: Vec<NewEvent<'static>> = events.into_iter().map(NewEvent::into_owned).collect();
        events.iter().try_for_each(check_event)?;
        to.space.name_in(&self.home.store)?;
        self.home.store.writable()?;
        self.writes.push_append(OwnAppend { to: to.clone(), stream: Cow::Owned(stream.into()), expected, events });
        Ok(())
    }

    /// Moves the cursor of a subscription in this commit: what the event has led to and the note that it was dealt with are both there, or neither.
    ///
    /// # Errors
    ///
    /// Those of [`Subscription::ack`].
    pub fn ack(&mut self, subscription: &Subscription, number: u64) -> Result<()> {
        if is(Bug::AckOnItsOwn) {
            return subscription.ack(number);
        }
        let (name, token) = subscription.may_ack(number)?;
        let (space, key) = (&subscription.events.space, Cursor::key(name));
        match self.get_in(space, &key)?.as_deref().and_then(Cursor::decode) {
            Some(known) if known.token == token => {
                self.insert_in_with_ttl(space, &key, Cursor { number, token }.encode(), Ttl::Never)
            }
            _ => Err(Error::CursorTaken),
        }
    }
}

impl Writes {
    pub(super) fn planned(&self) -> Result<Appends<'_>> {
        planned(self.appends())
    }
}
