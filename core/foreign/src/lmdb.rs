//! Reads LMDB, beside programs that have it open.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, DatabaseOpener, Env, EnvFlags, EnvOpenOptions, RoTxn};
use std::path::Path;

/// Databases with names in a file.
const DATABASES_MAX: u32 = 4096;

struct Lmdb(Env);

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    let file = if path.is_dir() { path.join("data.mdb") } else { path.to_path_buf() };
    let len = std::fs::metadata(&file).map_err(Error::from(Engine::Lmdb))?.len();
    let mut options = EnvOpenOptions::new();
    options.max_dbs(DATABASES_MAX).map_size(usize::try_from(len).unwrap_or(usize::MAX));
    let flags = EnvFlags::READ_ONLY | if path.is_dir() { EnvFlags::empty() } else { EnvFlags::NO_SUB_DIR };
    // SAFETY: neither flag gives up a check of LMDB's: one forbids writes, the other says that the path is a file.
    unsafe { options.flags(flags) };
    // SAFETY: the file is mapped for reading only. Programs that write it through LMDB keep what a reader sees, by the lock file; nobody
    // may cut it or write it by other means meanwhile, which the documentation of `pipkin import` asks of its user.
    let env = unsafe { options.open(path) }.map_err(Error::from(Engine::Lmdb))?;
    Ok(Box::new(Lmdb(env)))
}

type Map<'e> = Database<'e, Bytes, Bytes>;

fn database<'e>(opener: &DatabaseOpener<'e, heed::WithTls>, read: &RoTxn<'e>, name: Option<&str>) -> Result<Option<Map<'e>>> {
    // LMDB takes names as strings of C.
    if name.is_some_and(|name| name.contains('\0')) {
        return Ok(None);
    }
    match opener.open_database(read, name) {
        Ok(database) => Ok(database),
        // A record of the unnamed database, and no name.
        Err(heed::Error::Mdb(heed::MdbError::Incompatible)) => Ok(None),
        Err(error) => Err(Error::Failed { engine: Engine::Lmdb, detail: error.to_string() }),
    }
}

impl Lmdb {
    /// Opens databases and keeps them open.
    fn opened<'e, D: heed::OnCommit>(
        &'e self,
        open: impl FnOnce(&DatabaseOpener<'e, heed::WithTls>, &RoTxn<'e>) -> Result<D>,
    ) -> Result<Option<D::Committed>> {
        let read = self.0.read_txn().map_err(Error::from(Engine::Lmdb))?;
        let opened = self.0.open_databases_and_commit(read, |opener, read| {
            open(opener, read).map(CommitOrAbort::<_, ()>::Commit).map_err(Failed)
        });
        Ok(opened.map_err(|Failed(error)| error)?.commit())
    }
}

/// What heed's closure may return.
struct Failed(Error);

impl From<heed::Error> for Failed {
    fn from(error: heed::Error) -> Self {
        Self(Error::Failed { engine: Engine::Lmdb, detail: error.to_string() })
    }
}

impl Source for Lmdb {
    fn tables(&self) -> Result<Vec<Table>> {
        let mut tables = Vec::new();
        self.opened(|opener, read| {
            let unnamed = database(opener, read, None)?;
            let mut has_records = false;
            if let Some(unnamed) = unnamed {
                let names = unnamed.iter(read).map_err(Error::from(Engine::Lmdb))?;
                for record in names {
                    let (key, _) = record.map_err(Error::from(Engine::Lmdb))?;
                    match std::str::from_utf8(key) {
                        Ok(name) if database(opener, read, Some(name))?.is_some() => {
                            tables.push(Table { name: name.to_owned(), is_default: false })
                        }
                        _ => has_records = true,
                    }
                }
            }
            if has_records || tables.is_empty() {
                tables.push(Table { name: String::new(), is_default: true });
            }
            Ok(unnamed)
        })?;
        Ok(tables)
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        let tables = self.tables()?;
        let name = (!table.is_empty()).then_some(table);
        let opened = self.opened(|opener, read| database(opener, read, name))?;
        let database: Map<'_> = opened.flatten().ok_or_else(|| Error::no_table(table))?;
        let read = self.0.read_txn().map_err(Error::from(Engine::Lmdb))?;
        let is_name = |key: &[u8]| name.is_none() && tables.iter().any(|table| !table.is_default && table.name.as_bytes() == key);
        let mut last: Option<&[u8]> = None;
        for record in database.iter(&read).map_err(Error::from(Engine::Lmdb))? {
            let (key, value) = record.map_err(Error::from(Engine::Lmdb))?;
            if last == Some(key) {
                return Err(Error::Unsupported { table: table.to_owned(), detail: "it has several values for a key".to_owned() });
            }
            last = Some(key);
            if !is_name(key) && each(Record { key, value, expires_at: None }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
