//! Statics for a module with a single thread.

/// A value of the module's only thread; it makes the value `Sync` and `Send`.
#[derive(Debug)]
pub(crate) struct OfOneThread<T>(pub(crate) T);

#[cfg(target_feature = "atomics")]
compile_error!("threads share a memory, but objects of JavaScript belong to one worker each");

// SAFETY: without atomics a module has one thread; another worker has a separate module and memory.
unsafe impl<T> Sync for OfOneThread<T> {}
// SAFETY: as above.
unsafe impl<T> Send for OfOneThread<T> {}
