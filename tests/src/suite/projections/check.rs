//! What must be true of the store that a killed process has left.

use super::child::unpack;
use super::consumers::{CONSUMERS, Consumer, LATE, Projection, Wants, acknowledged_by};
use super::last_of;
use super::plan::{DECIDED, Folds, STREAMS, Said, TYPES, WANTED, WRITERS, beside, tag};
use crate::suite::{Checked, words};
use crate::witness::Note;
use pipkin::{Db, Event, EventReader, Events};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is known of a store over the kills that it lives through.
pub(super) struct Known {
    folds: Vec<Folds>,
    /// The last event of each writer.
    lasts: [u64; WRITERS],
    /// Events that were there at the last look, and what they said.
    there: BTreeMap<u64, Said>,
    last_number: u64,
    versions: [u64; STREAMS.len()],
    pub(super) removed: u64,
}

impl Known {
    pub(super) fn new(seed: u64) -> Self {
        let folds = (0..WRITERS).map(|writer| Folds::new(seed, writer)).collect();
        let (lasts, versions) = ([0; WRITERS], [0; STREAMS.len()]);
        Self { folds, lasts, there: BTreeMap::new(), last_number: 0, versions, removed: 0 }
    }

    /// Events that were appended, removed ones included.
    pub(super) fn events(&self) -> u64 {
        self.last_number
    }

    /// Looks at everything. `at_the_end`: every consumer has come to the end.
    pub(super) fn check(&mut self, db: &Db, log: &Events, folder: &Path, at_the_end: bool) -> Checked {
        let all = read(&log.all())?;
        let said: Vec<Said> = all.iter().map(Said::of).collect::<Checked<_>>()?;
        are_in_order(&all, &said)?;
        are_read_alike(log, &all)?;
        self.writers(db, log, folder, &all, &said)?;
        self.memory(log, &all, &said)?;
        for consumer in CONSUMERS {
            self.consumer(db, log, folder, consumer, (&all, &said), at_the_end)
                .map_err(|what| format!("consumer {}: {what}", consumer.name))?;
        }
        if db.contains_key(LATE).map_err(words)? {
            return Err("a consumer whose cursor was taken has written".into());
        }
        let report = db.verify().map_err(words)?;
        if report.is_ok() { Ok(()) } else { Err(format!("verify finds {:?}", report.damage)) }
    }

    /// Every append is there that was acknowledged, whole, with its record, and numbers have no gap: each is of one event of one writer.
    fn writers(&mut self, db: &Db, log: &Events, folder: &Path, all: &[Event], said: &[Said]) -> Checked {
        for writer in 0..WRITERS {
            let last = last_of(db, log, writer)?;
            let note = Note::open(folder, writer as u64).and_then(|mut note| note.read()).map_err(|error| error.to_string())?;
            let (number, acknowledged) = unpack(note);
            if last < acknowledged.max(self.lasts[writer]) {
                return Err(format!("writer {writer} has {acknowledged} events acknowledged, and {last} are there"));
            }
            if let Ok(place) = all.binary_search_by_key(&number, Event::number)
                && (said[place].writer, said[place].index) != (writer, acknowledged)
            {
                return Err(format!("event {number} was event {acknowledged} of writer {writer}, and says {:?}", said[place]));
            }
            self.lasts[writer] = last;
            let recorded = self.folds[writer].advance(last)?;
            let record = db.get(beside(writer)).map_err(words)?.map(|value| u64::from_le_bytes(value[..].try_into().unwrap()));
            if record.unwrap_or(0) != recorded {
                return Err(format!(
                    "writer {writer} has appended {last} events, and its record says {record:?}, not {recorded}"
                ));
            }
        }
        let (last_number, sum) = (log.last_number().map_err(words)?, self.lasts.iter().sum::<u64>());
        if last_number != sum {
            return Err(format!("the last number is {last_number}, and the writers have appended {sum} events"));
        }
        for said in said {
            let hash = self.folds[said.writer].hash(said.index);
            if hash != said.hash {
                return Err(format!("an event says {said:?}, and should {hash:x}"));
            }
        }
        Ok(())
    }

    /// Nothing comes back, nothing changes, and no version begins again.
    fn memory(&mut self, log: &Events, all: &[Event], said: &[Said]) -> Checked {
        let there: BTreeMap<u64, Said> = all.iter().map(Event::number).zip(said.iter().copied()).collect();
        let old = there.range(..=self.last_number);
        for (number, said) in old {
            if self.there.get(number) != Some(said) {
                return Err(format!("event {number}, which says {said:?}, was {:?} before this process", self.there.get(number)));
            }
        }
        self.last_number = log.last_number().map_err(words)?;
        self.removed = self.last_number - there.len() as u64;
        self.there = there;
        for (known, stream) in self.versions.iter_mut().zip(STREAMS) {
            let version = log.version(stream).map_err(words)?;
            if version < *known {
                return Err(format!("{stream} was at version {known}, and is at {version}"));
            }
            *known = version;
        }
        let sum = self.versions.iter().sum::<u64>();
        if sum == self.last_number {
            Ok(())
        } else {
            Err(format!("versions {:?} do not make {} events", self.versions, self.last_number))
        }
    }

    /// Cursor and projection agree, and the projection is the fold of all events up to the cursor.
    fn consumer(
        &mut self,
        db: &Db,
        log: &Events,
        folder: &Path,
        which: Consumer,
        (all, said): (&[Event], &[Said]),
        at_the_end: bool,
    ) -> Checked {
        let projection = Projection::decode(db.get(which.key()).map_err(words)?.as_deref());
        let cursors = log.cursors().map_err(words)?;
        let cursor = cursors.iter().find(|(name, _)| name == which.name).map_or(0, |(_, number)| *number);
        if cursor != projection.number {
            return Err(format!("its cursor is at {cursor}, and its projection at {}", projection.number));
        }
        let note =
            Note::open(folder, acknowledged_by(which)).and_then(|mut note| note.read()).map_err(|error| error.to_string())?;
        if cursor < note || cursor > self.last_number {
            return Err(format!("{note} was acknowledged to it, and its cursor is at {cursor} of {}", self.last_number));
        }
        let dealt_with = projection.parts.iter().map(|part| part.last).sum::<u64>();
        let is_whole = match which.wants {
            Wants::All => dealt_with == cursor && (!at_the_end || cursor == self.last_number),
            Wants::Wanted | Wants::Left => dealt_with <= cursor,
        };
        if !is_whole {
            return Err(format!("its cursor is at {cursor} of {}, and it has dealt with {dealt_with}", self.last_number));
        }
        for (writer, part) in projection.parts.iter().enumerate() {
            let folds = &mut self.folds[writer];
            let expected = match which.wants {
                Wants::All => (part.last, folds.hash(part.last)),
                Wants::Wanted => folds.wanted(part.last),
                Wants::Left => (part.count.min(part.last), folds.hash(part.last)),
            };
            if (part.count, part.hash) != expected {
                return Err(format!("of writer {writer} it has {part:?}, and should have {expected:?}"));
            }
        }
        for (event, said) in all.iter().zip(said) {
            let last = projection.parts[said.writer].last;
            let is_its = which.wants != Wants::Wanted || event.kind() == WANTED;
            if is_its && (event.number() <= cursor) != (said.index <= last) {
                return Err(format!("its cursor is at {cursor}, and it has dealt with {last} where {event:?} says {said:?}"));
            }
        }
        Ok(())
    }
}

fn read(reader: &EventReader) -> Checked<Vec<Event>> {
    let mut events = Vec::new();
    reader.for_each(|event| events.push(event.to_event())).map_err(words)?;
    Ok(events)
}

/// Numbers rise, each writer's events come in order, versions have no gaps, and every append stands where it was expected to.
fn are_in_order(all: &[Event], said: &[Said]) -> Checked {
    let (mut number, mut decided) = (0, 0);
    let (mut versions, mut lasts) = (BTreeMap::new(), [0; WRITERS]);
    for (event, said) in all.iter().zip(said) {
        let at = |what: &str| Err(format!("{event:?}, which says {said:?}, {what}"));
        if event.number() <= number || said.index <= lasts[said.writer] {
            return at("is behind a later one");
        }
        (number, lasts[said.writer]) = (event.number(), said.index);
        if versions.insert(event.stream().to_owned(), event.version()).is_some_and(|version| version + 1 != event.version()) {
            return at("is behind a gap of its stream");
        }
        if event.tags().any(|tag| tag == DECIDED) {
            if said.place == 0 && said.expected().is_none_or(|seen| decided > seen) {
                return at("was decided behind one that nobody had seen");
            }
            decided = number;
        } else if said.expected().is_some_and(|version| event.version() != version + said.place + 1) {
            return at("is at another version than was expected");
        }
    }
    Ok(())
}

/// By stream, type and tag the same events are found.
fn are_read_alike(log: &Events, all: &[Event]) -> Checked {
    let is = |reader: EventReader, wanted: &dyn Fn(&Event) -> bool| -> Checked {
        let found: BTreeSet<u64> = read(&reader)?.iter().map(Event::number).collect();
        let expected: BTreeSet<u64> = all.iter().filter(|event| wanted(event)).map(Event::number).collect();
        if found == expected {
            return Ok(());
        }
        let other: Vec<&u64> = found.symmetric_difference(&expected).take(8).collect();
        Err(format!("{reader:?} has {} events, not {}: {other:?} differ", found.len(), expected.len()))
    };
    STREAMS.iter().try_for_each(|stream| is(log.stream(*stream), &|event| event.stream() == *stream))?;
    TYPES.iter().try_for_each(|kind| is(log.of_type(*kind), &|event| event.kind() == *kind))?;
    [tag(0), tag(7), DECIDED.into()].iter().try_for_each(|tag| is(log.tagged(tag), &|event| event.tags().any(|own| own == tag)))
}
