//! The engines of the suites, each with a budget, so that the suite of planted bugs can run them small.

pub mod behind_compaction;
pub mod cache;
pub mod changes;
pub mod codec;
pub mod compression;
pub mod crash;
pub mod errors;
pub mod events;
pub mod exhaustive;
pub mod expiry;
pub mod following;
pub mod full;
pub mod groups;
pub mod hostile;
pub mod in_file;
pub mod left_space;
pub mod lies;
pub mod lives;
pub mod lost_headers;
pub mod many;
pub mod mixed;
pub mod moments;
pub mod order;
pub mod projections;
pub mod rot;
pub mod salvage;
pub mod sealed;
pub mod serializable;
pub mod shared_sync;
pub mod sleepers;
pub mod stores;
pub mod takeover;
pub mod threads;
pub mod two_writers;
pub mod verbs;
pub mod writers;

/// What a check has found, in words.
type Checked<T = ()> = Result<T, String>;

/// An error of a call that has to succeed.
fn words(error: pipkin::Error) -> String {
    format!("unexpected error: {error} ({error:?})")
}
