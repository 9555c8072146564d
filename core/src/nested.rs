//! Refuses calls from a closure that another call of the same store runs, if they need a lock that the outer call holds, and would
//! deadlock, or would not see what it has written. Tracked per thread, so only with the standard library; without it they do deadlock.

use crate::engine::Engine;
use crate::error::Result;

/// What a call holds while it runs its caller's closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// `update`: the shard of its key.
    Shard,
    /// `compact_with`: the maintenance lock.
    Turn,
    /// `transaction`: none, but another transaction inside of it would not see what it has written, and would conflict with it.
    Transaction,
    /// `transaction` that goes first: other threads wait before they write.
    Precedence,
    /// A write of the async face, which syncs after it, together with others.
    #[cfg(feature = "async")]
    Sync,
}

impl Engine {
    /// Answers [`Error::Nested`](crate::Error::Nested) if this thread holds one of these locks of this store.
    #[inline]
    pub(crate) fn refuse_inside(&self, held: &[Held]) -> Result<()> {
        imp::refuse(core::ptr::from_ref(self).addr(), held)
    }

    /// True inside of any closure that a call of this store runs in this thread.
    #[cfg(feature = "async")]
    pub(crate) fn is_inside(&self) -> bool {
        self.refuse_inside(&[Held::Shard, Held::Turn, Held::Transaction, Held::Precedence]).is_err()
    }

    /// Marks that this thread holds the lock, until the result is dropped.
    pub(crate) fn inside(&self, held: Held) -> Inside {
        Inside { _mark: imp::enter(core::ptr::from_ref(self).addr(), held) }
    }
}

/// While it lives, its thread counts as holding a lock.
pub(crate) struct Inside {
    _mark: imp::Mark,
}

// Not under a model checker: its threads are not threads of the system, so thread-locals would mix them up.
#[cfg(all(feature = "std", not(shuttle)))]
mod imp {
    use super::Held;
    use crate::error::{Error, Result};
    use core::marker::PhantomData;
    use std::cell::{Cell, RefCell};

    std::thread_local! {
        /// Number of marks of this thread. It is zero for nearly every call, which makes the check cheap.
        static COUNT: Cell<usize> = const { Cell::new(0) };
        /// Address of the engine, and the lock that this thread holds of it. The newest last.
        static MARKS: RefCell<Vec<(usize, Held)>> = const { RefCell::new(Vec::new()) };
    }

    #[inline]
    pub(super) fn refuse(engine: usize, held: &[Held]) -> Result<()> {
        if COUNT.get() == 0 { Ok(()) } else { look(engine, held) }
    }

    #[cold]
    fn look(engine: usize, held: &[Held]) -> Result<()> {
        let is_held = |marks: &RefCell<Vec<(usize, Held)>>| {
            marks.borrow().iter().any(|(store, mark)| *store == engine && held.contains(mark))
        };
        if MARKS.try_with(is_held).unwrap_or(false) { Err(Error::Nested) } else { Ok(()) }
    }

    /// Not `Send`: it is dropped in the thread that made it.
    pub(super) struct Mark(PhantomData<*const ()>);

    pub(super) fn enter(engine: usize, held: Held) -> Mark {
        MARKS.with_borrow_mut(|marks| {
            marks.push((engine, held));
            COUNT.set(marks.len());
        });
        Mark(PhantomData)
    }

    impl Drop for Mark {
        fn drop(&mut self) {
            // Closures nest, so the newest mark is the one to remove.
            let _ = MARKS.try_with(|marks| {
                let mut marks = marks.borrow_mut();
                marks.pop();
                COUNT.set(marks.len());
            });
        }
    }
}

#[cfg(any(not(feature = "std"), shuttle))]
mod imp {
    use super::Held;
    use crate::error::Result;

    pub(super) const fn refuse(_engine: usize, _held: &[Held]) -> Result<()> {
        Ok(())
    }

    pub(super) struct Mark;

    pub(super) const fn enter(_engine: usize, _held: Held) -> Mark {
        Mark
    }
}
