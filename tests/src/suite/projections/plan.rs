//! What the writers append: every event follows from its writer and from how many events that writer has appended before, so that whoever knows
//! the numbers of events knows what a projection of them must be.

use crate::rng::{Rng, choose, derive};
use crate::suite::Checked;
use pipkin::{Event, NewEvent};

pub(super) const WRITERS: usize = 8;
pub(super) const STREAMS: [&str; 5] = ["bounded", "a", "b", "c", "d"];
/// The stream of which only the last events are kept. Its writers take turns with whoever removes them.
pub(super) const BOUNDED: usize = 0;
pub(super) const TYPES: [&str; 3] = ["Placed", "Paid", "Sent"];
/// The type that the filtered projection wants.
pub(super) const WANTED: &str = "Paid";
/// The tag of events that were appended on a condition.
pub(super) const DECIDED: &str = "decided";
/// No expectation.
const ANY: u64 = u64::MAX;

/// How an append is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Any,
    Version,
    If,
    /// Beside a record, in a batch.
    Batch,
    /// Beside a record, in a transaction.
    Transaction,
}

/// One append.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) how: How,
    pub(super) stream: usize,
    pub(super) count: u64,
    pub(super) flushes: bool,
}

impl Op {
    /// The append of a writer that begins with this event of it.
    pub(super) fn of(seed: u64, writer: usize, first: u64) -> Self {
        let mut rng = derive(seed ^ (writer as u64) << 32, first);
        let how = choose(&mut rng, &[How::Any, How::Version, How::Version, How::If, How::Batch, How::Transaction]);
        let stream = rng.below(STREAMS.len() as u64) as usize;
        Self { how, stream, count: 1 + rng.below(4), flushes: rng.chance(1, 40) }
    }

    pub(super) fn has_record(&self) -> bool {
        matches!(self.how, How::Batch | How::Transaction)
    }
}

/// The key of the record that a writer's batches and transactions write: the first event of the latest one.
pub(super) fn beside(writer: usize) -> String {
    format!("beside/{writer}")
}

pub(super) fn tag(writer: usize) -> String {
    format!("writer:{writer}")
}

/// A running hash, one event further.
pub(super) fn roll(hash: u64, writer: usize, index: u64) -> u64 {
    Rng::new(hash.rotate_left(7) ^ index ^ (writer as u64) << 56).next_u64()
}

pub(super) fn kind(writer: usize, index: u64) -> &'static str {
    TYPES[(roll(0, writer, index) % 3) as usize]
}

/// What an event says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) writer: usize,
    /// It is this event of its writer, from 1.
    pub(super) index: u64,
    /// The running hash of its writer's events up to this one.
    pub(super) hash: u64,
    /// The version behind which it was to be appended, or the number behind which nothing was to be decided.
    pub(super) expected: u64,
    /// Its place in its append.
    pub(super) place: u64,
}

impl Said {
    /// What this event says.
    pub(super) fn of(event: &Event) -> Checked<Self> {
        let payload = event.payload();
        let field = |at: usize| payload.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let fields = (field(0), field(1), field(2), field(3), field(4));
        let (Some(writer), Some(index), Some(hash), Some(expected), Some(place)) = fields else {
            return Err(format!("{event:?} was appended by nobody"));
        };
        if writer >= WRITERS as u64 || event.kind() != kind(writer as usize, index) {
            return Err(format!("{event:?} was appended by nobody: it says {fields:?}"));
        }
        Ok(Self { writer: writer as usize, index, hash, expected, place })
    }

    pub(super) fn expected(&self) -> Option<u64> {
        (self.expected != ANY).then_some(self.expected)
    }
}

/// The events of an append behind `hash`, and the running hash behind them.
pub(super) fn events(op: &Op, writer: usize, first: u64, hash: u64, expected: Option<u64>) -> (Vec<NewEvent<'static>>, u64) {
    let mut hash = hash;
    let mut events = Vec::new();
    for place in 0..op.count {
        let index = first + place;
        hash = roll(hash, writer, index);
        let mut payload: Vec<u8> =
            [writer as u64, index, hash, expected.unwrap_or(ANY), place].iter().flat_map(|field| field.to_le_bytes()).collect();
        payload.resize(40 + (hash % 150) as usize, index as u8);
        let event = NewEvent::new(kind(writer, index), payload).tag(tag(writer));
        events.push(if op.how == How::If { event.tag(DECIDED) } else { event });
    }
    (events, hash)
}

/// What follows from a writer's events up to one.
#[derive(Clone, Debug)]
pub(super) struct Folds {
    seed: u64,
    writer: usize,
    /// By index: the running hash of all events, the count of the wanted ones, and their running hash.
    folds: Vec<(u64, u64, u64)>,
    /// The first event of the append that comes next, and of the last one with a record; 0: none.
    next: u64,
    recorded: u64,
}

impl Folds {
    pub(super) fn new(seed: u64, writer: usize) -> Self {
        Self { seed, writer, folds: vec![(0, 0, 0)], next: 1, recorded: 0 }
    }

    pub(super) fn hash(&mut self, index: u64) -> u64 {
        self.fold(index).0
    }

    /// Count and running hash of the wanted events up to this one.
    pub(super) fn wanted(&mut self, index: u64) -> (u64, u64) {
        let (_, count, hash) = self.fold(index);
        (count, hash)
    }

    fn fold(&mut self, index: u64) -> (u64, u64, u64) {
        while self.folds.len() as u64 <= index {
            let next = self.folds.len() as u64;
            let (all, count, hash) = self.folds[next as usize - 1];
            let all = roll(all, self.writer, next);
            let is_wanted = kind(self.writer, next) == WANTED;
            self.folds.push(if is_wanted { (all, count + 1, roll(hash, self.writer, next)) } else { (all, count, hash) });
        }
        self.folds[index as usize]
    }

    /// The writer has appended events up to this one: returns what its record must say.
    pub(super) fn advance(&mut self, last: u64) -> Checked<u64> {
        while self.next <= last {
            let op = Op::of(self.seed, self.writer, self.next);
            if op.has_record() {
                self.recorded = self.next;
            }
            self.next += op.count;
        }
        if self.next == last + 1 {
            return Ok(self.recorded);
        }
        Err(format!("of an append of writer {} there is only a part: its events end with {last}", self.writer))
    }
}
