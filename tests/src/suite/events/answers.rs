//! Whether a store answers like the model, in every way of reading.

use super::model::{Happened, LOGS, Model, Query, STREAMS, State, TAGS, TYPES, since, version};
use crate::rng::Choices;
use crate::suite::{Checked, words};
use pipkin::{Db, Event, EventReader, Events};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Versions of the long streams from which reading begins, at most.
const FROM: u64 = 4;

pub(super) fn logs(db: &Db) -> pipkin::Result<[Events; 2]> {
    Ok([db.events(LOGS[0])?, db.events(LOGS[1])?])
}

/// What a store holds, as far as it tells one state from another.
pub(super) fn state_of(db: &Db) -> pipkin::Result<State> {
    let logs = logs(db)?;
    let records = db.iter().collect::<pipkin::Result<_>>()?;
    let last = logs[0].last_number()?;
    let mut gone: BTreeSet<u64> = (1..=last).collect();
    for log in &logs {
        log.all().for_each(|event| {
            gone.remove(&event.number());
        })?;
    }
    let (cursors, kept) = (logs[0].cursors()?, [logs[0].retention(), logs[1].retention()]);
    Ok(State { records, events: last as usize, cursors, kept, gone: Arc::new(gone), may_go: [0; 2] })
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
fn is_read_as(reader: &EventReader, expected: &[u64], what: &str, rng: &mut impl Choices) -> Checked<Vec<Event>> {
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
pub(super) fn agrees(db: &Db, model: &Model, state: &State, rng: &mut impl Choices) -> Checked {
    let found = state_of(db).map_err(words)?;
    if (&found.gone, model.is_in(&found, state)) != (&state.gone, true) {
        return Err(format!("it holds {}, and should {}", short(&found), short(state)));
    }
    let (events, versions) = (model.of(state), model.versions());
    for (index, log) in logs(db).map_err(words)?.iter().enumerate() {
        if log.last_number().map_err(words)? != events.len() as u64 {
            return Err("the two logs have another last number".into());
        }
        let own = |wanted: &dyn Fn(&Happened) -> bool| model.there(state, |event| event.log == index && wanted(event));
        let all = is_read_as(&log.all(), &own(&|_| true), LOGS[index], rng)?;
        for event in &all {
            let place = event.number() as usize - 1;
            differs(event, &events[place], versions[place]).map_or(Ok(()), Err)?;
        }
        single(log, index, model, (state, &versions), rng)?;
        let from = 1 + rng.below(events.len() as u64 + 2);
        is_read_as(&log.all().from(from), &suffix(&own(&|_| true), from), "what is behind a number", rng)?;
        for stream in STREAMS {
            let there = own(&|event| event.stream == stream);
            let there: Vec<_> = there.iter().map(|&number| (number, versions[number as usize - 1])).collect();
            of_stream(log, stream, version(events, index, stream), &there, rng)?;
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

/// Single events, by number and by version: those that are there, and none that is gone.
fn single(log: &Events, index: usize, model: &Model, (state, versions): (&State, &[u64]), rng: &mut impl Choices) -> Checked {
    for _ in 0..4.min(state.events) {
        let number = 1 + rng.below(state.events as u64);
        let (happened, version) = (&model.happened[number as usize - 1], versions[number as usize - 1]);
        let is_there = happened.log == index && !state.is_gone(number);
        let by_number = log.get_by_number(number).map_err(words)?;
        // Of a stream that has begun anew another event has the version.
        let is_own = happened.log == index && since(model.of(state), index, happened.stream).contains(&number);
        let by_version = if is_own { log.get(happened.stream, version).map_err(words)? } else { None };
        for found in [by_number, by_version] {
            match found {
                Some(event) if is_there && event.number() == number => differs(&event, happened, version).map_or(Ok(()), Err)?,
                None if !is_there => {}
                found => return Err(format!("event {number}, version {version} of {}, is read as {found:?}", happened.stream)),
            }
        }
    }
    Ok(())
}

/// `there`: numbers and versions of the events that a stream has. It has had events up to `last`.
fn of_stream(log: &Events, stream: &'static str, last: u64, there: &[(u64, u64)], rng: &mut impl Choices) -> Checked {
    let version = log.version(stream).map_err(words)?;
    if version != last {
        return Err(format!("{stream} is at version {version} instead of {last}"));
    }
    let behind = |from: u64| there.iter().filter(|(_, version)| *version >= from).map(|(number, _)| *number).collect::<Vec<_>>();
    is_read_as(&log.stream(stream), &behind(0), stream, rng)?;
    for _ in 0..FROM.min(version) {
        let from = 1 + rng.below(version + 1);
        let rest = &behind(from);
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
    let State { records, events, cursors, kept, gone, may_go } = state;
    format!("{} records, {events} events without {gone:?}, cursors {cursors:?}, {kept:?}, may go {may_go:?}", records.len())
}

/// The newest of these states in which the store is, and what exactly it holds.
pub(super) fn which(db: &Db, model: &Model, least: usize, most: usize) -> Checked<(usize, State)> {
    let found = state_of(db).map_err(words)?;
    let range = least..=most.min(model.states.len() - 1);
    let Some(commits) = range.clone().rev().find(|&commits| model.is_in(&found, &model.states[commits])) else {
        let (first, last) = (&model.states[*range.start()], &model.states[*range.end()]);
        let ends = [short(first), short(last)];
        return Err(format!("it holds {}, which is none of the states from {range:?} {ends:?}", short(&found)));
    };
    Ok((commits, State { gone: found.gone, ..model.states[commits].clone() }))
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
