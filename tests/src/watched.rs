//! A file that notes moments at which a crash may come, while a store uses it and a test counts its commits.

use crate::rng::Rng;
use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::{Durability, Storage, StorageError};
use std::sync::{Arc, Mutex, PoisonError};

/// A moment at which a crash may come, and the numbers of commits that had been begun, had come back, and had been flushed.
#[derive(Debug)]
pub struct Moment {
    point: CrashPoint,
    /// Begun.
    pub begun: usize,
    written: usize,
    flushed: usize,
}

impl Moment {
    /// What a kill and two power cuts leave, each with the least number of commits that must be there.
    pub fn images(&self, rng: &mut Rng) -> [(CrashImage, usize); 3] {
        let cut = |rng: &mut Rng| (self.point.random_image(rng), self.flushed);
        [(self.point.latest_image(), self.written), cut(rng), cut(rng)]
    }

    /// What a power cut leaves, with a flipped bit among what was synced.
    pub fn rotten(&self, rng: &mut Rng) -> Option<CrashImage> {
        self.point.rotten_image(rng).map(|(image, _)| image)
    }
}

#[derive(Debug, Default)]
struct Progress {
    begun: usize,
    written: usize,
    flushed: usize,
    moments: Vec<Moment>,
    rng: Option<Rng>,
}

/// The file. A clone is another handle to it.
#[derive(Clone, Debug)]
pub struct Watched {
    file: CrashStorage,
    progress: Arc<Mutex<Progress>>,
    between: u64,
}

impl Watched {
    /// A file of which no moment is noted yet; then one behind one of so many calls.
    pub fn new(file: CrashStorage, between: u64) -> Self {
        Self { file, progress: Arc::default(), between }
    }

    /// The file itself.
    pub fn file(&self) -> &CrashStorage {
        &self.file
    }

    fn with<T>(&self, look: impl FnOnce(&mut Progress) -> T) -> T {
        look(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes moments from here on. So many commits are there, and durable.
    pub fn watch(&self, rng: Rng, commits: usize) {
        self.with(|progress| {
            *progress = Progress { begun: commits, written: commits, flushed: commits, moments: Vec::new(), rng: Some(rng) };
        });
    }

    /// The moments so far. No more are noted.
    pub fn stop(&self) -> Vec<Moment> {
        self.with(|progress| {
            progress.rng = None;
            std::mem::take(&mut progress.moments)
        })
    }

    /// A commit begins.
    pub fn begin(&self) {
        self.begin_some(1);
    }

    /// It has come back.
    pub fn end(&self) {
        self.end_some(1);
    }

    /// So many commits begin, one behind the other.
    pub fn begin_some(&self, commits: usize) {
        self.with(|progress| progress.begun += commits);
    }

    /// They have come back.
    pub fn end_some(&self, commits: usize) {
        self.with(|progress| progress.written += commits);
    }

    /// All that has come back is durable.
    pub fn flushed(&self) {
        self.with(|progress| progress.flushed = progress.written);
    }

    /// So many commits are durable, at the least.
    pub fn durable(&self, commits: usize) {
        self.with(|progress| progress.flushed = progress.flushed.max(commits));
    }

    /// How many commits are durable, at the least.
    pub fn least(&self) -> usize {
        self.with(|progress| progress.flushed)
    }

    fn note(&self) {
        self.with(|progress| {
            if progress.rng.as_mut().is_some_and(|rng| rng.chance(1, self.between)) {
                let Progress { begun, written, flushed, .. } = *progress;
                progress.moments.push(Moment { point: self.file.freeze(), begun, written, flushed });
            }
        });
    }
}

impl Storage for Watched {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len).inspect(|()| self.note())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.file.write_at(offset, parts).inspect(|()| self.note())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync().inspect(|_| self.note())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.discard(offset, len).inspect(|()| self.note())
    }
}
