//! Flushers that meet at one sync. Who arrives during a sync shares the next one; who waits behind a sync that fails is told so.

use crate::parallel::{Failure, Outcome};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Durability, Storage, StorageError, StorageErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
struct Gate {
    /// Syncs wait inside while it is closed.
    closed: bool,
    /// The sync that is let out fails.
    fails: bool,
    /// Syncs begun so far.
    begun: u64,
    /// Syncs let out so far.
    ended: u64,
}

/// A storage whose syncs wait until the test lets them out.
#[derive(Clone, Default)]
struct GatedStorage {
    file: MemoryStorage,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

impl GatedStorage {
    fn change(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.gate.1.notify_all();
    }

    /// Waits until `done`; false after a while.
    fn wait(&self, done: impl Fn(&Gate) -> bool) -> bool {
        let gate = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.gate.1.wait_timeout_while(gate, Duration::from_secs(10), |gate| !done(gate));
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    fn begun(&self) -> u64 {
        self.gate.0.lock().unwrap_or_else(PoisonError::into_inner).begun
    }
}

impl Storage for GatedStorage {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.file.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        let mut gate = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
        gate.begun += 1;
        self.gate.1.notify_all();
        while gate.closed {
            gate = self.gate.1.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.ended += 1;
        if std::mem::take(&mut gate.fails) {
            return Err(StorageError::new(StorageErrorKind::Other, "sync", "the test lets it fail"));
        }
        Ok(Durability::Device)
    }
}

/// Long enough for a thread that was started to get to its lock.
const ARRIVES: Duration = Duration::from_millis(40);

fn open(storage: &GatedStorage) -> Result<Db, String> {
    let db = Db::builder().background(false).open_storage(Box::new(storage.clone())).map_err(|error| error.to_string())?;
    // The session has synced before: what that achieved is known.
    let insert = |value| db.insert(b"first", value);
    insert(b"1").and_then(|()| db.flush()).and_then(|_| insert(b"2")).map_err(|error| error.to_string())?;
    Ok(db)
}

/// A sync fails while others wait for it: none of them is told that its data is safe, and nobody syncs again.
fn all_hear_of_a_failed_sync() -> Result<(), String> {
    let storage = GatedStorage::default();
    let db = open(&storage)?;
    let before = storage.begun();
    storage.change(|gate| gate.closed = true);
    let outcomes = std::thread::scope(|scope| {
        let flush = || scope.spawn(|| db.flush());
        let mut flushers = vec![flush()];
        let begun = storage.wait(|gate| gate.begun > before);
        // One that has nothing of its own to add, one that has.
        flushers.push(flush());
        std::thread::sleep(ARRIVES);
        flushers.push(scope.spawn(|| db.insert(b"second", b"2").and_then(|()| db.flush())));
        std::thread::sleep(ARRIVES);
        storage.change(|gate| (gate.closed, gate.fails) = (false, true));
        let outcomes: Vec<_> = flushers.into_iter().map(|flusher| flusher.join().map_err(|_| "a flusher panicked")).collect();
        begun.then_some(outcomes).ok_or("the first flush did not sync")
    })?;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        if let Ok(achieved) = outcome? {
            return Err(format!("flusher {number} was told {achieved:?}, though the only sync failed"));
        }
    }
    match storage.begun() - before {
        1 => Ok(()),
        syncs => Err(format!("a failed sync was tried again: {syncs} syncs")),
    }
}

/// A flush of data written while a sync runs needs a sync of its own.
fn a_late_writer_waits_for_the_next_sync() -> Result<(), String> {
    let storage = GatedStorage::default();
    let db = open(&storage)?;
    let before = storage.begun();
    storage.change(|gate| gate.closed = true);
    let late_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let early = scope.spawn(|| db.flush());
        let begun = storage.wait(|gate| gate.begun > before);
        let late = scope.spawn(|| {
            let outcome = db.insert(b"second", b"2").and_then(|()| db.flush());
            late_done.store(true, Ordering::SeqCst);
            outcome
        });
        std::thread::sleep(ARRIVES);
        let too_early = late_done.load(Ordering::SeqCst);
        // Lets one sync out; the next one waits inside again.
        let ended = storage.gate.0.lock().unwrap_or_else(PoisonError::into_inner).ended;
        storage.change(|gate| gate.closed = false);
        let let_out = storage.wait(|gate| gate.ended > ended);
        let outcomes = (early.join(), late.join());
        if !begun || !let_out {
            return Err("the first flush did not sync".to_string());
        }
        if too_early {
            return Err("a flush returned while the only sync was still running".to_string());
        }
        if !matches!(outcomes, (Ok(Ok(_)), Ok(Ok(_)))) {
            return Err(format!("a flush failed: {outcomes:?}"));
        }
        match storage.begun() - before {
            0 | 1 => Err("data written during a sync was acknowledged by it".to_string()),
            _ => Ok(()),
        }
    })
}

/// A checkpoint synced beside the flush that had the turn: the one error that the system tells went to the checkpoint, and the flush said
/// `Device`.
fn a_checkpoint_waits_for_its_turn() -> Result<(), String> {
    let storage = GatedStorage::default();
    let db = open(&storage)?;
    let before = storage.begun();
    storage.change(|gate| gate.closed = true);
    let (at_once, outcomes) = std::thread::scope(|scope| {
        let flusher = scope.spawn(|| db.flush().map(drop));
        let begun = storage.wait(|gate| gate.begun > before);
        let checkpointer = scope.spawn(|| db.checkpoint());
        std::thread::sleep(ARRIVES);
        let at_once = storage.begun() - before;
        storage.change(|gate| (gate.closed, gate.fails) = (false, true));
        let outcomes = [flusher, checkpointer].map(|thread| thread.join().map_err(|_| "a thread panicked"));
        begun.then_some((at_once, outcomes)).ok_or("the flush did not sync")
    })?;
    for (name, outcome) in ["the flush", "the checkpoint"].into_iter().zip(outcomes) {
        if outcome?.is_ok() {
            return Err(format!("{name} was told that all is safe, though a sync failed, {at_once} at once"));
        }
    }
    if at_once == 1 { Ok(()) } else { Err(format!("{at_once} syncs at once")) }
}

/// All of them, several times.
pub fn run(rounds: u64) -> Outcome {
    for _ in 0..rounds {
        for trial in [all_hear_of_a_failed_sync, a_late_writer_waits_for_the_next_sync, a_checkpoint_waits_for_its_turn] {
            trial().map_err(|what| Failure::new("(needs no seed)", what))?;
        }
    }
    Ok(())
}
