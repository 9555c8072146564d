//! Reads sled. It opens its files only to write, so a copy is read.

use crate::copy::Copy;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use std::path::Path;

/// The tree that every store has.
const DEFAULT: &[u8] = b"__sled__default";

struct Sled {
    db: sled::Db,
    // After the store, which writes into it until the end.
    _copy: Copy,
}

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    // Opened to write, sled makes a new store of whatever is there.
    if !path.join("conf").is_file() || !path.join("db").is_file() {
        let detail = format!("{} is no folder with the files `conf` and `db`", path.display());
        return Err(Error::Failed { engine: Engine::Sled, detail });
    }
    let copy = Copy::of(Engine::Sled, path)?;
    let db = sled::Config::new().path(copy.path()).create_new(false).open().map_err(Error::from(Engine::Sled))?;
    Ok(Box::new(Sled { db, _copy: copy }))
}

impl Source for Sled {
    fn tables(&self) -> Result<Vec<Table>> {
        let table = |name: sled::IVec| match String::from_utf8(name.to_vec()) {
            Ok(text) => Ok(Table { is_default: name == DEFAULT, name: text }),
            Err(_) => {
                let table = String::from_utf8_lossy(&name).into_owned();
                Err(Error::Unsupported { table, detail: "its name is not UTF-8".to_owned() })
            }
        };
        self.db.tree_names().into_iter().map(table).collect()
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        if !self.db.tree_names().iter().any(|name| name == table.as_bytes()) {
            return Err(Error::no_table(table));
        }
        let tree = self.db.open_tree(table).map_err(Error::from(Engine::Sled))?;
        for record in &tree {
            let (key, value) = record.map_err(Error::from(Engine::Sled))?;
            if each(Record { key: &key, value: &value, expires_at: None }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
