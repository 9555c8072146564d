//! How long a record lives.

use crate::clock::Now;
use crate::limits::EXPIRY_MAX;
use crate::planted::{Bug, is};
use alloc::vec::Vec;
use core::time::Duration;

/// How long a record lives. A record is gone from its expiry on: no read returns it, and no count has it.
///
/// ```
/// use pipkin::{Db, Ttl};
/// use std::time::Duration;
///
/// let db = Db::open_in_memory()?;
/// db.insert_with_ttl("session", "ada", Ttl::After(Duration::from_secs(3600)))?;
/// db.insert_with_ttl("code", "1234", Duration::from_secs(60))?; // the same, shorter
/// db.insert_with_ttl("coupon", "-10 %", Ttl::At(4_102_444_800_000))?; // until 2100
/// assert!(db.ttl("code")? <= Some(Duration::from_secs(60)));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ttl {
    /// As long as the namespace says, or else the store; for ever where neither says anything. See
    /// [`Namespace::set_default_ttl`](crate::Namespace::set_default_ttl) and [`Builder::default_ttl`](crate::Builder::default_ttl).
    #[default]
    Default,
    /// For ever.
    Never,
    /// Until this time, in milliseconds since 1970. One that has passed removes the key, as the expiry of what is written here would.
    /// Times from 2^48 - 1 on mean for ever.
    At(u64),
    /// From the write on, at least a millisecond. What reaches further than [`Self::At`] can is for ever.
    After(Duration),
}

impl From<Duration> for Ttl {
    fn from(after: Duration) -> Self {
        Self::After(after)
    }
}

/// Times before 1970 have passed.
#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Ttl {
    fn from(at: std::time::SystemTime) -> Self {
        let since = at.duration_since(std::time::UNIX_EPOCH);
        Self::At(since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Ttl {
    /// The expiry of a record that is written now; 0: never. `default` is a number of milliseconds, 0 for none.
    pub(crate) fn expiry(self, default: u64, now: &Now<'_>) -> u64 {
        let after = |ms: u64| now.get().saturating_add(ms.max(1));
        let expiry = match self {
            Self::Default if default == 0 => 0,
            Self::Default => after(default),
            Self::Never => 0,
            Self::At(time) => time.max(1),
            Self::After(duration) => after(millis(duration)),
        };
        if expiry >= EXPIRY_MAX { 0 } else { expiry }
    }
}

/// Whole milliseconds, at least one.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Kind of the option of a namespace that says how long its records live: milliseconds, in six bytes.
const OPTION_DEFAULT: u8 = 1;
/// Kind of the option of a namespace whose record has changed while it kept its number: that number, in four bytes.
const OPTION_KEPT: u8 = 2;

/// The options of a namespace one by one: kind (1), length (1), bytes. What follows a malformed one is of a later version, and no option.
pub(crate) fn each_option(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    core::iter::from_fn(move || {
        let (&[kind, len], rest) = options.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(len.into())?;
        options = rest;
        Some((kind, bytes))
    })
}

/// The value of an option; `None` without it.
#[cfg(any(feature = "compress", feature = "ordered"))]
pub(crate) fn option(options: &[u8], kind: u8) -> Option<&[u8]> {
    each_option(options).find(|(other, _)| *other == kind).map(|(_, value)| value)
}

/// How long records live according to the options of their namespace, in milliseconds; 0 where these do not say.
pub(crate) fn default_of(options: &[u8]) -> u64 {
    let found = each_option(options).find(|(kind, _)| *kind == OPTION_DEFAULT && !is(Bug::DefaultTtlForgotten));
    match found {
        Some((_, &[a, b, c, d, e, f])) => u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
        _ => 0,
    }
}

/// The options with another such time; 0 takes it out. Other options stay as they are.
pub(crate) fn with_default(options: &[u8], ms: u64) -> Vec<u8> {
    let [a, b, c, d, e, f, ..] = ms.min(EXPIRY_MAX).to_le_bytes();
    let time = [a, b, c, d, e, f];
    with_option(options, OPTION_DEFAULT, if ms > 0 { &time } else { &[] })
}

/// The options of a namespace that has kept its number. Its record tells whoever follows the log that no record under it has ended.
pub(crate) fn with_kept_number(options: &[u8], number: u32) -> Vec<u8> {
    with_option(options, OPTION_KEPT, &number.to_le_bytes())
}

/// The options of a namespace that gets another number.
pub(crate) fn without_kept_number(options: &[u8]) -> Vec<u8> {
    with_option(options, OPTION_KEPT, &[])
}

/// True if the value of a namespace's record says that it had its number before, so that only its options have changed. Another number
/// there is that of a record that a build has copied from which does not know this option.
pub(crate) fn has_kept_number(value: &[u8]) -> bool {
    let Some((number, options)) = value.split_first_chunk::<4>() else { return false };
    each_option(options).any(|(kind, bytes)| kind == OPTION_KEPT && bytes == number) && !is(Bug::KeptNumberForgotten)
}

/// The options with another value of one kind, which goes behind the others; an empty one takes it out.
pub(crate) fn with_option(options: &[u8], changed: u8, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(options.len() + 2 + value.len());
    let mut known = 0;
    for (kind, bytes) in each_option(options) {
        known += 2 + bytes.len();
        if kind != changed {
            out.extend_from_slice(&[kind, bytes.len() as u8]);
            out.extend_from_slice(bytes);
        }
    }
    if !value.is_empty() {
        out.extend_from_slice(&[changed, value.len() as u8]);
        out.extend_from_slice(value);
    }
    out.extend_from_slice(options.get(known..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, HostClock, StoreClock};
    use alloc::sync::Arc;

    struct At(u64);

    impl Clock for At {
        fn now_ms(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn no_record_that_lives_for_some_time_is_born_expired() {
        for time in [0, 1, 1_000, EXPIRY_MAX - 2, EXPIRY_MAX - 1, EXPIRY_MAX, u64::MAX] {
            let clock = StoreClock::new(HostClock(Some(Arc::new(At(time)))), 0, true);
            for after in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(5), Duration::MAX] {
                let now = Now::new(&clock);
                let expiry = Ttl::After(after).expiry(0, &now);
                assert!(expiry == 0 || expiry > now.get() && expiry < EXPIRY_MAX, "{time} {after:?}");
            }
        }
    }

    #[test]
    fn the_default_of_a_namespace_leaves_its_other_options_alone() {
        let other = [9, 2, 7, 7];
        let with = with_default(&other, 60_000);
        assert_eq!((default_of(&other), default_of(&with)), (0, 60_000));
        assert_eq!(default_of(&with_default(&with, 5)), 5);
        assert_eq!(with_default(&with, 0), other);
        let malformed = [9, 1, 7, 200, 200, 1];
        assert_eq!(with_default(&malformed, 3), [&[9, 1, 7, 1, 6, 3, 0, 0, 0, 0, 0], &malformed[3..]].concat());
        assert_eq!((default_of(&malformed), default_of(&[1, 5, 0, 0, 0, 0, 0]), default_of(&[1])), (0, 0, 0));
    }

    #[test]
    fn a_record_says_that_its_number_is_kept_only_of_that_number() {
        let record = |number: u32, options: &[u8]| [&number.to_le_bytes(), options].concat();
        let options = with_kept_number(&with_default(&[], 60_000), 7);
        assert!(has_kept_number(&record(7, &options)) && has_kept_number(&record(7, &with_kept_number(&options, 7))));
        assert!(!has_kept_number(&record(8, &options)), "a build that does not know it has cleared the namespace");
        assert!(has_kept_number(&record(0, &with_kept_number(&[], 0))));
        assert!(!has_kept_number(&record(0, &[])) && !has_kept_number(&[7, 0, 0]));
        assert_eq!(default_of(&options), 60_000);
        assert_eq!(without_kept_number(&options), with_default(&[], 60_000));
    }

    #[test]
    fn defaults_count_only_where_nothing_else_is_said() {
        let clock = StoreClock::new(HostClock(Some(Arc::new(At(1_000)))), 0, true);
        let now = Now::new(&clock);
        assert_eq!(Ttl::Default.expiry(0, &now), 0);
        assert_eq!(Ttl::Default.expiry(50, &now), 1_050);
        assert_eq!(Ttl::Never.expiry(50, &now), 0);
        assert_eq!(Ttl::At(7).expiry(50, &now), 7);
        assert_eq!(Ttl::At(0).expiry(50, &now), 1, "0 means never in a frame's place");
        assert_eq!((Ttl::At(u64::MAX).expiry(50, &now), Ttl::After(Duration::MAX).expiry(50, &now)), (0, 0), "for ever");
    }
}
