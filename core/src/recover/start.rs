//! Start of recovery: from the superblocks to the log after the newest checkpoint, with its segment list or without.

use super::chain::Chain;
use super::follow::Follower;
use super::headers::{find_headers, headers_along};
use super::list::read_segment_list;
use super::unlisted::without_list;
use crate::error::{Error, Result};
#[cfg(feature = "encrypt")]
use crate::log::SegmentHeader;
use crate::log::SuperblockPair;
use crate::storage::Storage;

impl Chain {
    /// Follows the log to its end.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when something before a sync mark is damaged.
    pub(crate) fn follow(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Self> {
        let superblock = pair.current;
        let geometry = superblock.geometry();
        #[cfg(feature = "encrypt")]
        if crate::log::is_sealed(storage) {
            return Self::follow_sealed(storage, pair);
        }
        match read_segment_list(storage, geometry, &superblock) {
            Ok(listed) => {
                let headers = match headers_along(storage, geometry, pair, &listed)? {
                    Some(headers) => headers,
                    None => find_headers(storage, geometry, superblock.store_id, &listed)?,
                };
                let mut follower = Follower::new(storage, pair, headers);
                follower.run(listed, None)?;
                Ok(follower.chain)
            }
            Err(error @ Error::Corrupt { .. }) => match without_list(storage, pair) {
                Ok(Some(chain)) => Ok(chain),
                Ok(None) | Err(Error::Corrupt { .. }) => Err(error),
                Err(other) => Err(other),
            },
            Err(error) => Err(error),
        }
    }

    /// The same for a sealed store: by all headers of the file, whose tags are checked first, and never without the list.
    #[cfg(feature = "encrypt")]
    fn follow_sealed(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Self> {
        let superblock = pair.current;
        let geometry = superblock.geometry();
        // Entered here, the segments can be read by their salts.
        for extent in 0..geometry.extents_in(storage.len()?) {
            SegmentHeader::read(storage, superblock.store_id, geometry.start(extent))?;
        }
        let listed = read_segment_list(storage, geometry, &superblock)?;
        super::sealed::enter_listed(storage, geometry, &listed)?;
        let headers = find_headers(storage, geometry, superblock.store_id, &listed)?;
        let mut follower = Follower::new(storage, pair, headers);
        follower.run(listed, None)?;
        super::sealed::check_plain(storage, geometry, &follower.chain)?;
        Ok(follower.chain)
    }
}
