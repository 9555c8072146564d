//! Reads emdb 1.0. It opens its file only to write, so a copy is read.

use crate::copy::Copy;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use ::emdb::Emdb;
use std::path::{Path, PathBuf};

struct Copied {
    db: Emdb,
    // After the store, which has it open.
    _copy: Copy,
}

/// A file beside the store, that belongs to it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    if !path.is_file() {
        let detail = format!("{} is no file", path.display());
        return Err(Error::Failed { engine: Engine::Emdb, detail });
    }
    let copy = Copy::of(Engine::Emdb, path)?;
    let meta = beside(path, ".meta");
    if meta.is_file() {
        std::fs::copy(&meta, beside(&copy.path(), ".meta")).map_err(Error::from(Engine::Emdb))?;
    }
    let db = Emdb::open(copy.path()).map_err(Error::from(Engine::Emdb))?;
    Ok(Box::new(Copied { db, _copy: copy }))
}

/// Hands records on. What expires has its expiry from `expires_at`.
fn hand_on(
    records: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    expires_at: impl Fn(&[u8]) -> ::emdb::Result<Option<u64>>,
    each: &mut Each<'_>,
) -> Result<()> {
    for (key, value) in records {
        // Of a record that never expires emdb says 0.
        let expires_at = expires_at(&key).map_err(Error::from(Engine::Emdb))?.filter(|&at| at != 0);
        if each(Record { key: &key, value: &value, expires_at }).is_break() {
            break;
        }
    }
    Ok(())
}

impl Source for Copied {
    fn tables(&self) -> Result<Vec<Table>> {
        let names = self.db.list_namespaces().map_err(Error::from(Engine::Emdb))?;
        let named = names.into_iter().filter(|name| !name.is_empty()).map(|name| Table { name, is_default: false });
        Ok(std::iter::once(Table { name: String::new(), is_default: true }).chain(named).collect())
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        if table.is_empty() {
            let records = self.db.iter().map_err(Error::from(Engine::Emdb))?;
            return hand_on(records, |key| self.db.expires_at(key), each);
        }
        if !self.tables()?.iter().any(|other| other.name == table) {
            return Err(Error::no_table(table));
        }
        let namespace = self.db.namespace(table).map_err(Error::from(Engine::Emdb))?;
        hand_on(namespace.iter().map_err(Error::from(Engine::Emdb))?, |key| namespace.expires_at(key), each)
    }
}
