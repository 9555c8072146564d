//! How a store is opened.

use crate::Durability;
use crate::bindings::exports::pipkin::kv::store;

/// How a store is opened; by default a missing store is created, and every write survives the end of the process.
///
/// ```
/// use pipkin_wasi_host::{Durability, Options};
/// let options = Options { durability: Durability::Buffered, ..Options::default() };
/// assert!(options.create);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Create the store if there is none. Default: true.
    pub create: bool,
    /// Refuse every change, and share the file with other readers. Default: false.
    pub read_only: bool,
    /// What a single write survives when it returns. Default: [`Durability::Written`].
    pub durability: Durability,
    /// Memory of the instance for cached blocks of the file, in bytes. Default: 8 MiB.
    pub cache_bytes: u32,
    /// Segment size of a new store in bytes, or 0 for 4 MiB. Default: 0.
    pub segment_bytes: u32,
    /// Read a store that another process writes meanwhile, without a lock and without writing a byte; see [`Db::refresh`](crate::Db::refresh).
    /// Default: false.
    pub follow: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: true,
            read_only: false,
            durability: Durability::Written,
            cache_bytes: 8 << 20,
            segment_bytes: 0,
            follow: false,
        }
    }
}

impl From<Options> for store::Options {
    fn from(options: Options) -> Self {
        let Options { create, read_only, durability, cache_bytes, segment_bytes, follow } = options;
        // The host holds a lock on the file, unless it follows.
        Self { create, read_only, durability, cache_bytes, segment_bytes, exclusive: !follow, follow }
    }
}
