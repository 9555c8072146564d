//! The scheduler: it decides before every call of the storage which session goes on.

use super::trial::{Plan, Turn};
use crate::rng::derive;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Clock, Durability, Storage, StorageError, StorageErrorKind};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What `verify` says of a store behind a power cut though nothing counts there: a trailer torn in front of a segment that is there, and one
/// copy of the header of a segment that was given up.
pub(super) const LEFT_BY_CUTS: [&str; 2] = ["names the next segment", "a copy of a segment header"];
pub(super) const KILLED: &str = "the test has ended this session";
/// Who sleeps in front of a call for longer than so many sessions of others may write where somebody else does.
pub(super) const SESSIONS_REMEMBERED: u32 = 60;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) running: usize,
    pub(super) done: [bool; 2],
    pub(super) killed: [bool; 2],
    /// What is left of the plan, in reverse.
    pub(super) plan: Plan,
    /// Calls since the plan ran out.
    pub(super) free_calls: Vec<Call>,
    pub(super) cut: Option<CrashImage>,
    /// Sessions that each has opened, and how many the other one had when this one was last seen.
    pub(super) opened: [u32; 2],
    pub(super) opening: [bool; 2],
    pub(super) seen: [u32; 2],
    /// Somebody slept while the other one went through more than one session.
    pub(super) slept_through: bool,
    pub(super) calls: u64,
    /// How often a session has handed over to the other one.
    pub(super) turns: u64,
}

/// A clock that goes whenever a session hands over: nobody can tell otherwise that it has slept.
pub(super) struct Turns(pub(super) Arc<Scheduler>);

impl Clock for Turns {
    fn now_ms(&self) -> u64 {
        1_000_000 + self.0.lock().turns
    }
}

/// What a call of a storage is, as far as it matters to the other session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Reads,
    Looks,
    Writes,
}

pub(super) struct Scheduler {
    pub(super) state: Mutex<State>,
    pub(super) turned: Condvar,
    pub(super) disk: CrashStorage,
    pub(super) seed: u64,
}

impl Scheduler {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `who` may make its next call.
    pub(super) fn step(&self, who: usize, call: Call) -> Result<(), StorageError> {
        let mut state = self.lock();
        loop {
            while state.running != who && !state.killed[who] {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.killed[who] {
                return Err(StorageError::new(StorageErrorKind::Other, "call", KILLED));
            }
            // Only whoever runs alone has nobody to hand over to.
            let is_due = state.plan.last().is_some_and(|&(left, _)| left == 0);
            if !is_due || (state.done[1 - who] && state.plan.last().is_some_and(|&(_, turn)| turn == Turn::Pause)) {
                break;
            }
            let turn = state.plan.pop().map_or(Turn::Pause, |(_, turn)| turn);
            match turn {
                Turn::Pause => {}
                Turn::Kill => state.killed[who] = true,
                Turn::Cut => {
                    let mut rng = derive(self.seed, 7);
                    state.cut = Some(self.disk.random_image(&mut rng));
                    state.killed = [true; 2];
                }
            }
            self.hand_over(&mut state, who);
        }
        let state = &mut *state;
        match state.plan.last_mut() {
            Some((left, _)) => *left = left.saturating_sub(1),
            None if !state.done[1 - who] => state.free_calls.push(call),
            None => {}
        }
        state.calls += 1;
        state.opened[who] += u32::from(std::mem::take(&mut state.opening[who]));
        let slept = state.opened[1 - who] - state.seen[who];
        state.slept_through |= slept > SESSIONS_REMEMBERED;
        state.seen[who] = state.opened[1 - who];
        Ok(())
    }

    pub(super) fn hand_over(&self, state: &mut State, who: usize) {
        state.turns += 1;
        if !state.done[1 - who] {
            state.running = 1 - who;
        }
        self.turned.notify_all();
    }

    pub(super) fn end(&self, who: usize) {
        let mut state = self.lock();
        state.done[who] = true;
        if state.running == who {
            self.hand_over(&mut state, who);
        }
    }
}

/// A replay shows every call.
pub(super) fn trace() -> bool {
    static TRACE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *TRACE.get_or_init(|| std::env::var("PIPKIN_TRIAL").is_ok() || std::env::var("PIPKIN_SEED").is_ok())
}

/// Superblocks and headers of segments, for a replay.
pub(super) fn dump(file: &[u8]) {
    let word = |at: usize| file.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    for slot in [0, 4096] {
        let [generation, session] = [48, 56].map(|at| word(slot + at));
        let rest = [72, 88, 96, 120, 128, 160, 176, 184].map(|at| word(slot + at));
        println!(
            "superblock: generation {generation:x}, session {session:x}; checkpoint, its offset, directory, end, synced, active, where, headers: {rest:x?}"
        );
    }
    for start in (16_384..file.len()).step_by(4096).filter(|&start| file.get(start + 16..start + 20) == Some(b"PSEG")) {
        let [salt, base, before, end, synced, session, number] = [0, 8, 32, 48, 56, 64, 72].map(|at| word(start + at));
        let kind = file.get(start + 20).copied().unwrap_or(0);
        println!(
            "{start}: kind {kind} base {base} before {before} ends {end} synced {synced} session {session:x} number {number} salt {salt:x}"
        );
    }
}

/// The file as one of the two sees it.
pub(super) struct Seat {
    pub(super) who: usize,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) is_exclusive: bool,
}

impl Seat {
    pub(super) fn call<T>(
        &self,
        call: Call,
        what: fmt::Arguments<'_>,
        then: impl FnOnce(&CrashStorage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.scheduler.step(self.who, call)?;
        let shown = then(&self.scheduler.disk);
        if trace() {
            println!(
                "{}{what} -> {}",
                if self.who == 0 { "" } else { "                                        " },
                if shown.is_ok() { "" } else { "failed" }
            );
        }
        shown
    }
}

impl Storage for Seat {
    fn len(&self) -> Result<u64, StorageError> {
        self.call(Call::Reads, format_args!("len"), Storage::len)
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.call(Call::Writes, format_args!("set_len {len}"), |disk| disk.set_len(len))
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let len = out.len();
        self.call(Call::Reads, format_args!("read {offset} + {len}"), |disk| disk.read_at(offset, out))
    }
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.call(Call::Looks, format_args!("look at {offset}"), |disk| disk.read_now(offset, out))
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let what = match parts.first().and_then(|part| part.get(48..144)) {
            Some(part) if trace() && offset < 8192 && len == 512 => {
                let word =
                    |at: usize| part.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
                format!("generation {:x} session {:x} end {:x} flags {}", word(0), word(8), word(72), word(88))
            }
            _ => String::new(),
        };
        self.call(Call::Writes, format_args!("write {offset} + {len} {what}"), |disk| disk.write_at(offset, parts))
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.call(Call::Looks, format_args!("sync"), Storage::sync)
    }
    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}
