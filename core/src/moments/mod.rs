//! Moments: which snapshots of the store live, and what is kept for them. See `ARCHITECTURE.md`; the index as bytes in the file, which is
//! called a snapshot, too, is in `snapshot/`.
//!
//! A record counts at a moment if it was first written before it and not replaced or removed before it. Whoever replaces or removes a
//! record that a living moment needs leaves a note first: where the record is, and the log position that ended it.

mod notes;

pub(crate) use notes::{Note, Notes};

use crate::error::{Error, Result};
use crate::index::SHARDS;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use alloc::boxed::Box;
#[cfg(feature = "ordered")]
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "ordered")]
use core::ops::Bound;
use once_cell::race::OnceBox;

/// While so few things are kept, the end of a transaction drops none unless it was the last.
const FORGET_FROM: u64 = 64;

/// The moment that one snapshot shows: everything before a log position.
#[derive(Debug)]
pub(crate) struct Moment {
    /// Records from this log position on are later.
    pub(crate) position: u64,
    /// Its time: records with an expiry up to here are gone in it. 0: it shows no record that expires.
    pub(crate) now: u64,
    /// Given up to make space: what it shows is no longer complete.
    ended: AtomicBool,
    /// One bit for each shard in which no commit from before the moment is unpublished.
    settled: [AtomicU64; SHARDS / 64],
}

impl Moment {
    fn new(position: u64, now: u64) -> Self {
        Self { position, now, ended: AtomicBool::new(false), settled: Default::default() }
    }

    /// Called after reading: what was read is valid only if the moment had not ended by then.
    ///
    /// # Errors
    ///
    /// [`Error::SnapshotTooOld`] once it has been given up.
    #[inline]
    pub(crate) fn still_lives(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }

    pub(crate) fn is_settled(&self, shard: usize) -> bool {
        self.settled.get(shard / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (shard % 64) & 1 != 0)
    }

    pub(crate) fn set_settled(&self, shard: usize) {
        if let Some(word) = self.settled.get(shard / 64) {
            word.fetch_or(1 << (shard % 64), Ordering::AcqRel);
        }
    }
}

/// What is kept for the moments in one shard of the index.
#[derive(Debug, Default)]
pub(crate) struct ShardNotes {
    /// The counts of the shard are kept for all moments up to this position. Changed with the shard locked.
    counted: AtomicU64,
    notes: Mutex<Notes>,
}

impl ShardNotes {
    pub(crate) fn lock(&self) -> crate::sync::MutexGuard<'_, Notes> {
        self.notes.lock()
    }
}

/// Keys that were removed, each with the log position of the newest removal.
#[cfg(feature = "ordered")]
type Ghosts = BTreeMap<u32, BTreeMap<Box<[u8]>, u64>>;

/// The living moments of a store, and everything that is kept for them.
///
/// Lock order: the notes of a shard, then one of the lists of keys and numbers, then the list of moments, which is also locked with the tail
/// of the log held. No other lock is taken under any of them.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// Positions of the newest and the oldest living moment; 0 without one.
    newest: AtomicU64,
    oldest: AtomicU64,
    /// The earliest time of a living moment that shows records that expire; 0 without one.
    earliest: AtomicU64,
    /// Log position of the newest copy that compaction has made.
    copied: AtomicU64,
    /// The living moments, oldest first.
    living: Mutex<Vec<Arc<Moment>>>,
    shards: OnceBox<Box<[ShardNotes]>>,
    /// One bit for each shard of which something may be kept. Changed with the notes of the shard locked.
    used: [AtomicU64; SHARDS / 64],
    /// Notes, counts and keys that were kept since the last time when what no moment needs was dropped, and how many were left then.
    added: AtomicU64,
    left: AtomicU64,
    /// A moment has ended, and what only it needed is still kept.
    put_off: AtomicBool,
    /// A moment has ended since a write last looked for room: what it held can be freed.
    has_ended: AtomicBool,
    /// Removed keys that a moment may still show.
    #[cfg(feature = "ordered")]
    ghosts: Mutex<Ghosts>,
    /// The same for the names of namespaces.
    gone_names: Mutex<Vec<(Box<[u8]>, u64)>>,
    /// Numbers of cleared and dropped namespaces whose records are still in the index, with the log position of the change.
    unpurged: Mutex<Vec<(u32, u64)>>,
}

/// What the living moments cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MomentFigures {
    pub(crate) living: u64,
    /// Position of the oldest; 0 without one.
    pub(crate) oldest: u64,
    /// Bytes of memory.
    pub(crate) bytes: u64,
}

impl Moments {
    /// True when a moment lives: the only question of a write without one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.newest() != 0
    }

    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Position of the oldest living moment; 0 without one.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// The time up to which expired records may be forgotten, at `now`: no living moment shows them.
    pub(crate) fn forgotten_until(&self, now: u64) -> u64 {
        match self.earliest.load(Ordering::Acquire) {
            0 => now,
            earliest => now.min(earliest),
        }
    }

    /// Prepares for the first moment, so that [`Self::begin`] is short.
    pub(crate) fn prepare(&self) {
        self.shards.get_or_init(|| Box::new((0..SHARDS).map(|_| ShardNotes::default()).collect()));
    }

    /// Begins a moment at the end of the log, whose tail the caller holds: every later append sees it.
    pub(crate) fn begin(&self, end: u64, now: u64) -> Arc<Moment> {
        // No record is before position 1, and 0 means that no moment lives.
        let moment = Arc::new(Moment::new(end.max(1), now));
        let mut living = self.living.lock();
        living.push(moment.clone());
        self.publish(&living);
        moment
    }

    fn publish(&self, living: &[Arc<Moment>]) {
        let position = |moment: Option<&Arc<Moment>>| moment.map_or(0, |moment| moment.position);
        let times = living.iter().map(|moment| moment.now).filter(|&now| now != 0);
        self.earliest.store(times.min().unwrap_or(0), Ordering::Release);
        self.oldest.store(position(living.first()), Ordering::Release);
        self.newest.store(position(living.last()), Ordering::Release);
    }

    /// Ends a moment; false if it had ended before.
    pub(crate) fn end(&self, moment: &Arc<Moment>) -> bool {
        let mut living = self.living.lock();
        let place = living.iter().position(|other| Arc::ptr_eq(other, moment));
        place.is_some_and(|place| self.end_at(&mut living, place))
    }

    /// Ends the oldest moment to make space: its snapshot answers [`Error::SnapshotTooOld`] from now on. False if none lives.
    pub(crate) fn end_oldest(&self) -> bool {
        let mut living = self.living.lock();
        !living.is_empty() && self.end_at(&mut living, 0)
    }

    fn end_at(&self, living: &mut Vec<Arc<Moment>>, place: usize) -> bool {
        living.remove(place).ended.store(true, Ordering::Release);
        self.publish(living);
        self.has_ended.store(true, Ordering::Release);
        true
    }

    /// True when a moment has ended since the last call.
    pub(crate) fn take_ended(&self) -> bool {
        self.has_ended.swap(false, Ordering::AcqRel)
    }

    /// What is kept for the moments in a shard; `None` before the first moment.
    pub(crate) fn of_shard(&self, shard: usize) -> Option<&ShardNotes> {
        self.shards.get()?.get(shard)
    }

    pub(crate) fn all_shards(&self) -> &[ShardNotes] {
        self.shards.get().map(|shards| &**shards).unwrap_or_default()
    }

    /// True when a living moment is after `begin` and at most at `end`. Decides about notes while the caller holds those of the shard:
    /// then whoever ends a moment cleans up after it.
    pub(crate) fn needs(&self, begin: u64, end: u64) -> bool {
        let newest = self.newest();
        if newest <= begin || self.oldest() > end {
            return false;
        }
        newest <= end || needed(&self.positions(), begin, end)
    }

    /// Positions of the living moments, in order. Asked while what may be needed by them is locked: it was left after they had begun.
    pub(crate) fn positions(&self) -> Vec<u64> {
        let mut positions = Vec::new();
        self.positions_into(&mut positions);
        positions
    }

    /// [`Self::positions`] in the place of what the vector has.
    pub(crate) fn positions_into(&self, positions: &mut Vec<u64>) {
        positions.clear();
        positions.extend(self.living.lock().iter().map(|moment| moment.position));
    }

    /// Log position of the newest copy that compaction has made.
    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Acquire)
    }

    /// Compaction has made a copy at this log position.
    pub(crate) fn made_copy(&self, lsn: u64) {
        self.copied.fetch_max(lsn, Ordering::AcqRel);
    }

    /// Says that something may be kept of a shard from now on. The caller holds the notes of the shard, and asks only then whether a moment
    /// needs it: so whoever ends a moment meanwhile finds the shard.
    pub(crate) fn uses(&self, shard: usize) {
        if let Some(word) = self.used.get(shard / 64) {
            word.fetch_or(1 << (shard % 64), Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// Says that nothing is kept of a shard any more. The caller holds its notes.
    pub(crate) fn uses_no_more(&self, shard: usize) {
        if let Some(word) = self.used.get(shard / 64) {
            word.fetch_and(!(1 << (shard % 64)), Ordering::SeqCst);
        }
    }

    /// The shards of which something may be kept. Asked after a moment has ended.
    pub(crate) fn used_shards(&self) -> impl Iterator<Item = usize> {
        fence(Ordering::SeqCst);
        let words = self.used.iter().map(|word| word.load(Ordering::SeqCst)).enumerate();
        words.flat_map(|(index, word)| {
            let rest = core::iter::successors(Some(word), |&rest| Some(rest & rest.wrapping_sub(1)));
            rest.take_while(|&rest| rest != 0).map(move |rest| index * 64 + rest.trailing_zeros() as usize)
        })
    }

    /// Counts one thing that is kept.
    pub(crate) fn has_added(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// A moment has ended, and what only it needed stays for now.
    pub(crate) fn put_forgetting_off(&self) {
        self.put_off.store(true, Ordering::Release);
    }

    /// True when something may be kept that only moments needed which have ended.
    pub(crate) fn may_forget(&self) -> bool {
        self.put_off.load(Ordering::Acquire)
    }

    /// True when the end of a moment is to drop what no moment needs: nothing lives, or as much was added as there was, so that each thing is
    /// looked at once or twice, however many short moments there are. Asked after the end.
    pub(crate) fn must_forget(&self) -> bool {
        let added = self.added.load(Ordering::Relaxed);
        !self.any() || added >= self.left.load(Ordering::Relaxed).max(FORGET_FROM)
    }

    /// What no moment needs is about to be dropped.
    pub(crate) fn forgets(&self) {
        self.put_off.store(false, Ordering::Release);
        self.added.store(0, Ordering::Relaxed);
    }

    /// So many notes and counts are left.
    pub(crate) fn has_left(&self, count: usize) {
        self.left.store(count as u64, Ordering::Relaxed);
    }

    /// Keeps the counts of the locked shard of this number, which is about to be changed by the record at `end`, for the moments that have none yet.
    #[inline]
    pub(crate) fn keep_counts(&self, number: usize, shard: &ShardNotes, end: u64, counts: &[(u32, u64)]) {
        if shard.counted.load(Ordering::Relaxed) < self.newest() {
            self.keep_counts_now(number, shard, end, counts);
        }
    }

    #[cold]
    fn keep_counts_now(&self, number: usize, shard: &ShardNotes, end: u64, counts: &[(u32, u64)]) {
        let counted = shard.counted.load(Ordering::Relaxed);
        let mut notes = shard.lock();
        self.uses(number);
        let mut newest = counted;
        for position in self.positions().into_iter().filter(|&position| counted < position && position <= end) {
            notes.keep_counts(position, counts);
            self.has_added();
            newest = position;
        }
        shard.counted.store(newest, Ordering::Relaxed);
    }

    /// A key has been removed by the record at `end`, and a moment may show it.
    #[cfg(feature = "ordered")]
    pub(crate) fn add_ghost(&self, namespace: u32, key: &[u8], end: u64) {
        self.ghosts.lock().entry(namespace).or_default().insert(key.into(), end);
    }

    /// The first `most` removed keys between two bounds, or the last ones.
    #[cfg(feature = "ordered")]
    pub(crate) fn ghosts(
        &self,
        namespace: u32,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        last: bool,
        most: usize,
    ) -> Vec<Vec<u8>> {
        let ghosts = self.ghosts.lock();
        // A B-tree refuses bounds in the wrong order.
        let is_empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        let Some(keys) = ghosts.get(&namespace).filter(|_| !is_empty) else { return Vec::new() };
        let found = keys.range::<[u8], _>((from, to)).map(|(key, _)| key.to_vec());
        if last { found.rev().take(most).collect() } else { found.take(most).collect() }
    }

    /// A namespace has been dropped by the record at `end`.
    pub(crate) fn add_gone_name(&self, name: &[u8], end: u64) {
        self.gone_names.lock().push((name.into(), end));
    }

    /// Names of dropped namespaces that a moment may show.
    pub(crate) fn gone_names(&self) -> Vec<Vec<u8>> {
        self.gone_names.lock().iter().map(|(name, _)| name.to_vec()).collect()
    }

    /// Puts the purge of a namespace's number off if a living moment is at most at `end`.
    pub(crate) fn put_purge_off(&self, number: u32, end: u64) -> bool {
        let mut unpurged = self.unpurged.lock();
        let oldest = self.oldest();
        let is_needed = oldest != 0 && oldest <= end;
        if is_needed {
            unpurged.push((number, end));
        }
        is_needed
    }

    /// Numbers whose purge was put off and is due now. The caller purges them, or gives them back.
    pub(crate) fn take_purges(&self) -> Vec<(u32, u64)> {
        let mut unpurged = self.unpurged.lock();
        let oldest = self.oldest();
        let (waits, due) = unpurged.drain(..).partition(|&(_, end)| oldest != 0 && oldest <= end);
        *unpurged = waits;
        due
    }

    pub(crate) fn give_purge_back(&self, purge: (u32, u64)) {
        self.unpurged.lock().push(purge);
    }

    /// Numbers of cleared and dropped namespaces whose records are still in the index.
    pub(crate) fn unpurged(&self) -> Vec<u32> {
        self.unpurged.lock().iter().map(|&(number, _)| number).collect()
    }

    /// Drops the removed keys and names that no living moment needs.
    pub(crate) fn forget_keys(&self) {
        let is_needed = |oldest: u64, end: u64| oldest != 0 && oldest <= end;
        #[cfg(feature = "ordered")]
        {
            let mut ghosts = self.ghosts.lock();
            let oldest = self.oldest();
            ghosts.retain(|_, keys| {
                keys.retain(|_, end| is_needed(oldest, *end));
                !keys.is_empty()
            });
        }
        let mut names = self.gone_names.lock();
        let oldest = self.oldest();
        names.retain(|(_, end)| is_needed(oldest, *end));
        if names.is_empty() {
            *names = Vec::new();
        }
    }

    pub(crate) fn figures(&self) -> MomentFigures {
        let (living, oldest) = {
            let living = self.living.lock();
            (living.len() as u64, living.first().map_or(0, |moment| moment.position))
        };
        let notes: usize = self.all_shards().iter().map(|shard| shard.lock().bytes()).sum();
        #[cfg(feature = "ordered")]
        let ghosts: usize = {
            // Key, its place in the tree, and the position.
            let ghosts = self.ghosts.lock();
            ghosts.values().flat_map(BTreeMap::keys).map(|key| key.len() + 32).sum()
        };
        #[cfg(not(feature = "ordered"))]
        let ghosts = 0;
        let names: usize = self.gone_names.lock().iter().map(|(name, _)| name.len() + 24).sum();
        MomentFigures { living, oldest, bytes: (notes + ghosts + names) as u64 }
    }
}

/// True when one of the positions, which are in order, is after `begin` and at most at `end`.
pub(crate) fn needed(positions: &[u64], begin: u64, end: u64) -> bool {
    let after = positions.partition_point(|&position| position <= begin);
    positions.get(after).is_some_and(|&position| position <= end)
}
