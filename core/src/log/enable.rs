//! The moment from which on a plain store is sealed: a border in the log, behind it a list of all segments with a digest of each plain one, and
//! superblocks that name both.

use super::plain::Digests;
use super::{CheckpointPlace, Cut, Log, Purpose, SEGMENT_HEADER_LEN, Segment, Superblock, TRAILER_LEN, Tail};
use crate::error::{Error, Result};
use crate::frame::TAG_LEN;
use crate::planted::{Bug, is};
use crate::seal::{Keys, PlainDigest, Vault};
use crate::sync::Ordering;
use alloc::vec::Vec;

/// Room beside the list, for marks in front of it.
const SLACK: u64 = 256;

impl Log {
    /// Seals the log from its end on, under `keys`. The caller blocks all writers and holds the maintenance lock; `digests` are those of segments that were
    /// full already. The superblocks name no index snapshot any more: it is plain.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`] leaves the store plain. Any other error closes it to writes, and it is plain or sealed when it is opened again.
    pub(crate) fn begin_sealing(&self, keys: Keys, digests: &mut Digests, next_namespace: u32) -> Result<Cut> {
        let mut tail = self.tail.lock();
        let tail = &mut *tail;
        self.writable()?;
        self.announce(tail)?;
        let cell = self.storage.key_cell().ok_or(NO_CELL)?;
        self.seal_noted(tail)?;
        let plain = self.plain_now(tail, &keys, digests)?;
        let need = self.list_len(tail.segments.len() + tail.history_len()) + (plain.len() * crate::seal::LISTED_LEN) as u64;
        let run = self.take(tail, SEGMENT_HEADER_LEN as u64 + need + SLACK + TRAILER_LEN, Purpose::BookKeeping)?;
        let (border, version) = (tail.next_base, keys.page_version());
        keys.begin_at(border);
        plain.into_iter().for_each(|(salt, digest)| keys.enter_plain(salt, digest));
        if !cell.set(Vault(Some(keys))) {
            return Err(self.poison(Error::Bug("a plain store has keys")));
        }
        self.holds_sealed.store(true, Ordering::Release);
        self.tag_len.store(TAG_LEN as u64, Ordering::Release);
        // In front of the superblocks the store is a plain one, and nothing may lead it to a sealed segment.
        (tail.previous.trailer, tail.last_tag) = (None, [0; TAG_LEN]);
        let begun = self.begin_segment(tail, run, 0).map_err(|error| self.poison(error))?;
        self.note_end(tail);
        let cut = self.append_list(tail, next_namespace).map_err(|error| self.poison(error))?;
        if begun.segment.base != border {
            return Err(self.poison(Error::Bug("the log is sealed from another position on")));
        }
        if !is(Bug::SealedBeforeSync) {
            self.sync_alone()?;
        }
        let checkpoint = CheckpointPlace { base: cut.segment.base, salt: cut.segment.salt, offset: cut.offset, directory: None };
        self.flip_both(&|superblock| Superblock {
            key_page: version,
            sealed_from: border,
            checkpoint: Some(checkpoint),
            floor: if cut.floor == 0 { superblock.floor } else { cut.floor },
            ..superblock
        })?;
        self.set_checkpoint(cut.segment.lsn(self.geometry, cut.offset));
        tail.space.listed = cut.listed;
        Ok(cut)
    }

    /// The salts of all plain segments, with digests of those that a list names. The others are read by those who have found something in them before:
    /// retired ones, and those of the index snapshot.
    fn plain_now(&self, tail: &Tail, keys: &Keys, digests: &mut Digests) -> Result<Vec<(u64, Option<PlainDigest>)>> {
        let set = keys.current();
        let listed: Vec<Segment> = tail.segments.values().chain(tail.history_segments()).copied().collect();
        let mut plain = Vec::with_capacity(listed.len());
        for segment in &listed {
            plain.push((segment.salt, Some(self.digest(&set, segment, digests)?)));
        }
        let retired = tail.retired.iter().map(|retired| self.segment_stats.salt(retired.extent));
        plain.extend(retired.chain(tail.snapshot.iter().map(|segment| segment.salt)).map(|salt| (salt, None)));
        Ok(plain)
    }
}

/// The answer of a storage that has no place for keys.
pub(crate) const NO_CELL: Error = Error::Unsupported {
    offset: 0,
    what: "sealing an open store in a storage without a `key_cell`: give the storage one, or seal the store while it is closed",
};

#[cfg(test)]
mod tests;
