//! The process that is killed: writers, consumers, and maintenance.

use super::consumers::{CONSUMERS, Consumer, SHARED, Wants, consume};
use super::plan::{self, BOUNDED, DECIDED, Folds, How, Op, STREAMS, WRITERS};
use super::{LOG, builder, last_of};
use crate::rng::{Rng, derive, index};
use crate::suite::{Checked, words};
use crate::victim;
use crate::witness::Note;
use pipkin::{Appended, Condition, Db, Error, Events, Expected, FailedCheck};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Does what a child does, until it is killed. Whatever is wrong ends the process.
pub fn child(folder: &Path, seed: u64) {
    let ends = |what: Checked| {
        if let Err(what) = what {
            eprintln!("{what}");
            std::process::exit(1);
        }
    };
    let open = || -> pipkin::Result<(Db, Events)> {
        let db = builder(folder, seed).open()?;
        let log = db.events(LOG)?;
        Ok((db, log))
    };
    let (db, log) = match open() {
        Ok(opened) => opened,
        Err(error) => return ends(Err(words(error))),
    };
    ends(victim::is_at_work(folder).map_err(|error| error.to_string()));
    let bounded = Mutex::new(());
    // No two lives do the same.
    let mut rng = Rng::new(seed ^ u64::from(std::process::id()));
    std::thread::scope(|scope| {
        let (db, log, bounded) = (&db, &log, &bounded);
        for writer in 0..WRITERS {
            let rng = rng.split();
            scope.spawn(move || ends(Writer { db, log, bounded, folder, seed, writer, rng }.run()));
        }
        for consumer in CONSUMERS.into_iter().chain([SHARED]) {
            let mut rng = rng.split();
            scope.spawn(move || ends(consume(db, log, consumer, folder, &mut rng, false)));
        }
        let mut rng = rng.split();
        scope.spawn(move || ends(retain(log, bounded, &mut rng)));
        ends(victim::maintain(db).map_err(words));
    });
}

struct Writer<'a> {
    db: &'a Db,
    log: &'a Events,
    bounded: &'a Mutex<()>,
    folder: &'a Path,
    seed: u64,
    writer: usize,
    rng: Rng,
}

impl Writer<'_> {
    fn run(&mut self) -> Checked {
        let mut note = Note::open(self.folder, self.writer as u64).map_err(|error| error.to_string())?;
        let last = last_of(self.db, self.log, self.writer)?;
        let (mut first, mut hash) = (last + 1, Folds::new(self.seed, self.writer).hash(last));
        loop {
            let op = Op::of(self.seed, self.writer, first);
            let appended;
            loop {
                match self.append(&op, first, &mut hash)? {
                    Some(number) => {
                        appended = number;
                        break;
                    }
                    None => std::thread::yield_now(),
                }
            }
            first += op.count;
            note.write(pack(appended, first - 1)).map_err(|error| error.to_string())?;
            if op.flushes {
                self.db.flush().map_err(words)?;
            }
            if self.rng.chance(1, 3) {
                std::thread::sleep(Duration::from_micros(self.rng.below(600)));
            }
        }
    }

    /// Returns the number of the last event; `None` when others were faster.
    fn append(&self, op: &Op, first: u64, hash: &mut u64) -> Checked<Option<u64>> {
        let (db, log, stream) = (self.db, self.log, STREAMS[op.stream]);
        let _turn = (op.stream == BOUNDED).then(|| self.bounded.lock().unwrap_or_else(PoisonError::into_inner));
        let expected = match op.how {
            How::Any => None,
            How::If => {
                let newest = log.tagged(DECIDED).backwards(true).limit(1).iter().map_err(words)?.next();
                Some(newest.transpose().map_err(words)?.map_or(0, |event| event.number()))
            }
            _ => Some(log.version(stream).map_err(words)?),
        };
        let (events, behind) = plan::events(op, self.writer, first, *hash, expected);
        let version = expected.map_or(Expected::Any, Expected::Version);
        let key = plan::beside(self.writer);
        let answer = match op.how {
            How::Any | How::Version => log.append(stream, version, events).map(Some),
            How::If => {
                let condition = Condition::tagged([DECIDED]).after(expected.unwrap_or(0));
                log.append_if(&condition, stream, events).map(Some)
            }
            How::Batch => {
                db.batch().insert(key, first.to_le_bytes()).append(log, stream, version, events).commit().map(|()| None)
            }
            How::Transaction => db.transaction(|tx| {
                tx.insert(&key, first.to_le_bytes())?;
                tx.append(log, stream, version, events.iter().cloned())?;
                Ok(None)
            }),
        };
        match answer {
            Ok(appended) => {
                *hash = behind;
                appended.map_or(Ok(Some(0)), |appended| fits(appended, op, expected))
            }
            Err(Error::AppendRefused { failed }) => is_honest(&failed, op, expected),
            Err(error) => Err(words(error)),
        }
    }
}

fn fits(appended: Appended, op: &Op, expected: Option<u64>) -> Checked<Option<u64>> {
    let is_behind = op.how != How::Version || Some(appended.version) == expected.map(|version| version + op.count);
    if appended.last_number + 1 - appended.first_number == op.count && is_behind && !appended.repeated {
        return Ok(Some(appended.last_number));
    }
    Err(format!("{op:?} behind {expected:?} has got {appended:?}"))
}

/// What a refused append is told is behind what it had seen.
fn is_honest(failed: &[FailedCheck], op: &Op, expected: Option<u64>) -> Checked<Option<u64>> {
    let seen = expected.unwrap_or(u64::MAX);
    match failed {
        [FailedCheck::Version { current, .. }] if op.how != How::If && *current > seen => Ok(None),
        [FailedCheck::Condition { number, .. }] if op.how == How::If && *number > seen => Ok(None),
        _ => Err(format!("{op:?} behind {expected:?} is refused with {failed:?}")),
    }
}

/// A note of a number of the store and of a writer's own, in one word. The first is 0 where the append did not say.
const fn pack(number: u64, index: u64) -> u64 {
    number << 28 | index
}

pub(super) const fn unpack(note: u64) -> (u64, u64) {
    (note >> 28, note & ((1 << 28) - 1))
}

/// The last number that every consumer has dealt with for which everything is kept.
fn dealt_with(log: &Events) -> pipkin::Result<u64> {
    let cursors = log.cursors()?;
    let has_all = |consumer: &&Consumer| consumer.wants != Wants::Left;
    let number = |consumer: &Consumer| cursors.iter().find(|(name, _)| name == consumer.name).map_or(0, |(_, number)| *number);
    Ok(CONSUMERS.iter().filter(has_all).map(number).min().unwrap_or(0))
}

/// Removes events for ever, of those that were dealt with.
fn retain(log: &Events, bounded: &Mutex<()>, rng: &mut Rng) -> Checked {
    loop {
        std::thread::sleep(Duration::from_micros(500 + rng.below(4000)));
        let number = dealt_with(log).map_err(words)?;
        if rng.chance(1, 3) {
            let newest = log.get_by_number(number).map_err(words)?;
            log.remove_before_ms(newest.map_or(0, |event| event.time_ms())).map_err(words)?;
            continue;
        }
        let stream = index(rng, STREAMS.len());
        let _turn = (stream == BOUNDED).then(|| bounded.lock().unwrap_or_else(PoisonError::into_inner));
        let stream = STREAMS[stream];
        let mut back = log.stream(stream).backwards(true).iter().map_err(words)?;
        let last = back.find(|event| event.as_ref().map_or(true, |event| event.number() <= number));
        let Some(version) = last.transpose().map_err(words)?.map(|event| event.version()) else { continue };
        let removed = if stream == STREAMS[BOUNDED] {
            let kept = log.version(stream).map_err(words)? - version;
            log.keep_last(stream, kept + rng.below(3))
        } else {
            log.truncate(stream, version + 1 - rng.below(version.min(3)))
        };
        removed.map_err(words)?;
        // The last one of a stream that is left is in front of none that is gone.
        let left = log
            .stream(stream)
            .limit(2)
            .iter()
            .and_then(|events| events.map(|event| Ok(event?.version())).collect::<pipkin::Result<Vec<_>>>());
        if let [one, two] = left.map_err(words)?[..]
            && one + 1 != two
        {
            return Err(format!("{stream} begins with version {one}, and goes on with {two}"));
        }
    }
}

/// Brings every consumer to the end, in the process that looks at what is left.
pub(super) fn drain(db: &Db, log: &Events, folder: &Path, seed: u64) -> Checked {
    CONSUMERS.iter().try_for_each(|&consumer| consume(db, log, consumer, folder, &mut derive(seed, 0xd4a1), true))
}
