//! The engines as async code uses them: pipkin by its async face, the others behind `spawn_blocking`, as their users do.

use crate::Result;
use fjall::config::CompressionPolicy;
use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use tokio::task::spawn_blocking;

pub(crate) type Key = [u8; 24];
pub(crate) const VALUE_LEN: usize = 150;
type Value = [u8; VALUE_LEN];
const CACHE: usize = 256 * 1024 * 1024;
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("records");

pub(crate) trait Engine: Clone + Send + Sync + Sized + 'static {
    fn open(folder: &Path) -> Result<Self>;
    fn load(&self, records: &[(Key, Value)]) -> Result<()>;
    /// The sum of the value's bytes; 0 where there is none.
    fn get(&self, key: Key) -> impl Future<Output = Result<u64>> + Send;
    /// Returns once the record survives a power cut.
    fn put(&self, key: Key, value: Value) -> impl Future<Output = Result<()>> + Send;
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

#[derive(Clone)]
pub(crate) struct Pipkin {
    reads: pipkin::AsyncDb,
    writes: pipkin::AsyncNamespace,
}

impl Engine for Pipkin {
    fn open(folder: &Path) -> Result<Self> {
        let reads = pipkin::Db::open(folder.join("store.pipkin"))?.to_async();
        Ok(Self { writes: reads.durable(), reads })
    }

    fn load(&self, records: &[(Key, Value)]) -> Result<()> {
        let db = self.reads.to_sync();
        db.insert_many(records.iter().map(|(key, value)| (key, value)))?;
        Ok(db.flush().map(drop)?)
    }

    async fn get(&self, key: Key) -> Result<u64> {
        Ok(self.reads.get(key).await?.map_or(0, |value| sum(&value)))
    }

    async fn put(&self, key: Key, value: Value) -> Result<()> {
        Ok(self.writes.insert(key, value).await?)
    }
}

/// By the recipe for the face that blocks: reads on the task, writes and flushes behind `spawn_blocking`.
#[derive(Clone)]
pub(crate) struct PipkinBlocking(pipkin::Db);

impl Engine for PipkinBlocking {
    fn open(folder: &Path) -> Result<Self> {
        Ok(Self(pipkin::Db::open(folder.join("store.pipkin"))?))
    }

    fn load(&self, records: &[(Key, Value)]) -> Result<()> {
        self.0.insert_many(records.iter().map(|(key, value)| (key, value)))?;
        Ok(self.0.flush().map(drop)?)
    }

    async fn get(&self, key: Key) -> Result<u64> {
        Ok(self.0.get(key)?.map_or(0, |value| sum(&value)))
    }

    async fn put(&self, key: Key, value: Value) -> Result<()> {
        let db = self.0.clone();
        let write = move || {
            db.insert(key, value)?;
            db.flush().map(drop)
        };
        Ok(spawn_blocking(write).await??)
    }
}

#[derive(Clone)]
pub(crate) struct Redb(Arc<Database>);

impl Redb {
    fn insert(&self, records: &[(Key, Value)]) -> Result<()> {
        let write = self.0.begin_write()?;
        let mut table = write.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(key.as_slice(), value.as_slice())?;
        }
        drop(table);
        Ok(write.commit()?)
    }

    fn read(&self, key: &Key) -> Result<u64> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key.as_slice())?.map_or(0, |value| sum(value.value())))
    }
}

impl Engine for Redb {
    fn open(folder: &Path) -> Result<Self> {
        Ok(Self(Arc::new(Database::builder().set_cache_size(CACHE).create(folder.join("store.redb"))?)))
    }

    fn load(&self, records: &[(Key, Value)]) -> Result<()> {
        self.insert(records)
    }

    async fn get(&self, key: Key) -> Result<u64> {
        let engine = self.clone();
        spawn_blocking(move || engine.read(&key)).await?
    }

    async fn put(&self, key: Key, value: Value) -> Result<()> {
        let engine = self.clone();
        spawn_blocking(move || engine.insert(&[(key, value)])).await?
    }
}

#[derive(Clone)]
pub(crate) struct Fjall {
    db: fjall::Database,
    records: Keyspace,
}

impl Engine for Fjall {
    fn open(folder: &Path) -> Result<Self> {
        let db = fjall::Database::builder(folder).cache_size(CACHE as u64).open()?;
        let plain = || KeyspaceCreateOptions::default().data_block_compression_policy(CompressionPolicy::disabled());
        let records = db.keyspace("records", plain)?;
        Ok(Self { db, records })
    }

    fn load(&self, records: &[(Key, Value)]) -> Result<()> {
        for records in records.chunks(1000) {
            let mut batch = self.db.batch();
            records.iter().for_each(|(key, value)| batch.insert(&self.records, key.as_slice(), value.as_slice()));
            batch.commit()?;
        }
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    async fn get(&self, key: Key) -> Result<u64> {
        let records = self.records.clone();
        spawn_blocking(move || Ok(records.get(key)?.map_or(0, |value| sum(&value)))).await?
    }

    async fn put(&self, key: Key, value: Value) -> Result<()> {
        let engine = self.clone();
        let write = move || {
            engine.records.insert(key, value)?;
            Ok(engine.db.persist(PersistMode::SyncData)?)
        };
        spawn_blocking(write).await?
    }
}
