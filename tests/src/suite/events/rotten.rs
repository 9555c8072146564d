//! A flipped bit: an error that says where, or the right answer, never another event and never one that is silently missing.

use super::answers::{differs, logs, state_of};
use super::model::{Happened, Model, STREAMS, TAGS, TYPES, version};
use super::steps::Setup;
use crate::parallel::Watch;
use crate::quota::Quota;
use crate::rng::{Rng, index};
use crate::suite::{Checked, words};
use crate::watched::Moment;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Db, Error, EventReader, Expected, NewEvent, Retention, Storage};
use std::collections::BTreeSet;

/// Flips of a closed store, and of one that was flushed.
const FLIPS: u64 = 12;

/// Flips bits at moments of a life, of what was synced: whatever is read is right.
pub(super) fn moments(moments: &[Moment], model: &Model, setup: &Setup, rng: &mut Rng, images: &Quota) -> Checked {
    for _ in 0..2.min(moments.len()) {
        let moment = &moments[index(rng, moments.len())];
        let Some(image) = moment.rotten(rng) else { continue };
        images.add(1);
        look(&image, model, setup, (None, false)).map_err(|what| format!("a bit of what was synced is flipped: {what}"))?;
    }
    Ok(())
}

/// Closes or flushes what a life has left, and flips bits of it.
pub(super) fn closed(image: &CrashImage, model: Model, setup: &Setup, rng: &mut Rng, images: &Quota, watch: &Watch) -> Checked {
    let file = CrashStorage::from_image(image);
    let db = setup.open(file.clone()).map_err(words)?;
    let is_closed = rng.chance(1, 2);
    let mut model = model;
    for log in logs(&db).map_err(words)? {
        log.set_retention(Retention::new()).map_err(words)?;
    }
    let (log, version) = (logs(&db).map_err(words)?, model.version(0, "a"));
    let last = Happened::choose(rng, 0, "a", false);
    log[0].append("a", Expected::Version(version), [last.new_event()]).map_err(words)?;
    model.happened.push(last);
    let state = state_of(&db).map_err(words)?;
    model.states.push(state);
    let ended = if is_closed { db.clone().close() } else { db.flush().map(drop) };
    ended.map_err(words)?;
    let whole = file.latest_image();
    file.stop();
    drop((db, log));
    for _ in 0..FLIPS {
        watch.tick();
        let rotten = whole.fork();
        let bit = rng.below(whole.len().unwrap_or(0) * 8);
        rotten.flip_bit(bit / 8, (bit % 8) as u32);
        images.add(1);
        let how = if is_closed { "closed" } else { "flushed" };
        look(&rotten, &model, setup, (Some(model.happened.len()), is_closed))
            .map_err(|what| format!("bit {} of byte {} flipped in the {how} store: {what}", bit % 8, bit / 8))?;
    }
    Ok(())
}

/// An error about damage says where it is.
fn honest(error: Error, len: u64) -> Checked {
    match error {
        Error::Corrupt { offset, .. } if offset <= len => Ok(()),
        Error::Poisoned(first) => honest((*first).clone(), len),
        error => Err(words(error)),
    }
}

/// Opens a damaged image. `all`: so many events have to be there, each of them or an error.
fn look(image: &CrashImage, model: &Model, setup: &Setup, (all, is_closed): (Option<usize>, bool)) -> Checked {
    let len = image.len().unwrap_or(0);
    let db = match setup.open(CrashStorage::from_image(image)) {
        Ok(db) => db,
        Err(error) => return honest(error, len),
    };
    let subject = Subject { db: &db, model, versions: model.versions(), len, all, is_closed };
    subject.check()?;
    // Damage is copied by nobody, and counts no more behind compaction than before.
    db.compact().map(drop).or_else(|error| honest(error, len))?;
    subject.check().map_err(|what| format!("after compaction, {what}"))?;
    subject.append()
}

struct Subject<'a> {
    db: &'a Db,
    model: &'a Model,
    /// Of each event.
    versions: Vec<u64>,
    len: u64,
    all: Option<usize>,
    is_closed: bool,
}

impl Subject<'_> {
    fn check(&self) -> Checked {
        for (log, events) in (0..).zip(logs(self.db).map_err(words)?) {
            let events = &events;
            self.read(log, &events.all(), "all", |_| true)?;
            for stream in STREAMS {
                self.read(log, &events.stream(stream), stream, |event| event.stream == stream)?;
                match (events.version(stream), self.all) {
                    (Err(error), _) => honest(error, self.len * 2)?,
                    (Ok(found), Some(all)) if found != version(&self.model.happened[..all], log, stream) => {
                        return Err(format!("{stream} is said to be at version {found}"));
                    }
                    _ => {}
                }
            }
            for kind in TYPES {
                self.read(log, &events.of_type(kind), kind, |event| event.kind == kind)?;
            }
            for tag in TAGS {
                self.read(log, &events.tagged(tag), tag, |event| event.has(tag))?;
            }
        }
        Ok(())
    }

    /// Reads on behind errors: what comes is right, and if nothing fails it is all.
    fn read(&self, log: usize, reader: &EventReader, what: &str, wanted: impl Fn(&Happened) -> bool) -> Checked {
        for backwards in [false, true] {
            let (mut found, mut errors) = (BTreeSet::new(), 0);
            let iter = match reader.clone().backwards(backwards).iter() {
                Ok(iter) => iter,
                Err(error) => {
                    honest(error, self.len * 2)?;
                    continue;
                }
            };
            for event in iter.take(2 * self.model.happened.len() + 10) {
                match event {
                    Ok(event) => {
                        let number = event.number() as usize;
                        let Some(happened) = number.checked_sub(1).and_then(|place| self.model.happened.get(place)) else {
                            return Err(format!("{what} has {event:?}, which nobody has appended"));
                        };
                        differs(&event, happened, self.versions[number - 1]).map_or(Ok(()), Err)?;
                        if happened.log != log || !wanted(happened) || !found.insert(event.number()) {
                            return Err(format!("{what} has {event:?}, which is not of it, or twice"));
                        }
                    }
                    Err(error) => {
                        errors += 1;
                        honest(error, self.len * 2)?;
                    }
                }
            }
            if self.all.is_none() || errors > 0 {
                continue;
            }
            let expected = self.model.there(self.model.now(), |event| event.log == log && wanted(event));
            // Where the index is built from the log, nothing says that the damage was what an event was removed by.
            if !self.is_closed {
                found.retain(|number| !self.model.now().is_gone(*number));
            }
            let missing: Vec<u64> = expected.iter().copied().filter(|number| !found.contains(number)).collect();
            if !missing.is_empty() || found.len() != expected.len() {
                let (len, of) = (found.len(), expected.len());
                return Err(format!(
                    "{what}, backwards: {backwards}, has {len} events of {of} without an error: {missing:?} are missing"
                ));
            }
        }
        Ok(())
    }

    /// Appends go on, unless what they need to know is damaged.
    fn append(&self) -> Checked {
        let Some(all) = self.all else { return Ok(()) };
        for (log, events) in (0..).zip(logs(self.db).map_err(words)?) {
            for stream in STREAMS {
                let version = version(&self.model.happened[..all], log, stream);
                match events.append(stream, Expected::Any, [NewEvent::new("Paid", "late")]) {
                    Ok(got) if got.version == version + 1 && got.first_number > all as u64 => {}
                    Ok(got) => return Err(format!("{stream}, at version {version}, goes on with {got:?}")),
                    Err(error) => honest(error, self.len * 2)?,
                }
            }
        }
        Ok(())
    }
}
