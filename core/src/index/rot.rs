//! Word of damage in the slots that stay in the file: whoever meets it leaves it here, and maintenance builds the shards anew.

use crate::sync::{AtomicBool, Ordering};
use alloc::boxed::Box;
use core::fmt;
use once_cell::race::OnceBox;

/// Called by whoever meets damage first, with the shard locked or not. It must not wait for anything.
type Told = Box<dyn Fn() + Send + Sync>;

/// Whether slots in the file were found damaged, since somebody has looked last.
#[derive(Default)]
pub(crate) struct Rot {
    is_found: AtomicBool,
    told: OnceBox<Told>,
}

impl fmt::Debug for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rot").field("is_found", &self.is_found()).finish_non_exhaustive()
    }
}

impl Rot {
    /// Has `told` called when damage is found.
    pub(crate) fn tell(&self, told: Told) {
        // Opening is the only one to set it, and does so once.
        let _ = self.told.set(Box::new(told));
    }

    /// Damage was found.
    #[cold]
    pub(crate) fn note(&self) {
        if !self.is_found.swap(true, Ordering::AcqRel)
            && let Some(told) = self.told.get()
        {
            told();
        }
    }

    pub(crate) fn is_found(&self) -> bool {
        self.is_found.load(Ordering::Acquire)
    }

    /// What is found from now on is new.
    pub(crate) fn forget(&self) {
        self.is_found.store(false, Ordering::Release);
    }

    /// It is still there: nobody is told again.
    pub(crate) fn is_left(&self) {
        self.is_found.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use alloc::sync::Arc;

    #[test]
    fn damage_is_told_once_until_somebody_has_looked() {
        let (rot, told) = (Rot::default(), Arc::new(AtomicU64::new(0)));
        rot.note();
        assert!(rot.is_found(), "also before anybody listens");
        rot.forget();
        let counter = Arc::clone(&told);
        rot.tell(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        assert!(!rot.is_found());
        for times in 1..3 {
            rot.note();
            rot.note();
            assert!(rot.is_found());
            assert_eq!(told.load(Ordering::Relaxed), times);
            rot.forget();
            assert!(!rot.is_found());
        }
        rot.is_left();
        rot.note();
        assert!(rot.is_found());
        assert_eq!(told.load(Ordering::Relaxed), 2, "what could not be healed is not news");
    }
}
