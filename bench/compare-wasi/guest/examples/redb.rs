//! redb. Its default cache is larger than the data. Commits that are not synced survive no kill.
#![allow(missing_docs, reason = "generated exports")]

use pipkin_peers::bindings::exports::pipkin::peers::peer::Guest;
use pipkin_peers::{Exported, Peer, Record, Result, words};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::ops::Bound;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

struct Component;

impl Guest for Component {
    type Store = Exported<Redb>;
    fn nothing() {}
}

pipkin_peers::bindings::export!(Component with_types_in pipkin_peers::bindings);

struct Redb(Database);

impl Peer for Redb {
    fn create() -> Result<Self> {
        Ok(Self(Database::create("/peer.redb").map_err(words)?))
    }

    fn put_together<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.commit(records)
    }

    fn commit<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let mut write = self.0.begin_write().map_err(words)?;
        write.set_durability(Durability::None).map_err(words)?;
        let mut table = write.open_table(TABLE).map_err(words)?;
        records.try_for_each(|(key, value)| table.insert(key, value).map(drop)).map_err(words)?;
        drop(table);
        write.commit().map_err(words)
    }

    fn get_each<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        let table = self.0.begin_read().map_err(words)?.open_table(TABLE).map_err(words)?;
        keys.try_for_each(|key| table.get(key).map(|value| each(value.as_ref().map(|value| value.value())))).map_err(words)
    }

    fn walk(&self, behind: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let table = self.0.begin_read().map_err(words)?.open_table(TABLE).map_err(words)?;
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        for record in table.range::<&[u8]>((from, Bound::Unbounded)).map_err(words)? {
            let (key, value) = record.map_err(words)?;
            if !each(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}
