//! Following a store that another process writes: opening it, and bringing it up to what has been appended since.

mod apply;

use self::apply::Held;
use super::handle::Db;
use super::open::open;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{SHARDS, ShardGuard};
use crate::log::{Contained, Front, Slots, Superblock, read_slots, read_superblocks};
use crate::planted::{Bug, is};
use crate::recover::{Advanced, Place, SnapshotState, advance, is_gone};
#[cfg(all(feature = "encrypt", feature = "followers"))]
use crate::storage::ReadOnly;
use crate::storage::{ByCopy, Storage};
use crate::store::{Attached, Following, FollowingState, Options, Store};
use crate::sync::Ordering;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Opening a store that is being written is tried again after each change that it meets, at most so often.
const OPENS_MAX: usize = 64;
/// Bytes of log that are read and applied in one piece, at most; of a store with smaller segments as many as one has.
const PIECE: u64 = 1024 * 1024;
/// While slots whose records cannot be read keep everybody else out, so many pieces are applied, or looked for in vain; then the whole store is read.
const PIECES_HELD_MAX: usize = 256;
/// A read that meets reused space is tried again after a refresh, at most so often.
pub(super) const READS_MAX: usize = 8;

impl Db {
    /// Brings a [follower](super::Builder::follow) up to what the writer has appended, in whole commits. Returns true if there was anything.
    /// Other threads read meanwhile.
    ///
    /// Reads answer from the state at the last refresh; a read that meets space which the writer has used again since refreshes by itself.
    /// The [position](Self::position) never falls.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let writer = pipkin::Db::open(&path)?;
    /// writer.insert("color", "green")?;
    /// let reader = pipkin::Db::builder().path(&path).follow(true).open()?; // usually in another process
    /// writer.insert("color", "red")?;
    /// assert_eq!(reader.get("color")?.as_deref(), Some(&b"green"[..]));
    /// assert!(reader.refresh()?);
    /// assert_eq!(reader.get("color")?.as_deref(), Some(&b"red"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Diverged`] when the file does not contain what this follower has shown, [`Error::Overtaken`] when the writer is so fast that
    /// the store could not be read as a whole, [`Error::Corrupt`], and errors of the storage. The follower keeps its state then.
    /// [`Error::InvalidArgument`] from a store that was not opened to follow. `WrongKey` once the writer of a sealed store has rotated its key: open it
    /// again, with the new one. `DisablingEncryption` while the writer makes the store plain, and `NotSealed` once it is: open it again then, without a key.
    #[cfg(feature = "followers")]
    pub fn refresh(&self) -> Result<bool> {
        self.store.refresh()
    }
}

/// What an attempt to read has met: without a change of it, another attempt meets the same, and it is damage.
#[derive(PartialEq, Eq)]
struct Met {
    words: String,
    slots: Option<Slots>,
    len: Option<u64>,
}

impl Met {
    fn now(storage: &ByCopy, what: &dyn fmt::Debug) -> Self {
        Self { words: alloc::format!("{what:?}"), slots: read_slots(storage).ok(), len: storage.len().ok() }
    }
}

/// Opens a store that another session may be writing, as it is now.
pub(super) fn open_up_to_date(storage: &ByCopy, options: Options, attached: &Attached) -> Result<Arc<Store>> {
    let store = open_following(storage, options, attached)?;
    store.refresh()?;
    Ok(store)
}

/// Opens a store that another session may be writing. A checkpoint that is written meanwhile may hide the end of the log.
fn open_following(storage: &ByCopy, options: Options, attached: &Attached) -> Result<Arc<Store>> {
    let mut before: Option<Met> = None;
    let mut last = Error::Overtaken;
    for _ in 0..OPENS_MAX {
        storage.refresh()?;
        let opened = open(Box::new(storage.clone()), options, attached.clone()).and_then(|store| {
            store.engine.build_all(&|| false)?;
            #[cfg(feature = "events")]
            store.engine.load_followed_events()?;
            Ok(store)
        });
        let is_damaged = |store: &Store| {
            #[cfg(feature = "events")]
            if store.engine.events.has_met_damage() {
                return true;
            }
            store.report.snapshot == SnapshotState::Damaged || store.report.unsure_at.is_some() || store.report.damaged_list
        };
        let (met, result) = match opened {
            Ok(store) if !is_damaged(&store) => return follow_on(storage, store),
            Ok(store) => (Met::now(storage, &store.report), Ok(store)),
            Err(error) if error.may_be_reuse() || matches!(error, Error::NotAStore { .. }) || error.may_be_torn_apart() => {
                (Met::now(storage, &error), Err(explained(storage, error)?))
            }
            Err(error) => return Err(error),
        };
        let met = Some(met);
        if met == before && !matches!(result, Err(Error::Overtaken)) {
            // The same twice on an unchanged file: it is damage, not a concurrent write.
            return result.and_then(|store| follow_on(storage, store));
        }
        before = met;
        last = result.err().unwrap_or(Error::Overtaken);
    }
    Err(last)
}

/// What seems forged is not, if the writer has rotated the key since, or makes the store plain, or has done so.
fn explained(storage: &ByCopy, error: Error) -> Result<Error> {
    #[cfg(all(feature = "encrypt", feature = "followers"))]
    if matches!(error, Error::Forged { .. }) {
        if crate::unlock::is_rotated(storage)? {
            return Ok(Error::WrongKey);
        }
        if crate::unlock::is_disabling(storage)? {
            return Ok(Error::DisablingEncryption);
        }
        if matches!(read_superblocks(&ReadOnly::locked(storage)), Ok(Front::Store(pair)) if pair.current.key_page == 0) {
            return Ok(Error::NotSealed);
        }
    }
    let _ = storage;
    Ok(error)
}

/// Every read takes the slow path from now on, which verifies what it finds.
fn follow_on(storage: &ByCopy, store: Arc<Store>) -> Result<Arc<Store>> {
    let Engine { index, log, .. } = &store.engine;
    index.doubt_all();
    log.segment_stats.forget_slots();
    for number in 0..SHARDS {
        for slot in index.lock_shard(number).slots(store.engine.medium())? {
            log.segment_stats.change_slots(log.geometry.extent_of(slot.offset()), 1);
        }
    }
    let place = store.engine.log.segments().last().map(|&segment| Place { segment, offset: segment.end });
    let following = Following::new(storage.clone(), place);
    store.following.set(Box::new(following)).map_err(|_| Error::Bug("a store begins to follow twice"))?;
    Ok(store)
}

impl Store {
    fn following(&self) -> Result<&Following> {
        const NOT_FOLLOWING: &str = "this store was not opened to follow another process: its handles are always up to date";
        self.following.get().ok_or(Error::InvalidArgument(NOT_FOLLOWING))
    }

    /// What reads the file as a whole, not by its index, is refused while another process writes it.
    pub(super) fn refuse_following(&self) -> Result<()> {
        const REFUSED: &str =
            "a follower reads beside another process: do this in the process that writes, or once it has closed the store";
        if self.engine.log.follows() { Err(Error::InvalidArgument(REFUSED)) } else { Ok(()) }
    }

    /// Reads on to the end of the log. True if there was anything.
    pub(super) fn refresh(&self) -> Result<bool> {
        let following = self.following()?;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let mut state = following.state.lock();
        following.refreshes.fetch_add(1, Ordering::Relaxed);
        // A flush, or a close, says how far the log is synced: in a mark, or in the superblock.
        let mut said = 0;
        let result = self.read_on(following, &mut state, &mut said);
        let result = result.or_else(|error| Err(explained(&following.storage, error)?));
        self.engine.log.is_synced_to(said);
        if state.is_torn {
            self.engine.end_moments();
        }
        following.is_torn.store(state.is_torn, Ordering::Release);
        result
    }

    /// Called before records are counted.
    ///
    /// # Errors
    ///
    /// [`Error::Overtaken`] when a refresh has failed with records applied whose old versions could not be read: the counts are too high.
    pub(super) fn counts_are_right(&self) -> Result<()> {
        let is_torn = self.following.get().is_some_and(|following| following.is_torn.load(Ordering::Acquire));
        if is_torn { Err(Error::Overtaken) } else { Ok(()) }
    }

    /// The superblock as it is now.
    fn superblock_now(&self, following: &Following, said: &mut u64) -> Result<Superblock> {
        following.storage.refresh()?;
        let Front::Store(pair) = read_superblocks(&following.storage)? else { return Err(Error::Diverged) };
        let superblock = pair.current;
        if superblock.store_id != self.engine.log.store_id {
            return Err(Error::Diverged);
        }
        // The writer has sealed the store since.
        #[cfg(feature = "encrypt")]
        if superblock.key_page != 0 && crate::log::keys_of(&following.storage).is_none() {
            return Err(Error::KeyNeeded);
        }
        *said = superblock.synced.max(superblock.clean_end.unwrap_or(0)).max(*said);
        Ok(superblock)
    }

    fn read_on(&self, following: &Following, state: &mut FollowingState, said: &mut u64) -> Result<bool> {
        let was_torn = state.is_torn;
        if was_torn {
            self.rebuild_from(following, state, None)?;
        }
        let moved = self.read_to_end(following, state, said)?;
        Ok(moved || was_torn)
    }

    fn read_to_end(&self, following: &Following, state: &mut FollowingState, said: &mut u64) -> Result<bool> {
        let mut superblock = self.superblock_now(following, said)?;
        let piece = superblock.geometry().segment_size().min(PIECE);
        let (mut moved, mut held, mut pieces_held) = (false, None, 0);
        let (mut before, mut looks): (Option<Met>, usize) = (None, 0);
        loop {
            let from = state.place;
            let read = match advance(&following.storage, &superblock, from, piece) {
                Ok(Advanced::Read(read)) if pieces_held < PIECES_HELD_MAX => read,
                Ok(Advanced::Read(_) | Advanced::Gone) => {
                    self.rebuild_from(following, state, held.take())?;
                    (moved, pieces_held) = (true, 0);
                    continue;
                }
                Ok(Advanced::Shorter) => return Err(Error::Diverged),
                Err(error) if error.may_be_reuse() => {
                    if self.lost_its_place(following, from)? {
                        self.rebuild_from(following, state, held.take())?;
                        (moved, pieces_held) = (true, 0);
                        continue;
                    }
                    // The file was cut while this read it, or the frame is being written.
                    let met = Some(Met::now(&following.storage, &error));
                    if met == before {
                        let is_cut = |place: Place| met.as_ref().is_some_and(|met| met.len.is_some_and(|len| len < place.offset));
                        return Err(if from.is_some_and(is_cut) { Error::Diverged } else { error });
                    }
                    before = met;
                    continue;
                }
                Err(error) => return Err(error),
            };
            before = None;
            if read.place != state.place || !read.news.is_empty() {
                moved = true;
                // Until all of it is applied.
                state.is_torn = true;
                (state.place, held) = self.apply(following, &read, held)?;
                state.is_torn = held.is_some();
                self.engine.log.feed.wake();
            }
            pieces_held = if held.is_some() { pieces_held + 1 } else { 0 };
            if read.more {
                continue;
            }
            // In front of a checkpoint that was written meanwhile, segments may have been used again, and the log seems to end there.
            let now = self.superblock_now(following, said)?;
            if held.is_none() {
                if (now.checkpoint, now.session) == (superblock.checkpoint, superblock.session) {
                    return Ok(moved);
                }
                looks += 1;
                if looks == OPENS_MAX {
                    return Err(Error::Overtaken);
                }
            }
            superblock = now;
        }
    }

    /// [`Self::rebuild`], by a refresh that may hold the shards.
    fn rebuild_from(&self, following: &Following, state: &mut FollowingState, held: Option<Held<'_>>) -> Result<()> {
        state.place = self.rebuild(following, held.map(Held::into_shards))?;
        state.is_torn = false;
        Ok(())
    }

    /// True when the segment in which the follower's log ended has been reused.
    fn lost_its_place(&self, following: &Following, place: Option<Place>) -> Result<bool> {
        following.storage.refresh()?;
        is_gone(&following.storage, &self.engine.log.superblock(), place)
    }

    /// Opens the store as it is now. It contains what this follower has shown.
    fn open_newer(&self, following: &Following) -> Result<Arc<Store>> {
        let mine = self.engine.log.at_the_end(|end| end);
        let mut before = None;
        for _ in 0..OPENS_MAX {
            let newer = open_following(&following.storage, self.options, &self.attached)?;
            let log = &newer.engine.log;
            if log.end() >= mine.lsn && log.contains(mine.lsn, mine.salt) != Contained::No {
                return Ok(newer);
            }
            // Behind a checkpoint that a newer one has replaced meanwhile, segments may have been used again, and the log seems to end there.
            // What stands behind the newest one stays.
            let now = Some((read_slots(&following.storage)?, log.at_the_end(|end| (end.lsn, end.salt))));
            if now == before {
                return Err(Error::Diverged);
            }
            before = now;
        }
        Err(Error::Overtaken)
    }

    /// Reads the whole store again, from its newest checkpoint on, because the log between here and there is gone.
    fn rebuild(&self, following: &Following, shards: Option<Vec<ShardGuard<'_>>>) -> Result<Option<Place>> {
        let engine = &self.engine;
        let newer = self.open_newer(following)?;
        if let Some(doubt) = newer.engine.doubt.get() {
            return Err(doubt.error());
        }
        let mut shards = match shards {
            Some(shards) => shards,
            None => engine.lock_all()?,
        };
        following.rebuilds.fetch_add(1, Ordering::Relaxed);
        let (mut names, other) = (self.names.write(), newer.names.read());
        engine.end_moments();
        shards.iter().for_each(ShardGuard::will_publish);
        engine.log.adopt(&newer.engine.log);
        for (number, shard) in (0..SHARDS).zip(&mut shards) {
            shard.forget_expiring();
            shard.load(&engine.pins, newer.engine.index.lock_shard(number).image(newer.engine.medium())?);
        }
        // After the slots: a new salt counts only once no old slot points there.
        engine.log.segment_stats.adopt(&newer.engine.log.segment_stats);
        if newer.engine.log.clock.was_in_use() {
            engine.log.clock.found_expiring();
        }
        engine.log.clock.raise(newer.engine.log.clock.floor());
        let gone: Vec<String> =
            names.pairs().map(|(name, _)| String::from(name)).filter(|name| other.get(name).is_none()).collect();
        gone.iter().for_each(|name| names.drop_name(name));
        for (name, number) in other.pairs() {
            names.set(name, number, other.options(name));
        }
        if !is(Bug::FollowedKeepsNumbers) {
            *engine.living.write() = newer.engine.living.read().clone();
        }
        #[cfg(feature = "ordered")]
        if let (Some(mine), Some(theirs)) = (engine.ordered.get(), newer.engine.ordered.get()) {
            mine.adopt(theirs);
            mine.choice.adopt(&theirs.choice);
        }
        #[cfg(feature = "events")]
        engine.events.adopt(&newer.engine.events);
        engine.log.feed.wake();
        let place = newer.following()?.state.lock().place;
        Ok(place)
    }

    /// Repeats a read of a follower that has met space which the writer has used again, after a refresh.
    #[inline(always)]
    pub(super) fn read_again<T>(&self, error: Error, read: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        if self.engine.log.follows() && error.may_be_reuse() { self.refresh_and_read(error, read) } else { Err(error) }
    }

    #[cold]
    fn refresh_and_read<T>(&self, error: Error, read: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        let mut last = error;
        for _ in 0..READS_MAX {
            self.refresh()?;
            match read() {
                Err(error) if error.may_be_reuse() => last = error,
                result => return result,
            }
        }
        Err(last)
    }
}

#[cfg(all(test, feature = "std", feature = "followers", not(shuttle)))]
mod tests;
