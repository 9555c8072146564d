//! Values whose end may wait: it is left to a thread of the pool.

use super::pool::{LONG, is_worker};

/// Drops its value where that may wait.
pub(super) struct Elsewhere<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Elsewhere<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            if is_worker() { drop(value) } else { LONG.start(move || drop(value)) }
        }
    }
}
