//! The engine without a sandbox: what the provider stands on.

use crate::Outcome;
use crate::host::{Called, complete};
use crate::peer::Entry;
use pipkin::Db;

/// The calls that the provider makes for a guest.
pub(crate) struct Native(pub(crate) Db);

impl Called for Native {
    fn put(&mut self, (key, value): &Entry) -> Outcome {
        Ok(self.0.insert(key, value)?)
    }

    fn put_many(&mut self, entries: &[Entry]) -> Outcome {
        Ok(self.0.insert_many(entries.iter().map(|(key, value)| (key, value)))?)
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.0.get(key)?)
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>> {
        Ok(self.0.get_many(keys)?)
    }

    fn walk(&mut self) -> Outcome<usize> {
        let bytes = self.0.iter().try_fold(0, |bytes, record| record.map(|(_, value)| bytes + value.len()))?;
        complete(bytes, usize::try_from(self.0.len()?)?)?;
        Ok(bytes)
    }
}
