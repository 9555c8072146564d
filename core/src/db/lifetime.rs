//! How long what is written lives, and whether what it replaces still does.

use super::commit::Target;
use crate::clock::Now;
use crate::error::{Error, Result};
use crate::frame::Until;
use crate::log::Placed;
use crate::names::Name;
use crate::store::Store;
use crate::ttl::Ttl;
use alloc::vec::Vec;

impl Store {
    /// The expiry of a record that is written now to a namespace; 0: never.
    #[inline]
    pub(super) fn expiry(&self, name: &Name, ttl: Ttl, now: &Now<'_>) -> Result<u64> {
        if matches!(ttl, Ttl::Default) && name.default_ttl() == 0 { Ok(0) } else { self.expiry_of(name, ttl, now) }
    }

    #[cold]
    fn expiry_of(&self, name: &Name, ttl: Ttl, now: &Now<'_>) -> Result<u64> {
        let clock = &self.engine.log.clock;
        if matches!(ttl, Ttl::Never) {
            return Ok(0);
        }
        if !clock.has_host() {
            return Err(Error::NoClock);
        }
        if !clock.in_use() {
            self.engine.log.begin_expiring()?;
            // From now on it looks from time to time.
            #[cfg(feature = "std")]
            self.background.wake();
        }
        Ok(ttl.expiry(name.default_ttl(), now))
    }

    /// True if the record there has expired. A damaged one has not.
    pub(super) fn is_gone(&self, record: Option<Placed>, now: &Now<'_>) -> Result<bool> {
        let Some(record) = record.filter(|_| self.engine.log.clock.in_use()) else { return Ok(false) };
        match self.engine.log.frame(record.offset) {
            Ok(frame) => Ok(frame.header.expires() && frame.check().is_ok() && self.engine.has_expired(&frame, now)),
            Err(Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The expiries of the records of a commit; none at all if no record expires.
    pub(super) fn expiries(&self, targets: &[Target<'_>], ttls: &[(usize, Ttl)], now: &Now<'_>) -> Result<Vec<(Until, u64)>> {
        if ttls.is_empty() && targets.iter().all(|target| target.op.name.default_ttl() == 0) {
            return Ok(Vec::new());
        }
        let mut said = ttls.iter().peekable();
        let expiry = |(index, target): (usize, &Target<'_>)| {
            let ttl = said.next_if(|(place, _)| *place == index).map_or(Ttl::Default, |(_, ttl)| *ttl);
            let expiry = if target.op.value.is_none() { 0 } else { self.expiry(target.op.name, ttl, now)? };
            Ok((Until::new(expiry), expiry))
        };
        targets.iter().enumerate().map(expiry).collect()
    }
}
