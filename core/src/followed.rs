//! A follower's index: looking up records whose space the writer may use again at any moment, and applying what the log says since.

use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind};
use crate::index::{SHARDS, ShardGuard, Slot};
use crate::log::{Frame, Placed, Segment};
use crate::moments::Moment;
use crate::pins::Pin;
use alloc::vec::Vec;

/// What a snapshot answers whose records the writer has used the space of.
pub(crate) fn too_old(error: Error) -> Error {
    if cfg!(feature = "followers") && matches!(error, Error::Overtaken) { Error::SnapshotTooOld } else { error }
}

/// A look-up that meets a change of the index begins again, at most so often.
const LOOKS_MAX: usize = 64;

/// What the index has of a key.
pub(crate) enum Known {
    Nothing,
    /// Its record, and the log position of its first version as far as that is known.
    Record(Placed, u64),
    /// There is a record of a key with this hash that cannot be read any more: whose it was is unknown.
    Vanished,
}

impl Engine {
    /// The record of a key, verified.
    ///
    /// A slot that is still there after its record was verified is of that record: a segment's new salt counts only once no slot points
    /// there.
    ///
    /// # Errors
    ///
    /// [`Error::Overtaken`] when the writer has used the space of the record again, [`Error::Corrupt`] when it is damaged.
    #[cold]
    pub(crate) fn find_followed<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let FullKey { namespace, key: name, hash } = key;
        for _ in 0..LOOKS_MAX {
            let mut offsets = Vec::new();
            self.index.find(pin, hash, |offset| {
                offsets.push(offset);
                Ok(None::<()>)
            })?;
            let (mut found, mut failed) = (None, None);
            for &offset in &offsets {
                let frame = self.log.frame_if(offset, |number, other| number == namespace && other == name);
                match frame.and_then(|frame| frame.map(|frame| frame.check().map(|()| frame)).transpose()) {
                    Ok(Some(frame)) => found = Some(frame),
                    Ok(None) => {}
                    Err(error) if error.may_be_reuse() => failed = failed.or(Some(self.log.or_fenced(error))),
                    Err(error) => return Err(error),
                }
                if found.is_some() {
                    break;
                }
            }
            if offsets.iter().all(|&offset| self.index.points_at(pin, hash, offset)) {
                return match (found, failed) {
                    (Some(frame), _) if self.is_certain(frame.offset) => Ok(Some(frame)),
                    (Some(_), _) => self.has_met_all().map(|()| None),
                    (None, Some(error)) => Err(error),
                    (None, None) if self.may_be_there(hash) => self.has_met_all().map(|()| None),
                    (None, None) => Ok(None),
                };
            }
        }
        Err(Error::Overtaken)
    }

    /// What the index has of a key that a record of the log is of.
    pub(crate) fn known_of(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Known> {
        let FullKey { namespace, key: name, hash } = key;
        let same = |number: u32, other: &[u8]| number == namespace && other == name;
        let found =
            shard.find(hash, |offset| self.log.frame_if(offset, same)?.map(|frame| frame.check().map(|()| frame)).transpose());
        match found {
            Ok(None) => Ok(Known::Nothing),
            Ok(Some(frame)) => {
                let placed = Placed { offset: frame.offset, len: frame.header.frame_len() as u64 };
                Ok(Known::Record(placed, frame.meta().begin(self.log.lsn(frame.offset))))
            }
            Err(error) if error.may_be_reuse() => match self.log.or_fenced(error) {
                Error::Overtaken => Ok(Known::Vanished),
                // Damage, as it is for a writer.
                error => Ok(self.find_damaged(shard, key, error)?.map_or(Known::Nothing, |placed| Known::Record(placed, 0))),
            },
            Err(error) => Err(error),
        }
    }

    /// Applies a record of the log; false if what it replaces is unknown.
    pub(crate) fn apply_followed(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        header: &Header,
        offset: u64,
        expiry: Option<u64>,
    ) -> Result<bool> {
        let new = Placed { offset, len: header.frame_len() as u64 };
        if expiry.is_some() {
            self.log.clock.found_expiring();
        }
        let (old, begin) = match self.known_of(shard, key)? {
            Known::Nothing => (None, u64::MAX),
            Known::Record(placed, begin) => (Some(placed), begin),
            Known::Vanished => return Ok(false),
        };
        if header.copied {
            if !header.has_origin() && begin >= self.moments.oldest() {
                // The writer knows nothing of the snapshots here: the copy does not say whether they show it.
                self.end_moments();
            }
            self.moments.made_copy(self.log.lsn(offset));
        }
        match header.kind {
            Kind::Put if header.copied => self.publish_copy(shard, key, old, new),
            Kind::Put => self.publish_put(shard, key, old, new),
            _ => self.publish_remove(shard, key, old, new),
        }
        if let Some(expiry) = expiry.filter(|_| header.kind == Kind::Put) {
            self.expires(shard, key.hash.slot(offset), expiry);
        }
        Ok(true)
    }

    /// See [`Self::frame_at`]. The record of a slot that nothing points at any more may be another one by now.
    pub(crate) fn frame_at_followed(
        &self,
        moment: &Moment,
        number: usize,
        slot: Slot,
        namespace: u32,
    ) -> Result<Option<Frame<'_>>> {
        let found = self.frame_at_now(moment, number, slot, namespace);
        let is_noted = || {
            let kept = self.moments.of_shard(number)?;
            kept.lock().with_tag(slot.tag()).find(|note| note.slot == slot)
        };
        let is_there = self.index.lock_shard(number).has(slot) || is_noted().is_some();
        moment.still_lives()?;
        if is_there { found.map_err(too_old) } else { Err(Error::SnapshotTooOld) }
    }

    /// Ends all snapshots: they answer [`Error::SnapshotTooOld`] from now on.
    pub(crate) fn end_moments(&self) {
        while self.end_oldest_moment() {}
    }

    /// Takes what is left in a retired segment out of the index: records that have expired, and those of dropped namespaces. False if one
    /// cannot be read any more. The caller holds all shards.
    pub(crate) fn empty(&self, shards: &mut [ShardGuard<'_>], segment: &Segment) -> Result<bool> {
        if self.log.segment_stats.noted(segment.extent) > 0 {
            self.end_moments();
        }
        if self.log.segment_stats.live(segment.extent) == 0 {
            return Ok(true);
        }
        let geometry = self.log.geometry;
        let lies_there = |offset: u64| offset >= geometry.start(segment.extent) && offset < segment.behind(geometry);
        for (number, shard) in (0..SHARDS).zip(shards) {
            for slot in shard.slots().into_iter().filter(|slot| lies_there(slot.offset())) {
                self.end_moments();
                match self.log.frame(slot.offset()).and_then(|frame| frame.check().map(|()| frame)) {
                    Ok(frame) if self.hash_of(&frame).fits(number, slot) => self.forget(shard, slot, &frame),
                    Ok(_) => return Ok(false),
                    Err(error) if error.may_be_reuse() => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        self.log.segment_stats.set(segment.extent, 0, 0);
        Ok(true)
    }
}
