//! One file per verb: its arguments, its help and what it does.

pub(crate) mod backup;
pub(crate) mod compact;
pub(crate) mod completions;
mod counting;
pub(crate) mod digest;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod namespaces;
pub(crate) mod persist;
pub(crate) mod put;
pub(crate) mod reseal;
pub(crate) mod rm;
pub(crate) mod salvage;
pub(crate) mod scan;
mod select;
pub(crate) mod stats;
pub(crate) mod sweep;
pub(crate) mod ttl;
pub(crate) mod verify;
pub(crate) mod watch;
