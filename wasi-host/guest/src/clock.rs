//! The time of day, for records that expire.

use pipkin::Clock;
use wasip2::clocks::wall_clock;

/// The clock of the host.
pub(crate) struct WasiClock;

impl Clock for WasiClock {
    fn now_ms(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1000).saturating_add((now.nanoseconds / 1_000_000).into())
    }
}
