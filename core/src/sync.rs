//! The one import point for atomics and locks, so that the set can be exchanged: the standard library's, spinning
//! ones where there is no operating system, or a model checker's.

#[cfg(all(not(shuttle), target_has_atomic = "64"))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(shuttle))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, fence};
pub(crate) use core::sync::atomic::{Ordering, compiler_fence};
#[cfg(all(not(shuttle), not(target_has_atomic = "64")))]
pub(crate) use portable_atomic::AtomicU64;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Lets other threads run, for whoever waits for a few steps of one of them.
pub(crate) fn relax() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(all(feature = "std", not(shuttle)))]
    std::thread::yield_now();
    #[cfg(not(feature = "std"))]
    core::hint::spin_loop();
}

/// Called by a thread that has let a lock go and is about to take it again for long: without a pause it would have the lock before a waiter is awake. The
/// longest put beside a compaction that cuts 1.3 GB off the file, 16 MiB at a time, took 155 and 396 ms without, 16 and 29 ms with it
/// (`PIPKIN_STORE_GB=4 cargo bench -p pipkin-bench --bench followers`).
pub(crate) fn let_waiters_in() {
    #[cfg(all(feature = "native", not(shuttle)))]
    std::thread::sleep(std::time::Duration::from_micros(50));
    #[cfg(not(all(feature = "native", not(shuttle))))]
    relax();
}

#[cfg(feature = "std")]
mod imp {
    #[cfg(shuttle)]
    use shuttle::sync as host;
    #[cfg(not(shuttle))]
    use std::sync as host;

    pub(crate) use host::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    /// A mutex that a panic of its holder does not poison: every structure under one is valid between any two steps.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(host::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(host::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(host::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(host::TryLockError::WouldBlock) => None,
            }
        }
    }

    /// See [`Mutex`] on panics.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(host::Condvar);

    impl Condvar {
        /// Releases `guard`, which belongs to the mutex, until notified, then locks the mutex again.
        pub(crate) fn wait<'a, T>(&self, _mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(host::PoisonError::into_inner)
        }
        /// As [`Self::wait`], for at most so long.
        pub(crate) fn wait_at_most<'a, T>(
            &self,
            mutex: &'a Mutex<T>,
            guard: MutexGuard<'a, T>,
            timeout: Option<std::time::Duration>,
        ) -> MutexGuard<'a, T> {
            let Some(timeout) = timeout else { return self.wait(mutex, guard) };
            self.0.wait_timeout(guard, timeout).unwrap_or_else(host::PoisonError::into_inner).0
        }
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[cfg(feature = "native")]
    impl<T> Mutex<T> {
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    /// See [`Mutex`] on panics.
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(host::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(host::RwLock::new(value))
        }
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    pub(crate) use spin::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    /// A spinning lock: hosts without `std` run one thread, so nothing ever spins for long.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(spin::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(spin::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }
    }

    /// Waits by polling.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar;

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            drop(guard);
            core::hint::spin_loop();
            mutex.lock()
        }
        pub(crate) fn notify_all(&self) {}
    }

    /// See [`Mutex`].
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(spin::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(spin::RwLock::new(value))
        }
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read()
        }
        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write()
        }
    }
}

pub(crate) use imp::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
