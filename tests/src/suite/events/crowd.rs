//! Many threads append, write, compact and follow: numbers and versions have no gaps, and everybody reads the same.

use super::model::{STREAMS, TAGS, TYPES};
use crate::parallel::Team;
use crate::rng::{Rng, choose, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Event, EventReader, Events, Expected, NewEvent};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events that each thread appends.
const EVENTS: u64 = 1500;
const THREADS: u64 = 3;

/// One store with threads.
pub(super) fn run(seed: u64) -> Checked {
    let file = MemoryStorage::new();
    let open = || Db::builder().segment_size(4096).background(false).open_storage(Box::new(file.clone()));
    let db = open().map_err(words)?;
    let log = db.events("log").map_err(words)?;
    let (team, working) = (Team::default(), AtomicU64::new(THREADS));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (team, log, db, working) = (&team, &log, &db, &working);
            scope.spawn(move || {
                team.run(|| append(log, db, &mut derive(seed, thread), team));
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let (team, log, db) = (&team, &log, &db);
        let goes_on = || working.load(Ordering::SeqCst) > 0 && !team.is_over();
        scope.spawn(move || team.run(|| follow(log, db, &goes_on)));
        scope.spawn(move || {
            team.run(|| {
                while goes_on() {
                    db.compact_step().map_err(words)?;
                    db.insert("filler", [7; 200]).map_err(words)?;
                    std::thread::yield_now();
                }
                db.compact().map(drop).map_err(words)
            });
        });
    });
    team.outcome()?;
    is_whole(&log)?;
    db.close().map_err(words)?;
    is_whole(&open().and_then(|db| db.events("log")).map_err(words)?)
}

fn append(log: &Events, db: &Db, rng: &mut Rng, team: &Team) -> Checked {
    for _ in 0..EVENTS {
        if team.is_over() {
            break;
        }
        let stream = choose(rng, &STREAMS);
        let event = NewEvent::new(choose(rng, &TYPES), vec![1; rng.below(120) as usize]).tag(choose(rng, &TAGS));
        let version = log.version(stream).map_err(words)?;
        let answer = match rng.below(3) {
            0 => db.batch().insert("count", "1").append(log, stream, Expected::Version(version), [event]).commit().map(drop),
            _ => log.append(stream, Expected::Version(version), [event]).map(drop),
        };
        match answer {
            Ok(()) | Err(Error::AppendRefused { .. }) => {}
            Err(error) => return Err(words(error)),
        }
        if rng.chance(1, 50) {
            db.flush().map_err(words)?;
        }
    }
    Ok(())
}

/// Hears of every event once, in order, and of none that is not durable.
fn follow(log: &Events, db: &Db, goes_on: &dyn Fn() -> bool) -> Checked {
    let mut all = log.all().follow().map_err(words)?;
    let mut last = 0;
    loop {
        // Asked first: what was appended before the end is read.
        let is_last = !goes_on();
        if is_last {
            db.flush().map_err(words)?;
        }
        while let Some(event) = all.try_next().map_err(words)? {
            if event.number() != last + 1 {
                return Err(format!("{event:?} is handed out behind event {last}"));
            }
            last += 1;
        }
        if is_last {
            break;
        }
        std::thread::yield_now();
    }
    let expected = log.last_number().map_err(words)?;
    if last == expected { Ok(()) } else { Err(format!("{last} events of {expected} were handed out")) }
}

fn read(reader: &EventReader) -> Checked<Vec<Event>> {
    let mut events = Vec::new();
    reader.for_each(|event| events.push(event.to_event())).map_err(words)?;
    Ok(events)
}

/// Every number once, every version of each stream, and each chain has what its name says.
fn is_whole(log: &Events) -> Checked {
    let all = read(&log.all())?;
    if !all.iter().map(Event::number).eq(1..=log.last_number().map_err(words)?) {
        return Err(format!("{} events, and not one for each number", all.len()));
    }
    let mut versions = BTreeMap::new();
    for event in &all {
        let version = versions.entry(event.stream()).or_insert(0);
        *version += 1;
        if event.version() != *version {
            return Err(format!("{event:?} should be at version {version}"));
        }
    }
    let is = |reader: EventReader, wanted: &dyn Fn(&&Event) -> bool| -> Checked {
        let found = read(&reader)?;
        let expected: Vec<&Event> = all.iter().filter(wanted).collect();
        if found.iter().eq(expected.iter().copied()) {
            return Ok(());
        }
        Err(format!("{reader:?} has {} events, not {}", found.len(), expected.len()))
    };
    STREAMS.iter().try_for_each(|stream| is(log.stream(*stream), &|event| event.stream() == *stream))?;
    TYPES.iter().try_for_each(|kind| is(log.of_type(*kind), &|event| event.kind() == *kind))?;
    TAGS.iter().try_for_each(|tag| is(log.tagged(*tag), &|event| event.tags().any(|own| own == *tag)))
}
