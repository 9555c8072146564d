//! Removing events: of each a stub stays, until nothing in front of it is left.

use super::Events;
use super::appends::check_text;
use crate::error::Result;
use crate::events::{Chain, Stub};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::Purpose;
use alloc::vec::Vec;

/// Most events that are removed in one commit.
const TOGETHER: usize = 256;

fn frame_of(stub: &Stub, continues: bool) -> FrameSpec<'_> {
    let meta = Meta::plain(stub.namespace);
    FrameSpec { kind: Kind::Stub, continues, meta, key: &stub.stream, value: &stub.value }
}

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
    /// Those of [`Namespace::remove`](crate::Namespace::remove): what was removed before stays removed. [`Error::Corrupt`](crate::Error::Corrupt) for a damaged event.
    pub fn truncate(&self, stream: &str, before: u64) -> Result<u64> {
        check_text("stream", stream)?;
        self.remove(self.numbers_below(stream, before)?)
    }

    /// Removes all events of a stream. Its version stays: the next event that is appended to it has the one behind the last.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let log = db.events("log")?;
    /// log.append("door", Expected::NoStream, [NewEvent::new("Opened", "")])?;
    /// assert_eq!(log.delete_stream("door")?, 1);
    /// assert_eq!(log.append("door", Expected::Version(1), [NewEvent::new("Closed", "")])?.version, 2);
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
        for numbers in numbers.chunks(TOGETHER) {
            removed += store.with_space(|| self.remove_together(numbers))?;
            store.after_write()?;
        }
        Ok(removed)
    }

    fn remove_together(&self, numbers: &[u64]) -> Result<u64> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _appending = index.lock();
        let _pin = engine.pins.pin();
        let mut stubs = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let stored = index.by_number(&engine.log, number)?;
            if let Some(stored) = stored.filter(|stored| stored.namespace() == of.namespace && !stored.is_stub()) {
                stubs.push(Stub::of(&stored)?);
            }
        }
        let last = stubs.len().saturating_sub(1);
        let frames: Vec<FrameSpec<'_>> = stubs.iter().enumerate().map(|(place, stub)| frame_of(stub, place != last)).collect();
        if frames.is_empty() {
            return Ok(0);
        }
        let mut placed = Vec::with_capacity(frames.len());
        engine.log.append(&frames, Purpose::MakeSpace, &mut placed)?;
        index.publish_stubs(&engine.log, &stubs, &placed);
        Ok(stubs.len() as u64)
    }
}
