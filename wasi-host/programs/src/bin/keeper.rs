//! A program with the crate `pipkin` in it that keeps secrets in a file of its directory: `keeper VERB STORE`. The key is in the file `key` beside it.
//! Its storage is what a host must have, over a file of `std`, and a place for the keys.
//!
//! `visit` adds a record behind those of earlier visits, which it checks; `visit-plain` does the same without a key. `enable`, `rotate` (to the key in the file
//! `next`) and `disable` change the store while it is open, which asks for a storage that nobody else opens; `shared` says that others may.

use engine::storage::{Durability, KeyCell, Storage, StorageError, StorageErrorKind};
use engine::{Builder, Db};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A file in a directory that the host has given to this program.
struct Kept {
    file: Mutex<File>,
    keys: KeyCell,
    is_exclusive: bool,
}

fn failed(operation: &'static str, error: &io::Error) -> StorageError {
    let kind = match error.kind() {
        ErrorKind::UnexpectedEof => StorageErrorKind::OutOfRange,
        ErrorKind::StorageFull => StorageErrorKind::NoSpace,
        _ => StorageErrorKind::Other,
    };
    StorageError::new(kind, operation, error.to_string())
}

impl Kept {
    fn open(path: &Path, is_exclusive: bool) -> io::Result<Box<Self>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Box::new(Self { file: Mutex::new(file), keys: KeyCell::default(), is_exclusive }))
    }

    /// One thread is all that a program of `wasm32-wasip2` has.
    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Kept {
    fn len(&self) -> Result<u64, StorageError> {
        self.file().metadata().map(|file| file.len()).map_err(|error| failed("length", &error))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(out)).map_err(|error| failed("read", &error))
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file().set_len(len).map_err(|error| failed("set length", &error))
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let mut file = self.file();
        let written = file.seek(SeekFrom::Start(offset)).and_then(|_| parts.iter().try_for_each(|part| file.write_all(part)));
        written.map_err(|error| failed("write", &error))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.file().sync_data().map(|()| Durability::Device).map_err(|error| failed("sync", &error))
    }

    fn key_cell(&self) -> Option<&KeyCell> {
        Some(&self.keys)
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

/// A key of 32 bytes, as they are.
fn key(path: &Path, name: &str) -> Outcome<[u8; 32]> {
    let bytes = std::fs::read(path.with_file_name(name))?;
    Ok(<[u8; 32]>::try_from(bytes).map_err(|_| format!("the file {name} has no key of 32 bytes"))?)
}

fn visit(db: &Db) -> Outcome<u64> {
    let visits = db.len()?;
    for number in 0..visits {
        let value = db.get(number.to_be_bytes())?;
        if value.is_none_or(|value| value != said(number).as_bytes()) {
            return Err(format!("visit {number} is not what was kept").into());
        }
    }
    db.insert(visits.to_be_bytes(), said(visits))?;
    db.flush()?;
    let report = db.verify()?;
    if !report.is_ok() {
        return Err(format!("{report:?}").into());
    }
    Ok(visits + 1)
}

fn said(number: u64) -> String {
    format!("the secret of visit {number}")
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [verb, path, how @ ..] = args.as_slice() else { return Err("keeper VERB STORE [shared]".into()) };
    let path = Path::new(path);
    let is_exclusive = how.is_empty();
    let open = |builder: Builder| -> Outcome<Db> { Ok(builder.open_storage(Kept::open(path, is_exclusive)?)?) };
    let db = match verb.as_str() {
        "visit" | "rotate" | "disable" => open(Db::builder().encryption_key(key(path, "key")?))?,
        "visit-plain" | "enable" => open(Db::builder())?,
        _ => return Err(format!("there is no verb {verb}").into()),
    };
    match verb.as_str() {
        "enable" => db.enable_encryption(key(path, "key")?).map(drop)?,
        "rotate" => db.rotate_encryption_key(key(path, "next")?).map(drop)?,
        "disable" => db.disable_encryption().map(drop)?,
        _ => {}
    }
    let visits = visit(&db)?;
    db.close()?;
    println!("{visits} visits");
    Ok(())
}
