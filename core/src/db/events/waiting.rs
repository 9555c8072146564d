//! Events that wait for the commit of a batch or of a transaction.

use super::{Appends, Condition, Events, NewEvent};
use crate::error::Result;
use crate::expected::Expected;
use crate::store::Store;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Events for one stream.
#[derive(Debug)]
pub(in crate::db) struct OwnAppend<'a> {
    pub(in crate::db) to: Events,
    pub(in crate::db) stream: Cow<'a, str>,
    pub(in crate::db) expected: Expected,
    pub(in crate::db) events: Vec<NewEvent<'a>>,
}

impl OwnAppend<'_> {
    /// The memory that it takes, in bytes.
    pub(in crate::db) fn memory_bytes(&self) -> usize {
        self.stream.len() + size_of::<Self>() + self.events.iter().map(NewEvent::memory_bytes).sum::<usize>()
    }
}

/// The events of a commit, each of them checked.
pub(in crate::db) fn planned<'a>(appends: &'a [OwnAppend<'_>]) -> Result<Appends<'a>> {
    let mut planned = Appends::default();
    for OwnAppend { to, stream, expected, events } in appends {
        planned.add(to, stream, *expected, events)?;
    }
    Ok(planned)
}

/// The events of a batch.
#[derive(Debug, Default)]
pub(in crate::db) struct BatchAppends<'a> {
    pub(in crate::db) appends: Vec<OwnAppend<'a>>,
    pub(in crate::db) conditions: Vec<(Events, Condition)>,
}

impl BatchAppends<'_> {
    pub(in crate::db) fn planned(&self, store: &Store) -> Result<Appends<'_>> {
        let logs = self.appends.iter().map(|append| &append.to).chain(self.conditions.iter().map(|(of, _)| of));
        for log in logs {
            log.space.name_in(store)?;
        }
        let mut planned = planned(&self.appends)?;
        for (of, condition) in &self.conditions {
            planned.add_condition(of, condition)?;
        }
        Ok(planned)
    }
}
