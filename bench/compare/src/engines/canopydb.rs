//! canopydb: a copy-on-write B-tree with a write-ahead log.
//!
//! Tuning: page cache larger than the data; no compression; one transaction for load and removals, with memory for it, so that it need not
//! spill; one read transaction with one open tree for a run of reads. Single puts are exclusive transactions: concurrent ones shared no
//! more syncs when they were tried, nor did commits with a sync behind them. An unflushed put is in the write-ahead log. It checkpoints when it is closed, which a
//! reopen after a clean close then need not do.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use canopydb::{Database, DbOptions, EnvOptions, ReadTransaction, Tree, TreeOptions};
use std::path::Path;

const TREE: &[u8] = b"records";
/// Memory of a transaction before it spills.
const TRANSACTION: usize = 1 << 30;

pub(crate) struct Canopy {
    db: Database,
}

fn tree_options() -> TreeOptions {
    let mut options = TreeOptions::default();
    options.compress_overflow_values = None;
    options
}

impl Canopy {
    fn insert<'r>(&self, records: impl Iterator<Item = Pair<'r>>, sync: bool) -> Result<()> {
        let write = self.db.begin_write()?;
        let mut tree = write.get_or_create_tree_with(TREE, tree_options())?;
        for (key, value) in records {
            tree.insert(key, value)?;
        }
        drop(tree);
        write.commit_with(sync)?;
        Ok(())
    }
}

impl Engine for Canopy {
    const FACTS: Facts = Facts {
        unflushed: Unflushed::Kept("in the write-ahead log, in the page cache of the system"),
        ..Facts::peer("canopydb", "canopydb", "cache larger than the data, no compression, one transaction for load and removals")
    };

    type Reader<'a> = View;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let mut environment = EnvOptions::new(folder);
        environment.page_cache_size = options.cache as usize;
        let mut setup = DbOptions::default();
        setup.checkpoint_db_on_drop = true;
        setup.write_txn_memory_limit = TRANSACTION.min(options.cache as usize);
        let engine = Self { db: Database::with_options(environment, setup)? };
        engine.insert(std::iter::empty(), true)?; // readers want the tree to be there
        Ok(engine)
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records, true)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)), true)
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records, true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)), false)
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        let write = self.db.begin_write()?;
        let mut tree = write.get_or_create_tree_with(TREE, tree_options())?;
        for key in keys {
            tree.delete(key)?;
        }
        drop(tree);
        write.commit_with(true)?;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.sync()?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.reader()?.tree.len())
    }

    fn reader(&self) -> Result<View> {
        let read = Box::new(self.db.begin_read()?);
        let pointer: *const ReadTransaction = &raw const *read;
        // SAFETY: the box keeps the transaction in its place, and `View` drops the tree, which borrows it, first.
        let borrowed: &'static ReadTransaction = unsafe { &*pointer };
        let tree = borrowed.get_tree(TREE)?.ok_or("the tree is not there")?;
        Ok(View { tree, _read: read })
    }

    /// Checkpoints run in the background; one that is asked for leaves nothing to them.
    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn compact(self) -> Result<Self> {
        self.db.compact()?;
        Ok(self)
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

/// Fields are dropped in this order.
pub(crate) struct View {
    tree: Tree<'static>,
    _read: Box<ReadTransaction>,
}

impl Reader for View {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.tree.get(key)?;
        Ok(value.map(|value| with(&value)).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in self.tree.range(from..)?.take(count) {
            let (key, value) = record?;
            each(&key, &value);
            hits += 1;
        }
        Ok(hits)
    }
}
