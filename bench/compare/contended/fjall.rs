//! fjall: optimistic transactions.

use super::{Counters, Result, key, one_higher};
use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, Readable};
use std::path::Path;

pub(crate) struct Fjall {
    db: OptimisticTxDatabase,
    counters: OptimisticTxKeyspace,
}

impl Counters for Fjall {
    fn open(folder: &Path, keys: u64) -> Result<Self> {
        let db = OptimisticTxDatabase::builder(folder).open()?;
        let counters = db.keyspace("counters", KeyspaceCreateOptions::default)?;
        for number in 0..keys {
            counters.insert(key(number), 0_u64.to_le_bytes())?;
        }
        Ok(Self { db, counters })
    }

    fn raise(&self, key: [u8; 8]) -> Result<u64> {
        for runs in 1.. {
            let mut tx = self.db.write_tx()?;
            let old = tx.get(&self.counters, key)?.ok_or("no counter")?;
            tx.insert(&self.counters, key, one_higher(&old)?);
            if tx.commit()?.is_ok() {
                return Ok(runs);
            }
        }
        Err("not committed".into())
    }

    fn value(&self, key: [u8; 8]) -> Result<u64> {
        let value = self.db.read_tx().get(&self.counters, key)?.ok_or("no counter")?;
        Ok(u64::from_le_bytes((&*value).try_into()?))
    }
}
