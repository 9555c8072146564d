//! Events in the commit of a batch.

use super::batch::Batch;
use super::events::{BatchAppends, Condition, Events, NewEvent, OwnAppend};
use crate::expected::Expected;
use alloc::borrow::Cow;

impl<'a> Batch<'a> {
    fn with_appends(mut self, change: impl FnOnce(&mut BatchAppends<'a>)) -> Self {
        change(self.appends.get_or_insert_default());
        self
    }

    /// Appends events in this commit, if the stream is as expected: records and events are both there, or neither.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// let batch = db.batch().insert("order-7", "placed");
    /// batch.append(&orders, "order-7", Expected::NoStream, [NewEvent::new("Placed", "3 apples")]).commit()?;
    /// assert_eq!((orders.version("order-7")?, db.len()?), (1, 1));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn append(
        self,
        to: &Events,
        stream: impl Into<Cow<'a, str>>,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Self {
        let append = OwnAppend { to: to.clone(), stream: stream.into(), expected, events: events.into_iter().collect() };
        self.with_appends(|appends| appends.appends.push(append))
    }

    /// Commits only if no event of the log matches the condition. Counts in a batch with events.
    pub fn only_if_none(self, of: &Events, condition: Condition) -> Self {
        self.with_appends(|appends| appends.conditions.push((of.clone(), condition)))
    }
}
