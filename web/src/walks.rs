//! Walks over events of tabs, kept for their next pages.

use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::EventIter;

/// So many are kept. One that was put out begins again where its last page has ended.
const KEPT_MAX: usize = 16;

/// Walks by the numbers that their pages have given them.
#[derive(Debug, Default)]
pub(crate) struct Walks(RefCell<Vec<Walk>>);

#[derive(Debug)]
struct Walk {
    number: f64,
    /// Where its last page has ended.
    behind: f64,
    events: EventIter,
}

impl Walks {
    /// Takes a walk out, if the page that is asked for is its next one: a request may come twice.
    pub(crate) fn take(&self, number: f64, behind: f64) -> Option<EventIter> {
        let walks = &mut *self.0.borrow_mut();
        let place = walks.iter().position(|walk| walk.number == number)?;
        let walk = walks.remove(place);
        (walk.behind == behind).then_some(walk.events)
    }

    /// Keeps it, in the place of the oldest one if there are many.
    pub(crate) fn keep(&self, number: f64, behind: f64, events: EventIter) {
        let walks = &mut *self.0.borrow_mut();
        if walks.len() >= KEPT_MAX {
            walks.remove(0);
        }
        walks.push(Walk { number, behind, events });
    }
}
