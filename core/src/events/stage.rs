//! Preparing an append: checks what it expects, and gives each event its number, its version, and the events in front of it.

use super::heads::NUMBER_MAX;
use super::{Chain, EventIndex, In, QueryItem};
use crate::error::{Error, Result};
use crate::expected::{Expected, FailedCheck};
use crate::frame::{encode_event, jump_version, own_tags};
use crate::log::{Log, Placed};
use crate::planted::{Bug, is};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// An event as its user has written it.
#[derive(Clone, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) kind: &'a str,
    pub(crate) tags: Vec<&'a str>,
    pub(crate) metadata: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) id: Option<[u8; 16]>,
    pub(crate) time: u64,
}

/// Events for one stream.
#[derive(Clone, Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) namespace: u32,
    pub(crate) stream: &'a str,
    pub(crate) expected: Expected,
    pub(crate) events: Vec<Written<'a>>,
}

/// No event behind a number may match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMatch<'a> {
    pub(crate) namespace: u32,
    pub(crate) items: &'a [QueryItem],
    pub(crate) after: u64,
}

/// Numbers and versions of what was appended to a stream: of the first event and of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) numbers: (u64, u64),
    pub(crate) versions: (u64, u64),
}

/// Events that are ready to be appended.
#[derive(Debug, Default)]
pub(crate) struct Staged<'a> {
    /// Namespace, stream and value of each.
    pub(crate) frames: Vec<(u32, &'a str, Vec<u8>)>,
    /// By planned stream.
    pub(crate) ranges: Vec<Range>,
    /// Hash of a chain, its newest event in the log and its newest one here.
    chains: Vec<(u64, u64, u64)>,
    /// The number of the first one.
    first: u64,
}

impl Staged<'_> {
    /// The number of the next event behind these.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.frames.len() as u64
    }
}

/// The newest event of a stream, or of another chain.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    number: u64,
    version: u64,
    /// The number to which its jump leads.
    jump: u64,
    /// The newest one in the log, in front of this append; 0: none.
    before: u64,
    /// Of it only a stub is left, and so of all in front of it in its stream.
    is_removed: bool,
}

/// What an append has found so far.
struct Stage<'s, 'a> {
    index: &'s EventIndex,
    log: &'s Log,
    seed: u64,
    newest: BTreeMap<(u32, Chain<'a>), Newest>,
    staged: Staged<'a>,
    /// The jumps of the staged events, in their order.
    jumps: Vec<u64>,
}

impl EventIndex {
    /// Prepares an append. The caller holds [`EventIndex::lock`] and a pin; `next` is the number of the next event.
    ///
    /// # Errors
    ///
    /// [`Error::AppendRefused`] with every check that fails.
    pub(crate) fn stage<'a>(
        &self,
        log: &Log,
        seed: u64,
        next: u64,
        planned: &[Planned<'a>],
        conditions: &[NoMatch<'_>],
    ) -> Result<Staged<'a>> {
        let staged = Staged { first: next, ..Staged::default() };
        let mut stage = Stage { index: self, log, seed, newest: BTreeMap::new(), staged, jumps: Vec::new() };
        let mut failed = Vec::new();
        for (index, condition) in conditions.iter().enumerate() {
            let of = In { seed, namespace: condition.namespace };
            let found = self.find_match(log, of, condition.items, condition.after)?.filter(|_| !is(Bug::ConditionUnchecked));
            failed.extend(found.map(|number| FailedCheck::Condition { index, number }));
        }
        for planned in planned {
            failed.extend(stage.stream(planned)?);
        }
        if stage.staged.next() > NUMBER_MAX {
            return Err(Error::LogExhausted);
        }
        stage.chains();
        if failed.is_empty() { Ok(stage.staged) } else { Err(Error::AppendRefused { failed: failed.into_boxed_slice() }) }
    }

    /// The places of events that an earlier append of the same events has got: of one that expected `version`, and whose answer was lost.
    pub(crate) fn repeated(&self, log: &Log, seed: u64, planned: &Planned<'_>) -> Result<Option<Range>> {
        let version = match planned.expected {
            Expected::NoStream | Expected::Anew => 0,
            Expected::Version(version) => version,
            Expected::Any | Expected::Exists => return Ok(None),
        };
        let Some(first) = planned.events.first() else { return Ok(None) };
        let newest = self.newest(log, seed, planned.namespace, Chain::Stream(planned.stream.as_bytes()))?;
        let Some(newest) = newest else { return Ok(None) };
        let mut range = Range { numbers: (0, 0), versions: (version + 1, version + planned.events.len() as u64) };
        let Some(mut stored) = self.at_version(log, newest, range.versions.1)? else { return Ok(None) };
        range.numbers.1 = stored.event()?.number;
        for written in planned.events.iter().rev() {
            let event = stored.event()?;
            if written.id.is_none_or(|id| id != event.id) {
                return Ok(None);
            }
            range.numbers.0 = event.number;
            if core::ptr::eq(written, first) {
                return Ok(Some(range));
            }
            match self.in_front(log, Chain::Stream(planned.stream.as_bytes()), &stored)? {
                Some(earlier) => stored = earlier,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Enters what was appended: from here on it can be read. Cannot fail.
    pub(crate) fn publish(&self, log: &Log, staged: &Staged<'_>, placed: &[Placed]) {
        let mut state = self.state.write();
        let is_cut = self.is_cut();
        for (number, placed) in (staged.first..).zip(placed) {
            let extent = log.geometry.extent_of(placed.offset);
            log.segment_stats.change_live(extent, placed.len as i64, is_cut);
            super::put(&mut state.places, log, number, *placed);
        }
        for &(hash, before, number) in &staged.chains {
            state.heads.set(hash, before, number);
        }
        state.last = state.last.max(staged.next() - 1);
    }
}

impl<'a> Stage<'_, 'a> {
    fn stream(&mut self, planned: &Planned<'a>) -> Result<Option<FailedCheck>> {
        let chain = Chain::Stream(planned.stream.as_bytes());
        let mut newest = self.newest(planned.namespace, chain)?;
        let is_anew = planned.expected == Expected::Anew;
        let is_met = planned.expected.is_met(newest.version, newest.is_removed) || is_anew && is(Bug::AnewUnchecked);
        if !is_met && !is(Bug::ExpectedUnchecked) {
            let (stream, expected) = (String::from(planned.stream), planned.expected);
            return Ok(Some(FailedCheck::Version { stream, expected, current: newest.version }));
        }
        if is_anew {
            // A chain of its own: the first event has none in front of it.
            newest = Newest { before: newest.before, ..Newest::default() };
        }
        let first = self.staged.next();
        for written in &planned.events {
            newest = self.event(planned, written, newest)?;
        }
        self.newest.insert((planned.namespace, chain), newest);
        let count = planned.events.len() as u64;
        let range = Range { numbers: (first, first + count - 1), versions: (newest.version + 1 - count, newest.version) };
        self.staged.ranges.push(range);
        Ok(None)
    }

    fn event(&mut self, planned: &Planned<'a>, written: &Written<'a>, newest: Newest) -> Result<Newest> {
        let (number, version) = (self.staged.next(), newest.version + 1);
        let jump = self.jump(newest, version)?;
        let mut tags: Vec<(&[u8], u64)> = Vec::with_capacity(written.tags.len() + 4);
        let metadata;
        tags.push((own_tags::STREAM, newest.number));
        if jump != 0 && jump != newest.number {
            tags.push((own_tags::JUMP, jump));
        }
        let users = written.tags.iter().map(|tag| (Chain::Tag(tag.as_bytes()), tag.as_bytes()));
        for (chain, key) in core::iter::once((Chain::Type(written.kind.as_bytes()), own_tags::TYPE)).chain(users) {
            tags.push((key, self.follow(planned.namespace, chain, number)?));
        }
        if !written.metadata.is_empty() {
            metadata = [own_tags::METADATA, written.metadata].concat();
            tags.push((&metadata, 0));
        }
        let id = written.id.unwrap_or_else(|| self.log.event_id(number));
        let head = (number, version, written.time, id);
        let value = encode_event(head, written.kind.as_bytes(), tags.into_iter(), written.payload);
        self.staged.frames.push((planned.namespace, planned.stream, value));
        self.jumps.push(jump);
        Ok(Newest { number, version, jump, is_removed: false, ..newest })
    }

    /// The event `number` is the newest one of its type, or with a tag, behind the one that this returns.
    fn follow(&mut self, namespace: u32, chain: Chain<'a>, number: u64) -> Result<u64> {
        if let Some(known) = self.newest.get_mut(&(namespace, chain)) {
            return Ok(core::mem::replace(&mut known.number, number));
        }
        let newest = self.newest(namespace, chain)?;
        self.newest.insert((namespace, chain), Newest { number, ..newest });
        Ok(newest.number)
    }

    /// What becomes of the chains.
    fn chains(&mut self) {
        let counts = |chain: &Chain<'_>| !(matches!(chain, Chain::Tag(_)) && is(Bug::TagChainNotUpdated));
        let newest = self.newest.iter().filter(|((_, chain), newest)| newest.number != newest.before && counts(chain));
        let hashed = newest.map(|((namespace, chain), newest)| (chain.hash(self.seed, *namespace), newest.before, newest.number));
        self.staged.chains = hashed.collect();
    }

    /// The number to which the jump of the event behind `newest` leads.
    fn jump(&self, newest: Newest, version: u64) -> Result<u64> {
        let to = jump_version(version);
        if to == newest.version && !is(Bug::JumpTooFar) {
            return Ok(newest.number);
        }
        if to == 0 {
            return Ok(0);
        }
        // The jump of the jump: see `jump_version`.
        if let Some(place) = newest.jump.checked_sub(self.staged.first) {
            return Ok(self.jumps.get(place as usize).copied().unwrap_or(0));
        }
        let stored = self.index.by_number(self.log, newest.jump)?;
        stored.map_or(Ok(0), |stored| Ok(jump_of(&stored.event()?)))
    }

    fn newest(&self, namespace: u32, chain: Chain<'a>) -> Result<Newest> {
        if let Some(known) = self.newest.get(&(namespace, chain)) {
            return Ok(*known);
        }
        let Some(stored) = self.index.newest(self.log, self.seed, namespace, chain)? else { return Ok(Newest::default()) };
        let event = stored.event()?;
        let (number, is_removed) = (event.number, stored.is_stub());
        Ok(Newest { number, version: event.version, jump: jump_of(&event), before: number, is_removed })
    }
}

/// The number to which the jump of an event leads. Where that is the event in front, it is not written twice.
fn jump_of(event: &crate::frame::EventView<'_>) -> u64 {
    let to = jump_version(event.version);
    let front = if to + 1 == event.version { event.before(own_tags::STREAM) } else { None };
    event.before(own_tags::JUMP).or(front).unwrap_or(0)
}
