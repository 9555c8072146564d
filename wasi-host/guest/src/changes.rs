//! The resources `changes` and `consumer`.

use crate::bindings::exports::pipkin::kv::store::{GuestChanges, GuestConsumer};
use crate::bindings::exports::pipkin::kv::types::{ChangesPage, Durability, Error, Position};
use crate::kept::Kept;
use crate::open::Open;
use alloc::sync::Arc;
use core::cell::RefCell;
use pipkin::{Changes, Consumer};
use pipkin_wasi_shared::{Follow, page};

/// A reader, and the store that it is of. Declared in this order: the reader ends before the store may close.
pub(crate) struct Reader<F> {
    follow: RefCell<F>,
    kept: Kept,
    open: Arc<Open>,
    durability: Durability,
}

impl<F: Follow> Reader<F> {
    /// # Errors
    ///
    /// `quota` if it keeps too much.
    pub(crate) fn new(open: Arc<Open>, follow: F, durability: Durability) -> Result<Self, Error> {
        let kept = Kept::new();
        kept.admit(follow.memory_bytes(), 0)?;
        Ok(Self { follow: RefCell::new(follow), kept, open, durability })
    }

    fn page(&self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        let follow = &mut *self.follow.borrow_mut();
        let page = page(follow, max_commits, max_bytes, |follow| {
            self.open.end_call()?;
            if follow.has_read_ahead() { Ok(()) } else { self.kept.admit(follow.memory_bytes(), 0) }
        });
        self.kept.count(follow.memory_bytes());
        Ok(page?.into())
    }
}

impl GuestChanges for Reader<Changes> {
    fn next(&self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.page(max_commits, max_bytes)
    }

    fn position(&self) -> Position {
        self.follow.borrow().position().into()
    }
}

impl GuestConsumer for Reader<Consumer> {
    fn next(&self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.page(max_commits, max_bytes)
    }

    fn position(&self) -> Position {
        self.follow.borrow().position().into()
    }

    fn ack(&self, position: Position) -> Result<(), Error> {
        self.open.end_call()?;
        self.follow.borrow().ack(position.into())?;
        self.open.settle(self.durability)?;
        Ok(())
    }
}
