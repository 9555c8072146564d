//! Removing events: of each a stub stays, until nothing in front of it is left.

use super::Events;
use super::appends::check_text;
use crate::error::{Error, Result};
use crate::events::Chain;
use crate::maintenance::{Exactly, REMOVED_TOGETHER};
use crate::retention::Retention;
use alloc::vec::Vec;

impl Events {
    /// Removes the events of a stream whose versions are below `before`, the oldest ones first, in commits of up to 256. Returns how many there
    /// were. The others keep their versions, and the stream goes on behind them.
    ///
    /// Removed events are read no more, by stream, type, tag or number. In front of others that are not removed a stub of some 100 bytes stays of each, without
    /// payload and metadata; the rest is free space after the next compaction.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let log = db.events("log")?;
    /// log.append("door", Expected::Any, (0..10).map(|_| NewEvent::new("Opened", "")))?;
    /// assert_eq!(log.truncate("door", 9)?, 8);
    /// assert_eq!(log.stream("door").iter()?.next().unwrap()?.version(), 9);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::remove`](crate::Namespace::remove): what was removed before stays removed. [`Error::Corrupt`] for a damaged event.
    pub fn truncate(&self, stream: &str, before: u64) -> Result<u64> {
        check_text("stream", stream)?;
        self.remove(self.numbers_below(stream, before)?)
    }

    /// Removes all events of a stream. Its version stays: the next event that is appended to it has the one behind the last, unless the append
    /// asks for a stream that begins [anew](crate::Expected::Anew).
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let log = db.events("log")?;
    /// log.append("door", Expected::NoStream, [NewEvent::new("Opened", "")])?;
    /// assert_eq!(log.delete_stream("door")?, 1);
    /// assert_eq!(log.append("door", Expected::Version(1), [NewEvent::new("Closed", "")])?.version, 2);
    /// log.delete_stream("door")?;
    /// assert_eq!(log.append("door", Expected::Anew, [NewEvent::new("Hung", "")])?.version, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::truncate`].
    pub fn delete_stream(&self, stream: &str) -> Result<u64> {
        self.truncate(stream, u64::MAX)
    }

    /// Removes all but the last `count` events of a stream. Returns how many there were.
    ///
    /// # Errors
    ///
    /// Those of [`Self::truncate`].
    pub fn keep_last(&self, stream: &str, count: u64) -> Result<u64> {
        self.truncate(stream, (self.version(stream)? + 1).saturating_sub(count))
    }

    /// Removes the oldest events of the log, of all streams, up to the first one that is not older than this time, in milliseconds since 1970.
    /// Returns how many there were.
    ///
    /// # Errors
    ///
    /// Those of [`Self::truncate`].
    pub fn remove_before_ms(&self, time: u64) -> Result<u64> {
        let mut numbers = Vec::new();
        for event in self.all().iter()? {
            let event = event?;
            if event.time_ms() >= time {
                break;
            }
            numbers.push(event.number());
        }
        self.remove(numbers)
    }

    /// The numbers of the events of a stream below a version that are more than stubs, in rising order.
    fn numbers_below(&self, stream: &str, before: u64) -> Result<Vec<u64>> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        let chain = Chain::Stream(stream.as_bytes());
        let Some(newest) = index.newest(&engine.log, of.seed, of.namespace, chain)? else { return Ok(Vec::new()) };
        let last = newest.event()?.version.min(before.saturating_sub(1));
        let mut next = index.at_version(&engine.log, newest, last)?;
        let mut numbers = Vec::new();
        // They are removed from the oldest one on: what is in front of a stub is one, too.
        while let Some(stored) = next.filter(|stored| !stored.is_stub()) {
            numbers.push(stored.event()?.number);
            next = index.in_front(&engine.log, chain, &stored)?;
        }
        numbers.reverse();
        Ok(numbers)
    }

    fn remove(&self, numbers: Vec<u64>) -> Result<u64> {
        let store = &self.space.store;
        store.writable()?;
        let mut removed = 0;
        for numbers in numbers.chunks(REMOVED_TOGETHER) {
            removed += store.with_space(|| store.engine.remove_events(self.index()?.1, numbers))?;
            store.after_write()?;
        }
        Ok(removed)
    }

    /// Sets which events the log keeps by itself; the file keeps it. The others are removed from the oldest one on, by the maintenance that runs in
    /// the background or with writes, some time after they may go; of those that are too many, up to an eighth is left until then. [`Self::retain`] removes them at
    /// once. What was removed does not come back: a limit of age trusts the clock.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent, Retention};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let log = db.events("log")?;
    /// log.set_retention(Retention::new().max_events(3))?;
    /// log.append("door", Expected::Any, (0..10).map(|_| NewEvent::new("Opened", "")))?;
    /// assert_eq!(log.retain()?, 7);
    /// assert_eq!(log.stream("door").iter()?.next().unwrap()?.version(), 8);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoClock`] for a limit of age where the host has no clock; those of a write.
    pub fn set_retention(&self, retention: Retention) -> Result<()> {
        let store = &self.space.store;
        if retention.get_max_age().is_some() && !store.engine.log.clock.has_host() {
            return Err(Error::NoClock);
        }
        store.set_options(&self.space.name, &|options| retention.put_into(options))?;
        // The events were counted for another limit.
        store.engine.events.set_kept(self.index()?.1.namespace, |kept| kept.limit = 0);
        #[cfg(feature = "std")]
        store.background.wake();
        Ok(())
    }

    /// What [`Self::set_retention`] has set.
    pub fn retention(&self) -> Retention {
        Retention::of(self.space.store.names.read().options(&self.space.name.name))
    }

    /// Removes the events that the [retention](Self::set_retention) lets go; returns how many.
    ///
    /// # Errors
    ///
    /// Those of [`Self::truncate`].
    pub fn retain(&self) -> Result<u64> {
        let store = &self.space.store;
        store.writable()?;
        let of = self.index()?.1;
        let (retention, mut removed) = (self.retention(), 0);
        loop {
            let some = store.with_space(|| store.retain_some(of, retention, Exactly::Yes))?;
            if some == 0 {
                return Ok(removed);
            }
            removed += some;
            store.after_write()?;
        }
    }
}
