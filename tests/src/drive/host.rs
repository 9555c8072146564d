//! Where stores live, and how they are opened.

use crate::disk::Disk;
use pipkin::{Builder, Db, Durability, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a store lives, and how it comes back.
pub trait Host {
    /// Opens the store, creating it the first time.
    fn open(&self) -> pipkin::Result<Db>;
    /// Lets the process of `db` die: opens what it has written so far, without a close.
    fn kill(&self, db: Db) -> pipkin::Result<Db>;
    /// What a flush there achieves.
    fn durability(&self) -> Durability {
        Durability::Device
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Size of its segments in bytes.
    pub segment_size: u32,
    /// Log bytes behind the newest checkpoint after which a new one is due.
    pub replay_debt_max: u64,
}

impl Setup {
    /// A replay debt that no test gathers: with it the store neither checkpoints nor compacts by itself.
    pub const NEVER: u64 = 1 << 30;

    /// Segments of 4 KiB: a few records fill one.
    pub const TINY: Self = Self { segment_size: 4096, replay_debt_max: 1 << 20 };

    /// A builder with these options that spawns nothing and takes nothing from the system's random source.
    pub fn builder(&self, entropy: u64) -> Builder {
        let mut bytes = [0x5a; 32];
        bytes[..8].copy_from_slice(&entropy.to_le_bytes());
        Db::builder()
            .segment_size(self.segment_size)
            .replay_debt_max(self.replay_debt_max)
            .background(false)
            .entropy(bytes)
            // Some with the ordered index, which `dump` then holds against the other one.
            .ordered(entropy % 4 == 3)
    }

    /// Opens a store over `storage`.
    pub fn open(&self, storage: impl Storage + 'static, entropy: u64) -> pipkin::Result<Db> {
        self.builder(entropy).open_storage(Box::new(storage))
    }
}

/// A [`Disk`] as a host. Every opening has entropy of its own, the same in every run.
#[derive(Clone, Debug)]
pub struct DiskHost {
    /// The file.
    pub disk: Disk,
    /// How it is opened.
    pub setup: Setup,
    opens: Arc<AtomicU64>,
}

impl DiskHost {
    /// A host over `disk`. `entropy` starts the sequence of the openings' entropy.
    pub fn new(disk: Disk, setup: Setup, entropy: u64) -> Self {
        Self { disk, setup, opens: Arc::new(AtomicU64::new(entropy << 20)) }
    }
}

impl Host for DiskHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.setup.open(self.disk.storage(), self.opens.fetch_add(1, Ordering::Relaxed))
    }

    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        self.disk.kill();
        drop(db);
        self.open()
    }
}
