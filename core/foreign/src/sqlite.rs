//! Reads tables of SQLite. Text and blobs keep their bytes; an integer key gets those of `pipkin::TypedKey`, which keep its order; other
//! numbers become their text, NULL no bytes.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Columns, Each, Record, Source, Table};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Number, Value};
use std::path::Path;

struct Sqlite {
    connection: Connection,
    columns: Columns,
}

pub(crate) fn open(path: &Path, columns: &Columns) -> Result<Box<dyn Source>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(Error::from(Engine::Sqlite))?;
    let source = Sqlite { connection, columns: columns.clone() };
    // Only a query finds out that the file is none of SQLite's.
    source.tables()?;
    Ok(Box::new(source))
}

/// A column, and whether it is part of the primary key.
struct Column {
    name: String,
    is_primary: bool,
}

/// Where in a row key and value are.
struct Places {
    key: usize,
    /// `None`: the row as a JSON object.
    value: Option<usize>,
}

impl Sqlite {
    fn columns_of(&self, table: &str) -> Result<Vec<Column>> {
        let column = |row: &Row<'_>| Ok(Column { name: row.get("name")?, is_primary: row.get::<_, i64>("pk")? > 0 });
        let columns = || {
            let mut statement = self.connection.prepare("SELECT name, pk FROM pragma_table_info(?1)")?;
            statement.query_map([table], column)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        columns().map_err(Error::from(Engine::Sqlite))
    }

    fn places(&self, table: &str, columns: &[Column]) -> Result<Places> {
        let unsupported = |detail: String| Error::Unsupported { table: table.to_owned(), detail };
        let named = |name: &String| {
            let place = columns.iter().position(|column| column.name == *name);
            place.ok_or_else(|| unsupported(format!("it has no column {name:?}")))
        };
        let primary: Vec<usize> =
            (0..columns.len()).filter(|&place| columns.get(place).is_some_and(|column| column.is_primary)).collect();
        let key = match (&self.columns.key, primary.as_slice()) {
            (Some(name), _) => named(name)?,
            (None, &[place]) => place,
            (None, _) => return Err(unsupported("it has no primary key of one column; say which column is the key".to_owned())),
        };
        let value = match &self.columns.value {
            Some(name) => Some(named(name)?),
            None => (columns.len() == 2).then_some(1 - key.min(1)),
        };
        Ok(Places { key, value })
    }
}

/// An identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn json(value: ValueRef<'_>) -> std::result::Result<Value, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map(Value::String).map_err(|_| "is no UTF-8".to_owned());
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(number.into()),
        ValueRef::Real(number) => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| "has a number that JSON cannot hold; say which column is the value".to_owned()),
        ValueRef::Text(bytes) => text(bytes),
        ValueRef::Blob(_) => Err("has bytes that JSON cannot hold; say which column is the value".to_owned()),
    }
}

fn key_bytes(key: ValueRef<'_>) -> Vec<u8> {
    match key {
        ValueRef::Integer(number) => (number ^ i64::MIN).to_be_bytes().into(),
        other => value_bytes(other),
    }
}

fn value_bytes(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Null => Vec::new(),
        ValueRef::Integer(number) => number.to_string().into(),
        ValueRef::Real(number) => number.to_string().into(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    }
}

impl Source for Sqlite {
    fn tables(&self) -> Result<Vec<Table>> {
        let named = |row: &Row<'_>| Ok(Table { name: row.get(0)?, is_default: false });
        let tables = || {
            let query =
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
            self.connection.prepare(query)?.query_map([], named)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        tables().map_err(Error::from(Engine::Sqlite))
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        let columns = self.columns_of(table)?;
        if columns.is_empty() {
            return Err(Error::no_table(table));
        }
        let places = self.places(table, &columns)?;
        // By name: of a table with generated columns `*` is more than these.
        let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let query = format!("SELECT {} FROM {}", names.join(", "), quoted(table));
        let failed = Error::from::<rusqlite::Error>(Engine::Sqlite);
        let mut statement = self.connection.prepare(&query).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            let key = row.get_ref(places.key).map_err(&failed)?;
            if key == ValueRef::Null {
                let detail = "the key of a row is NULL; say which column is the key".to_owned();
                return Err(Error::Unsupported { table: table.to_owned(), detail });
            }
            let value = match places.value {
                Some(place) => value_bytes(row.get_ref(place).map_err(&failed)?),
                None => object(table, &columns, row)?,
            };
            if each(Record { key: &key_bytes(key), value: &value, expires_at: None }).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The row as a JSON object.
fn object(table: &str, columns: &[Column], row: &Row<'_>) -> Result<Vec<u8>> {
    let mut fields = serde_json::Map::new();
    for (place, column) in columns.iter().enumerate() {
        let value = row.get_ref(place).map_err(Error::from(Engine::Sqlite))?;
        let unsupported = |detail: String| Error::Unsupported {
            table: table.to_owned(),
            detail: format!("its column {:?} {detail}", column.name),
        };
        fields.insert(column.name.clone(), json(value).map_err(unsupported)?);
    }
    Ok(Value::Object(fields).to_string().into_bytes())
}
