//! Reading events one after the other: as copies, or in place.

use super::reader::EventReader;
use super::walk::{At, Step, Walk};
use super::{Event, EventRef, Events};
use crate::db::refresh::READS_MAX;
use crate::error::{Error, Result};
use alloc::collections::VecDeque;
use core::fmt;

/// Most events that an iterator reads ahead. It begins with few, for who wants only the first.
const AHEAD: usize = 64;
const AHEAD_AT_FIRST: usize = 4;
/// What is done under one pin ends with the event that brings it to so many bytes, or with so many steps.
const TOGETHER_BYTES: usize = 64 * 1024;
const TOGETHER_STEPS: usize = 1024;

/// Events, in their order; from [`EventReader::iter`].
pub struct EventIter {
    events: Events,
    walk: Walk,
    left: u64,
    ready: VecDeque<Result<Event>>,
    ahead: usize,
    /// How often a step was tried that has met space which the writer may have used again.
    tries: usize,
    is_at_end: bool,
}

impl fmt::Debug for EventIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventIter").field("events", &self.events).finish_non_exhaustive()
    }
}

/// True when a follower has met space that the writer may have used again: after a refresh the step is tried again.
fn is_tried_again(at: &At<'_>, error: &Error, tries: &mut usize) -> bool {
    let is_reuse = at.log.follows() && error.may_be_reuse() && *tries < READS_MAX;
    *tries += usize::from(is_reuse);
    is_reuse
}

impl EventReader {
    /// The events that there are now. What is appended later does not come: see [`Self::follow`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when the index of events cannot be built.
    pub fn iter(&self) -> Result<EventIter> {
        let walk = self.events.look(&mut |at| self.walk(at))?;
        let (events, ready) = (self.events.clone(), VecDeque::new());
        Ok(EventIter { events, walk, left: self.limit, ready, ahead: AHEAD_AT_FIRST, tries: 0, is_at_end: false })
    }

    /// Hands each event that there is now to `visit`, in place: where the host maps the file, nothing is copied.
    ///
    /// `visit` may use the store; what it appends does not come.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let account = db.events("account")?;
    /// account.append("ada", Expected::Any, [NewEvent::new("Paid", [3]), NewEvent::new("Paid", [4])])?;
    /// let mut sum = 0;
    /// account.stream("ada").for_each(|event| sum += event.payload()[0])?;
    /// assert_eq!(sum, 7);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for an event that is damaged, and when the index of events cannot be built.
    pub fn for_each(&self, mut visit: impl FnMut(EventRef<'_>)) -> Result<()> {
        self.try_for_each(|event| {
            visit(event);
            Ok(())
        })
    }

    /// As [`Self::for_each`], and ends with the first error of `visit`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::for_each`] and of `visit`.
    pub fn try_for_each<E: From<Error>>(&self, mut visit: impl FnMut(EventRef<'_>) -> Result<(), E>) -> Result<(), E> {
        let (mut at, mut walk) = self.events.begin(&|at| self.walk(at))?;
        let (mut left, mut tries) = (self.limit, 0);
        loop {
            let mut bytes = 0;
            for _ in 0..TOGETHER_STEPS {
                if left == 0 {
                    return Ok(());
                }
                if let Some(event) = walk.right_behind(&at) {
                    (left, tries) = (left - 1, 0);
                    bytes += event.value.len();
                    visit(event)?;
                    if bytes >= TOGETHER_BYTES {
                        break;
                    }
                    continue;
                }
                let step = if at.log.follows() && tries < READS_MAX { walk.try_step(&at) } else { walk.step(&at) };
                match step {
                    Ok(Step::Event(stored)) => {
                        (left, tries) = (left - 1, 0);
                        bytes += stored.frame().header.frame_len();
                        visit(EventRef::of(&stored)?)?;
                    }
                    Ok(Step::Another) => {}
                    Ok(Step::End) => return Ok(()),
                    Err(error) if is_tried_again(&at, &error, &mut tries) => {
                        self.events.space.store.refresh()?;
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
                if bytes >= TOGETHER_BYTES {
                    break;
                }
            }
            drop(at);
            at = self.events.at()?;
            walk.repinned();
        }
    }

    fn walk(&self, at: &At<'_>) -> Result<Walk> {
        Walk::new(at, &self.source, self.from, self.backwards)
    }
}

impl EventIter {
    /// The memory that it takes, in bytes: for the events that it has read ahead, and for the numbers of those that it has found.
    pub fn memory_bytes(&self) -> usize {
        let events = self.ready.iter().flatten().map(Event::memory_bytes).sum::<usize>();
        size_of::<Self>() + self.ready.capacity() * size_of::<Result<Event>>() + events + self.walk.memory_bytes()
    }

    /// Reads the next events.
    fn read_ahead(&mut self) -> Result<()> {
        let Self { events, walk, left, ready, ahead, tries, is_at_end } = self;
        let at = events.at()?;
        walk.repinned();
        let mut bytes = 0;
        for _ in 0..TOGETHER_STEPS {
            if *is_at_end || *left == 0 || ready.len() >= *ahead || bytes >= TOGETHER_BYTES {
                break;
            }
            if let Some(event) = walk.right_behind(&at) {
                *tries = 0;
                bytes += event.value.len();
                *left -= 1;
                ready.push_back(Ok(event.to_event()));
                continue;
            }
            let step = if at.log.follows() && *tries < READS_MAX { walk.try_step(&at) } else { walk.step(&at) };
            match step {
                Ok(Step::Event(stored)) => {
                    *tries = 0;
                    bytes += stored.frame().header.frame_len();
                    *left -= 1;
                    ready.push_back(EventRef::of(&stored).map(|event| event.to_event()));
                }
                Ok(Step::Another) => {}
                Ok(Step::End) => *is_at_end = true,
                Err(error) if is_tried_again(&at, &error, tries) => {
                    events.space.store.refresh()?;
                    break;
                }
                Err(error) => {
                    *left -= 1;
                    ready.push_back(Err(error));
                }
            }
        }
        *ahead = (*ahead * 2).min(AHEAD);
        Ok(())
    }
}

impl Iterator for EventIter {
    type Item = Result<Event>;

    /// After an error the walk goes on behind the event, if it is damaged; along a chain it ends.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_at_end || self.left == 0 {
                return None;
            }
            if let Err(error) = self.read_ahead() {
                self.is_at_end = true;
                return Some(Err(error));
            }
        }
    }
}
