//! What a store has to offer to be measured.
//!
//! Phases are generic over [`Engine`], so every call is compiled for its engine and nothing stands between the clock and the store. A
//! failure of any call ends the measurement of that engine; it may leave the store in any state.

use crate::Result;
use crate::data::{Key, Pair};
use std::path::Path;

/// What is known of an engine without running it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) name: &'static str,
    /// The package in `Cargo.lock` whose version is reported.
    pub(crate) package: Option<&'static str>,
    /// How it is set up and why, for the report.
    pub(crate) tuning: &'static str,
    /// Compared with pipkin as a peer; the row of limits and pipkin itself are not.
    pub(crate) peer: bool,
    /// What people use instead of a store: shown, but not a peer in the ratios.
    pub(crate) alternative: bool,
    /// Key-value pairs, or only events in their order.
    pub(crate) pairs: bool,
    /// Whether events can be in several streams, and among records.
    pub(crate) streams: bool,
    /// Whether keys can be read in order.
    pub(crate) ordered: bool,
    /// Whether order is an option that other reads and writes do without.
    pub(crate) order_optional: bool,
    /// Whether [`Engine::compact`] does anything.
    pub(crate) compacts: bool,
    /// Whether [`Engine::compact_beside`] does anything.
    pub(crate) compacts_beside: bool,
    /// A server of its own: figures about the measuring process say nothing of it.
    pub(crate) served: bool,
    /// What becomes of [`Engine::put`] when the process is killed right after it.
    pub(crate) unflushed: Unflushed,
    /// What its durable writes lack, where they are not. Such figures are shown, but count for nothing.
    pub(crate) sync_gap: Option<&'static str>,
    /// The longest value that it takes.
    pub(crate) value_max: usize,
    /// More records than this take too long; what it does with these is scaled up and marked.
    pub(crate) records_max: usize,
    /// More single unflushed puts than this take too long.
    pub(crate) unflushed_max: usize,
}

impl Facts {
    /// Not a store, but what the machine could do.
    pub(crate) fn is_limits(&self) -> bool {
        !self.peer && self.package.is_none()
    }

    /// An ordered store of key-value pairs whose unflushed puts survive a kill: what most are.
    pub(crate) const fn peer(name: &'static str, package: &'static str, tuning: &'static str) -> Self {
        Self {
            name,
            package: Some(package),
            tuning,
            peer: true,
            alternative: false,
            pairs: true,
            streams: true,
            ordered: true,
            order_optional: false,
            compacts: true,
            compacts_beside: false,
            served: false,
            unflushed: Unflushed::Kept(""),
            sync_gap: None,
            value_max: usize::MAX,
            records_max: usize::MAX,
            unflushed_max: usize::MAX,
        }
    }
}

/// What becomes of a write without flush when its process is killed.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "which of them are used depends on the engines that were built in")]
pub(crate) enum Unflushed {
    /// It is there after a reopen; says where it was.
    Kept(&'static str),
    /// It may be gone; says why. Such a figure is shown, but counts for nothing.
    Lost(&'static str),
}

/// How to open a store.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "which of them are used depends on the engines that were built in")]
pub(crate) struct OpenOptions {
    /// Keys will be read in order: engines that need an index for that keep one.
    pub(crate) ordered: bool,
    /// Values are held against their checksums on the way out, where the engine leaves the choice.
    pub(crate) verify: bool,
    /// Bytes for caches of the engine's own. Less than [`CACHE_DEFAULT`] where the data are larger than the memory.
    pub(crate) cache: u64,
    /// About how many bytes of keys and values will come, for engines that must know beforehand.
    pub(crate) expected: u64,
}

/// More than all the data of a default run: every engine may keep everything in memory.
const CACHE_DEFAULT: u64 = 2 << 30;

impl OpenOptions {
    /// Whether the data are larger than the memory.
    #[allow(dead_code, reason = "which of them are used depends on the engines that were built in")]
    pub(crate) fn little_memory(&self) -> bool {
        self.cache < CACHE_DEFAULT
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { ordered: false, verify: true, cache: CACHE_DEFAULT, expected: 0 }
    }
}

/// An open store.
pub(crate) trait Engine: Sized + Send + Sync {
    const FACTS: Facts;

    type Reader<'a>: Reader
    where
        Self: 'a;

    /// Opens the store in `folder`, which exists; creates it if there is none.
    fn open(folder: &Path, options: &OpenOptions) -> Result<Self>;

    /// Fills an empty store, in whatever portions suit it. On the device when it returns. Records come in random order, one by one.
    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()>;

    /// One record as one commit, on the device when it returns. Called from several threads at once.
    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)?;
        self.flush()
    }

    /// All records as one commit, on the device when it returns.
    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()>;

    /// Called before and after a run of [`Self::put`], outside of the clock, for engines that sync by mode and not by call.
    fn sync_commits(&self, _sync: bool) -> Result<()> {
        Ok(())
    }

    /// One record as one commit that nobody waits for; [`Facts::unflushed`] says what it survives.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes the keys, in whatever portions suit the engine. On the device when it returns.
    fn remove(&self, keys: &[Key]) -> Result<()>;

    /// Makes everything durable that was written before.
    fn flush(&self) -> Result<()>;

    /// Exactly how many records there are.
    fn len(&self) -> Result<u64>;

    /// A view for many reads by one thread; it may be as old as this call.
    fn reader(&self) -> Result<Self::Reader<'_>>;

    /// One read that sees every write that has returned.
    fn get(&self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        self.reader()?.get(key, with)
    }

    /// Waits until work in the background is done; outside of every clock, so it is a gift to engines that have such work.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Gives the space of what is dead back.
    fn compact(self) -> Result<Self>;

    /// The same while others read and write; called only where [`Facts::compacts_beside`] says so.
    fn compact_beside(&self) -> Result<()> {
        Err("this engine has no compaction beside readers".into())
    }

    /// Memory of the index as the engine itself counts it.
    fn index_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes that the store takes on the device.
    fn size(&self, folder: &Path) -> Result<u64> {
        Ok(crate::process::size(folder)?.allocated)
    }

    /// Appends events as one commit, on the device when it returns; `first` have been appended before.
    fn append_events(&mut self, first: u64, events: &[Vec<u8>]) -> Result<()> {
        let keys: Vec<[u8; 8]> = (first..).take(events.len()).map(u64::to_be_bytes).collect();
        self.batch_durable(keys.iter().zip(events).map(|(key, event)| (key.as_slice(), event.as_slice())))
    }

    /// The event with this number, from 0, as one of its stream.
    fn get_event(&self, number: u64, found: impl FnOnce(&[u8])) -> Result<bool> {
        self.reader()?.get(&number.to_be_bytes(), found)
    }

    /// All events in the order in which they were appended; returns their number.
    fn each_event(&self, count: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        self.reader()?.range(&0u64.to_be_bytes(), count, |_, event| each(event))
    }

    /// Appends events to a stream as one commit, behind so many of it, on the device when it returns. Called only where [`Facts::streams`] says so.
    fn append_to(&mut self, stream: u64, behind: u64, events: &[Vec<u8>]) -> Result<()> {
        let keys: Vec<[u8; 24]> = (behind..).take(events.len()).map(|version| event_key(stream, version)).collect();
        self.batch_durable(keys.iter().zip(events).map(|(key, event)| (key.as_slice(), event.as_slice())))
    }

    /// The same for one event that nobody waits for, where it can be chosen, and records that are put behind it; an event store without records
    /// appends them to another stream.
    fn append_among(&mut self, stream: u64, behind: u64, event: &[u8], records: &[(Key, &[u8])]) -> Result<()> {
        self.put(&event_key(stream, behind), event)?;
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// All events of a stream, in their order; returns their number, which is at most `count`.
    fn each_of(&self, stream: u64, count: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        self.reader()?.range(&event_key(stream, 0), count, |_, event| each(event))
    }

    /// Closes the store as its users should.
    fn close(self) -> Result<()>;
}

/// The key of an event in a store of pairs: in front of those of all records.
fn event_key(stream: u64, version: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[8..16].copy_from_slice(&stream.to_be_bytes());
    key[16..].copy_from_slice(&version.to_be_bytes());
    key
}

/// Reads of one thread.
pub(crate) trait Reader {
    /// Hands the value over, without a copy where the engine can; false if there is none.
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool>;

    /// Hands over the values of all keys that are there, in any order, and returns their number.
    fn get_many(&mut self, keys: &[Key], mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        for key in keys {
            hits += usize::from(self.get(key, &mut each)?);
        }
        Ok(hits)
    }

    /// Hands over up to `count` records from `from` on, in the order of their keys, and returns their number. Called only where
    /// [`Facts::ordered`] says so.
    fn range(&mut self, _from: &[u8], _count: usize, _each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        Err("this engine has no order".into())
    }
}
