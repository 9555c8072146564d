//! LMDB, through heed: a copy-on-write B-tree in a memory map.
//!
//! Tuning: one write transaction for the whole load and for the removals; one read transaction for a run of reads; `NO_MEM_INIT`, which
//! spares the clearing of pages; the map large enough never to be resized. `NO_SYNC` only for puts that nobody waits for: their pages are
//! in the cache of the system, so they survive the end of the process. `WRITE_MAP` stays off: it makes durable commits slower here (the
//! pages go out by `msync`), and a stray pointer could write into the store. Compaction is LMDB's own copy that leaves free pages out,
//! and the swap of the files.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, RoTxn, WithTls};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Address space, not memory.
const MAP_SIZE: usize = 64 << 30;
const DATA: &str = "data.mdb";

pub(crate) struct Heed {
    env: Env<WithTls>,
    database: Database<'static, Bytes, Bytes>,
    folder: PathBuf,
    flags: EnvFlags,
}

impl Heed {
    fn open_with(folder: &Path, flags: EnvFlags) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_SIZE);
        // SAFETY: none of these flags gives up the locks or the order of writes that LMDB's memory safety rests on.
        unsafe { options.flags(flags) };
        // SAFETY: nobody else touches the files of this folder while it is open.
        let env = unsafe { options.open(folder) }?;
        let write = env.write_txn()?;
        let database = env.create_databases_and_commit(write, |opener, write| {
            opener.create_database(write, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        let database = database.commit().ok_or("the database was not created")?;
        Ok(Self { env, database, folder: folder.to_owned(), flags })
    }

    fn insert<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for (key, value) in records {
            self.database.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }
}

impl Engine for Heed {
    const FACTS: Facts = Facts {
        unflushed: Unflushed::Kept("NO_SYNC: written pages are in the page cache of the system"),
        ..Facts::peer(
            "heed",
            "heed",
            "LMDB: NO_MEM_INIT, one transaction for load and removals, one read transaction per run, NO_SYNC for unflushed puts",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let mut flags = EnvFlags::NO_MEM_INIT;
        if options.little_memory() {
            flags |= EnvFlags::NO_READ_AHEAD; // with little memory, what is read ahead pushes out what is needed
        }
        Self::open_with(folder, flags)
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)))
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records)
    }

    fn sync_commits(&self, sync: bool) -> Result<()> {
        let mode = if sync { FlagSetMode::Disable } else { FlagSetMode::Enable };
        // SAFETY: called while no other thread uses the environment; without syncs only a crash of the system can do harm.
        Ok(unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode) }?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)))
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for key in keys {
            self.database.delete(&mut write, key)?;
        }
        Ok(write.commit()?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn len(&self) -> Result<u64> {
        let read = self.env.read_txn()?;
        Ok(self.database.len(&read)?)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { read: self.env.read_txn()?, database: self.database })
    }

    fn compact(self) -> Result<Self> {
        let (folder, flags) = (self.folder.clone(), self.flags);
        let copy = folder.join("copy.mdb");
        self.env.copy_to_path(&copy, CompactionOption::Enabled)?.sync_all()?;
        self.close()?;
        std::fs::rename(copy, folder.join(DATA))?;
        Self::open_with(&folder, flags)
    }

    fn close(self) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

pub(crate) struct View<'a> {
    read: RoTxn<'a, WithTls>,
    database: Database<'static, Bytes, Bytes>,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.database.get(&self.read, key)?;
        Ok(value.map(with).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in self.database.range(&self.read, &(Bound::Included(from), Bound::Unbounded))?.take(count) {
            let (key, value) = record?;
            each(key, value);
            hits += 1;
        }
        Ok(hits)
    }
}
