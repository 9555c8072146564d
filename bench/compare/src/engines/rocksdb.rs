//! RocksDB: a log-structured merge tree.
//!
//! Tuning: block cache (hyper clock, made for many threads) larger than the data; Bloom filters; a hash index inside of data blocks; no
//! compression; memtables of 128 MiB, so that a run of this size makes few files; the whole load without its write-ahead log, which a final
//! flush of the memtables makes durable; batched multi-gets over sorted keys; pinned values, which are not copied. Single unflushed puts
//! go to the write-ahead log by `write`. After the load the background work is waited for, outside of the clock. Its number of records is
//! an estimate, so the exact one takes an iteration. Its io_uring support is not built in: it serves reads that miss the page cache.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType,
    DataBlockIndexType, Options, ReadOptions, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::Path;

const BLOCK: usize = 4 << 10;
const MEMTABLE: usize = 128 << 20;
const LOAD_BATCH: usize = 1_000;
const FAMILY: &str = "default";

pub(crate) struct RocksDb {
    db: DB,
    verify: bool,
}

impl RocksDb {
    fn write<'r>(&self, records: impl Iterator<Item = Pair<'r>>, options: &WriteOptions) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, options)?)
    }

    fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_verify_checksums(self.verify);
        options
    }
}

fn durable() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

fn without_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

impl Engine for RocksDb {
    const FACTS: Facts = Facts {
        compacts_beside: true,
        unflushed: Unflushed::Kept("in the write-ahead log, in the page cache of the system"),
        ..Facts::peer(
            "rocksdb",
            "rocksdb",
            "no compression, Bloom filters, hash index in blocks, hyper clock cache larger than the data, memtables of 128 MiB, load \
             without log, batched multi-get",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(options.cache as usize, BLOCK));
        blocks.set_block_size(BLOCK);
        blocks.set_bloom_filter(10.0, false);
        blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        blocks.set_format_version(6);
        let mut setup = Options::default();
        setup.create_if_missing(true);
        setup.set_block_based_table_factory(&blocks);
        setup.set_compression_type(DBCompressionType::None);
        // Up to four of them, beside the cache.
        setup.set_write_buffer_size(MEMTABLE.min(options.cache as usize / 4));
        setup.set_max_write_buffer_number(4);
        setup.increase_parallelism(std::thread::available_parallelism().map_or(2, |threads| threads.get() as i32));
        setup.set_enable_pipelined_write(true);
        // By name, because batched multi-gets want a handle to the family.
        let family = ColumnFamilyDescriptor::new(FAMILY, setup.clone());
        Ok(Self { db: DB::open_cf_descriptors(&setup, folder, [family])?, verify: options.verify })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.write(records.by_ref().take(LOAD_BATCH), &without_log())?;
        }
        Ok(self.db.flush()?)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &durable())?)
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.write(records, &durable())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for keys in keys.chunks(LOAD_BATCH) {
            let mut batch = WriteBatch::default();
            keys.iter().for_each(|key| batch.delete(key));
            self.db.write(batch)?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn len(&self) -> Result<u64> {
        let mut records = self.db.raw_iterator();
        records.seek_to_first();
        let mut len = 0;
        while records.valid() {
            len += 1;
            records.next();
        }
        records.status()?;
        Ok(len)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { db: &self.db, options: self.read_options() })
    }

    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }

    fn compact(self) -> Result<Self> {
        self.compact_beside()?;
        Ok(self)
    }

    fn compact_beside(&self) -> Result<()> {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db.flush()?;
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.flush()?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

pub(crate) struct View<'a> {
    db: &'a DB,
    options: ReadOptions,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned_opt(key, &self.options)?;
        Ok(value.map(|value| with(&value)).is_some())
    }

    fn get_many(&mut self, keys: &[Key], mut each: impl FnMut(&[u8])) -> Result<usize> {
        let family = self.db.cf_handle(FAMILY).ok_or("there is no default column family")?;
        let mut hits = 0;
        let mut sorted = keys.to_vec(); // neighbours share blocks, which pays for the sorting
        sorted.sort_unstable();
        for value in self.db.batched_multi_get_cf_opt(&family, &sorted, true, &self.options) {
            if let Some(value) = value? {
                each(&value);
                hits += 1;
            }
        }
        Ok(hits)
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut records = self.db.raw_iterator();
        records.seek(from);
        let mut hits = 0;
        while hits < count
            && let Some((key, value)) = records.item()
        {
            each(key, value);
            hits += 1;
            records.next();
        }
        records.status()?;
        Ok(hits)
    }
}
