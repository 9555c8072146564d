//! The work that is measured, for any store that implements [`Peer`].

mod data;
mod exported;
pub mod bindings {
    //! The interface `peer`, generated.
    #![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, reason = "generated; the WIT has the documents")]
    wit_bindgen::generate!({
        path: "../wit",
        world: "pipkin:peers/guest",
        pub_export_macro: true,
        default_bindings_module: "pipkin_peers::bindings",
    });
}

pub use exported::Exported;

/// Key and value.
pub type Record<'a> = (&'a [u8], &'a [u8]);

/// The same in memory of its own.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A failure, in words.
pub type Result<T, E = String> = std::result::Result<T, E>;

/// A store. None of its writes are synced: what that costs is a question of the device.
pub trait Peer: Sized + 'static {
    /// A new store, in the first directory that is open to this component or wherever the host has it.
    fn create() -> Result<Self>;

    /// Puts in the quickest way that is one transaction, or leads to one.
    fn put_together<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()>;

    /// Puts, a call for each, many of them before something has to reach the file. What has transactions does that in one.
    fn put_gathered<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.put_together(records)
    }

    /// Puts records as one commit.
    fn commit<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()>;

    /// Calls `each` with the value of every key; all of them are one view if the store has such.
    fn get_each<'a>(&self, keys: impl Iterator<Item = &'a [u8]>, each: impl FnMut(Option<&[u8]>)) -> Result<()>;

    /// The same for keys that are there at once.
    fn get_batch(&self, keys: &[&[u8]], each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        self.get_each(keys.iter().copied(), each)
    }

    /// Calls `each` with the records behind a key, until it says false.
    fn walk(&self, behind: Option<&[u8]>, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()>;

    /// Adds one to the counter of each key; false if this store has no counters.
    fn increment<'a>(&self, _keys: impl Iterator<Item = &'a str>) -> Result<bool> {
        Ok(false)
    }

    /// Calls the host for nothing so many times; false if this store knows no such call.
    fn call_nothing(&self, _count: u32) -> bool {
        false
    }
}

/// For `map_err`.
pub fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
