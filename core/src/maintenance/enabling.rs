//! Sealing a plain store while it is open: from a border on the log is sealed; from there it goes on as a rotation, for which what is in front of the
//! border is plain instead of under another key.

use super::checkpoint::Extent;
use super::report::CompactProgress;
use super::rotation::{KeyRotation, NOT_LOCKED};
use super::stranded;
use crate::error::{Error, Result};
use crate::log::{Digests, NO_CELL, keys_of};
use crate::seal::{Cipher, Keys, PlainSide, Ring, Secret};
use crate::store::Store;
use crate::unlock::{enabled, wipe_page, write_front_of_page, write_page_looking};
use alloc::sync::Arc;

/// How often to make digests of what writers have filled meanwhile, before they have to wait for the rest.
const PASSES: usize = 3;

impl Store {
    /// Begins to seal a plain store, and carries that as far as it can.
    pub(crate) fn enable_encryption(
        &self,
        secret: &Secret,
        cipher: Cipher,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<KeyRotation> {
        let log = &self.engine.log;
        let _turn = self.turn.lock();
        self.writable()?;
        self.engine.refuse_in_file()?;
        self.may_be_sealed()?;
        self.engine.build_all(&|| false)?;
        log.begin_to_write()?;
        let (set, (version, page)) = enabled(&*log.storage, &log.store_id, cipher, secret)?;
        log.write_front(|look| write_front_of_page(&*log.storage, &page, look))?;
        log.seal_active()?;
        let mut digests = Digests::default();
        for _ in 0..PASSES {
            log.digest_full(&set, &mut digests)?;
        }
        let ring = Ring { current: Arc::new(set), previous: None, border: 0, plain: PlainSide::Before };
        let keys = Keys::new(log.store_id, cipher, ring, (version, page.clone()))?;
        self.compress_as(true);
        let begun = {
            let _writers = self.engine.lock_all()?;
            log.begin_sealing(keys, &mut digests, self.names.read().next)
        };
        if let Err(error) = begun {
            self.compress_as(log.is_sealed());
            if !log.is_sealed() && !log.is_poisoned() {
                log.write_front(|_| wipe_page(&*log.storage))?;
            }
            return Err(error);
        }
        log.write_front(|look| write_page_looking(&*log.storage, &page, look))?;
        // No part of the index snapshot stays plain.
        self.write_checkpoint(Extent::Whole)?;
        self.finish_rotation_inside(progress)
    }

    /// Whether values are compressed in a store that is sealed, or in one that is plain again.
    pub(super) fn compress_as(&self, is_sealed: bool) {
        #[cfg(feature = "compress")]
        {
            let may_compress = !is_sealed || self.attached.compress_sealed;
            self.names.write().set_store_compression(self.attached.compression, may_compress);
        }
        #[cfg(not(feature = "compress"))]
        let _ = is_sealed;
    }

    /// Fails for a store that cannot be sealed, and says why.
    fn may_be_sealed(&self) -> Result<()> {
        let log = &self.engine.log;
        if let Some(keys) = keys_of(&*log.storage) {
            return Err(Error::InvalidArgument(if keys.is_disabling() {
                "the store is being made plain: `finish_key_rotation` ends that, and then it can be sealed again"
            } else {
                "the store is sealed already: `rotate_encryption_key` seals it under another key, `finish_key_rotation` ends what has begun"
            }));
        }
        if !log.storage.is_exclusive() {
            return Err(Error::InvalidArgument(NOT_LOCKED));
        }
        #[cfg(feature = "compress")]
        if self.attached.compression != crate::Compression::Off && !self.attached.compress_sealed {
            return Err(Error::InvalidArgument(crate::compression::NOT_ASKED_FOR));
        }
        self.may_be_copied()
    }

    /// Fails for a store of which not every record can be copied, or whose storage has no place for keys.
    pub(super) fn may_be_copied(&self) -> Result<()> {
        let (engine, log) = (&self.engine, &self.engine.log);
        log.storage.key_cell().ok_or(NO_CELL)?;
        if let Some(offset) = self.report.unsure_at {
            return Err(Error::corrupt(offset, "records; `salvage` what is left into a new store first"));
        }
        stranded::make_way(engine)?;
        let is_kept = |segment| stranded::is_kept(engine, &segment);
        // What follows the last record of the active one is being written.
        if !log.unlisted().is_empty() || log.ended_segments().into_iter().any(is_kept) {
            return Err(Error::InvalidArgument(
                "a crash has left records behind the end of the log, which would stay as they are: `salvage` or `drop_stranded` them first",
            ));
        }
        Ok(())
    }
}
