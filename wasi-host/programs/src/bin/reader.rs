//! A program with the crate `pipkin` in it that follows a store which somebody outside of the sandbox writes, until that one says `stop`. Its storage
//! is the five methods that a host must have, over a file of `std`.

use engine::storage::{Durability, Storage, StorageError, StorageErrorKind};
use engine::{Db, Error};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

/// The file of a store that others write.
struct Followed(Mutex<File>);

fn failed(operation: &'static str, error: &io::Error) -> StorageError {
    let kind = if error.kind() == ErrorKind::UnexpectedEof { StorageErrorKind::OutOfRange } else { StorageErrorKind::Other };
    StorageError::new(kind, operation, error.to_string())
}

fn read_only(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::ReadOnly, operation, "this program only reads")
}

impl Storage for Followed {
    fn len(&self) -> Result<u64, StorageError> {
        let file = self.0.lock().map_err(|_| read_only("length"))?;
        file.metadata().map(|file| file.len()).map_err(|error| failed("length", &error))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let mut file = self.0.lock().map_err(|_| read_only("read"))?;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(out));
        read.map_err(|error| failed("read", &error))
    }

    fn set_len(&self, _: u64) -> Result<(), StorageError> {
        Err(read_only("set length"))
    }

    fn write_at(&self, _: u64, _: &[&[u8]]) -> Result<(), StorageError> {
        Err(read_only("write"))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Err(read_only("sync"))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name the file of the store")?;
    let db = Db::builder().follow(true).open_storage(Box::new(Followed(Mutex::new(File::open(path)?))))?;
    let mut last = db.get("count")?;
    let mut states = 0;
    while db.get("stop")?.is_none() {
        match db.refresh() {
            Ok(true) => {}
            Ok(false) => sleep(Duration::from_millis(1)),
            Err(Error::Overtaken) => continue,
            Err(error) => return Err(error.into()),
        }
        // Both are of one commit, so a snapshot shows them alike.
        let snapshot = db.snapshot();
        let (count, copy) = match (snapshot.get("count"), snapshot.get("copy")) {
            (Ok(count), Ok(copy)) => (count, copy),
            (Err(Error::SnapshotTooOld), _) | (_, Err(Error::SnapshotTooOld)) => continue,
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        if count != copy || count < last {
            return Err(format!("{count:?} and {copy:?} after {last:?}").into());
        }
        states += u32::from(count > last);
        last = count;
    }
    println!("{states} states");
    Ok(())
}
