//! Sealing a plain store while it is open: from a border on the log is sealed; from there it goes on as a rotation, for which what is in front of the
//! border is plain instead of under another key.

use super::checkpoint::Extent;
use super::report::CompactProgress;
use super::rotation::{KeyRotation, NOT_LOCKED};
use super::stranded;
use crate::error::{Error, Result};
use crate::log::{Digests, NO_CELL};
use crate::seal::{Cipher, Keys, Ring, Secret};
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
        let ring = Ring { current: Arc::new(set), previous: None, border: 0, is_plain_before: true };
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
    fn compress_as(&self, is_sealed: bool) {
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
        let (engine, log) = (&self.engine, &self.engine.log);
        if log.is_sealed() {
            return Err(Error::InvalidArgument(
                "the store is sealed already: `rotate_encryption_key` seals it under another key, `finish_key_rotation` ends what has begun",
            ));
        }
        if !log.storage.is_exclusive() {
            return Err(Error::InvalidArgument(NOT_LOCKED));
        }
        log.storage.key_cell().ok_or(NO_CELL)?;
        #[cfg(feature = "compress")]
        if self.attached.compression != crate::Compression::Off && !self.attached.compress_sealed {
            return Err(Error::InvalidArgument(crate::compression::NOT_ASKED_FOR));
        }
        if let Some(offset) = self.report.unsure_at {
            return Err(Error::corrupt(offset, "records; `salvage` what is left into a new store first"));
        }
        stranded::make_way(engine)?;
        let is_kept = |segment| stranded::is_kept(engine, &segment);
        if !log.unlisted().is_empty() || log.segments().into_iter().any(is_kept) {
            return Err(Error::InvalidArgument(
                "a crash has left records behind the end of the log, which would stay plain: `salvage` or `drop_stranded` them first",
            ));
        }
        Ok(())
    }
}
