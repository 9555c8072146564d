//! What every engine's store is read as: tables of records.

use crate::error::Result;
use std::ops::ControlFlow;

/// A map in a store: what redb and SQLite call a table, sled a tree, LMDB a database, RocksDB a column family, emdb a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// It is the one that the engine has without a name, or that every store of the engine has.
    pub is_default: bool,
}

/// A record of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970; `None` if it never does.
    pub expires_at: Option<u64>,
}

/// Which columns of an SQLite table are key and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The key; without it the table's primary key, if that is one column.
    pub key: Option<String>,
    /// The value; without it the other column of a table of two, else the row as a JSON object.
    pub value: Option<String>,
}

/// Takes a record; `Break` ends the reading.
pub type Each<'a> = dyn FnMut(Record<'_>) -> ControlFlow<()> + 'a;

/// A store that is open for reading.
pub trait Source: Send {
    /// Its tables.
    fn tables(&self) -> Result<Vec<Table>>;

    /// Hands every record of a table to `each`, in the order of the engine, until that breaks off.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound) for a name that is no table's; [`Error::Unsupported`](crate::Error::Unsupported) for a table that is no map of bytes.
    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()>;
}
