//! What a store has to hold: its events in their order, and the state behind each commit.

use crate::rng::{Rng, choose};
use pipkin::{Condition, NewEvent};
use std::collections::BTreeMap;

/// Two logs of events in one store: their numbers are of one sequence.
pub(super) const LOGS: [&str; 2] = ["orders", "audit"];
pub(super) const STREAMS: [&str; 8] = ["a", "b", "c", "a long name of a stream", "0", "1", "2", "3"];
pub(super) const TYPES: [&str; 4] = ["Placed", "Paid", "Sent", "P"];
/// Names that are also those of streams and of types, among others.
pub(super) const TAGS: [&str; 6] = ["a", "Paid", "x", "y", "customer:7", "z"];
/// The cursor of the projection, and its record.
pub(super) const CURSOR: &str = "projector";
pub(super) const PROJECTED: &[u8] = b"projected";

/// An event as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) log: usize,
    pub(super) stream: &'static str,
    pub(super) kind: &'static str,
    pub(super) tags: Vec<&'static str>,
    pub(super) metadata: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) id: Option<[u8; 16]>,
    pub(super) time: u64,
}

impl Happened {
    /// Some event for a stream.
    pub(super) fn choose(rng: &mut Rng, log: usize, stream: &'static str, is_small: bool) -> Self {
        let mut tags: Vec<&'static str> = (0..rng.below(4)).map(|_| choose(rng, &TAGS)).collect();
        tags.sort_unstable();
        tags.dedup();
        let len = match rng.below(30) {
            _ if is_small => 4,
            0 => 6000,
            1..=20 => rng.below(60),
            _ => rng.below(400),
        };
        let mut payload = vec![0; len as usize];
        rng.fill(&mut payload);
        let mut id = [0; 16];
        rng.fill(&mut id);
        let metadata = if rng.chance(1, 4) { vec![rng.below(256) as u8; rng.below(40) as usize] } else { Vec::new() };
        let time = rng.below(1 << 48);
        Self { log, stream, kind: choose(rng, &TYPES), tags, metadata, payload, id: rng.chance(2, 3).then_some(id), time }
    }

    /// As it is given to the store.
    pub(super) fn new_event(&self) -> NewEvent<'static> {
        let event = NewEvent::new(self.kind, self.payload.clone()).metadata(self.metadata.clone()).time_ms(self.time);
        let event = self.tags.iter().fold(event, |event, tag| event.tag(*tag));
        match self.id {
            Some(id) => event.id(id),
            None => event,
        }
    }

    pub(super) fn has(&self, tag: &str) -> bool {
        self.tags.contains(&tag)
    }
}

/// A query with what it means: some types and some tags.
#[derive(Clone, Debug)]
pub(super) struct Query {
    types: Vec<&'static str>,
    tags: Vec<&'static str>,
}

impl Query {
    /// What every event matches.
    pub(super) fn all() -> Self {
        Self { types: Vec::new(), tags: Vec::new() }
    }

    pub(super) fn choose(rng: &mut Rng) -> Self {
        let types = (0..rng.below(3)).map(|_| choose(rng, &TYPES)).collect();
        let tags = (0..rng.below(3)).map(|_| choose(rng, &TAGS)).collect();
        Self { types, tags }
    }

    pub(super) fn condition(&self) -> Condition {
        Condition::new(self.types.iter().copied(), self.tags.iter().copied())
    }

    pub(super) fn matches(&self, event: &Happened) -> bool {
        (self.types.is_empty() || self.types.contains(&event.kind)) && self.tags.iter().all(|tag| event.has(tag))
    }
}

/// What a store holds behind a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many events there are.
    pub(super) events: usize,
    /// Cursors of the first log.
    pub(super) cursors: Vec<(String, u64)>,
}

impl State {
    /// The cursor of the projection.
    pub(super) fn cursor(&self) -> Option<u64> {
        self.cursors.first().map(|(_, number)| *number)
    }

    pub(super) fn set_cursor(&mut self, number: u64) {
        self.cursors = vec![(CURSOR.into(), number)];
    }
}

/// All events, and the states behind the commits.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) happened: Vec<Happened>,
    pub(super) states: Vec<State>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { happened: Vec::new(), states: vec![State::default()] }
    }

    pub(super) fn now(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    /// The events that a state has.
    pub(super) fn of(&self, state: &State) -> &[Happened] {
        &self.happened[..state.events]
    }

    /// The number of commits that lead to this event, at the least.
    pub(super) fn commits_to(&self, number: u64) -> usize {
        self.states.partition_point(|state| (state.events as u64) < number)
    }

    pub(super) fn version(&self, log: usize, stream: &str) -> u64 {
        version(&self.happened, log, stream)
    }

    /// The version of each event.
    pub(super) fn versions(&self) -> Vec<u64> {
        let mut newest = BTreeMap::new();
        let each = self.happened.iter().map(|event| {
            let version = newest.entry((event.log, event.stream)).or_insert(0);
            *version += 1;
            *version
        });
        each.collect()
    }

    /// Only so many commits are left.
    pub(super) fn cut(&mut self, commits: usize) {
        self.states.truncate(commits + 1);
        self.happened.truncate(self.now().events);
    }
}

/// How many events a stream has among these.
pub(super) fn version(events: &[Happened], log: usize, stream: &str) -> u64 {
    events.iter().filter(|event| event.log == log && event.stream == stream).count() as u64
}

/// The numbers of the events that are wanted, in order.
pub(super) fn numbers(events: &[Happened], wanted: impl Fn(&Happened) -> bool) -> Vec<u64> {
    (1..).zip(events).filter(|(_, event)| wanted(event)).map(|(number, _)| number).collect()
}
