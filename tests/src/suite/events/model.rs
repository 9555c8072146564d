//! What a store has to hold: its events in their order, and the state behind each commit.

use crate::rng::{Choices, choose};
use pipkin::{Condition, NewEvent, Retention};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Two logs of events in one store: their numbers are of one sequence.
pub(super) const LOGS: [&str; 2] = ["orders", "audit"];
pub(super) const STREAMS: [&str; 8] = ["a", "b", "c", "a long name of a stream", "0", "1", "2", "3"];
pub(super) const TYPES: [&str; 4] = ["Placed", "Paid", "Sent", "P"];
/// Names that are also those of streams and of types, among others.
pub(super) const TAGS: [&str; 6] = ["a", "Paid", "x", "y", "customer:7", "z"];
/// The cursor of the projection, and its record.
pub(super) const CURSOR: &str = "projector";
pub(super) const PROJECTED: &[u8] = b"projected";
/// What happened before is older than every limit of age, in milliseconds since 1970; what did not is younger.
pub(super) const OLD: u64 = 1000;
/// Most events that the store removes in one commit.
const REMOVED_TOGETHER: usize = 256;

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
    /// It is the first one of its stream again, of which no event was left.
    pub(super) is_anew: bool,
}

impl Happened {
    /// Some event for a stream.
    pub(super) fn choose(rng: &mut impl Choices, log: usize, stream: &'static str, is_small: bool) -> Self {
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
        let time = if rng.chance(1, 2) { rng.below(OLD) } else { (1 << 47) + rng.below(1 << 47) };
        let (kind, id) = (choose(rng, &TYPES), rng.chance(2, 3).then_some(id));
        Self { log, stream, kind, tags, metadata, payload, id, time, is_anew: false }
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

    pub(super) fn choose(rng: &mut impl Choices) -> Self {
        let types = (0..rng.below(3)).map(|_| choose(rng, &TYPES)).collect();
        let tags = (0..rng.below(3)).map(|_| choose(rng, &TAGS)).collect();
        Self { types, tags }
    }

    /// What an event matches, and few others.
    pub(super) fn of(event: &Happened) -> Self {
        Self { types: vec![event.kind], tags: event.tags.clone() }
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
    /// What each log keeps by itself.
    pub(super) kept: [Retention; 2],
    /// The numbers of the events that were removed.
    pub(super) gone: Arc<BTreeSet<u64>>,
    /// The last event of each log that its retention has let go: the store removes it when it likes, and those in front of it before.
    pub(super) may_go: [u64; 2],
}

impl State {
    /// The cursor of the projection.
    pub(super) fn cursor(&self) -> Option<u64> {
        self.cursors.first().map(|(_, number)| *number)
    }

    pub(super) fn set_cursor(&mut self, number: u64) {
        self.cursors = vec![(CURSOR.into(), number)];
    }

    pub(super) fn is_gone(&self, number: u64) -> bool {
        self.gone.contains(&number)
    }

    pub(super) fn remove(&mut self, numbers: &[u64]) {
        Arc::make_mut(&mut self.gone).extend(numbers);
    }

    pub(super) fn set_kept(&mut self, log: usize, kept: Retention) {
        (self.kept[log], self.may_go[log]) = (kept, 0);
    }

    /// True when no log removes events by itself.
    pub(super) fn keeps_all(&self) -> bool {
        self.kept.iter().all(|kept| *kept == Retention::new())
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

    /// The events that a state has had, removed ones included.
    pub(super) fn of(&self, state: &State) -> &[Happened] {
        &self.happened[..state.events]
    }

    /// The numbers of the events that are there and wanted, in order.
    pub(super) fn there(&self, state: &State, wanted: impl Fn(&Happened) -> bool) -> Vec<u64> {
        let mut numbers = numbers(self.of(state), wanted);
        numbers.retain(|number| !state.is_gone(*number));
        numbers
    }

    /// The numbers of the events that the retention of a log lets go in a state.
    pub(super) fn let_go(&self, state: &State, log: usize) -> Vec<u64> {
        let kept = state.kept[log];
        if kept == Retention::new() {
            return Vec::new();
        }
        let there = self.there(state, |event| event.log == log);
        let most = kept.get_max_events().unwrap_or(u64::MAX);
        let excess = (there.len() as u64).saturating_sub(most);
        let is_old = |number: u64| kept.get_max_age().is_some() && self.happened[number as usize - 1].time < OLD;
        (0..).zip(there).take_while(|&(place, number)| place < excess || is_old(number)).map(|(_, number)| number).collect()
    }

    /// Notes which events may go in a state from now on.
    pub(super) fn settle(&self, state: &mut State) {
        for log in 0..LOGS.len() {
            let last = self.let_go(state, log).last().copied().unwrap_or(0);
            state.may_go[log] = state.may_go[log].max(last);
        }
    }

    /// True when a store that holds what was `found` is in this state: of what its logs need not keep, the oldest events may be gone as well.
    pub(super) fn is_in(&self, found: &State, state: &State) -> bool {
        let is_same = found.records == state.records
            && (found.events, &found.cursors, found.kept) == (state.events, &state.cursors, state.kept)
            && found.gone.is_superset(&state.gone);
        let are_oldest = |log: usize| {
            let gone = |number: &u64| self.happened[*number as usize - 1].log == log;
            let more: Vec<u64> = found.gone.difference(&state.gone).copied().filter(gone).collect();
            let may = self.there(state, |event| event.log == log);
            more.len() <= may.len() && may[..more.len()] == more && more.iter().all(|number| *number <= state.may_go[log])
        };
        is_same && (found.gone == state.gone || (0..LOGS.len()).all(are_oldest))
    }

    /// The states that lead from this one to one without these events: they are removed in commits, from the oldest one on.
    pub(super) fn without(&self, state: &State, numbers: &[u64]) -> Vec<State> {
        let mut state = state.clone();
        let each = numbers.chunks(REMOVED_TOGETHER).map(|numbers| {
            state.remove(numbers);
            self.settle(&mut state);
            state.clone()
        });
        each.collect()
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
            *version = if event.is_anew { 1 } else { *version + 1 };
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

/// The version of the last event of a stream among these.
pub(super) fn version(events: &[Happened], log: usize, stream: &str) -> u64 {
    since(events, log, stream).len() as u64
}

/// The numbers of the events of a stream since it has begun, or has begun anew.
pub(super) fn since(events: &[Happened], log: usize, stream: &str) -> Vec<u64> {
    let own = numbers(events, |event| event.log == log && event.stream == stream);
    let begin = own.iter().rposition(|&number| events[number as usize - 1].is_anew).unwrap_or(0);
    own[begin..].to_vec()
}

/// The numbers of the events that are wanted, in order.
pub(super) fn numbers(events: &[Happened], wanted: impl Fn(&Happened) -> bool) -> Vec<u64> {
    (1..).zip(events).filter(|(_, event)| wanted(event)).map(|(number, _)| number).collect()
}
