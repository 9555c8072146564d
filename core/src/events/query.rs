//! Which events a query matches.

use super::{Chain, EventIndex, In, Stored};
use crate::error::Result;
use crate::frame::EventView;
use crate::log::Log;
use crate::planted::{Bug, is};
use alloc::string::String;
use alloc::vec::Vec;

/// What an event must have: one of the types, if any are named, and all of the tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryItem {
    pub(crate) types: Vec<String>,
    pub(crate) tags: Vec<String>,
}

impl QueryItem {
    pub(crate) fn matches(&self, event: &EventView<'_>) -> bool {
        let is_type = self.types.is_empty() || self.types.iter().any(|kind| kind.as_bytes() == event.kind);
        is_type && self.tags.iter().all(|tag| event.before(tag.as_bytes()).is_some())
    }
}

/// True unless retention has removed the event.
fn may_match(stored: &Stored<'_>) -> bool {
    !stored.is_stub() || is(Bug::ConditionMeetsStubs)
}

impl EventIndex {
    /// The number of an event behind `after` that matches one of the items, if there is one. What retention has removed matches no more, whether or
    /// not compaction has dropped its stub. The caller holds a pin.
    pub(crate) fn find_match(&self, log: &Log, of: In, items: &[QueryItem], after: u64) -> Result<Option<u64>> {
        // In front of these numbers there are only stubs.
        let first = self.state.read().first.max(self.kept(of.namespace).from);
        let after = if is(Bug::ConditionMeetsStubs) { after } else { after.max(first.saturating_sub(1)) };
        for item in items {
            let found = match (&item.tags[..], &item.types[..]) {
                ([], []) => self.any_behind(log, of, after)?,
                ([], types) => self.newest_of(log, of, types, after)?,
                (tags, _) => self.match_of_tags(log, of, item, tags, after)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// An event of the log behind `after`, whatever it is.
    fn any_behind(&self, log: &Log, of: In, after: u64) -> Result<Option<u64>> {
        let mut next = self.last();
        while let Some(number) = self.next_back_from(next).filter(|&number| number > after) {
            next = number - 1;
            if self.by_number(log, number)?.is_some_and(|stored| stored.namespace() == of.namespace && may_match(&stored)) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// The newest event of these types behind `after`.
    fn newest_of(&self, log: &Log, of: In, types: &[String], after: u64) -> Result<Option<u64>> {
        let mut newest = None;
        for kind in types {
            let chain = Chain::Type(kind.as_bytes());
            let mut next = self.newest(log, of.seed, of.namespace, chain)?;
            while let Some(stored) = next {
                let number = stored.event()?.number;
                if number <= after.max(newest.unwrap_or(0)) {
                    break;
                }
                if may_match(&stored) {
                    newest = Some(number);
                    break;
                }
                next = self.in_front(log, chain, &stored)?;
            }
        }
        Ok(newest)
    }

    /// Walks the chains of all tags side by side: every match is in each of them, so the shortest one ends the search.
    fn match_of_tags(&self, log: &Log, of: In, item: &QueryItem, tags: &[String], after: u64) -> Result<Option<u64>> {
        let mut walks: Vec<(Chain<'_>, Stored<'_>)> = Vec::new();
        for tag in tags {
            let chain = Chain::Tag(tag.as_bytes());
            match self.newest(log, of.seed, of.namespace, chain)? {
                Some(stored) => walks.push((chain, stored)),
                None => return Ok(None),
            }
        }
        loop {
            for (chain, stored) in &mut walks {
                let event = stored.event()?;
                if event.number <= after {
                    return Ok(None);
                }
                if may_match(stored) && item.matches(&event) {
                    return Ok(Some(event.number));
                }
                match self.in_front(log, *chain, stored)? {
                    Some(earlier) => *stored = earlier,
                    None => return Ok(None),
                }
            }
        }
    }

    /// The event in front of this one in a chain.
    pub(crate) fn in_front<'a>(&self, log: &'a Log, chain: Chain<'_>, stored: &Stored<'_>) -> Result<Option<Stored<'a>>> {
        let event = stored.event()?;
        match chain.before(stored.stream(), &event).filter(|&before| before != 0 && before < event.number) {
            Some(before) => self.at_or_before(log, chain, stored.namespace(), before),
            None => Ok(None),
        }
    }

    /// The event with this number, which is one of a chain, or the one in front of it: salvage may have left it out.
    pub(crate) fn at_or_before<'a>(
        &self,
        log: &'a Log,
        chain: Chain<'_>,
        namespace: u32,
        number: u64,
    ) -> Result<Option<Stored<'a>>> {
        match self.by_number(log, number)? {
            Some(stored) => Ok(Some(stored)),
            None => self.behind_gap(log, chain, namespace, number),
        }
    }

    /// The last event of a chain in front of a number that no event has. Where nothing is left in front of it, that is as it should be: retention has
    /// removed the others.
    #[cold]
    pub(crate) fn behind_gap<'a>(
        &self,
        log: &'a Log,
        chain: Chain<'_>,
        namespace: u32,
        number: u64,
    ) -> Result<Option<Stored<'a>>> {
        self.find_first(log)?;
        let (first, mut last) = (self.state.read().first, number - 1);
        while let Some(number) = self.next_back_from(last).filter(|&number| number >= first.max(1)) {
            last = number - 1;
            if let Some(stored) = self.by_number(log, number)?
                && stored.namespace() == namespace
                && chain.before(stored.stream(), &stored.event()?).is_some()
            {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }
}
