//! Pins prevent the reuse of what readers may still see: retired segments and replaced index tables.
//!
//! A reader announces itself in a counter, one of two by the phase that it saw. Something that has become unreachable may be reused
//! once both counters of every stripe have been seen at zero since. Readers never wait. The scheme is that of
//! sleepable read-copy-update (Paul McKenney, 2006), with polling instead of the wait.
//!
//! Nearly every thread has a private stripe, so announcing is a plain store. Where the system can put a barrier into all threads at
//! once (`membarrier` of Linux), the polling thread does so, and readers need none: the loads of one lookup overlap with those of
//! the next. Elsewhere each reader executes a full barrier.
//!
//! Why not `crossbeam-epoch`: a pin and its end take 0.9 ns here and 6.0 ns there (`index/figures.rs` measures both); it frees what it was
//! given at a time of its own choosing, while compaction asks whether a certain segment is free by now; and it has no collector without
//! the standard library. The ordered index uses it, where a walk pays for one pin with many keys.

use crate::sync::{AtomicUsize, Mutex, Ordering, compiler_fence, fence};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::marker::PhantomData;
use once_cell::race::OnceBox;

/// Number of threads with a private stripe; all others share one more.
#[cfg(feature = "std")]
const OWNED: usize = 128;
#[cfg(not(feature = "std"))]
const OWNED: usize = 0;

/// Aligned to two cache lines, so that fetching one stripe never fetches its neighbour (false sharing).
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe {
    active: [AtomicUsize; 2],
}

/// The stripes of one store. That of a thread is made when the thread first reads: a process may have thousands of stores.
#[derive(Debug)]
struct Stripes {
    owned: [OnceBox<Stripe>; OWNED],
    shared: Stripe,
}

impl Stripes {
    fn all(&self) -> impl Iterator<Item = &Stripe> {
        self.owned.iter().filter_map(OnceBox::get).chain([&self.shared])
    }
}

/// The pins of one store.
#[derive(Debug)]
pub(crate) struct Pins {
    phase: AtomicUsize,
    stripes: Arc<Stripes>,
    /// Lock of the threads that advance the phase.
    turn: Mutex<()>,
    /// Readers need no barrier: `advance` puts one into all threads.
    asymmetric: bool,
}

/// A moment in time: has passed once no reader from before it is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(usize);

/// An announced reader. While it lives, nothing that it can reach is reused.
#[derive(Debug)]
pub(crate) struct Pin<'a> {
    counter: Option<&'a AtomicUsize>,
    /// Only the thread of a stripe writes to it.
    owned: bool,
    /// A pin stays with its thread.
    _not_send: PhantomData<*const ()>,
}

impl Pin<'_> {
    /// A pin without effect: a planted bug.
    pub(crate) const fn none() -> Self {
        Self { counter: None, owned: false, _not_send: PhantomData }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        match self.counter {
            Some(counter) if self.owned => counter.store(counter.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release),
            Some(counter) => drop(counter.fetch_sub(1, Ordering::Release)),
            None => {}
        }
    }
}

impl Default for Pins {
    fn default() -> Self {
        let stripes = Arc::new(Stripes { owned: [const { OnceBox::new() }; OWNED], shared: Stripe::default() });
        Self { phase: AtomicUsize::new(0), stripes, turn: Mutex::new(()), asymmetric: barrier::register() }
    }
}

impl Pins {
    /// Announces a reader.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        let phase = self.phase.load(Ordering::Relaxed) & 1;
        let own = thread::own_stripe().and_then(|number| self.stripe(number));
        let owned = own.is_some();
        let counter = own.unwrap_or(&self.stripes.shared).active.get(phase);
        match counter {
            Some(counter) if owned => counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed),
            Some(counter) => drop(counter.fetch_add(1, Ordering::Relaxed)),
            None => {}
        }
        // Pairs with the barrier in `advance`: either `advance` sees this reader, or this reader sees everything that was made
        // unreachable before.
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        Pin { counter, owned, _not_send: PhantomData }
    }

    /// The private stripe of thread `number`.
    #[inline]
    fn stripe(&self, number: usize) -> Option<&Stripe> {
        let place = self.stripes.owned.get(number)?;
        Some(place.get().unwrap_or_else(|| self.new_stripe(number, place)))
    }

    #[cold]
    fn new_stripe<'a>(&self, number: usize, place: &'a OnceBox<Stripe>) -> &'a Stripe {
        thread::register(number, &self.stripes);
        place.get_or_init(Box::default)
    }

    /// A ticket for everything that has just been made unreachable.
    pub(crate) fn ticket(&self) -> Ticket {
        let _turn = self.turn.lock();
        Ticket(self.phase.load(Ordering::Relaxed))
    }

    /// Advances the phase, up to two times, each if no reader of the phase before is left. A ticket has passed after two advances.
    pub(crate) fn advance(&self) {
        let _turn = self.turn.lock();
        for _ in 0..2 {
            if !self.barrier() {
                return;
            }
            let phase = self.phase.load(Ordering::Relaxed);
            let before = (phase & 1) ^ 1;
            let gone = |stripe: &Stripe| stripe.active.get(before).is_none_or(|count| count.load(Ordering::Acquire) == 0);
            if !self.stripes.all().all(gone) {
                return;
            }
            // A thread that sees the new phase may free what no reader uses: `Release` orders that after the reads of the counters.
            self.phase.store(phase.wrapping_add(1), Ordering::Release);
        }
        self.barrier();
    }

    /// A full barrier here, and in every reader that executes none itself. False if the system call failed.
    fn barrier(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.asymmetric || barrier::in_all_threads()
    }

    /// True when no reader from before the ticket is left.
    pub(crate) fn passed(&self, ticket: &Ticket) -> bool {
        let passed = self.phase.load(Ordering::Relaxed).wrapping_sub(ticket.0) >= 2;
        fence(Ordering::Acquire);
        passed
    }
}

/// A barrier that one thread puts into all threads of the process.
#[cfg(all(target_os = "linux", feature = "native", not(miri)))]
mod barrier {
    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    pub(super) fn in_all_threads() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", feature = "native", not(miri))))]
mod barrier {
    pub(super) const fn register() -> bool {
        false
    }

    pub(super) const fn in_all_threads() -> bool {
        false
    }
}

/// The model checker numbers its threads itself.
#[cfg(shuttle)]
mod thread {
    pub(super) fn own_stripe() -> Option<usize> {
        Some(usize::from(shuttle::current::me())).filter(|&number| number < super::OWNED)
    }

    pub(super) const fn register(_: usize, _: &alloc::sync::Arc<super::Stripes>) {}
}

/// Numbers of the threads: each is the index of the thread's stripe.
#[cfg(all(feature = "std", not(shuttle)))]
mod thread {
    use super::{OWNED, Ordering, Stripe, Stripes};
    use crate::sync::Mutex;
    use alloc::sync::{Arc, Weak};
    use alloc::vec::Vec;
    use once_cell::race::OnceBox;

    /// The assigned numbers.
    struct Numbers {
        /// Numbers of threads that have ended.
        free: Vec<usize>,
        /// By number, the stores that have its stripe.
        used: Vec<Used>,
    }

    /// The stores that have the stripe of a number.
    #[derive(Default)]
    struct Used {
        stores: Vec<Weak<Stripes>>,
        /// Those that were dropped are taken out when there are so many.
        tidy_at: usize,
    }

    static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: Vec::new(), used: Vec::new() });

    /// A number that no other living thread has; `OWNED` when all are in use.
    struct Number(usize);

    impl Number {
        fn take() -> Self {
            let mut numbers = NUMBERS.lock();
            if let Some(free) = numbers.free.pop() {
                return Self(free);
            }
            let next = numbers.used.len();
            if next < OWNED {
                numbers.used.push(Used::default());
            }
            Self(next)
        }
    }

    impl Drop for Number {
        /// Gives the number back, unless a pin of this thread still lives, as it can in a thread-local variable that is dropped later: such
        /// a pin writes to the stripe as if it were still private. Looks only at stores where a thread with this number has read.
        fn drop(&mut self) {
            let mut numbers = NUMBERS.lock();
            let Some(used) = numbers.used.get(self.0) else { return };
            let is_idle = |stripe: &Stripe| stripe.active.iter().all(|count| count.load(Ordering::Relaxed) == 0);
            let mut stores = used.stores.iter().filter_map(Weak::upgrade);
            if stores.all(|stripes| stripes.owned.get(self.0).and_then(OnceBox::get).is_none_or(is_idle)) {
                numbers.free.push(self.0);
            }
        }
    }

    /// Registers a store, so that it is checked before this thread's number is reused.
    pub(super) fn register(number: usize, stripes: &Arc<Stripes>) {
        let mut numbers = NUMBERS.lock();
        let Some(Used { stores, tidy_at }) = numbers.used.get_mut(number) else { return };
        if stores.len() >= *tidy_at {
            stores.retain(|store| store.strong_count() > 0);
            *tidy_at = (stores.len() * 2).max(16);
        }
        stores.push(Arc::downgrade(stripes));
    }

    std::thread_local! {
        static MINE: Number = Number::take();
    }

    /// Index of this thread's private stripe; `None` if all are in use.
    #[inline]
    pub(super) fn own_stripe() -> Option<usize> {
        MINE.try_with(|mine| mine.0).ok().filter(|&number| number < OWNED)
    }
}

#[cfg(not(feature = "std"))]
mod thread {
    pub(super) const fn own_stripe() -> Option<usize> {
        None
    }

    pub(super) const fn register(_: usize, _: &alloc::sync::Arc<super::Stripes>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_passes_only_when_every_reader_from_before_it_has_gone() {
        let pins = Pins::default();
        let early = pins.pin();
        let ticket = pins.ticket();
        for _ in 0..4 {
            pins.advance();
            assert!(!pins.passed(&ticket));
        }
        let late = pins.pin();
        drop(early);
        pins.advance();
        pins.advance();
        assert!(pins.passed(&ticket) || pins.phase.load(Ordering::Relaxed) > 0);
        drop(late);
        pins.advance();
        pins.advance();
        assert!(pins.passed(&ticket));
    }

    /// A pin in a thread-local variable that is dropped after the thread's number.
    #[test]
    fn the_number_of_a_thread_that_ended_with_a_pin_is_not_given_out_again() {
        let pins = Pins::default();
        let of_new_thread = |forgets: bool| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let pin = pins.pin();
                    if forgets {
                        core::mem::forget(pin);
                    }
                    thread::own_stripe()
                });
                thread.join().ok().flatten()
            })
        };
        let number = of_new_thread(true);
        assert!(number.is_some());
        for _ in 0..10 {
            assert_ne!(of_new_thread(false), number);
        }
    }

    #[test]
    fn without_readers_a_ticket_passes_at_once() {
        let pins = Pins::default();
        let ticket = pins.ticket();
        pins.advance();
        assert!(pins.passed(&ticket));
    }
}
