//! What a follower knows about the store that another process writes.

use crate::recover::Place;
use crate::storage::ByCopy;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// The state of a follower.
pub(crate) struct Following {
    pub(crate) storage: ByCopy,
    /// Held during a refresh.
    pub(crate) state: Mutex<FollowingState>,
    pub(crate) refreshes: AtomicU64,
    /// How often the whole store had to be read again.
    pub(crate) rebuilds: AtomicU64,
    /// That of its state, as of the last refresh.
    pub(crate) is_torn: AtomicBool,
}

/// Where the follower is.
pub(crate) struct FollowingState {
    pub(crate) place: Option<Place>,
    /// A refresh has ended with a part of what it had read applied: the next one reads the whole store.
    pub(crate) is_torn: bool,
}

impl Following {
    pub(crate) fn new(storage: ByCopy, place: Option<Place>) -> Self {
        Self {
            storage,
            state: Mutex::new(FollowingState { place, is_torn: false }),
            refreshes: AtomicU64::new(0),
            rebuilds: AtomicU64::new(0),
            is_torn: AtomicBool::new(false),
        }
    }
}
