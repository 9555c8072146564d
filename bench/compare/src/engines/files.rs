//! A directory of files: the plain alternative to a store.
//!
//! A file for each record, named by its key, spread over 256 folders as git does it, because very large folders are slow. Durable is what
//! was written and synced, and its folder too. A load is ended by one sync of the whole file system.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    fn path(&self, key: &[u8]) -> PathBuf {
        let mut name = String::with_capacity(2 * key.len() + 1);
        for (place, byte) in key.iter().enumerate() {
            if place == 1 {
                name.push('/');
            }
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        self.folder.join(name)
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Result<(PathBuf, File)> {
        let path = self.path(key);
        let mut file = File::create(&path)?;
        file.write_all(value)?;
        Ok((path, file))
    }
}

impl Engine for Files {
    const FACTS: Facts = Facts {
        package: None,
        alternative: true,
        ordered: false,
        compacts: false,
        unflushed: Unflushed::Kept("in files, in the page cache of the system"),
        records_max: 2_000,
        ..Facts::peer(
            "files",
            "",
            "a file per record in 256 folders, one syncfs after a load, fsync of file and folder for a durable put",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, _: &OpenOptions) -> Result<Self> {
        for first in 0..=255u8 {
            match fs::create_dir(folder.join(format!("{first:02x}"))) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.batch_durable(records)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (path, file) = self.write(key, value)?;
        file.sync_all()?;
        Ok(File::open(path.parent().unwrap_or(&self.folder))?.sync_all()?)
    }

    fn batch_durable<'r>(&self, mut records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        records.try_for_each(|(key, value)| self.put(key, value))?;
        self.flush()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, value).map(|_| ())
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for key in keys {
            fs::remove_file(self.path(key))?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.folder)?)?)
    }

    fn len(&self) -> Result<u64> {
        let mut len = 0;
        for folder in fs::read_dir(&self.folder)? {
            len += fs::read_dir(folder?.path())?.count() as u64;
        }
        Ok(len)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { files: self, value: Vec::new() })
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn each_event(&self, count: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut reader = self.reader()?;
        let mut hits = 0;
        for number in 0..count as u64 {
            hits += usize::from(reader.get(&number.to_be_bytes(), &mut each)?);
        }
        Ok(hits)
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

pub(crate) struct View<'a> {
    files: &'a Files,
    value: Vec<u8>,
}

impl Reader for View<'_> {
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let mut file = match File::open(self.files.path(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        self.value.clear();
        file.read_to_end(&mut self.value)?;
        with(&self.value);
        Ok(true)
    }
}
