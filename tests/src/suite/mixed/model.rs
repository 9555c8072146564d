//! What a store that holds everything should hold.

use std::collections::{BTreeMap, BTreeSet};

/// A value, and when it expires.
pub(super) type Valued = (Vec<u8>, Option<u64>);
/// What a namespace shows, without what has expired.
pub(super) type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

/// An event, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) number: u64,
    pub(super) stream: String,
    pub(super) version: u64,
    pub(super) kind: String,
    pub(super) tags: Vec<String>,
    pub(super) payload: Vec<u8>,
}

/// A log of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// Those that are there, in the order of their numbers.
    pub(super) events: Vec<Happened>,
    /// The newest version of each stream, also of one that was deleted.
    pub(super) versions: BTreeMap<String, u64>,
    /// Up to where each cursor has acknowledged.
    pub(super) cursors: BTreeMap<String, u64>,
}

/// A store between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) spaces: BTreeMap<&'static str, BTreeMap<Vec<u8>, Valued>>,
    pub(super) logs: BTreeMap<&'static str, Log>,
    /// The number of the newest event of all.
    pub(super) last: u64,
}

impl State {
    pub(super) fn put(&mut self, space: &'static str, key: &[u8], value: &[u8], until: Option<u64>) {
        self.spaces.entry(space).or_default().insert(key.to_vec(), (value.to_vec(), until));
    }

    pub(super) fn remove(&mut self, space: &'static str, key: &[u8]) {
        self.spaces.entry(space).or_default().remove(key);
    }

    /// The value that is read at a time.
    pub(super) fn get(&self, space: &str, key: &[u8], now: u64) -> Option<&[u8]> {
        let (value, until) = self.spaces.get(space)?.get(key)?;
        until.is_none_or(|until| until > now).then_some(value)
    }

    /// What a namespace shows at a time.
    pub(super) fn shown(&self, space: &str, now: u64) -> Shown {
        let records = self.spaces.get(space).into_iter().flatten();
        records
            .filter(|(_, (_, until))| until.is_none_or(|until| until > now))
            .map(|(key, (value, _))| (key.clone(), value.clone()))
            .collect()
    }

    /// Appends an event, and gives it number and version.
    pub(super) fn append(&mut self, log: &'static str, stream: &str, (kind, tags, payload): (&str, &[&str], &[u8])) {
        self.last += 1;
        let log = self.logs.entry(log).or_default();
        let version = log.versions.entry(stream.to_owned()).or_default();
        *version += 1;
        // As the engine hands them out: each once, in the order in which they were given.
        let mut seen = BTreeSet::new();
        let tags = tags.iter().filter(|tag| seen.insert(**tag)).map(|&tag| tag.to_owned()).collect();
        let (stream, version, payload) = (stream.to_owned(), *version, payload.to_vec());
        log.events.push(Happened { number: self.last, stream, version, kind: kind.to_owned(), tags, payload });
    }

    /// Removes the events of a stream in front of a version.
    pub(super) fn truncate(&mut self, log: &'static str, stream: &str, before: u64) {
        let log = self.logs.entry(log).or_default();
        log.events.retain(|event| event.stream != stream || event.version >= before);
    }
}
