//! Retention of events: removing those that their log need not keep.

use super::due::unless_full;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::{EVENTS_PREFIX, In, Kept, Place, Stored};
use crate::log::Published;
use crate::retention::Retention;
use crate::store::Store;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// Most events that are removed in one commit.
pub(crate) const REMOVED_TOGETHER: usize = 256;
/// Events that are looked at under one pin.
const TOGETHER: u64 = 1024;

/// Whether more events than there may be are removed to the last one, which needs counting, or once an eighth is too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exactly {
    Yes,
    Nearly,
}

impl Store {
    /// The logs of events that need not keep all.
    fn retaining(&self) -> Vec<(u32, Retention)> {
        let names = self.names.read();
        let logs = names.with_options(EVENTS_PREFIX).map(|(number, options)| (number, Retention::of(options)));
        logs.filter(|(_, retention)| !retention.is_none()).collect()
    }

    /// True if events of the store grow too old by themselves.
    #[cfg(feature = "std")]
    pub(crate) fn retains_events(&self) -> bool {
        !self.retaining().is_empty()
    }

    /// Removes the events that need not be kept, until a caller waits for the maintenance lock. The caller holds that lock.
    pub(super) fn retain_unasked(&self) -> Result<()> {
        for (number, retention) in self.retaining() {
            let some = || self.retain_some(self.engine.events_of(number), retention, Exactly::Nearly);
            while !self.is_closed() && !self.turn.is_wanted() {
                let mut removed = 0;
                unless_full(some().map(|some| removed = some))?;
                if removed == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes some of the events that need not be kept; returns how many: 0 when none are left.
    pub(crate) fn retain_some(&self, of: In, retention: Retention, exactly: Exactly) -> Result<u64> {
        let index = self.engine.events()?;
        let kept = index.kept(of.namespace);
        let limit = match retention.get_max_events() {
            Some(events) => self.engine.first_of_last(of, events, kept, exactly)?,
            None => 0,
        };
        let oldest = retention.oldest_ms(self.engine.log.clock.host_time());
        let (numbers, from) = self.engine.first_that_may_go(of, kept.from, |number, time| number < limit || time < oldest)?;
        let removed = self.engine.remove_events(of, &numbers)?;
        index.set_kept(of.namespace, |kept| kept.from = kept.from.max(from));
        self.events_removed.fetch_add(removed, Ordering::Relaxed);
        Ok(removed)
    }
}

impl Engine {
    /// The number of the first of the last `events` events of a log; 0 if it need not be known.
    fn first_of_last(&self, of: In, events: u64, kept: Kept, exactly: Exactly) -> Result<u64> {
        let index = self.events()?;
        let last = index.last();
        if kept.limit != 0 && exactly == Exactly::Nearly && last - kept.counted < events / 8 {
            return Ok(kept.limit);
        }
        let (mut left, mut next, mut limit) = (events, last, 0);
        'pins: while next > kept.from {
            let _pin = self.pins.pin();
            for _ in 0..TOGETHER {
                let Some(number) = index.next_back_from(next).filter(|&number| number > 0) else { break 'pins };
                next = number - 1;
                if Self::is_whole(of, index.by_number(&self.log, number))?.is_some() {
                    left -= 1;
                    if left == 0 {
                        limit = number;
                        break 'pins;
                    }
                }
            }
        }
        index.set_kept(of.namespace, |kept| (kept.limit, kept.counted) = (limit.max(1), last));
        Ok(limit)
    }

    /// The numbers of the first events of a log, of which `may_go` is true, by number and time, and that of the first one behind them.
    fn first_that_may_go(&self, of: In, from: u64, may_go: impl Fn(u64, u64) -> bool) -> Result<(Vec<u64>, u64)> {
        let index = self.events()?;
        let (mut next, last, mut numbers) = (from.max(1), index.last(), Vec::new());
        loop {
            let _pin = self.pins.pin();
            let (mut place, mut published) = (Place::new(), Published::default());
            for _ in 0..TOGETHER {
                let Some(number) = index.next_from(next).filter(|&number| number <= last) else { return Ok((numbers, next)) };
                next = number + 1;
                match Self::is_whole(of, index.next_number(&self.log, &mut published, &mut place, number))? {
                    Some(time) if may_go(number, time) => numbers.push(number),
                    Some(_) => return Ok((numbers, number)),
                    None => {}
                }
                if numbers.len() == REMOVED_TOGETHER {
                    return Ok((numbers, next));
                }
            }
        }
    }

    /// The time of an event, if it is one of the log, and more than a stub. One that is damaged stays, for salvage.
    fn is_whole(of: In, stored: Result<Option<Stored<'_>>>) -> Result<Option<u64>> {
        match stored {
            Ok(Some(stored)) if stored.namespace() == of.namespace && !stored.is_stub() => Ok(Some(stored.event()?.time)),
            Ok(_) | Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
