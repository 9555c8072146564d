//! Whether a store answers like the model, in every way of reading.

use super::model::{Happened, LOGS, Model, Query, STREAMS, State, TAGS, TYPES, numbers, version};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Db, Event, EventReader, Events};

/// Versions of the long streams from which reading begins, at most.
const FROM: u64 = 4;

pub(super) fn logs(db: &Db) -> pipkin::Result<[Events; 2]> {
    Ok([db.events(LOGS[0])?, db.events(LOGS[1])?])
}

/// What a store holds, as far as it tells one state from another.
pub(super) fn state_of(db: &Db) -> pipkin::Result<State> {
    let [log, _] = logs(db)?;
    let records = db.iter().collect::<pipkin::Result<_>>()?;
    Ok(State { records, events: log.last_number()? as usize, cursors: log.cursors()? })
}

/// What is wrong with an event, if it is not the one that was appended.
pub(super) fn differs(event: &Event, happened: &Happened, version: u64) -> Option<String> {
    let tags: Vec<&str> = event.tags().collect();
    let is_same = (event.stream(), event.kind(), event.version()) == (happened.stream, happened.kind, version)
        && (event.metadata(), event.payload(), event.time_ms()) == (&happened.metadata, &happened.payload, happened.time)
        && tags == happened.tags
        && happened.id.is_none_or(|id| id == event.id());
    if is_same { None } else { Some(format!("{event:?} {tags:?}, though {happened:?} at version {version} was appended")) }
}

fn read(reader: &EventReader) -> Checked<Vec<Event>> {
    reader.iter().and_then(Iterator::collect).map_err(words)
}

/// Forwards and backwards, and from somewhere in between.
fn is_read_as(reader: &EventReader, expected: &[u64], what: &str, rng: &mut Rng) -> Checked<Vec<Event>> {
    let of = |events: &[Event]| events.iter().map(Event::number).collect::<Vec<_>>();
    let (forwards, backwards) = (read(reader)?, read(&reader.clone().backwards(true))?);
    let back: Vec<u64> = expected.iter().rev().copied().collect();
    if of(&forwards) != expected || of(&backwards) != back {
        return Err(format!("{what} has {:?}, backwards {:?}, instead of {expected:?}", of(&forwards), of(&backwards)));
    }
    let limit = rng.below(5);
    let few = of(&read(&reader.clone().backwards(true).limit(limit))?);
    if few[..] != back[..back.len().min(limit as usize)] {
        return Err(format!("{what} ends with {few:?}, and should with the last {limit} of {expected:?}"));
    }
    Ok(forwards)
}

/// Checks every way of reading.
pub(super) fn agrees(db: &Db, model: &Model, state: &State, rng: &mut Rng) -> Checked {
    let found = state_of(db).map_err(words)?;
    if found != *state {
        return Err(format!("it holds {}, and should {}", short(&found), short(state)));
    }
    let events = model.of(state);
    for (index, log) in logs(db).map_err(words)?.iter().enumerate() {
        if log.last_number().map_err(words)? != events.len() as u64 {
            return Err("the two logs have another last number".into());
        }
        let own = |wanted: &dyn Fn(&Happened) -> bool| numbers(events, |event| event.log == index && wanted(event));
        let all = is_read_as(&log.all(), &own(&|_| true), LOGS[index], rng)?;
        let mut versions = std::collections::BTreeMap::new();
        for event in &all {
            let happened = &events[event.number() as usize - 1];
            let version = versions.entry(happened.stream).or_insert(0);
            *version += 1;
            differs(event, happened, *version).map_or(Ok(()), Err)?;
        }
        let from = 1 + rng.below(events.len() as u64 + 2);
        is_read_as(&log.all().from(from), &suffix(&own(&|_| true), from), "what is behind a number", rng)?;
        for stream in STREAMS {
            of_stream(log, stream, &own(&|event| event.stream == stream), rng)?;
        }
        for kind in TYPES {
            is_read_as(&log.of_type(kind), &own(&|event| event.kind == kind), kind, rng)?;
        }
        for tag in TAGS {
            is_read_as(&log.tagged(tag), &own(&|event| event.has(tag)), tag, rng)?;
        }
        for _ in 0..2 {
            let query = Query::choose(rng);
            let expected = own(&|event| query.matches(event));
            let after = from - 1;
            let what = format!("{query:?} behind {after}");
            is_read_as(&log.matching(&query.condition().after(after)), &suffix(&expected, from), &what, rng)?;
        }
    }
    Ok(())
}

fn suffix(numbers: &[u64], from: u64) -> Vec<u64> {
    numbers.iter().copied().filter(|&number| number >= from).collect()
}

fn of_stream(log: &Events, stream: &'static str, expected: &[u64], rng: &mut Rng) -> Checked {
    let version = log.version(stream).map_err(words)?;
    if version != expected.len() as u64 {
        return Err(format!("{stream} is at version {version} instead of {}", expected.len()));
    }
    is_read_as(&log.stream(stream), expected, stream, rng)?;
    for _ in 0..FROM.min(version) {
        let from = 1 + rng.below(version + 1);
        let rest = &expected[from as usize - 1..];
        is_read_as(&log.stream(stream).from(from), rest, &format!("{stream} from version {from}"), rng)?;
        // Far back in a long stream, to which jumps lead.
        let few = read(&log.stream(stream).from(from).limit(2))?;
        if !few.iter().map(Event::number).eq(rest.iter().take(2).copied()) {
            return Err(format!("{stream} goes on from version {from} with {few:?}, and should with {rest:?}"));
        }
    }
    Ok(())
}

/// A state in few words.
pub(super) fn short(state: &State) -> String {
    format!("{} records, {} events, cursors {:?}", state.records.len(), state.events, state.cursors)
}

/// The newest of these states in which the store is.
pub(super) fn which(db: &Db, model: &Model, least: usize, most: usize) -> Checked<usize> {
    let found = state_of(db).map_err(words)?;
    let range = least..=most.min(model.states.len() - 1);
    range.rev().find(|&commits| model.states[commits] == found).ok_or_else(|| {
        let range = model.states[least..=most.min(model.states.len() - 1)].iter().map(short).collect::<Vec<_>>();
        format!("it holds {}, which is none of the {} states {:?}", short(&found), range.len(), [range.first(), range.last()])
    })
}

/// True when an append was refused because of versions.
pub(super) fn is_refused(events: &[Happened], log: usize, error: &pipkin::Error) -> Checked {
    let pipkin::Error::AppendRefused { failed } = error else { return Err(format!("it is refused with {error:?}")) };
    for check in failed.iter() {
        if let pipkin::FailedCheck::Version { stream, current, expected } = check
            && *current != version(events, log, stream)
        {
            return Err(format!("{stream}, of which {expected} is expected, is said to be at version {current}"));
        }
    }
    Ok(())
}
