//! The engines whose files can be read.

/// A store whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The predecessor of pipkin, format of 1.0: a file.
    Emdb,
    /// A folder.
    LevelDb,
    /// A folder, or a file.
    Lmdb,
    /// Format of redb 3 and 4: a file.
    Redb,
    /// A folder.
    RocksDb,
    /// Format of sled 0.34: a folder.
    Sled,
    /// A file.
    Sqlite,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Emdb, Self::LevelDb, Self::Lmdb, Self::Redb, Self::RocksDb, Self::Sled, Self::Sqlite];

    /// Its name, which is that of its feature, too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emdb => "emdb",
            Self::LevelDb => "leveldb",
            Self::Lmdb => "lmdb",
            Self::Redb => "redb",
            Self::RocksDb => "rocksdb",
            Self::Sled => "sled",
            Self::Sqlite => "sqlite",
        }
    }
}
