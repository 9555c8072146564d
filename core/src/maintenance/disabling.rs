//! Making a sealed store plain while it is open: from a border on the log is plain; from there it goes on as a rotation, for which what is behind the border
//! is plain instead of under another key. At the end nothing is sealed, and the superblocks say so.

use super::report::CompactProgress;
use super::rotation::KeyRotation;
use crate::error::{Error, Result};
use crate::log::keys_of;
use crate::planted::{Bug, is};
use crate::seal::{KeySet, Keys};
use crate::store::Store;
use crate::unlock::{disabled, wipe_page, write_front_of_page, write_page_looking};

impl Store {
    /// Begins to make a sealed store plain, or goes on with that, and carries it as far as it can.
    pub(crate) fn disable_encryption(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<KeyRotation> {
        let _turn = self.turn.lock();
        self.writable()?;
        let keys = keys_of(&*self.engine.log.storage).ok_or(Error::NotSealed)?;
        if !keys.is_disabling() {
            self.begin_disabling(keys)?;
        }
        self.finish_rotation_inside(progress)
    }

    fn begin_disabling(&self, keys: &Keys) -> Result<()> {
        let log = &self.engine.log;
        self.may_rotate()?;
        self.may_be_copied()?;
        if keys.is_rotating() && !self.finish_rotation_inside(&mut |_| {})?.is_finished {
            return Err(Error::InvalidArgument(
                "a rotation of the key, or the sealing of the store, has not finished: `finish_key_rotation` says what it waits for",
            ));
        }
        self.engine.build_all(&|| false)?;
        log.begin_to_write()?;
        let (version, page) = disabled(keys)?;
        log.write_front(|look| write_front_of_page(&*log.storage, &page, look))?;
        self.compress_as(false);
        let begun = {
            let _writers = self.engine.lock_all()?;
            log.begin_disabling(keys, (version, &page))
        };
        if let Err(error) = begun {
            self.compress_as(log.is_sealed());
            return Err(error);
        }
        log.write_front(|look| write_page_looking(&*log.storage, &page, look))
    }

    /// Nothing is sealed any more: the superblocks say so, and the page of keys goes. The caller holds the maintenance lock.
    pub(super) fn end_disabling(&self, keys: &Keys) -> Result<()> {
        let log = &self.engine.log;
        log.end_disabling(keys, KeySet::drawn(&log.store_id)?)?;
        if is(Bug::KeyPageKept) { Ok(()) } else { log.write_front(|_| wipe_page(&*log.storage)) }
    }
}
