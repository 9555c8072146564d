//! Rotation of the data key of a sealed store: from a border on the log is sealed under a new key, everything in front of it is copied behind it, and
//! what is left in the file is overwritten with zeros. Until then the page of keys leads to both keys, whatever ends the process. A plain store that is
//! being sealed ends in the same way, and so does a sealed one that is being made plain.

use super::checkpoint::Extent;
use super::choose;
use super::report::{CompactProgress, CompactReport};
use super::stranded;
use crate::error::{Error, Result};
use crate::log::{Segment, keys_of};
use crate::planted::{Bug, is};
use crate::seal::{Keys, Secret};
use crate::store::Store;
use crate::unlock::{Page, ended, rotated, write_front_of_page, write_page_looking};
use alloc::vec::Vec;

/// Rounds over the segments in front of the border: behind the first one only those are left for which there was no room, or that were in the way.
const ROUNDS: usize = 3;
/// How often to look whether the last reader of a retired segment has gone.
const LOOKS: usize = 100;

/// Why a data key comes into a store, or goes, only where its file can be locked.
pub(super) const NOT_LOCKED: &str = "this host cannot lock the file, so another session may write to it: seal the store, rotate its key, or make it plain \
     where the file can be locked, as in a native program or with the command `pipkin`";

/// What a rotation of the key has come to, see [`Db::rotate_encryption_key`](crate::Db::rotate_encryption_key), the sealing of a plain store, see
/// [`Db::enable_encryption`](crate::Db::enable_encryption), or the way back, see [`Db::disable_encryption`](crate::Db::disable_encryption).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRotation {
    /// True if nothing in the file is under the key before any more, or plain, and no page of keys leads to it. Of a store that became plain: if nothing
    /// in it is sealed.
    pub is_finished: bool,
    /// Segments under the key before, or plain, or those that were to become plain, that are still there: damaged ones, those kept for stranded records, those whose records somebody reads, and
    /// history.
    pub segments_left: u64,
    /// Bytes of those that are history: consumers of changes have not taken note of them.
    pub history_bytes: u64,
    /// Number of records that were copied.
    pub records_copied: u64,
    /// Bytes of these.
    pub bytes_copied: u64,
}

impl Store {
    /// Begins a rotation, and carries it as far as it can.
    pub(crate) fn rotate_key(&self, secret: &Secret) -> Result<KeyRotation> {
        self.sealed_under()?;
        self.may_rotate()?;
        let (log, _turn) = (&self.engine.log, self.turn.lock());
        self.writable()?;
        if self.sealed_under()?.is_rotating() && !self.finish_rotation_inside(&mut |_| {})?.is_finished {
            return Err(Error::InvalidArgument(
                "an earlier rotation of the key has not finished: `finish_key_rotation` says what it waits for",
            ));
        }
        // What has just finished may have made the store a plain one.
        let keys = self.sealed_under()?;
        self.engine.build_all(&|| false)?;
        let (next, (version, page)) = rotated(keys, secret)?;
        log.begin_to_write()?;
        log.write_front(|look| write_front_of_page(&*log.storage, &page, look))?;
        log.name_key(version, &mut |border| {
            keys.rotate(next.clone(), border);
            keys.set_page(version, page.clone());
        })?;
        log.write_front(|look| write_page_looking(&*log.storage, &page, look))?;
        self.finish_rotation_inside(&mut |_| {})
    }

    /// Goes on with a rotation. Finished if there is none.
    pub(crate) fn finish_rotation(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<KeyRotation> {
        self.sealed_under()?;
        let _turn = self.turn.lock();
        self.writable()?;
        self.finish_rotation_inside(progress)
    }

    /// A session that was overtaken would write zeros late where another one has records by then, and a superblock under a data key that nobody else has: that
    /// could not be told from a forged one.
    pub(super) fn may_rotate(&self) -> Result<()> {
        if self.engine.log.storage.is_exclusive() { Ok(()) } else { Err(Error::InvalidArgument(NOT_LOCKED)) }
    }

    fn sealed_under(&self) -> Result<&Keys> {
        keys_of(&*self.engine.log.storage).ok_or(Error::NotSealed)
    }

    /// The caller holds the maintenance lock.
    pub(super) fn finish_rotation_inside(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<KeyRotation> {
        let (log, keys) = (&self.engine.log, self.sealed_under()?);
        if !keys.is_rotating() {
            return Ok(KeyRotation { is_finished: true, ..KeyRotation::default() });
        }
        self.may_rotate()?;
        let copied = self.copy_in_front_of(keys.border(), progress)?;
        let (segments_left, history_bytes) = self.left_in_front_of(keys.border());
        let report = KeyRotation {
            is_finished: segments_left == 0,
            segments_left,
            history_bytes,
            records_copied: copied.records_copied,
            bytes_copied: copied.bytes_copied,
        };
        if !report.is_finished {
            return Ok(report);
        }
        // A list without these segments, and no superblock that names another one.
        self.write_checkpoint(Extent::Whole)?;
        log.write_superblock_again()?;
        log.wipe_free()?;
        log.wipe_behind_snapshot()?;
        log.wipe_rests(&|segment| stranded::is_kept(&self.engine, segment))?;
        // The rest of the active segment is filled up.
        log.seal_active()?;
        log.wipe_last_trailer()?;
        if !(keys.is_disabling() && is(Bug::PlainBeforeSync)) {
            log.sync_to(log.end())?;
            log.sync_alone()?;
        }
        if keys.is_disabling() {
            self.end_disabling(keys)?
        } else {
            self.end_rotation(keys, ended(keys)?)?
        }
        Ok(report)
    }

    /// Nothing leads to the key before any more.
    fn end_rotation(&self, keys: &Keys, (version, page): Page) -> Result<()> {
        let log = &self.engine.log;
        log.write_front(|look| write_front_of_page(&*log.storage, &page, look))?;
        log.name_key_page(version)?;
        keys.set_page(version, page.clone());
        log.write_front(|look| write_page_looking(&*log.storage, &page, look))?;
        keys.forget_previous();
        Ok(())
    }

    /// Copies the live records of all segments in front of the border behind it, and retires these.
    fn copy_in_front_of(&self, border: u64, progress: &mut dyn FnMut(CompactProgress)) -> Result<CompactReport> {
        let log = &self.engine.log;
        self.engine.build_all(&|| false)?;
        self.end_purges()?;
        let mut report = CompactReport::default();
        for _ in 0..ROUNDS {
            // What consumers have taken note of meanwhile is no history any more.
            self.settle_floor()?;
            log.sync_to(log.end())?;
            log.reclaim(&self.engine.pins);
            stranded::make_way(&self.engine)?;
            self.write_checkpoint(Extent::Changes)?;
            let old: Vec<_> = choose::candidates(&self.engine).into_iter().filter(|segment| segment.base < border).collect();
            if old.is_empty() {
                break;
            }
            let total = old.len() as u64;
            let mut emptying = self.emptying_asked(old.clone())?;
            for (done, segment) in (0..).zip(&old) {
                progress(CompactProgress { segments_done: done, segments_total: total });
                report.add(self.empty(&mut emptying, segment, &mut |_| {})?);
            }
            report.bytes_freed += self.free(&mut emptying)?;
            progress(CompactProgress { segments_done: total, segments_total: total });
        }
        Ok(report)
    }

    /// The segments that are left, history, retired ones and those kept for stranded records included, and the bytes of those that are history.
    fn left_in_front_of(&self, border: u64) -> (u64, u64) {
        let log = &self.engine.log;
        for _ in 0..LOOKS {
            log.reclaim(&self.engine.pins);
            if !log.has_retired() {
                break;
            }
            #[cfg(feature = "std")]
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        let (left, history_bytes) = log.left_in_front_of(border);
        // What a crash has torn behind the border has stranded records, and in between what stood there before.
        let is_kept = |segment: &Segment| segment.base >= border && stranded::is_kept(&self.engine, segment);
        let kept = log.ended_segments().iter().filter(|segment| is_kept(segment)).count() as u64;
        (left + kept, history_bytes)
    }
}
