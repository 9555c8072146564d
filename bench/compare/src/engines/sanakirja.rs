//! Sanakirja: a copy-on-write B-tree in a memory map, the ground of the version control system Pijul; its last stable release.
//!
//! Tuning: a map that need not grow, since it makes a further map for each growth and looks through all of them for a page; two versions, so
//! that readers and a writer do not wait for each other; one transaction for load and removals; one read transaction for a run of reads.
//! Every commit syncs, so unflushed puts are as slow as durable ones: fewer are made, and scaled up. It keeps several values for a key, so an
//! update is a removal and a put. Values have at most 510 bytes. There is no count of the records but by walking over them, and no
//! compaction.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use sanakirja::btree::{self, UDb, page_unsized};
use sanakirja::{Commit, Env, MutTxn, RootDb, Txn};
use std::path::Path;
use std::sync::Mutex;

const ROOT: usize = 0;
const VERSIONS: usize = 2;
/// The map is this many times as large as what is stored: half-full pages, and those that the last version still needs.
const MAP_FACTOR: u64 = 6;

type Records = UDb<[u8], [u8]>;

pub(crate) struct Sanakirja {
    env: Env,
    /// Its own lock for writers lets two of them in at times, and then it panics over its pages.
    writer: Mutex<()>,
}

impl Sanakirja {
    /// Runs `body` over the records and commits.
    fn write(&self, body: impl FnOnce(&mut MutTxn<&Env, ()>, &mut Records) -> Result<()>) -> Result<()> {
        let _alone = self.writer.lock().map_err(|_| "a writer has panicked")?;
        let mut write = Env::mut_txn_begin(&self.env)?;
        let mut records = match write.root_db(ROOT) {
            Some(records) => records,
            // SAFETY: the new tree is used with the transaction that made it.
            None => unsafe { btree::create_db_::<_, [u8], [u8], page_unsized::Page<[u8], [u8]>>(&mut write) }?,
        };
        body(&mut write, &mut records)?;
        write.set_root(ROOT, records.db.into());
        Ok(write.commit()?)
    }

    fn insert<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.write(|write, tree| {
            for (key, value) in records {
                btree::del(write, tree, key, None)?;
                btree::put(write, tree, key, value)?;
            }
            Ok(())
        })
    }
}

impl Engine for Sanakirja {
    const FACTS: Facts = Facts {
        compacts: false,
        value_max: 510,
        unflushed_max: 300,
        unflushed: Unflushed::Kept("every commit syncs"),
        ..Facts::peer(
            "sanakirja",
            "sanakirja",
            "a map that need not grow, one transaction for load and removals, one read transaction per run",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let length = (options.expected * MAP_FACTOR).max(64 << 20);
        let env = Env::new(folder.join("store.sanakirja"), length, VERSIONS)?;
        let engine = Self { env, writer: Mutex::new(()) };
        engine.insert(std::iter::empty())?; // readers want the tree to be there
        Ok(engine)
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        // The store is empty: there is nothing to remove first.
        self.write(|write, tree| {
            for (key, value) in records {
                btree::put(write, tree, key, value)?;
            }
            Ok(())
        })
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)))
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)))
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        self.write(|write, tree| {
            for key in keys {
                btree::del(write, tree, key.as_slice(), None)?;
            }
            Ok(())
        })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let view = self.reader()?;
        let mut len = 0;
        for record in btree::iter(&view.read, &view.records, None)? {
            record?;
            len += 1;
        }
        Ok(len)
    }

    fn reader(&self) -> Result<View<'_>> {
        let read = Env::txn_begin(&self.env)?;
        let records = read.root_db(ROOT).ok_or("the tree is not there")?;
        Ok(View { read, records })
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

pub(crate) struct View<'a> {
    read: Txn<&'a Env>,
    records: Records,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        // It answers with the next key if there is none like this.
        let found = btree::get(&self.read, &self.records, key, None)?.filter(|(found, _)| *found == key);
        Ok(found.map(|(_, value)| with(value)).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in btree::iter(&self.read, &self.records, Some((from, None)))?.take(count) {
            let (key, value) = record?;
            each(key, value);
            hits += 1;
        }
        Ok(hits)
    }
}
