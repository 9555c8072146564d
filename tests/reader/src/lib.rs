//! A reader of pipkin's files, written from `core/FORMAT.md` alone: it shares no line with the engine. It reads whole files in memory, checks
//! what it can, writes nothing, and is made to be read beside the document.
//!
//! ```text
//! bytes ── superblock ── segment ── frame ── list ── log ── unlisted ── replay ── snapshot ── plain
//! ```

mod bytes;
mod frame;
mod list;
mod log;
mod plain;
mod replay;
mod segment;
mod snapshot;
mod superblock;
mod unlisted;

use std::collections::BTreeMap;
use std::fmt;

pub use frame::{Codec, Event, Fields, Tag};
use replay::State;

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is something else.
    NotAStore,
    /// Its version or one of its features is not known here.
    Newer,
    /// Something that was synced does not check.
    Damaged {
        /// Where.
        offset: u64,
        /// What it was.
        what: &'static str,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStore => write!(out, "this is no pipkin store"),
            Self::Newer => write!(out, "a newer version of pipkin wrote this"),
            Self::Damaged { offset, what } => write!(out, "{what} does not check, at byte {offset}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The value of a key, and what its record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// As it stands in the file: compressed, where [`Fields::codec`] says so; [`Contents::plain`] has it plain.
    pub value: Vec<u8>,
    /// What else the record has.
    pub fields: Fields,
    /// Compaction wrote it, and nobody held an older position.
    pub copied: bool,
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// By the name of the namespace, which is empty for the default one, and the key.
    pub records: BTreeMap<(String, Vec<u8>), Record>,
    /// Events and what stays of them, in the order of their numbers.
    pub events: Vec<Event>,
    /// Names and options of the namespaces.
    pub namespaces: BTreeMap<String, Vec<u8>>,
    /// Where the log ends, if something stands behind that which a crash has cut off.
    pub torn: Option<u64>,
    /// The latest expiry that was acted on; 0: none.
    pub clock: u64,
    /// What the file has of the things that not every store has.
    pub found: Found,
}

/// What a file has of the things that not every store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Segments of the log whose records count.
    pub segments: usize,
    /// Of those behind the checkpoint: how many the trailer in front of them names.
    pub linked: usize,
    /// Segments that are kept as history: none of their records counts.
    pub history: usize,
    /// The log position from which on history is kept; 0: none is.
    pub floor: u64,
    /// The number that the next event gets, as the newest checkpoint has it.
    pub next_event: u64,
    /// A checkpoint.
    pub has_checkpoint: bool,
    /// A snapshot; it says what the log says.
    pub has_snapshot: bool,
    /// Records of the snapshot of which its calendars know when they expire.
    pub calendar: usize,
    /// Records of which the snapshot says where they stand in the order of their keys, if it has that.
    pub order: Option<usize>,
    /// The store was closed.
    pub is_closed: bool,
}

/// Reads a store by the clock of the file: records that expire later are among its contents, even if that is long ago.
///
/// A store with a snapshot is read twice, with it and without.
///
/// # Errors
///
/// [`Refusal`] when the bytes are no store, a newer one, or a damaged one; also when the snapshot says something else than the log.
pub fn read(file: &[u8]) -> Result<Contents, Refusal> {
    read_at(file, 0)
}

/// Reads a store at this time, in milliseconds since 1970, or that of the file, if it is later.
///
/// # Errors
///
/// As for [`read`].
pub fn read_at(file: &[u8], now: u64) -> Result<Contents, Refusal> {
    let Some(superblock) = superblock::read(file)? else { return Ok(State::new().contents()) };
    let log = match log::read_list(file, &superblock) {
        Ok(list) => log::find(file, &superblock, list)?,
        Err(damaged) => unlisted::find(file, &superblock).ok_or(damaged)?,
    };
    let mut state = State::new();
    for stretch in log.listed.iter().chain(&log.tail) {
        state.apply(file, stretch)?;
    }
    // None of its records counts, but each checks.
    for stretch in &log.history {
        State::new().apply(file, stretch)?;
    }
    let clock = superblock.clock.max(log.clock);
    state.expire(clock.max(now));
    let mut by_snapshot = snapshot::state(file, &superblock, &log)?;
    let found = Found {
        segments: log.listed.len() + log.tail.len(),
        linked: log.linked,
        history: log.history.len(),
        floor: log.floor,
        next_event: log.next_event,
        has_checkpoint: superblock.checkpoint.is_some(),
        has_snapshot: by_snapshot.is_some(),
        calendar: by_snapshot.as_ref().map_or(0, |state| state.calendar),
        order: by_snapshot.as_ref().and_then(|state| state.order),
        is_closed: superblock.closed.is_some(),
    };
    // What has expired may have left the index, and be in the log.
    if let Some(other) = &mut by_snapshot {
        other.expire(clock.max(now));
    }
    if let Some(other) = by_snapshot
        && !is_same(&other, &state)
    {
        let offset = superblock.snapshot.map_or(0, |place| place.offset);
        return Err(Refusal::Damaged { offset, what: "an index that says something else than the log" });
    }
    Ok(Contents { torn: log.torn, clock, found, ..state.contents() })
}

/// The index knows no events, and may have forgotten records under numbers that no name has.
fn is_same(index: &State, log: &State) -> bool {
    let numbers = log.numbers();
    let living = |state: &State| {
        let living = state.records.iter().filter(|((number, _), _)| numbers.contains(number));
        living.map(|(key, living)| (key.clone(), living.offset)).collect::<BTreeMap<_, _>>()
    };
    index.names == log.names && living(index) == living(log)
}
