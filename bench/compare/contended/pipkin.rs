//! pipkin: optimistic transactions.

use super::{Counters, Result, key, one_higher};
use pipkin::Db;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Pipkin(Db);

impl Counters for Pipkin {
    fn open(folder: &Path, keys: u64) -> Result<Self> {
        let db = Db::open(folder.join("store.pipkin"))?;
        db.insert_many((0..keys).map(|number| (key(number), 0_u64.to_le_bytes())))?;
        Ok(Self(db))
    }

    fn raise(&self, key: [u8; 8]) -> Result<u64> {
        let runs = AtomicU64::new(0);
        self.0.try_transaction(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let old = tx.get(key)?.ok_or("no counter")?;
            tx.insert(key, one_higher(&old)?)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        })?;
        Ok(runs.into_inner())
    }

    fn value(&self, key: [u8; 8]) -> Result<u64> {
        Ok(u64::from_le_bytes(self.0.get(key)?.ok_or("no counter")?.as_slice().try_into()?))
    }
}
