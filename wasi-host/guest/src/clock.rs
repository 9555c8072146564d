//! The time of day, for records that expire.

use pipkin::Clock;
use wasip2::clocks::wall_clock;

/// The clock of the host.
pub(crate) struct WasiClock;

impl WasiClock {
    /// None where the host answers with the first second of 1970: it has no clock, or gives this component none. Records that live for an
    /// hour by such a one would be gone at once under any other.
    pub(crate) fn of_the_host() -> Option<Self> {
        (wall_clock::now().seconds != 0).then_some(Self)
    }
}

impl Clock for WasiClock {
    fn now_ms(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1000).saturating_add((now.nanoseconds / 1_000_000).into())
    }
}
