//! What no thread shares, for a module has one.

/// What belongs to the only thread that there is.
#[derive(Debug)]
pub(crate) struct OfOneThread<T>(pub(crate) T);

#[cfg(target_feature = "atomics")]
compile_error!("threads share a memory, but objects of JavaScript belong to one worker each");

// SAFETY: without atomics a module has one thread; another worker has a module and a memory of its own.
unsafe impl<T> Sync for OfOneThread<T> {}
// SAFETY: as above.
unsafe impl<T> Send for OfOneThread<T> {}
