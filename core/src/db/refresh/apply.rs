//! What a follower does with the frames that it has read: all of them at once, under all shards.

use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::index::ShardGuard;
use crate::log::{EventChange, Geometry, Segment, SegmentChange, take_over};
use crate::names::Names;
use crate::recover::{Advance, News, Place};
use crate::store::{Following, Store};
use crate::sync::RwLockWriteGuard;
use crate::vanished::Vanished;
use alloc::vec::Vec;

/// Records whose places in the index are prefetched before one is applied: their keys come in no order.
const AHEAD: usize = 8;

/// What a refresh holds from one piece of the log to the next while the index has slots whose records cannot be read: nobody else looks at it.
pub(super) struct Held<'a> {
    shards: Vec<ShardGuard<'a>>,
    vanished: Vanished,
    /// Numbers of namespaces that are dead, and where in the log they ended.
    dead: Vec<(u32, u64)>,
}

impl<'a> Held<'a> {
    /// Gives up all but the shards.
    pub(super) fn into_shards(self) -> Vec<ShardGuard<'a>> {
        self.shards
    }
}

/// A follower that is being changed: nobody else reads or writes it.
struct Applying<'a> {
    held: Held<'a>,
    names: RwLockWriteGuard<'a, Names>,
    /// The segments that the index may point into, at each step.
    present: Vec<Segment>,
    /// What the index of events is told at the end.
    events: Vec<EventChange>,
}

impl<'a> Applying<'a> {
    /// Gives up all but the shards, the lock of the names above all.
    fn into_shards(self) -> Vec<ShardGuard<'a>> {
        self.held.into_shards()
    }
}

/// What some news change about the segments of the log.
const fn segment_change(news: &News) -> Option<SegmentChange> {
    match *news {
        News::Enter(segment, previous_end) => Some(SegmentChange::Entered(segment, previous_end)),
        News::Retire(base) => Some(SegmentChange::Retired(base)),
        News::Floor(floor) => Some(SegmentChange::Floor(floor)),
        News::Record { .. } | News::Mark(_) => None,
    }
}

fn gone(geometry: Geometry, old: &Segment) -> EventChange {
    EventChange::Gone(geometry.start(old.extent), old.behind(geometry))
}

impl Store {
    /// Applies what was read, all at once. Returns where the log ends now, and what must be held until more is applied.
    pub(super) fn apply<'a>(
        &'a self,
        following: &Following,
        read: &Advance,
        held: Option<Held<'a>>,
    ) -> Result<(Option<Place>, Option<Held<'a>>)> {
        let engine = &self.engine;
        let Some(place) = read.place else { return Ok((None, held)) };
        let held = match held {
            Some(held) => held,
            None => Held { shards: engine.lock_all()?, vanished: Vanished::default(), dead: Vec::new() },
        };
        let names = self.names.write();
        let changes: Vec<SegmentChange> = read.news.iter().filter_map(segment_change).collect();
        let marked = read.news.iter().filter_map(|news| if let News::Mark(mark) = news { Some(mark.synced) } else { None });
        let synced = marked.max().unwrap_or(0);
        let present = if changes.is_empty() { Vec::new() } else { engine.log.segments() };
        held.shards.iter().for_each(ShardGuard::will_publish);
        let mut applying = Applying { held, names, present, events: Vec::new() };
        // First, as a writer appends before it publishes: a snapshot that begins from here on waits for the shards.
        engine.log.follow_to(&changes, place.segment, read.changed, synced, &engine.pins);
        for (place, news) in read.news.iter().enumerate() {
            self.prefetch(&applying, read, place + AHEAD);
            if !self.apply_news(&mut applying, read, news)? {
                return Ok((self.rebuild(following, Some(applying.into_shards()))?, None));
            }
        }
        let Applying { held, names, events, .. } = applying;
        drop(names);
        // A store without events has segments that go, too.
        #[cfg(feature = "events")]
        if !engine.follow_events(&events)? {
            return Ok((self.rebuild(following, Some(held.into_shards()))?, None));
        }
        let _ = events;
        if !held.vanished.is_empty() {
            return Ok((Some(place), Some(held)));
        }
        self.release(following, place, held)
    }

    fn prefetch(&self, applying: &Applying<'_>, read: &Advance, place: usize) {
        if let Some(News::Record { header, key, .. }) = read.news.get(place) {
            let key = read.bytes.get(key.clone()).unwrap_or_default();
            let hash = self.engine.full_key(header.namespace, key).hash;
            if let Some(shard) = applying.held.shards.get(hash.shard()) {
                shard.prefetch(hash);
            }
        }
    }

    /// Lets others look, and removes the records of dead namespaces.
    fn release<'a>(&self, following: &Following, place: Place, held: Held<'_>) -> Result<(Option<Place>, Option<Held<'a>>)> {
        let Held { shards, dead, .. } = held;
        drop(shards);
        for (number, end) in dead {
            match self.purge_number(number, end) {
                Err(error) if error.may_be_reuse() => return Ok((self.rebuild(following, None)?, None)),
                result => result?,
            }
        }
        Ok((Some(place), None))
    }

    /// False when the whole store has to be read: it is unknown what is replaced, or of which namespace something is that has gone.
    fn apply_news(&self, applying: &mut Applying<'_>, read: &Advance, news: &News) -> Result<bool> {
        let engine = &self.engine;
        let (stats, geometry) = (&engine.log.segment_stats, engine.log.geometry);
        match news {
            News::Record { offset, header, .. } if header.kind.is_carried() => {
                stats.change_live(geometry.extent_of(*offset), header.frame_len() as i64, false);
                applying.events.push(EventChange::At(*offset));
            }
            News::Record { offset, header, key, value, expiry } => {
                let bytes = |range: &core::ops::Range<usize>| read.bytes.get(range.clone()).unwrap_or_default();
                return self.apply_record(applying, header, (bytes(key), bytes(value)), (*offset, *expiry));
            }
            News::Mark(mark) => {
                engine.log.clock.raise(mark.clock);
            }
            News::Retire(base) => {
                if let Some(place) = applying.present.iter().position(|segment| segment.base == *base) {
                    let old = applying.present.swap_remove(place);
                    applying.events.push(gone(geometry, &old));
                    return engine.empty(&mut applying.held.shards, &mut applying.held.vanished, &old);
                }
            }
            News::Enter(segment, _) => {
                for old in take_over(&mut applying.present, segment) {
                    applying.events.push(gone(geometry, &old));
                    if !engine.empty(&mut applying.held.shards, &mut applying.held.vanished, &old)? {
                        return Ok(false);
                    }
                }
                applying.present.push(*segment);
                stats.enter(geometry, segment);
            }
            News::Floor(_) => {}
        }
        Ok(true)
    }

    fn apply_record(
        &self,
        applying: &mut Applying<'_>,
        header: &Header,
        (key, value): (&[u8], &[u8]),
        (offset, expiry): (u64, Option<u64>),
    ) -> Result<bool> {
        let engine = &self.engine;
        let is_name = header.namespace == NAMESPACE_OF_NAMES;
        if !is_name && !engine.living.read().contains(&header.namespace) {
            // A copy of what the writer keeps for its snapshots.
            return Ok(true);
        }
        let full_key = engine.full_key(header.namespace, key);
        let Held { shards, vanished, .. } = &mut applying.held;
        let Some(shard) = shards.get_mut(full_key.hash.shard()) else { return Ok(true) };
        if !engine.apply_followed((shard, vanished), full_key, header, offset, expiry)? {
            return Ok(false);
        }
        if is_name && !header.copied {
            self.apply_name(applying, header, (key, value), engine.log.lsn(offset))?;
        }
        Ok(true)
    }

    /// Applies the record of a namespace, which ends at `end`. The number that it had before is dead.
    fn apply_name(&self, applying: &mut Applying<'_>, header: &Header, (name, value): (&[u8], &[u8]), end: u64) -> Result<()> {
        let malformed = || Error::Bug("the record of a namespace that a follower has read");
        let name = core::str::from_utf8(name).map_err(|_| malformed())?;
        let number = u32::from_le_bytes(*value.first_chunk().ok_or_else(malformed)?);
        let old = applying.names.get(name).and_then(|name| name.number());
        let mut living = self.engine.living.write();
        if header.kind == Kind::Put {
            let options = value.get(4..).unwrap_or_default();
            #[cfg(feature = "ordered")]
            self.engine.choose_order(old, number, options);
            applying.names.set(name, number, options);
            living.insert(number);
        } else {
            applying.names.drop_name(name);
        }
        if let Some(old) = old.filter(|&old| old != number || header.kind != Kind::Put) {
            living.remove(&old);
            applying.held.dead.push((old, end));
        }
        Ok(())
    }
}
