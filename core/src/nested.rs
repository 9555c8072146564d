//! Calls from inside of a closure that another call of the same store runs, and that would wait for what this one holds: for ever, so they
//! are refused. Known by thread, so only where the standard library is; without it they wait.

use crate::engine::Engine;
use crate::error::Result;

/// What a call holds while it runs the closure of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// `update`: the shard of its key.
    Shard,
    /// `compact_with`: the turn to maintain the store.
    Turn,
    /// `transaction`: the right to be the only one.
    Transaction,
}

impl Engine {
    /// Refuses a call of a thread that holds one of these.
    #[inline]
    pub(crate) fn refuse_inside(&self, held: &[Held]) -> Result<()> {
        imp::refuse(core::ptr::from_ref(self).addr(), held)
    }

    /// This thread holds it until the answer is dropped.
    pub(crate) fn inside(&self, held: Held) -> Inside {
        Inside { _mark: imp::enter(core::ptr::from_ref(self).addr(), held) }
    }
}

/// For as long as it lives, its thread holds something.
pub(crate) struct Inside {
    _mark: imp::Mark,
}

// Threads of a model checker are none of the system's.
#[cfg(all(feature = "std", not(shuttle)))]
mod imp {
    use super::Held;
    use crate::error::{Error, Result};
    use core::marker::PhantomData;
    use std::cell::{Cell, RefCell};

    std::thread_local! {
        /// How many marks this thread has: for nearly every call that is all there is to know.
        static COUNT: Cell<usize> = const { Cell::new(0) };
        /// What this thread holds, and of which store. The newest last.
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

    /// It stays in its thread.
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
            // One closure ends before the one that it was called from does.
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
