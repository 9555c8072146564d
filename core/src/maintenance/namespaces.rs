//! Checking the names of the namespaces against their records, before records without a name are dropped.

use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::names::DEFAULT;
use crate::store::Store;
use crate::sync::Ordering;

impl Store {
    /// Checks the names, which the index snapshot stores in a separate part, against their records, once per session. Records under a
    /// number without a name are dropped as dead, so a wrong list of names would lose them silently.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the two differ: then nothing may be dropped.
    pub(super) fn check_names(&self) -> Result<()> {
        if self.names_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (engine, shards) = (&self.engine, self.engine.lock_all()?);
        let names = self.names.read();
        let counted: u64 = shards.iter().map(|shard| shard.count(NAMESPACE_OF_NAMES)).sum();
        let mut found = 0;
        for (name, number) in names.pairs() {
            let key = engine.full_key(NAMESPACE_OF_NAMES, name.as_bytes());
            let Some(shard) = shards.get(key.hash.shard()) else { continue };
            let record =
                engine.frame_locked(shard, key).and_then(|frame| frame.map(|frame| frame.check().map(|()| frame)).transpose());
            let is_its = match record {
                Ok(Some(frame)) => frame.value().first_chunk() == Some(&number.to_le_bytes()),
                // The default namespace has no record while it has its first number.
                Ok(None) if name == DEFAULT && number == 0 => continue,
                Ok(None) => false,
                // A damaged name record counts as present: damage costs only that record.
                Err(Error::Corrupt { .. }) => true,
                Err(error) => return Err(error),
            };
            found += u64::from(is_its);
        }
        if found != counted {
            let offset = engine.log.newest_checkpoint().and_then(|place| place.directory).map_or(0, |place| place.offset);
            return Err(Error::corrupt(offset, "an index snapshot whose namespaces are not those of the log"));
        }
        self.names_checked.store(true, Ordering::Relaxed);
        Ok(())
    }
}
