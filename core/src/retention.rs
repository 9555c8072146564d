//! How long a log of events keeps its events.

use crate::ttl::{each_option, millis, with_option};
use alloc::vec::Vec;
use core::time::Duration;

/// Kinds of the options of a namespace: the age in milliseconds, and the number, up to which events are kept; eight bytes each.
const OPTION_AGE: u8 = 5;
const OPTION_EVENTS: u8 = 6;

/// Which events a log keeps by itself; from [`Events::set_retention`](crate::Events::set_retention). Without a limit it keeps all.
///
/// ```
/// use pipkin::Retention;
/// use std::time::Duration;
///
/// let db = pipkin::Db::open_in_memory()?;
/// let log = db.events("visits")?;
/// log.set_retention(Retention::new().max_age(Duration::from_secs(30 * 86_400)).max_events(1_000_000))?;
/// assert_eq!(log.retention().get_max_events(), Some(1_000_000));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    age_ms: Option<u64>,
    events: Option<u64>,
}

impl Retention {
    /// No limit.
    pub const fn new() -> Self {
        Self { age_ms: None, events: None }
    }

    /// Events that are older than this may go. Their age is that of their [time](crate::NewEvent::time_ms); the first one that is younger keeps
    /// all behind it. In whole milliseconds, at least one.
    #[must_use]
    pub fn max_age(self, age: Duration) -> Self {
        Self { age_ms: Some(millis(age)), ..self }
    }

    /// Of more events than this, at least one, the oldest may go.
    #[must_use]
    pub fn max_events(self, events: u64) -> Self {
        Self { events: Some(events.max(1)), ..self }
    }

    /// The limit of age.
    pub fn get_max_age(&self) -> Option<Duration> {
        self.age_ms.map(Duration::from_millis)
    }

    /// The limit of number.
    pub const fn get_max_events(&self) -> Option<u64> {
        self.events
    }

    /// Events of an earlier time than this may go.
    pub(crate) fn oldest_ms(&self, now: u64) -> u64 {
        self.age_ms.map_or(0, |age| now.saturating_sub(age))
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.age_ms.is_none() && self.events.is_none()
    }

    /// What the options of a namespace say.
    pub(crate) fn of(options: &[u8]) -> Self {
        let limit = |wanted| {
            let (_, bytes) = each_option(options).find(|(kind, _)| *kind == wanted)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        Self { age_ms: limit(OPTION_AGE), events: limit(OPTION_EVENTS) }
    }

    /// The options with this retention in them. Other options stay as they are.
    pub(crate) fn put_into(&self, options: &[u8]) -> Vec<u8> {
        let bytes = |limit: Option<u64>| limit.map(u64::to_le_bytes);
        let with = |options: &[u8], kind, limit| with_option(options, kind, bytes(limit).as_ref().map_or(&[], |bytes| bytes));
        with(&with(options, OPTION_AGE, self.age_ms), OPTION_EVENTS, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_keep_a_retention_beside_others() {
        let retention = Retention::new().max_age(Duration::from_millis(7)).max_events(9);
        let options = retention.put_into(&[9, 1, 7]);
        assert_eq!((Retention::of(&options), Retention::of(&[9, 1, 7])), (retention, Retention::new()));
        assert_eq!(Retention::new().put_into(&options), [9, 1, 7]);
        assert_eq!(Retention::of(&[OPTION_AGE, 2, 1, 1]), Retention::new(), "malformed");
        assert_eq!((retention.oldest_ms(100), retention.oldest_ms(3), Retention::new().oldest_ms(100)), (93, 0, 0));
    }
}
