//! Start of recovery: from the superblocks to the log after the newest checkpoint, with its segment list or without.

use super::chain::Chain;
use super::follow::Follower;
use super::headers::{find_headers, headers_along};
use super::list::read_segment_list;
use super::unlisted::without_list;
use crate::error::{Error, Result};
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
}
