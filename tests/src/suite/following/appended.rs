//! Events of a store that is followed: what was appended and removed, as part of a state beside the records.

use crate::rng::{Rng, choose};
use pipkin::{Db, Event, Events, Expected, NewEvent, Retention};
use std::collections::BTreeMap;

/// Namespace and key to value.
pub(super) type Records = BTreeMap<(String, Vec<u8>), Vec<u8>>;

const LOG: &str = "log";
const STREAMS: [&str; 3] = ["a", "b", "c"];
const TYPES: [&str; 2] = ["Made", "Sent"];
const TAGS: [&str; 3] = ["x", "y", "z"];
/// The namespace of events in a state; no user can name it.
const SPACE: &str = "\0";
/// Most events that the store removes in one commit.
const REMOVED_TOGETHER: usize = 256;

/// What has been appended so far.
#[derive(Default)]
pub(super) struct Appended {
    last: u64,
    versions: BTreeMap<&'static str, u64>,
    /// The numbers of the events that are there, with stream and version.
    there: BTreeMap<u64, (&'static str, u64)>,
}

/// An append.
pub(super) struct Append {
    stream: &'static str,
    expected: Expected,
    events: Vec<NewEvent<'static>>,
}

impl Append {
    pub(super) fn run(self, db: &Db) -> pipkin::Result<()> {
        Appended::log(db)?.append(self.stream, self.expected, self.events).map(drop)
    }
}

fn key(number: u64) -> (String, Vec<u8>) {
    (SPACE.to_string(), number.to_be_bytes().to_vec())
}

fn value(stream: &str, version: u64, kind: &str, tags: &[&str], payload: &[u8]) -> Vec<u8> {
    [format!("{stream}@{version}:{kind} {tags:?} ").as_bytes(), payload].concat()
}

impl Appended {
    pub(super) fn log(db: &Db) -> pipkin::Result<Events> {
        db.events(LOG)
    }

    /// Some events for one stream.
    pub(super) fn append(&mut self, rng: &mut Rng, state: &mut Records) -> Append {
        let stream = choose(rng, &STREAMS);
        let is_empty = self.there.values().all(|(other, _)| *other != stream);
        let version = self.versions.entry(stream).or_default();
        let expected = if is_empty && rng.chance(1, 2) {
            *version = 0;
            Expected::Anew
        } else {
            Expected::Version(*version)
        };
        let mut events = Vec::new();
        for _ in 0..1 + rng.below(4) {
            (self.last, *version) = (self.last + 1, *version + 1);
            let mut payload = vec![0; if rng.chance(1, 30) { rng.below(9000) } else { rng.below(120) } as usize];
            rng.fill(&mut payload);
            let kind = choose(rng, &TYPES);
            let tags: Vec<&'static str> = TAGS.into_iter().filter(|_| rng.chance(1, 3)).collect();
            state.insert(key(self.last), value(stream, *version, kind, &tags, &payload));
            self.there.insert(self.last, (stream, *version));
            events.push(tags.iter().fold(NewEvent::new(kind, payload), |event, tag| event.tag(*tag)));
        }
        Append { stream, expected, events }
    }

    /// Removes events of a stream, in one commit, if it has any: its name, and the version in front of which they go.
    pub(super) fn remove(&mut self, rng: &mut Rng, state: &mut Records) -> Option<(&'static str, u64)> {
        let stream = choose(rng, &STREAMS);
        let before = if rng.chance(1, 2) { u64::MAX } else { 1 + rng.below(self.versions.get(stream).copied()? + 1) };
        let goes = |(_, (other, version)): &(&u64, &(&str, u64))| *other == stream && *version < before;
        let numbers: Vec<u64> = self.there.iter().filter(goes).map(|(number, _)| *number).collect();
        if numbers.is_empty() || numbers.len() > REMOVED_TOGETHER {
            return None;
        }
        for number in numbers {
            self.there.remove(&number);
            state.remove(&key(number));
        }
        Some((stream, before))
    }
}

/// How many events the log is let keep.
const KEPT: [u64; 3] = [1, 7, 40];

impl Appended {
    /// Lets the log keep so many events and removes the others, the oldest ones of whatever stream, in one commit; `None` if there are too many.
    pub(super) fn retain(&mut self, rng: &mut Rng, state: &mut Records) -> Option<u64> {
        let kept = choose(rng, &KEPT);
        let more = self.there.len().checked_sub(kept as usize).filter(|more| (1..=REMOVED_TOGETHER).contains(more))?;
        for _ in 0..more {
            let (number, _) = self.there.pop_first()?;
            state.remove(&key(number));
        }
        Some(kept)
    }
}

/// Sets that limit, and removes what is above it.
pub(super) fn keep(db: &Db, events: u64) -> pipkin::Result<()> {
    let log = Appended::log(db)?;
    log.set_retention(Retention::new().max_events(events))?;
    log.retain()?;
    // What is appended next stays.
    log.set_retention(Retention::new())
}

/// Adds the events of a store to its records, and one more where the ways of reading do not show the same ones: no state has that.
pub(super) fn add_events(db: &Db, walk: u64, records: &mut Records) -> pipkin::Result<()> {
    if db.list_events().is_empty() {
        return Ok(());
    }
    let log = Appended::log(db)?;
    let mut all = BTreeMap::new();
    let mut add = |event: &Event| {
        let tags: Vec<&str> = event.tags().collect();
        let value = value(event.stream(), event.version(), event.kind(), &tags, event.payload());
        all.insert(event.number(), value);
    };
    match walk % 3 {
        0 => log.all().iter()?.try_for_each(|event| event.map(|event| add(&event)))?,
        1 => log.all().backwards(true).iter()?.try_for_each(|event| event.map(|event| add(&event)))?,
        _ => log.all().for_each(|event| add(&event.to_event()))?,
    }
    let numbers = |reader: pipkin::EventReader| -> pipkin::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        reader.backwards(walk.is_multiple_of(2)).for_each(|event| numbers.push(event.number()))?;
        numbers.sort_unstable();
        Ok(numbers)
    };
    let having = |what: &dyn Fn(&str) -> bool| -> Vec<u64> {
        let has = |(_, value): &(&u64, &Vec<u8>)| what(&String::from_utf8_lossy(value));
        all.iter().filter(has).map(|(number, _)| *number).collect()
    };
    let mut agrees = true;
    for stream in STREAMS {
        agrees &= numbers(log.stream(stream))? == having(&|value| value.starts_with(&format!("{stream}@")));
    }
    for kind in TYPES {
        agrees &= numbers(log.of_type(kind))? == having(&|value| value.contains(&format!(":{kind} [")));
    }
    for tag in TAGS {
        agrees &= numbers(log.tagged(tag))?
            == having(&|value| value.split(']').next().is_some_and(|head| head.contains(&format!("{tag:?}"))));
    }
    if let Some((number, _)) = all.iter().nth(walk as usize % all.len().max(1)) {
        agrees &= log.get_by_number(*number)?.is_some_and(|event| event.number() == *number);
    }
    records.extend(all.into_iter().map(|(number, value)| (key(number), value)));
    if !agrees {
        records.insert(key(0), b"the ways of reading events do not agree".to_vec());
    }
    Ok(())
}
