//! The file of a crash suite: the crash simulator, with a note of its state behind every call that changed it, and with lives,
//! because a killed process can go on holding a handle in the test, but may not write through it any more.

use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::{Durability, Storage, StorageError, StorageErrorKind};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call that changed the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// `write_at`: offset and length.
    Write(u64, u64),
    /// `set_len`, or a `reserve` that made the file longer.
    SetLen(u64),
    /// `discard`: offset and length.
    Discard(u64, u64),
    /// `sync`.
    Sync,
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(offset, len) => write!(f, "write of {len} bytes at {offset}"),
            Self::SetLen(len) => write!(f, "length set to {len}"),
            Self::Discard(offset, len) => write!(f, "discard of {len} bytes at {offset}"),
            Self::Sync => f.write_str("sync"),
        }
    }
}

/// The moment behind a call.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The call.
    pub io: Io,
    /// Everything that a crash could leave now.
    pub crash: CrashPoint,
}

impl Moment {
    /// What the next process finds if this one is killed while the call runs: a write has landed up to some byte. `before` is
    /// the moment before it.
    pub fn killed_inside(&self, before: &CrashPoint, rng: &mut Rng) -> CrashImage {
        let Io::Write(offset, len) = self.io else { return before.latest_image() };
        let image = before.latest_image().fork();
        let after = self.crash.latest_image();
        let mut landed = vec![0; rng.below(len + 1) as usize];
        let copied = after.read_at(offset, &mut landed).and_then(|()| image.write_at(offset, &[&landed]));
        assert!(copied.is_ok(), "the simulator lost a write: {copied:?}");
        image
    }
}

#[derive(Debug, Default)]
struct State {
    farthest_write: u64,
    /// A sync has failed since the last order.
    failed_a_sync: bool,
    moments: Option<Vec<Moment>>,
}

/// The file. Clones are the same file.
#[derive(Clone, Debug)]
pub struct Disk {
    file: CrashStorage,
    life: Arc<AtomicU64>,
    state: Arc<Mutex<State>>,
}

/// One opening of a [`Disk`]; dead after [`Disk::kill`].
#[derive(Debug)]
pub struct Handle {
    disk: Disk,
    life: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self::over(CrashStorage::new())
    }
}

impl Disk {
    /// A file of the simulator.
    pub fn over(file: CrashStorage) -> Self {
        Self { file, life: Arc::default(), state: Arc::default() }
    }

    /// A file that holds what a crash left, all of it safe.
    pub fn from_image(image: &CrashImage) -> Self {
        Self::over(CrashStorage::from_image(image))
    }

    /// A file that holds `bytes`, all of them safe.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::over(CrashStorage::from_bytes(bytes))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the moment behind every change is kept.
    pub fn record(&self) {
        self.state().moments = Some(Vec::new());
    }

    /// Number of moments kept so far.
    pub fn moments_len(&self) -> usize {
        self.state().moments.as_ref().map_or(0, Vec::len)
    }

    /// Takes the moments kept so far; recording goes on.
    pub fn take_moments(&self) -> Vec<Moment> {
        self.state().moments.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The `nth` sync from now on fails, and what it should have stored counts as clean: see [`CrashStorage::fail_sync`].
    pub fn fail_sync(&self, nth: Option<u64>) {
        self.state().failed_a_sync = false;
        self.file.fail_sync(nth);
    }

    /// True when a sync has failed since the last [order](Self::fail_sync).
    pub fn has_failed_a_sync(&self) -> bool {
        self.state().failed_a_sync
    }

    /// Everything that a crash could leave now.
    pub fn crash(&self) -> CrashPoint {
        self.file.freeze()
    }

    /// The content as a process sees it.
    pub fn image(&self) -> CrashImage {
        self.file.latest_image()
    }

    /// The end of the farthest write so far.
    pub fn farthest_write(&self) -> u64 {
        self.state().farthest_write
    }

    /// A storage over this file, for the process that lives now.
    pub fn storage(&self) -> Handle {
        Handle { disk: self.clone(), life: self.life.load(Ordering::SeqCst) }
    }

    /// The process that holds the file dies: what it has not written yet it never will.
    pub fn kill(&self) {
        self.life.fetch_add(1, Ordering::SeqCst);
    }
}

impl Handle {
    fn alive(&self, operation: &'static str) -> Result<&CrashStorage, StorageError> {
        if self.disk.life.load(Ordering::Relaxed) == self.life {
            return Ok(&self.disk.file);
        }
        Err(StorageError::new(StorageErrorKind::Other, operation, "the process of this handle is dead"))
    }

    fn keep(&self, io: Io) {
        let mut state = self.disk.state();
        if let Io::Write(offset, len) = io {
            state.farthest_write = state.farthest_write.max(offset + len);
        }
        if let Some(moments) = &mut state.moments {
            moments.push(Moment { io, crash: self.disk.file.freeze() });
        }
    }
}

impl Storage for Handle {
    fn len(&self) -> Result<u64, StorageError> {
        self.alive("length")?.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        let file = self.alive("set length")?;
        if file.len()? != len {
            file.set_len(len)?;
            self.keep(Io::SetLen(len));
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.alive("read")?.read_at(offset, out)
    }

    /// The engine secures space before it writes: a write that makes the file longer went where nothing was set aside.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let file = self.alive("write")?;
        let len = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if offset + len > file.len()? {
            return Err(StorageError::new(StorageErrorKind::Other, "write", "into space that was never reserved"));
        }
        file.write_at(offset, parts)?;
        self.keep(Io::Write(offset, len));
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        let achieved = self.alive("sync")?.sync();
        self.disk.state().failed_a_sync |= achieved.is_err();
        self.keep(Io::Sync);
        achieved
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.alive("discard")?.discard(offset, len)?;
        self.keep(Io::Discard(offset, len));
        Ok(())
    }
}
