//! For tests of programs that use pipkin.

use crate::clock::Clock;
use crate::limits::EXPIRY_MAX;
#[cfg(feature = "io-uring")]
use crate::sync::AtomicBool;
#[cfg(feature = "encrypt")]
use crate::sync::Mutex;
use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;
#[cfg(feature = "encrypt")]
use alloc::vec::Vec;
use core::time::Duration;

/// A clock that goes when it is told to. Its clones are the same clock.
///
/// ```
/// use pipkin::testing::TestClock;
/// use std::time::Duration;
///
/// let clock = TestClock::new(1_000_000);
/// let db = pipkin::Db::builder().clock(clock.clone()).in_memory()?;
/// db.insert_with_ttl("session", "ada", Duration::from_secs(60))?;
/// clock.advance(Duration::from_secs(59));
/// assert!(db.contains_key("session")?);
/// clock.advance(Duration::from_secs(1));
/// assert!(!db.contains_key("session")?);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    /// A clock that shows this time, in milliseconds since 1970.
    pub fn new(ms: u64) -> Self {
        Self(Arc::new(AtomicU64::new(ms)))
    }

    /// Sets the time, forward or back.
    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(EXPIRY_MAX);
        self.set(self.now_ms().saturating_add(ms));
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A name of a key of a sealed store, and a nonce that it was used with.
#[cfg(feature = "encrypt")]
pub type UsedNonce = ([u8; 16], [u8; 12]);

#[cfg(feature = "encrypt")]
static USED: Mutex<Option<Vec<UsedNonce>>> = Mutex::new(None);

/// Begins a new log of nonces; all stores of the process write to it.
#[cfg(feature = "encrypt")]
pub fn log_nonces() {
    *USED.lock() = Some(Vec::new());
}

/// What was used since [`log_nonces`], and ends the log.
#[cfg(feature = "encrypt")]
pub fn logged_nonces() -> Vec<UsedNonce> {
    USED.lock().take().unwrap_or_default()
}

#[cfg(feature = "encrypt")]
pub(crate) fn note_nonce(used: UsedNonce) {
    if let Some(all) = USED.lock().as_mut() {
        all.push(used);
    }
}

/// Whether [`ignore_system_cache`] holds.
#[cfg(feature = "io-uring")]
static CACHE_IGNORED: AtomicBool = AtomicBool::new(false);

/// From now on, stores of this process that read through io_uring look for nothing in the system's cache first: every read goes past it, also of
/// bytes that were written just now. Slow; in tests it makes the rings work where everything is in memory.
///
/// ```
/// pipkin::testing::ignore_system_cache(true);
/// ```
#[cfg(feature = "io-uring")]
pub fn ignore_system_cache(ignored: bool) {
    CACHE_IGNORED.store(ignored, Ordering::SeqCst);
}

#[cfg(all(feature = "io-uring", target_os = "linux"))]
pub(crate) fn is_system_cache_ignored() -> bool {
    CACHE_IGNORED.load(Ordering::Relaxed)
}
