//! What an append of events expects of the streams, and which of it was not so.

use alloc::string::String;
use core::fmt;

/// What an append expects of its stream.
///
/// ```
/// use pipkin::{Error, Expected, NewEvent};
///
/// let db = pipkin::Db::open_in_memory()?;
/// let orders = db.events("orders")?;
/// orders.append("order-7", Expected::NoStream, [NewEvent::new("Placed", "3 apples")])?;
/// orders.append("order-7", Expected::Version(1), [NewEvent::new("Paid", "")])?;
/// let late = orders.append("order-7", Expected::Version(1), [NewEvent::new("Cancelled", "")]);
/// assert!(matches!(late, Err(Error::AppendRefused { .. })));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// Anything.
    Any,
    /// The stream has no event.
    NoStream,
    /// The stream has at least one event.
    Exists,
    /// The newest event of the stream has this version: the first event of a stream has version 1, and there are no gaps. 0 is
    /// [`Self::NoStream`].
    Version(u64),
    /// No event of the stream is left: it never had one, or all were [removed](crate::Events::delete_stream). Its versions begin with 1 again;
    /// every other append goes on behind the last version that the stream has had.
    Anew,
}

impl Expected {
    /// True when a stream whose newest event has this version is as expected. `is_removed`: of that event only a stub is left.
    pub(crate) const fn is_met(self, version: u64, is_removed: bool) -> bool {
        match self {
            Self::Any => true,
            Self::NoStream => version == 0,
            Self::Exists => version > 0,
            Self::Version(expected) => version == expected,
            Self::Anew => version == 0 || is_removed,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::NoStream => f.write_str("no event"),
            Self::Exists => f.write_str("an event"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Anew => f.write_str("no event that is left"),
        }
    }
}

/// A check of an append that failed; in [`Error::AppendRefused`](crate::Error::AppendRefused).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailedCheck {
    /// A stream is not as expected.
    Version {
        /// The stream.
        stream: String,
        /// What was expected of it.
        expected: Expected,
        /// The version of its newest event; 0: it has none.
        current: u64,
    },
    /// An event matches a [`Condition`](crate::Condition).
    Condition {
        /// Which condition, counted from 0.
        index: usize,
        /// The number of such an event.
        number: u64,
    },
}

impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { stream, expected, current } => {
                write!(f, "the stream {stream:?} should have {expected}, and is at version {current}")
            }
            Self::Condition { index, number } => write!(f, "event {number} matches condition {index}"),
        }
    }
}
