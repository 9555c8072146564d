//! Consumers: each projects events into a record, in the commit that moves its cursor.

use super::plan::{Said, WANTED, WRITERS, roll};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use crate::witness::Note;
use pipkin::{Db, Error, Event, Events, Subscription, Transaction};
use std::path::Path;
use std::time::Duration;

/// A consumer: its cursor, and what it wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Consumer {
    pub(super) name: &'static str,
    pub(super) wants: Wants,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// All events: nothing is removed that it has not dealt with.
    All,
    /// Those of a type, likewise.
    Wanted,
    /// All, but it is slow, and what it has not dealt with may be removed.
    Left,
}

/// Those that a child has; of the last one it has two, which take its cursor from each other.
pub(super) const CONSUMERS: [Consumer; 5] = [
    Consumer { name: "first", wants: Wants::All },
    Consumer { name: "second", wants: Wants::All },
    Consumer { name: "filtered", wants: Wants::Wanted },
    Consumer { name: "slow", wants: Wants::Left },
    Consumer { name: "shared", wants: Wants::All },
];
pub(super) const SHARED: Consumer = CONSUMERS[4];
/// What nobody may write: a consumer whose cursor was taken.
pub(super) const LATE: &str = "late";
/// Events that are projected in one commit, at most.
const TOGETHER: u64 = 8;

impl Consumer {
    pub(super) fn key(&self) -> String {
        format!("projection/{}", self.name)
    }

    pub(super) fn begin(&self, log: &Events) -> pipkin::Result<Subscription> {
        match self.wants {
            Wants::Wanted => log.of_type(WANTED).cursor(self.name),
            _ => log.all().cursor(self.name),
        }
    }
}

/// What is kept of the events of one writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The last one that has come.
    pub(super) last: u64,
    pub(super) count: u64,
    /// A running hash of those that have come, or, where some may be missing, what the last one says.
    pub(super) hash: u64,
}

/// A projection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Projection {
    /// The number that it has come to.
    pub(super) number: u64,
    pub(super) parts: [Part; WRITERS],
}

impl Projection {
    pub(super) fn decode(value: Option<&[u8]>) -> Self {
        let words: Vec<u64> =
            value.unwrap_or_default().as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let Some((&number, parts)) = words.split_first() else { return Self::default() };
        let mut projection = Self { number, ..Self::default() };
        for (part, words) in projection.parts.iter_mut().zip(parts.as_chunks::<3>().0) {
            let [last, count, hash] = *words;
            *part = Part { last, count, hash };
        }
        projection
    }

    fn encode(&self) -> Vec<u8> {
        let parts = self.parts.iter().flat_map(|part| [part.last, part.count, part.hash]);
        std::iter::once(self.number).chain(parts).flat_map(u64::to_le_bytes).collect()
    }

    /// One event further.
    fn take(&mut self, wants: Wants, event: &Event) -> Checked {
        let said = Said::of(event)?;
        let part = &mut self.parts[said.writer];
        let follows = if wants == Wants::All { said.index == part.last + 1 } else { said.index > part.last };
        if event.number() <= self.number || !follows {
            return Err(format!("{event:?}, which says {said:?}, is handed out behind event {} and {part:?}", self.number));
        }
        let hash = if wants == Wants::Left { said.hash } else { roll(part.hash, said.writer, said.index) };
        if wants == Wants::All && hash != said.hash {
            return Err(format!("{event:?} says {said:?}, and those that were handed out come to {hash:x}"));
        }
        *part = Part { last: said.index, count: part.count + 1, hash };
        self.number = event.number();
        Ok(())
    }
}

/// Consumes for ever, or to the end: then until nothing comes.
pub(super) fn consume(db: &Db, log: &Events, which: Consumer, folder: &Path, rng: &mut Rng, to_the_end: bool) -> Checked {
    let mut note = Note::open(folder, acknowledged_by(which)).map_err(|error| error.to_string())?;
    loop {
        let subscription = &mut which.begin(log).map_err(words)?;
        loop {
            let wait = Duration::from_millis(if to_the_end { 0 } else { 20 });
            let Some(event) = subscription.next_timeout(wait).map_err(words)? else {
                if to_the_end {
                    return Ok(());
                }
                continue;
            };
            let mut events = vec![event];
            for _ in 0..rng.below(TOGETHER) {
                events.extend(subscription.try_next().map_err(words)?);
            }
            // Also what was passed over.
            let number = if rng.chance(1, 2) { subscription.number() } else { events[events.len() - 1].number() };
            match project(db, subscription, which, &events, number)? {
                Some(()) => note.write(number).map_err(|error| error.to_string())?,
                None => {
                    is_too_late(db, subscription, number)?;
                    break;
                }
            }
            if which.wants == Wants::Left && !to_the_end {
                std::thread::sleep(Duration::from_millis(rng.below(3)));
            }
        }
        if which.name != SHARED.name {
            return Err(format!("the cursor {} was taken by nobody", which.name));
        }
        std::thread::sleep(Duration::from_micros(rng.below(4000)));
    }
}

/// The file in which a consumer notes what it has acknowledged. The two that share a cursor write into one, each in its turn or a little late.
pub(super) fn acknowledged_by(which: Consumer) -> u64 {
    let place = CONSUMERS.iter().position(|other| other.name == which.name).unwrap_or_default();
    (WRITERS + place) as u64
}

/// Projects events in the commit that acknowledges them; `None` when another one has taken the cursor.
fn project(db: &Db, subscription: &Subscription, which: Consumer, events: &[Event], number: u64) -> Checked<Option<()>> {
    let mut wrong = None;
    let project = |tx: &mut Transaction| {
        tx.ack(subscription, number)?;
        let mut projection = Projection::decode(tx.get(which.key())?.as_deref());
        wrong = events.iter().try_for_each(|event| projection.take(which.wants, event)).err();
        projection.number = number;
        tx.insert(which.key(), projection.encode())
    };
    match db.transaction(project) {
        Ok(()) => wrong.map_or(Ok(Some(())), Err),
        Err(Error::CursorTaken) => Ok(None),
        Err(error) => Err(words(error)),
    }
}

/// Whoever has lost its cursor can do nothing with it.
fn is_too_late(db: &Db, subscription: &Subscription, number: u64) -> Checked {
    let alone = subscription.ack(number);
    let beside = db.transaction(|tx| {
        tx.insert(LATE, "written")?;
        tx.ack(subscription, number)
    });
    match (alone, beside) {
        (Err(Error::CursorTaken), Err(Error::CursorTaken)) => Ok(()),
        answers => Err(format!("a consumer whose cursor was taken acknowledges event {number}: {answers:?}")),
    }
}
