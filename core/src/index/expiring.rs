//! The calendar of a locked shard: which of its records expire.

use super::calendar::Calendar;
use super::shard::{KNOWS_EXPIRING, ShardGuard};
use super::slot::Slot;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl ShardGuard<'_> {
    #[cold]
    pub(super) fn drop_stale(&mut self) {
        if let Some(mut calendar) = self.state.calendar.take() {
            calendar.drop_stale(|slot| self.may_have(slot));
            self.state.calendar = Some(calendar);
        }
    }

    /// Begins a calendar, unless there is one. Without this, it would look at each entry once before its time.
    pub(crate) fn begin_calendar(&mut self, now: u64) {
        self.state.calendar.get_or_insert_with(|| Box::new(Calendar::begun_at(now)));
    }

    /// The record of a slot expires then.
    pub(crate) fn expires(&mut self, slot: Slot, expiry: u64) {
        self.state.calendar.get_or_insert_default().add(slot, expiry);
    }

    /// Slots of records that may have expired at `now`, in order. The caller forgets them, or calls [`Self::expires`] again.
    pub(crate) fn take_due(&mut self, now: u64) -> Vec<Slot> {
        if !self.state.calendar.as_ref().is_some_and(|calendar| calendar.may_be_due(now)) {
            return Vec::new();
        }
        self.state.calendar.as_mut().map_or_else(Vec::new, |calendar| calendar.take_due(now))
    }

    /// True if the calendar has all records that expire.
    pub(crate) fn knows_expiring(&self) -> bool {
        self.marks(KNOWS_EXPIRING)
    }

    pub(crate) fn set_knows_expiring(&mut self) {
        self.set_mark(KNOWS_EXPIRING, true);
    }

    /// Forgets which records expire: they are looked for again.
    pub(crate) fn forget_expiring(&mut self) {
        if self.has_expiring() {
            self.state.calendar = None;
        }
        self.set_mark(KNOWS_EXPIRING, false);
    }

    /// True if the record of a slot may expire: the calendar has it, or does not have all that do.
    pub(crate) fn may_expire(&self, slot: Slot) -> bool {
        let calendar = || self.state.calendar.iter().flat_map(|calendar| calendar.entries());
        !self.knows_expiring() || calendar().any(|(_, slots)| slots.contains(&slot))
    }

    /// True if it has, or has had, a record that expires, as far as it knows.
    pub(crate) fn has_expiring(&self) -> bool {
        self.state.calendar.is_some()
    }

    /// Number of records that expire; where there are many, of some that were replaced lately, too.
    pub(crate) fn count_expiring(&mut self) -> u64 {
        if self.state.calendar.as_ref().is_some_and(|calendar| calendar.may_be_tidied()) {
            self.drop_stale();
        }
        self.state.calendar.as_ref().map_or(0, |calendar| calendar.len() as u64)
    }
}
