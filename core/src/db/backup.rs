//! Backup: copies the log up to one moment, verifying the checksum of every record.

use super::handle::Db;
use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::index::KeyHash;
use crate::limits::DATA_START;
use crate::log::{CheckpointPlace, Segment, SnapshotSegment, Superblock, SuperblockSlot, Window};
use crate::maintenance::{Extent, write_checkpoint};
use crate::nested::Held;
use crate::scan::{Found, Stretch, scan};
use crate::snapshot::check_chunks;
use crate::storage::Storage;
use crate::store::Store;
use alloc::vec::Vec;

const PIECE: u64 = 1024 * 1024;

/// What a backup copied.
///
/// ```
/// use pipkin::{Db, storage::MemoryStorage};
///
/// let db = Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// let copy = MemoryStorage::new();
/// assert_eq!(db.backup_to_storage(&copy)?.records, 1);
/// assert_eq!(Db::builder().open_storage(Box::new(copy))?.len()?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Records in the log of the copy, dead ones and tombstones included.
    pub records: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Damaged stretches among the dead records: copied as they are, and still damaged in the copy.
    pub damaged: u64,
}

/// What a backup copies.
struct Plan {
    /// The segments of the log, each up to its end.
    segments: Vec<Segment>,
    checkpoint: Option<CheckpointPlace>,
    /// Log position up to which the copy is complete: a record before it that fails is damage, not a torn tail.
    end: u64,
    /// The segment list names only extents below this one, so the copy must be at least that long.
    listed: u32,
    /// The segments of the index snapshot, if that is copied, too.
    snapshot: Vec<SnapshotSegment>,
}

impl Db {
    /// Copies the store, as it is at this moment, into an empty storage, verifying every record. Reads and writes continue meanwhile.
    ///
    /// The copy has no index snapshot: opening it reads its whole log, until one is written there, for example by [`Db::checkpoint`].
    ///
    /// ```
    /// use pipkin::{Db, storage::MemoryStorage};
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// let copy = MemoryStorage::new();
    /// db.backup_to_storage(&copy)?;
    /// let copy = Db::builder().open_storage(Box::new(copy))?;
    /// assert_eq!(copy.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a record that counts is damaged: a backup never loses one silently.
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the target is not empty.
    pub fn backup_to_storage(&self, target: &dyn Storage) -> Result<BackupReport> {
        self.store.backup_to_storage(target)
    }

    /// Copies the store, as it is at this moment, to a new file; the file appears whole or not at all.
    ///
    /// On Unix only this user can read it (mode 0600). Until it is complete it is named `PATH.PROCESS-NUMBER.part`; a process that is
    /// killed meanwhile leaves that file, which has to be deleted by hand. Of several concurrent backups to one path, one becomes the file
    /// and the others fail.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// let monday = folder.path().join("monday.pipkin");
    /// db.backup_to(&monday)?;
    /// assert_eq!(pipkin::Db::open(&monday)?.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::backup_to_storage`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the file exists already.
    #[cfg(feature = "native")]
    pub fn backup_to(&self, path: impl AsRef<std::path::Path>) -> Result<BackupReport> {
        self.store.backup_to(path.as_ref())
    }
}

impl Store {
    pub(super) fn backup_to_storage(&self, target: &dyn Storage) -> Result<BackupReport> {
        self.refuse_following()?;
        self.engine.refuse_inside(&[Held::Shard])?;
        if !target.is_empty()? {
            return Err(Error::InvalidArgument("a backup needs an empty target"));
        }
        let engine = &self.engine;
        let log = &engine.log;
        // While the pin lives no segment is reused; compaction may retire some, but their bytes stay.
        let _pin = engine.pins.pin();
        let mut plan = if log.read_only { self.plan_as_is() } else { self.plan_with_cut()? };
        let mut report = BackupReport::default();
        self.copy(target, &plan, &mut report)?;
        if report.damaged > 0 {
            // An index that is rebuilt across damage does not know whose record it was. This index does, so the copy gets its snapshot,
            // too.
            target.set_len(0)?;
            report = BackupReport::default();
            self.may_wait_for_the_turn()?;
            let _turn = self.turn.lock();
            plan = self.plan_with_snapshot()?;
            self.copy(target, &plan, &mut report)?;
            for segment in &plan.snapshot {
                check_chunks(&*log.storage, log.geometry, segment)?;
                self.copy_bytes(target, log.geometry.start(segment.extent), segment.end, &mut report)?;
            }
        }
        #[cfg(feature = "encrypt")]
        if let Some(keys) = crate::log::keys_of(&*log.storage) {
            crate::unlock::write_page(target, &keys.page())?;
        }
        let len = target.len()?.max(log.geometry.start(plan.listed));
        target.set_len(len)?;
        target.sync()?;
        let end = plan.end;
        // Not marked as closed: a session on the copy then begins a new segment, so that the two files never hold different records under
        // the same salt and offset.
        // What had expired here has expired there, whatever the clock of that host.
        let current = Superblock { clock: log.clock.floor(), ..log.superblock() };
        for (slot, step) in [(SuperblockSlot::A, 1), (SuperblockSlot::B, 2)] {
            let generation = current.generation + step;
            Superblock { checkpoint: plan.checkpoint, clean_end: None, torn_end: false, synced: end, generation, ..current }
                .write_for(&*log.storage, target, slot)?;
            target.sync()?;
        }
        report.bytes += DATA_START;
        Ok(report)
    }

    /// Plans to copy the log up to this moment, with a new segment list as its last record.
    fn plan_with_cut(&self) -> Result<Plan> {
        let engine = &self.engine;
        let log = &engine.log;
        let cut = {
            let _writers = engine.lock_all()?;
            log.cut(self.names.read().next)?
        };
        log.sync_to(log.end())?;
        let place = CheckpointPlace { base: cut.segment.base, salt: cut.segment.salt, offset: cut.offset, directory: None };
        let end = cut.segment.lsn(log.geometry, cut.end);
        Ok(Plan { segments: cut.segments, checkpoint: Some(place), end, listed: cut.listed, snapshot: Vec::new() })
    }

    /// The log up to this moment, and the index as it was at the newest checkpoint. The caller holds the maintenance lock.
    fn plan_with_snapshot(&self) -> Result<Plan> {
        let engine = &self.engine;
        let log = &engine.log;
        if !log.read_only && !write_checkpoint(engine, &self.names, Extent::Whole)? {
            return Err(Error::NoSpace);
        }
        let (place, end, mut plan) = {
            let _writers = engine.lock_all()?;
            let end = log.position();
            let mut plan = self.plan_as_is();
            plan.snapshot = log.snapshot_segments();
            (log.newest_checkpoint(), end, plan)
        };
        if !log.read_only {
            log.sync_to(log.end())?;
            plan.end = end;
        }
        plan.checkpoint = place;
        match place {
            Some(CheckpointPlace { directory: Some(_), .. }) => Ok(plan),
            _ => Err(Error::corrupt(place.map_or(0, |place| place.offset), "a log with damage, and without an index snapshot")),
        }
    }

    /// Plans to copy the log as it is: a store that was opened read-only does not change, so its newest segment list is right.
    fn plan_as_is(&self) -> Plan {
        let log = &self.engine.log;
        let without_snapshot = log.newest_checkpoint().map(|place| CheckpointPlace { directory: None, ..place });
        let (end, listed) = (log.sync_state.synced(), log.listed());
        Plan { segments: log.segments(), checkpoint: without_snapshot, end, listed, snapshot: Vec::new() }
    }

    fn copy(&self, target: &dyn Storage, plan: &Plan, report: &mut BackupReport) -> Result<()> {
        target.set_len(DATA_START)?;
        plan.segments.iter().try_for_each(|segment| self.copy_segment(target, segment, report))
    }

    /// Copies a segment after verifying the checksum of every record in it.
    fn copy_segment(&self, target: &dyn Storage, segment: &Segment, report: &mut BackupReport) -> Result<()> {
        let log = &self.engine.log;
        let end = segment.end;
        let stretch = Stretch { salt: segment.salt, from: segment.first_frame(log.geometry), to: end, full: true };
        scan(&*log.storage, stretch, &mut |found| {
            match found {
                Found::Frame { header, .. } => report.records += u64::from(!header.kind.is_control()),
                Found::Damage(damage) => {
                    // The names of namespaces are in the snapshot, which is copied, too.
                    let names = self.names.read();
                    let hash = |name: &str| self.engine.full_key(NAMESPACE_OF_NAMES, name.as_bytes()).hash;
                    let known: Vec<KeyHash> = names.pairs().map(|(name, _)| hash(name)).collect();
                    drop(names);
                    self.engine.is_dead(&damage, &known)?;
                    report.damaged += 1;
                }
            }
            Ok(())
        })?;
        // A full segment has a trailer, which names the next segment; in a sealed store one may have it behind unused bytes.
        let (limit, behind) = (segment.limit(log.geometry), segment.behind(log.geometry));
        self.copy_bytes(target, log.geometry.start(segment.extent), if end == limit { behind } else { end }, report)?;
        if segment.linked && end < limit { self.copy_bytes(target, limit, behind, report) } else { Ok(()) }
    }

    fn copy_bytes(&self, target: &dyn Storage, from: u64, end: u64, report: &mut BackupReport) -> Result<()> {
        let mut window = Window::new(&*self.engine.log.storage, end);
        let mut position = from;
        while position < end {
            let len = PIECE.min(end - position);
            target.write_at(position, &[window.bytes(position, len as usize)?])?;
            position += len;
            report.bytes += len;
        }
        Ok(())
    }

    #[cfg(feature = "native")]
    pub(super) fn backup_to(&self, path: &std::path::Path) -> Result<BackupReport> {
        use crate::storage::native::{NativeStorage, publish};
        self.refuse_following()?;
        // An early check; publishing checks again. A dangling link occupies the name, too.
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(Error::InvalidArgument("the backup's file exists already; choose a new name"));
        }
        // Open, and so locked, until it has its name: no other process can write to it before the copy is complete.
        let target = NativeStorage::create_unfinished(path)?;
        let finished = self.backup_to_storage(&target).and_then(|report| {
            publish(target.path(), path)?;
            Ok(report)
        });
        if finished.is_err() {
            let _ = std::fs::remove_file(target.path());
        }
        finished
    }
}
