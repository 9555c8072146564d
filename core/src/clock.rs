//! The clock of a store: the host's, but never behind the latest expiry that was acted on.

use crate::limits::EXPIRY_MAX;
use crate::planted::{Bug, is};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use alloc::sync::Arc;
use core::cell::Cell;
use core::fmt;

/// A clock that goes forward by more than this between two looks at it is reported, in milliseconds.
const JUMP: u64 = 24 * 60 * 60 * 1000;

/// The time of day, for records that expire. Where the standard library has a clock, a store uses that one; elsewhere, and in tests,
/// [`Builder::clock`](crate::Builder::clock) gives it one.
///
/// ```
/// use pipkin::{Clock, Db};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static NOW: AtomicU64 = AtomicU64::new(1_000_000);
/// struct Ticks;
///
/// impl Clock for Ticks {
///     fn now_ms(&self) -> u64 {
///         NOW.load(Ordering::Relaxed) // a timer's interrupt counts it, say
///     }
/// }
///
/// let db = Db::builder().clock(Ticks).in_memory()?;
/// db.insert_with_ttl("session", "ada", std::time::Duration::from_secs(60))?;
/// assert_eq!(db.expires_at("session")?, Some(1_060_000));
/// # Ok::<(), pipkin::Error>(())
/// ```
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. It should not go backwards; a store that sees that keeps what has expired expired. Called with locks of the
    /// store held: it must make no call on the store.
    fn now_ms(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_ms(&self) -> u64 {
        (**self).now_ms()
    }
}

/// The clock of the standard library.
#[cfg(all(feature = "std", not(all(target_family = "wasm", target_os = "unknown"))))]
struct SystemClock;

#[cfg(all(feature = "std", not(all(target_family = "wasm", target_os = "unknown"))))]
impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The clock that a store uses if it is given none.
fn default_clock() -> Option<Arc<dyn Clock>> {
    #[cfg(all(feature = "std", not(all(target_family = "wasm", target_os = "unknown"))))]
    return Some(Arc::new(SystemClock));
    #[cfg(not(all(feature = "std", not(all(target_family = "wasm", target_os = "unknown")))))]
    None
}

/// The clock that the builder was given.
#[derive(Clone, Default)]
pub(crate) struct HostClock(pub(crate) Option<Arc<dyn Clock>>);

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "HostClock(given)" } else { "HostClock(default)" })
    }
}

/// The clock of one open store.
pub(crate) struct StoreClock {
    host: Option<Arc<dyn Clock>>,
    /// The latest expiry that an answer, a sweep or a compaction acted on: the time is never before it.
    floor: AtomicU64,
    /// The store has, or has had, a record that expires.
    in_use: AtomicBool,
    /// It had when it was opened.
    found_in_use: AtomicBool,
    /// The host's time when it was last read, and the most by which it went forward between two looks, if that is a jump.
    seen: AtomicU64,
    jumped: AtomicU64,
}

impl StoreClock {
    pub(crate) fn new(host: HostClock, floor: u64, in_use: bool) -> Self {
        Self {
            host: host.0.or_else(default_clock),
            floor: AtomicU64::new(clamp(floor)),
            in_use: AtomicBool::new(in_use),
            found_in_use: AtomicBool::new(in_use),
            seen: AtomicU64::new(0),
            jumped: AtomicU64::new(0),
        }
    }

    /// True if the store may hold records that expire: the only question of a store without any.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// True if it may have held some when it was opened.
    pub(crate) fn was_in_use(&self) -> bool {
        self.found_in_use.load(Ordering::Acquire)
    }

    /// Opening has met a record that expires.
    #[cold]
    pub(crate) fn found_expiring(&self) {
        self.in_use.store(true, Ordering::Release);
        self.found_in_use.store(true, Ordering::Release);
    }

    /// The first record that expires is about to be written.
    pub(crate) fn begin(&self) {
        self.in_use.store(true, Ordering::Release);
    }

    pub(crate) const fn has_host(&self) -> bool {
        self.host.is_some()
    }

    /// The host's time, or 0 without a clock; not a look that counts for jumps.
    pub(crate) fn host_time(&self) -> u64 {
        self.host.as_ref().map_or(0, |host| clamp(host.now_ms()))
    }

    /// The host's time.
    pub(crate) fn host_now(&self) -> u64 {
        let Some(host) = &self.host else { return 0 };
        let now = clamp(host.now_ms());
        let seen = self.seen.swap(now, Ordering::Relaxed);
        if seen != 0 && now > seen.saturating_add(JUMP) {
            self.jumped.fetch_max(now - seen, Ordering::Relaxed);
        }
        if is(Bug::FloorIsTimeSeen) {
            self.raise(now);
        }
        now
    }

    /// The time.
    pub(crate) fn now(&self) -> u64 {
        self.host_now().max(self.floor())
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// An expiry was acted on. True if that raised the floor.
    pub(crate) fn raise(&self, expiry: u64) -> bool {
        let expiry = clamp(expiry);
        self.floor.fetch_max(expiry, Ordering::AcqRel) < expiry
    }

    /// Forgets what was acted on after `time`.
    pub(crate) fn lower(&self, time: u64) {
        self.floor.store(time, Ordering::Release);
        self.jumped.store(0, Ordering::Relaxed);
    }

    /// Milliseconds by which the host's clock is behind the floor, and those by which it has jumped forward; 0 for neither.
    pub(crate) fn state(&self) -> (u64, u64) {
        if !self.in_use() || self.host.is_none() {
            return (0, 0);
        }
        (self.floor().saturating_sub(self.host_now()), self.jumped.load(Ordering::Relaxed))
    }

    /// What the host's clock was ahead of the floor when the store was opened, if that is more than a day.
    pub(crate) fn ahead(&self) -> u64 {
        let floor = self.floor();
        if floor == 0 || self.host.is_none() {
            return 0;
        }
        Some(self.host_now().saturating_sub(floor)).filter(|&ahead| ahead > JUMP).unwrap_or(0)
    }
}

/// A record of the last millisecond never expires.
const fn clamp(time: u64) -> u64 {
    if time >= EXPIRY_MAX { EXPIRY_MAX - 1 } else { time }
}

/// The moment of one commit or one call: the clock is read once, and only if something needs it.
pub(crate) struct Now<'a> {
    clock: &'a StoreClock,
    read: Cell<Option<u64>>,
}

impl<'a> Now<'a> {
    pub(crate) const fn new(clock: &'a StoreClock) -> Self {
        Self { clock, read: Cell::new(None) }
    }

    pub(crate) fn get(&self) -> u64 {
        let now = self.read.get().unwrap_or_else(|| self.clock.now());
        self.read.set(Some(now));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(AtomicU64);

    impl Clock for At {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_time_is_never_before_what_was_acted_on() {
        let host = Arc::new(At(AtomicU64::new(1000)));
        let clock = StoreClock::new(HostClock(Some(host.clone())), 500, true);
        assert_eq!(clock.now(), 1000);
        assert!(clock.raise(900) && !clock.raise(800));
        host.0.store(10, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.state()), (900, (890, 0)));
        host.0.store(10 + 2 * JUMP, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.state()), (10 + 2 * JUMP, (0, 2 * JUMP)));
        // One wrong reading is not kept.
        host.0.store(2000, Ordering::Relaxed);
        assert_eq!(clock.now(), 2000);
    }

    #[test]
    fn a_moment_reads_the_clock_once() {
        let host = Arc::new(At(AtomicU64::new(1000)));
        let clock = StoreClock::new(HostClock(Some(host.clone())), 0, true);
        let now = Now::new(&clock);
        assert_eq!(now.get(), 1000);
        host.0.store(2000, Ordering::Relaxed);
        assert_eq!((now.get(), clock.now()), (1000, 2000));
    }

    #[test]
    fn no_time_reaches_the_last_millisecond() {
        let host = Arc::new(At(AtomicU64::new(u64::MAX)));
        let clock = StoreClock::new(HostClock(Some(host)), u64::MAX, true);
        assert_eq!((clock.now(), clock.floor()), (EXPIRY_MAX - 1, EXPIRY_MAX - 1));
    }
}
