//! Calls from several threads at once.

use super::{Suite, noise};
use crate::storage::{Storage, StorageError, StorageErrorKind};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

impl Suite {
    /// Threads write disjoint ranges, adjacent in the same sector, inside the file and past its end, while it is grown; and read
    /// back what they wrote.
    pub(super) fn threads(&mut self, storage: &dyn Storage) -> Result<(), String> {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 300;
        const PIECE: u64 = 700;
        if !self.options.threads {
            return Ok(());
        }
        self.done("reserve", storage.reserve(0, PIECE * THREADS * ROUNDS / 2))?;
        let place = |thread: u64, round: u64| (round * THREADS + thread) * PIECE;
        let work = |thread: u64| -> Result<(), StorageError> {
            for round in 0..ROUNDS {
                let piece = noise(place(thread, round), PIECE as usize);
                let (first, second) = piece.split_at(100);
                storage.write_at(place(thread, round), &[first, second])?;
                if round % 16 == thread {
                    storage.reserve(place(thread, round), PIECE * THREADS * 8)?;
                }
                if round % 64 == thread {
                    storage.sync()?;
                }
                let earlier = place(thread, round / 2);
                let mut seen = vec![0; PIECE as usize];
                storage.read_at(earlier, &mut seen)?;
                if seen != noise(earlier, PIECE as usize) {
                    let what = format!("thread {thread} does not read back what it wrote at {earlier}");
                    return Err(StorageError::new(StorageErrorKind::Other, "read", what));
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            handles.into_iter().try_for_each(|handle| match handle.join() {
                Ok(result) => self.done("a thread", result),
                Err(_) => Err(String::from("a thread panicked")),
            })
        })?;
        for thread in 0..THREADS {
            for round in 0..ROUNDS {
                let at = place(thread, round);
                self.holds(storage, at, &noise(at, PIECE as usize))?;
            }
        }
        Ok(())
    }
}
