//! Reads redb. A table has the types with which it was made, and is opened with the same: those that are bytes, or have one form as bytes.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use redb::{Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle, Value};
use std::path::Path;

struct Redb(redb::ReadOnlyDatabase);

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    let db = redb::ReadOnlyDatabase::open(path).map_err(Error::from(Engine::Redb))?;
    Ok(Box::new(Redb(db)))
}

/// How a key or a value is written in pipkin.
trait Bytes: Value {
    fn bytes(value: Self::SelfType<'_>) -> Vec<u8>;
}

macro_rules! as_they_are {
    ($($type:ty: $bytes:expr),* $(,)?) => {$(
        impl Bytes for $type {
            fn bytes(value: Self::SelfType<'_>) -> Vec<u8> {
                let bytes: fn(Self::SelfType<'_>) -> Vec<u8> = $bytes;
                bytes(value)
            }
        }
    )*};
}

// Integers as `pipkin::TypedKey` writes them: the largest byte first, signed ones with the sign reversed, so that they keep their order.
as_they_are! {
    &'static [u8]: |bytes| bytes.to_vec(),
    &'static [u8; 16]: |bytes| bytes.to_vec(),
    &'static str: |text| text.into(),
    String: |text| text.into(),
    (): |()| Vec::new(),
    u32: |number| number.to_be_bytes().into(),
    u64: |number| number.to_be_bytes().into(),
    u128: |number| number.to_be_bytes().into(),
    i64: |number| (number ^ i64::MIN).to_be_bytes().into(),
}

/// Reads the table if it has these types.
fn read_as<K: Key + Bytes + 'static, V: Bytes + 'static>(
    from: &ReadTransaction,
    table: &str,
    each: &mut Each<'_>,
) -> Result<bool> {
    let table = match from.open_table(TableDefinition::<K, V>::new(table)) {
        Ok(table) => table,
        Err(TableError::TableTypeMismatch { .. }) => return Ok(false),
        Err(error) => return Err(not_opened(table, error)),
    };
    for record in table.iter().map_err(Error::from(Engine::Redb))? {
        let (key, value) = record.map_err(Error::from(Engine::Redb))?;
        let (key, value) = (K::bytes(key.value()), V::bytes(value.value()));
        if each(Record { key: &key, value: &value, expires_at: None }).is_break() {
            break;
        }
    }
    Ok(true)
}

fn not_opened(table: &str, error: TableError) -> Error {
    let unsupported = |detail: String| Error::Unsupported { table: table.to_owned(), detail };
    match error {
        TableError::TableDoesNotExist(_) => Error::no_table(table),
        TableError::TableIsMultimap(_) => unsupported("it has several values for a key".to_owned()),
        TableError::TableTypeMismatch { key, value, .. } => unsupported(format!(
            "its keys are {}, its values {}; of these types pipkin does not know the bytes",
            key.name(),
            value.name()
        )),
        error => Error::Failed { engine: Engine::Redb, detail: error.to_string() },
    }
}

/// Tries each pair of types.
macro_rules! each_pair {
    ($from:expr, $table:expr, $each:expr, keys $keys:tt values $values:tt) => {
        each_pair!(@keys $from, $table, $each, $keys, $values)
    };
    (@keys $from:expr, $table:expr, $each:expr, [$($key:ty),*], $values:tt) => {
        $(each_pair!(@values $from, $table, $each, $key, $values);)*
    };
    (@values $from:expr, $table:expr, $each:expr, $key:ty, [$($value:ty),*]) => {
        $(if read_as::<$key, $value>($from, $table, $each)? { return Ok(()); })*
    };
}

impl Source for Redb {
    fn tables(&self) -> Result<Vec<Table>> {
        let from = self.0.begin_read().map_err(Error::from(Engine::Redb))?;
        let named = |name: &str| Table { name: name.to_owned(), is_default: false };
        let tables = from.list_tables().map_err(Error::from(Engine::Redb))?.map(|table| named(table.name()));
        let multimaps = from
            .list_multimap_tables()
            .map_err(Error::from(Engine::Redb))?
            .map(|table| redb::MultimapTableHandle::name(&table).to_owned());
        Ok(tables.chain(multimaps.map(|name| named(&name))).collect())
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        let from = &self.0.begin_read().map_err(Error::from(Engine::Redb))?;
        each_pair!(from, table, each,
            keys [&'static [u8], &'static str, String, u64, u32, u128, i64, &'static [u8; 16]]
            values [&'static [u8], &'static str, String, (), u64, u32, i64]);
        // For the words of redb about the types.
        match from.open_table(TableDefinition::<&[u8], &[u8]>::new(table)) {
            Err(error) => Err(not_opened(table, error)),
            Ok(table) => table.iter().map(|_| ()).map_err(Error::from(Engine::Redb)),
        }
    }
}
