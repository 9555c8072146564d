#![doc = include_str!("../README.md")]

#[cfg(any(feature = "emdb", feature = "leveldb", feature = "sled"))]
mod copy;
#[cfg(feature = "emdb")]
mod emdb;
mod engine;
mod error;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;
mod source;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use engine::Engine;
pub use error::{Error, Result};
pub use source::{Columns, Each, Record, Source, Table};

use std::path::Path;

/// Opens the store at `path` for reading. Its files stay as they are; engines that can only open them to write read a copy in the folder for
/// temporary files.
///
/// # Errors
///
/// [`Error::NotBuiltIn`] without the engine's feature, [`Error::NotFound`] when nothing is there, and [`Error::Failed`] when the engine cannot
/// open what is.
#[cfg_attr(not(feature = "sqlite"), expect(unused_variables, reason = "only tables of SQLite have columns"))]
pub fn open(engine: Engine, path: &Path, columns: &Columns) -> Result<Box<dyn Source>> {
    let is_there = || if path.exists() { Ok(()) } else { Err(Error::NotFound { what: path.display().to_string() }) };
    match engine {
        #[cfg(feature = "emdb")]
        Engine::Emdb => is_there().and_then(|()| emdb::open(path)),
        #[cfg(feature = "leveldb")]
        Engine::LevelDb => is_there().and_then(|()| leveldb::open(path)),
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => is_there().and_then(|()| lmdb::open(path)),
        #[cfg(feature = "redb")]
        Engine::Redb => is_there().and_then(|()| redb::open(path)),
        #[cfg(feature = "rocksdb")]
        Engine::RocksDb => is_there().and_then(|()| rocksdb::open(path)),
        #[cfg(feature = "sled")]
        Engine::Sled => is_there().and_then(|()| sled::open(path)),
        #[cfg(feature = "sqlite")]
        Engine::Sqlite => is_there().and_then(|()| sqlite::open(path, columns)),
        #[cfg(not(feature = "all"))]
        engine => is_there().and(Err(Error::NotBuiltIn { engine })),
    }
}
