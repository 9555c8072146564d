//! What was removed stays away: kills and power cuts behind every call of compactions that drop stubs, or must not.

use super::steps::{next, opens};
use crate::rng::derive;
use crate::suite::{Checked, words};
use crate::watched::{Moment, Watched};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Db, Event, Events, Expected, NewEvent, Storage};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const SEGMENT: u32 = 8192;
/// Rounds of compaction behind a crash.
const ROUNDS: u64 = 2;

fn open(storage: impl Storage + 'static, opens: &AtomicU64) -> Checked<Db> {
    let builder = Db::builder().segment_size(SEGMENT).replay_debt_max(4096).background(false).entropy(next(opens));
    builder.open_storage(Box::new(storage)).map_err(words)
}

/// Runs two stores, always in the same way, under salts of the seed; returns how many images it has looked at.
pub(super) fn run(seed: u64) -> Checked<u64> {
    Ok(dropped(opens(seed)).map_err(|what| format!("stubs are dropped: {what}"))?
        + needed(opens(seed)).map_err(|what| format!("stubs are needed: {what}"))?)
}

/// A store that is being written.
struct Subject {
    watched: Watched,
    db: Db,
    log: Events,
    /// The events that are left in the end.
    left: RangeInclusive<u64>,
    /// Every opening has entropy of its own, the same in every run.
    opens: Arc<AtomicU64>,
}

impl Subject {
    fn new(left: RangeInclusive<u64>, opens: Arc<AtomicU64>) -> Checked<Self> {
        let watched = Watched::new(CrashStorage::new(), 1);
        let db = open(watched.clone(), &opens)?;
        let log = db.events("log").map_err(words)?;
        Ok(Self { watched, db, log, left, opens })
    }

    fn append(&self, count: usize, payload: usize) -> Checked {
        let events = (0..count).map(|_| NewEvent::new("T", vec![7; payload]));
        self.log.append("s", Expected::Any, events).map(drop).map_err(words)
    }

    fn put(&self, key: u64, len: usize) -> Checked {
        self.db.insert(key.to_le_bytes(), vec![1; len]).map_err(words)
    }

    /// Removes events, so many at a time. Beside each stub stands a record that is replaced later.
    fn truncate(&self, together: u64) -> Checked {
        let mut before = 1;
        while before < *self.left.start() {
            before = (before + together).min(*self.left.start());
            self.log.truncate("s", before).map_err(words)?;
            self.put(u64::MAX, 300)?;
        }
        Ok(())
    }

    /// Compacts, and looks at what a crash leaves behind every call.
    fn compact(&self) -> Checked<u64> {
        self.db.flush().map_err(words)?;
        self.watched.watch(derive(1, 0x90e), 0);
        for _ in 0..2 {
            self.db.compact().map_err(words)?;
            self.db.checkpoint().map_err(words)?;
        }
        are_left(&self.db, &self.left)?;
        let (moments, mut images) = (self.watched.stop(), 0);
        for (place, moment) in moments.iter().enumerate() {
            images += behind(moment, &self.left, &self.opens)
                .map_err(|what| format!("behind call {place} of {}: {what}", moments.len()))?;
        }
        Ok(images)
    }
}

/// Stubs whose events stand in segments that the same compaction empties. While it copies the records behind them, a checkpoint becomes due: the
/// index snapshot says that they are gone, and their segments are not retired yet.
fn dropped(opens: Arc<AtomicU64>) -> Checked<u64> {
    let subject = Subject::new(191..=200, opens)?;
    (0..40).try_for_each(|_| subject.append(5, 100))?;
    subject.truncate(5)?;
    for key in 0..80 {
        subject.put(key, 300)?;
        subject.put(u64::MAX, 300)?;
    }
    subject.compact()
}

/// Stubs whose segments are worth compacting, and whose events stand among records that live.
fn needed(opens: Arc<AtomicU64>) -> Checked<u64> {
    let subject = Subject::new(18..=20, opens)?;
    for key in 0..20 {
        subject.append(1, 10)?;
        subject.put(key, 7800)?;
    }
    subject.truncate(1)?;
    (0..20).try_for_each(|_| subject.put(u64::MAX, 300))?;
    subject.compact()
}

/// What a kill and power cuts at a moment leave.
fn behind(moment: &Moment, left: &RangeInclusive<u64>, opens: &AtomicU64) -> Checked<u64> {
    let images = moment.images(&mut derive(2, 0x90e));
    let count = images.len() as u64;
    images.into_iter().try_for_each(|(image, _)| stay_away(&image, left, opens))?;
    Ok(count)
}

fn stay_away(image: &CrashImage, left: &RangeInclusive<u64>, opens: &AtomicU64) -> Checked {
    let target = Db::open_in_memory().map_err(words)?;
    pipkin::salvage(&CrashStorage::from_image(image), &target, &mut |_, _| {}).map_err(words)?;
    are_left(&target, left).map_err(|what| format!("{what}, after salvage"))?;
    let db = open(CrashStorage::from_image(image), opens)?;
    for round in 0..=ROUNDS {
        are_left(&db, left).map_err(|what| format!("{what}, after {round} compactions"))?;
        db.compact().map_err(words)?;
    }
    Ok(())
}

/// These events are there, and no other.
fn are_left(db: &Db, left: &RangeInclusive<u64>) -> Checked {
    let all = db.events("log").and_then(|log| log.all().iter()?.collect::<pipkin::Result<Vec<Event>>>()).map_err(words)?;
    let found: Vec<u64> = all.iter().map(Event::number).collect();
    if found.iter().copied().eq(left.clone()) { Ok(()) } else { Err(format!("events {found:?} are there instead of {left:?}")) }
}
