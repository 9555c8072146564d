//! The state that all handles of one open store share.

#[cfg(feature = "std")]
mod background;
mod consumers;
#[cfg(feature = "compress")]
mod dictionaries;
mod following;
#[cfg(feature = "async")]
mod lane;
mod options;
mod precedence;
#[cfg(feature = "async")]
mod rounds;
mod turn;
#[cfg(feature = "async")]
mod turns;
#[cfg(feature = "std")]
mod workers;

#[cfg(feature = "std")]
pub(crate) use background::Background;
pub(crate) use consumers::{CONSUMERS, NAMESPACE as CONSUMERS_NAMESPACE, NUMBERS, Registered, encode_names};
#[cfg(feature = "compress")]
pub(crate) use dictionaries::{Dictionaries, Listed};
pub(crate) use following::{Following, FollowingState};
#[cfg(feature = "async")]
pub(crate) use lane::Lane;
pub use options::FlushPolicy;
#[cfg(feature = "std")]
pub use options::IndexMemory;
pub(crate) use options::{Attached, Options};
pub(crate) use precedence::Precedence;
#[cfg(feature = "async")]
pub(crate) use rounds::Rounds;
pub(crate) use turn::{Steps, Turn};
#[cfg(feature = "async")]
pub(crate) use turns::Turns;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::names::{Name, Names};
use crate::recover::OpenReport;
use crate::storage::Durability;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock};
use alloc::sync::Arc;
use alloc::vec::Vec;
use once_cell::race::OnceBox;

/// The background thread of a store with records that expire sweeps this often.
#[cfg(feature = "std")]
const SWEEP_EVERY: core::time::Duration = core::time::Duration::from_secs(1);

/// An open store: the engine, and the state of its maintenance.
pub(crate) struct Store {
    pub(crate) engine: Engine,
    pub(crate) names: RwLock<Names>,
    pub(crate) default: Arc<Name>,
    pub(crate) report: OpenReport,
    pub(crate) options: Options,
    pub(crate) attached: Attached,
    /// The consumers of changes, once they have been asked for.
    pub(crate) consumers: Mutex<Option<Vec<Registered>>>,
    /// Held while what consumers have taken note of is written.
    pub(crate) acknowledging: Mutex<()>,
    /// The dictionaries with which values are compressed.
    #[cfg(feature = "compress")]
    pub(crate) dictionaries: Dictionaries,
    /// The transaction that other writers wait for, if there is one.
    pub(crate) precedence: Precedence,
    /// What a follower knows; set once when it is opened, never in other stores.
    pub(crate) following: OnceBox<Following>,
    /// The maintenance lock.
    pub(crate) turn: Turn,
    /// Log position at which the next checkpoint is due.
    pub(crate) checkpoint_due: AtomicU64,
    /// Log position at which automatic compaction is checked again.
    pub(crate) compaction_due: AtomicU64,
    pub(crate) steps: Mutex<Steps>,
    /// Segments that automatic compaction leaves alone, because all of their records expire before long: the base of each, and for what time.
    pub(crate) dying: Mutex<Vec<(u64, core::ops::Range<u64>)>>,
    /// Dead bytes that were left when a write last failed to make room: compaction could not free them.
    pub(crate) dead_left: AtomicU64,
    /// Shard with which the next automatic sweep begins.
    pub(crate) sweep_next: AtomicU32,
    /// Events that retention has removed since the store was opened.
    #[cfg(feature = "events")]
    pub(crate) events_removed: AtomicU64,
    /// Maintenance that earlier sessions left undone is over its bound: the first write does it.
    pub(crate) overdue: AtomicBool,
    /// The names of the namespaces have been checked against their records.
    pub(crate) names_checked: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// PID of the opener; a forked child must not close the store.
    #[cfg(feature = "native")]
    pub(crate) process: u32,
    #[cfg(feature = "std")]
    pub(crate) background: Background,
    /// Writes of tasks, which one thread carries out.
    #[cfg(feature = "async")]
    pub(crate) lane: Arc<Lane>,
    /// Tasks that wait for a sync.
    #[cfg(feature = "async")]
    pub(crate) rounds: Arc<Rounds>,
    /// Tasks whose transactions others keep overtaking.
    #[cfg(feature = "async")]
    pub(crate) overtaken: Arc<Turns>,
}

impl Store {
    pub(crate) fn writable(&self) -> Result<()> {
        self.engine.log.writable()
    }

    /// Makes everything durable that was written before the call; returns how durable that is.
    pub(crate) fn flush(&self) -> Result<Durability> {
        let log = &self.engine.log;
        match self.options.flush_policy {
            FlushPolicy::OnEachFlush => log.sync_now(),
            FlushPolicy::Group | FlushPolicy::WriteThrough => log.sync_to(log.end()),
        }
    }

    /// Turns apparent damage into [`Error::Fenced`] where another session has taken the file over: what was read may then be what that
    /// session wrote.
    pub(crate) fn seen<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.engine.log.or_fenced(error))
    }

    /// Dead bytes, most of which compaction could free. Exact only once the whole index is built.
    pub(crate) fn dead_bytes(&self) -> u64 {
        let usage = self.engine.log.usage();
        usage.kept.saturating_sub(usage.live)
    }

    /// How long the background thread waits for something to do, before it looks by itself.
    #[cfg(feature = "std")]
    pub(crate) fn looks_again_after(&self) -> Option<core::time::Duration> {
        #[cfg(feature = "events")]
        let retains = self.retains_events();
        #[cfg(not(feature = "events"))]
        let retains = false;
        // Whoever had the maintenance lock when damage was found may have been past healing.
        let heals = self.engine.should_heal();
        (heals || retains || self.options.sweep && self.engine.log.clock.in_use()).then_some(SWEEP_EVERY)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// Refuses a key that is longer than [`KEY_LEN_MAX`].
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_LEN_MAX { Err(Error::KeyTooLong { len: key.len() }) } else { Ok(()) }
}

/// Refuses a value that is longer than [`VALUE_LEN_MAX`].
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_LEN_MAX { Err(Error::ValueTooLong { len: value.len() }) } else { Ok(()) }
}
