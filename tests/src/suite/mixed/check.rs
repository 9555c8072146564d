//! Reads a store in every way, and compares.

use super::model::{Happened, Log, Shown, State};
use super::{LOGS, SPACES};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Condition, Db, Event, EventReader, Events};
use std::collections::BTreeMap;

/// What the walks over all namespaces and logs show.
pub(super) type Content = (BTreeMap<&'static str, Shown>, BTreeMap<&'static str, Log>);

fn happened(event: &Event) -> Happened {
    Happened {
        number: event.number(),
        stream: event.stream().to_owned(),
        version: event.version(),
        kind: event.kind().to_owned(),
        tags: event.tags().map(str::to_owned).collect(),
        payload: event.payload().to_vec(),
    }
}

fn read(reader: &EventReader) -> Checked<Vec<Happened>> {
    reader.iter().map_err(words)?.map(|event| event.map(|event| happened(&event)).map_err(words)).collect()
}

/// What a store holds, by its walks alone.
pub(super) fn content(db: &Db) -> Checked<Content> {
    let mut spaces = BTreeMap::new();
    for name in SPACES {
        let shown: Shown = match name {
            "" => db.iter().collect::<pipkin::Result<_>>().map_err(words)?,
            _ => match db.find_namespace(name) {
                Some(space) => space.iter().collect::<pipkin::Result<_>>().map_err(words)?,
                None => Shown::new(),
            },
        };
        spaces.insert(name, shown);
    }
    let mut logs = BTreeMap::new();
    for name in LOGS {
        if !db.list_events().iter().any(|known| known == name) {
            logs.insert(name, Log::default());
            continue;
        }
        let events = db.events(name).map_err(words)?;
        let cursors = events.cursors().map_err(words)?.into_iter().collect();
        logs.insert(name, Log { events: read(&events.all())?, versions: BTreeMap::new(), cursors });
    }
    Ok((spaces, logs))
}

/// True when the walks show this state at a time.
pub(super) fn is_state(found: &Content, state: &State, now: u64) -> bool {
    let log_is = |name: &&'static str| {
        let (found, known) = (found.1.get(name), state.logs.get(name));
        let empty = Log::default();
        let (found, known) = (found.unwrap_or(&empty), known.unwrap_or(&empty));
        found.events == known.events && found.cursors == known.cursors
    };
    SPACES.iter().all(|name| found.0.get(name) == Some(&state.shown(name, now))) && LOGS.iter().all(log_is)
}

/// Checks that every way of reading shows this state.
pub(super) fn answers_like(rng: &mut Rng, db: &Db, state: &State, now: u64) -> Checked {
    let found = content(db)?;
    if !is_state(&found, state, now) {
        return Err(difference(&found, state, now));
    }
    for name in SPACES {
        records_like(rng, db, name, &state.shown(name, now))?;
    }
    for name in LOGS.iter().filter(|name| db.list_events().iter().any(|known| known == *name)) {
        let empty = Log::default();
        let log = state.logs.get(name).unwrap_or(&empty);
        events_like(&db.events(name).map_err(words)?, log).map_err(|what| format!("log {name}: {what}"))?;
    }
    Ok(())
}

fn records_like(rng: &mut Rng, db: &Db, name: &str, shown: &Shown) -> Checked {
    let space = match name {
        "" => db.default_namespace(),
        _ => match db.find_namespace(name) {
            Some(space) => space,
            None => return Ok(()),
        },
    };
    let len = space.len().map_err(words)?;
    if len != shown.len() as u64 {
        return Err(format!("{name:?} has {len} records by its count, and {} by its walk", shown.len()));
    }
    let many = space.get_many(shown.keys()).map_err(words)?;
    if !many.iter().map(Option::as_ref).eq(shown.values().map(Some)) {
        return Err(format!("get_many shows other values in {name:?}"));
    }
    let ranged: Vec<_> = space.range(..).map_err(words)?.collect::<pipkin::Result<_>>().map_err(words)?;
    if !ranged.iter().map(|(key, value)| (key, value)).eq(shown) {
        return Err(format!("the range over {name:?} shows {} records instead of {}", ranged.len(), shown.len()));
    }
    let key = format!("{}.{}", rng.below(6), rng.below(20)).into_bytes();
    if space.get(&key).map_err(words)?.as_ref() != shown.get(&key) {
        return Err(format!("{} has another value in {name:?}", key.escape_ascii()));
    }
    Ok(())
}

fn events_like(events: &Events, log: &Log) -> Checked {
    let expect = |what: String, found: Vec<Happened>, wanted: &dyn Fn(&&Happened) -> bool| {
        let wanted: Vec<Happened> = log.events.iter().filter(wanted).cloned().collect();
        if found == wanted { Ok(()) } else { Err(format!("{what}: {} events instead of {}", found.len(), wanted.len())) }
    };
    for (stream, version) in &log.versions {
        if events.version(stream).map_err(words)? != *version {
            return Err(format!("{stream} is at {} instead of {version}", events.version(stream).map_err(words)?));
        }
        expect(format!("stream {stream}"), read(&events.stream(stream.clone()))?, &|event| &event.stream == stream)?;
        let mut back = read(&events.stream(stream.clone()).backwards(true))?;
        back.reverse();
        expect(format!("stream {stream}, backwards"), back, &|event| &event.stream == stream)?;
    }
    for tag in ["red", "green", "blue"] {
        expect(format!("tag {tag}"), read(&events.tagged(tag))?, &|event| event.tags.iter().any(|own| own == tag))?;
    }
    for kind in ["Made", "Moved"] {
        expect(format!("type {kind}"), read(&events.of_type(kind))?, &|event| event.kind == kind)?;
        let both = Condition::new([kind], ["red"]);
        let wanted = |event: &&Happened| event.kind == kind && event.tags.iter().any(|tag| tag == "red");
        expect(format!("type {kind} and red"), read(&events.matching(&both))?, &wanted)?;
    }
    for event in log.events.iter().step_by(7) {
        let one = events.get(&event.stream, event.version).map_err(words)?;
        let same = events.get_by_number(event.number).map_err(words)?;
        if one.as_ref().map(happened).as_ref() != Some(event) || one != same {
            return Err(format!("event {} is read as {one:?} and {same:?}", event.number));
        }
    }
    Ok(())
}

/// Where the walks and a state part.
pub(super) fn difference(found: &Content, state: &State, now: u64) -> String {
    for name in SPACES {
        let (found, shown) = (found.0.get(name).cloned().unwrap_or_default(), state.shown(name, now));
        if let Some(key) = found.keys().chain(shown.keys()).find(|key| found.get(*key) != shown.get(*key)) {
            let [found, shown] = [&found, &shown].map(|records| records.get(key).map(|value| value.escape_ascii().to_string()));
            return format!("{name:?} has {found:?} for {}, and should have {shown:?}", key.escape_ascii());
        }
    }
    for name in LOGS {
        let empty = Log::default();
        let (found, known) = (found.1.get(name).unwrap_or(&empty), state.logs.get(name).unwrap_or(&empty));
        if found.cursors != known.cursors {
            return format!("log {name} has the cursors {:?}, and should have {:?}", found.cursors, known.cursors);
        }
        let numbers =
            |log: &Log| log.events.iter().map(|event| (event.number, event.stream.clone(), event.version)).collect::<Vec<_>>();
        if found.events != known.events {
            return format!("log {name} has {:?}, and should have {:?}", numbers(found), numbers(known));
        }
    }
    "nothing".into()
}
