//! Where stores live, and how they are opened.

use crate::disk::Disk;
use pipkin::testing::TestClock;
use pipkin::{Builder, Clock, Compression, Db, Durability, IndexMemory, Storage};
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
    /// Its stores are sealed.
    fn is_sealed(&self) -> bool {
        false
    }
    /// The clock of the stores there, where it is a test's.
    fn clock(&self) -> Option<&TestClock> {
        None
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Size of its segments in bytes.
    pub segment_size: u32,
    /// Log bytes behind the newest checkpoint after which a new one is due.
    pub replay_debt_max: u64,
    /// Its clock, if records of it expire.
    pub clock: Option<TestClock>,
    /// It is sealed.
    pub sealed: bool,
}

impl Setup {
    /// A replay debt that no test gathers: with it the store neither checkpoints nor compacts by itself.
    pub const NEVER: u64 = 1 << 30;

    /// Segments of 4 KiB: a few records fill one.
    pub const TINY: Self = Self { segment_size: 4096, replay_debt_max: 1 << 20, clock: None, sealed: false };

    /// [`Self::TINY`] under this clock.
    pub fn tiny(clock: Option<&TestClock>) -> Self {
        Self { clock: clock.cloned(), ..Self::TINY }
    }

    /// The same with a clock of its own that shows this time, if it has one.
    #[must_use]
    pub fn at(&self, now: u64) -> Self {
        Self { clock: self.clock.as_ref().map(|_| TestClock::new(now)), ..self.clone() }
    }

    /// Every third trial has a sealed store, and of those with records that expire every third one.
    pub const fn seals(seed: u64) -> bool {
        seed / 3 % 3 == 1
    }

    /// What its clock shows; 0 where it has none.
    pub fn host_now(&self) -> u64 {
        self.clock.as_ref().map_or(0, Clock::now_ms)
    }

    /// The time of a store that was just opened like this: that of its clock, or, where that is behind, of the file.
    pub fn now_of(&self, db: &Db) -> u64 {
        self.host_now() + db.open_report().clock_behind_ms
    }

    /// A builder with these options that spawns nothing and takes nothing from the system's random source.
    pub fn builder(&self, entropy: u64) -> Builder {
        let mut bytes = [0x5a; 32];
        bytes[..8].copy_from_slice(&entropy.to_le_bytes());
        let builder = match &self.clock {
            Some(clock) => Db::builder().clock(clock.clone()),
            None => Db::builder(),
        };
        let builder = if self.sealed { builder.encryption_key([7; 32]) } else { builder };
        builder
            .segment_size(self.segment_size)
            .replay_debt_max(self.replay_debt_max)
            .background(false)
            .entropy(bytes)
            // Some compress values, and others read these.
            .compression(match entropy % 8 {
                _ if self.sealed => Compression::Off,
                1 => Compression::OnWrite,
                4 | 6 => Compression::OnCompaction,
                _ => Compression::Off,
            })
            // Some with the ordered index, which `dump` then holds against the other one.
            .ordered(entropy % 4 == 3)
            // Some with their index in the file, as far as the newest snapshot has it.
            .index_memory(match entropy % 5 {
                2 => IndexMemory::InFile { newer_max: entropy % 3 * 2000 },
                _ => IndexMemory::Resident,
            })
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

    fn is_sealed(&self) -> bool {
        self.setup.sealed
    }

    fn clock(&self) -> Option<&TestClock> {
        self.setup.clock.as_ref()
    }
}
