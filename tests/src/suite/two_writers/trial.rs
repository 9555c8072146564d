//! What two sessions do, and when one hands over to the other.

use Op::{Checkpoint, Churn, Close, Compact, Count, Flush, Long, Open, Put};
use pipkin::{Builder, Db};
use std::fmt;

const KEY: [u8; 32] = [7; 32];
const SEGMENT: u32 = 4096;

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opens the store, if it is not open.
    Open,
    /// A record under a key of its own.
    Put,
    /// A record that takes several segments.
    Long,
    /// One more on a counter that both have: read, then written.
    Count,
    /// Many records over the same few keys: work for compaction.
    Churn,
    /// What was written is to be safe.
    Flush,
    /// A snapshot and the list of segments.
    Checkpoint,
    /// Compacts what is worth it.
    Compact,
    /// Closes the store.
    Close,
}

/// What happens where a plan hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The other one goes on.
    Pause,
    /// The one that was running is killed.
    Kill,
    /// The power goes.
    Cut,
}

/// So many calls, then a turn.
pub type Plan = Vec<(u32, Turn)>;

/// What stands in the file at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Blank,
    /// A store that was closed.
    Closed,
    /// One whose writer was killed.
    Killed,
}

/// Whether the sessions know that they share the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// They do not: how it was before there was a fence.
    ThoughtLocked,
    /// A host without locks.
    Plain,
    /// The same, with the layer of the component above it, in which reads stay and writes gather.
    Cached,
    /// As `Plain`, with a sealed store.
    Sealed,
    /// As `Cached`, with a sealed store.
    SealedCached,
}

impl Host {
    /// The options of a store on it.
    pub(super) fn builder(self) -> Builder {
        let builder = Db::builder().background(false).segment_size(SEGMENT);
        if self.is_sealed() { builder.encryption_key(KEY) } else { builder }
    }

    pub(super) const fn is_sealed(self) -> bool {
        matches!(self, Self::Sealed | Self::SealedCached)
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was there.
    pub start: Start,
    /// What it runs on.
    pub host: Host,
    /// What the first and the second one do.
    pub scripts: [Vec<Op>; 2],
    /// Who goes on when.
    pub plan: Plan,
    /// For entropy, and for what a power cut leaves.
    pub seed: u64,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, host, scripts: [first, second], plan, seed } = self;
        write!(f, "{start:?} {host:?} {first:?} | {second:?} with {plan:?}, seed {seed}")
    }
}

/// A trial from the words that a failure prints.
pub fn parse(text: &str) -> Option<Trial> {
    let (what, plan) = text.split_once(" with ")?;
    let (first, second) = what.split_once(" | ")?;
    let (begin, first) = first.split_once('[')?;
    let mut words = begin.split_whitespace();
    let starts = [Start::Blank, Start::Closed, Start::Killed];
    let hosts = [Host::Plain, Host::Cached, Host::Sealed, Host::SealedCached, Host::ThoughtLocked];
    let ops = [Open, Put, Long, Count, Churn, Flush, Checkpoint, Compact, Close];
    let start = words.next()?;
    let host = words.next()?;
    let script = |text: &str| {
        let words = text.trim_matches(['[', ']', ' ']).split(", ").filter(|word| !word.is_empty());
        words.map(|word| ops.into_iter().find(|op| format!("{op:?}") == word)).collect::<Option<Vec<Op>>>()
    };
    let (plan, seed) = plan.split_once("], seed ")?;
    let turns = [Turn::Pause, Turn::Kill, Turn::Cut];
    let turn = |text: &str| {
        let (calls, turn) = text.trim_matches(['(', ')', ' ']).split_once(", ")?;
        Some((calls.parse().ok()?, turns.into_iter().find(|known| format!("{known:?}") == turn)?))
    };
    let plan = plan.trim_matches(['[', ' ']).split("), ").filter(|turn| !turn.is_empty()).map(turn).collect::<Option<Plan>>()?;
    Some(Trial {
        start: starts.into_iter().find(|known| format!("{known:?}") == start)?,
        host: hosts.into_iter().find(|known| format!("{known:?}") == host)?,
        scripts: [script(first)?, script(second)?],
        plan,
        seed: seed.trim().parse().ok()?,
    })
}
