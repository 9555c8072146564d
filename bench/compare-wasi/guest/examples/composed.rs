//! A program that uses `pipkin:kv`, for composing it with the component.
#![allow(missing_docs, reason = "generated exports")]

use pipkin::kv::store::{Db, Namespace, Options};
use pipkin::kv::types::{Durability, Op};
use pipkin_peers::bindings::exports::pipkin::peers::peer::Guest;
use pipkin_peers::{Exported, Peer, Record, Result};

wit_bindgen::generate!({ path: "../../../wit", world: "pipkin:kv/client" });

struct Component;

impl Guest for Component {
    type Store = Exported<Composed>;
    fn nothing() {}
}

pipkin_peers::bindings::export!(Component with_types_in pipkin_peers::bindings);

/// Two handles to one store: puts of the one gather, those of the other reach the file before they return.
struct Composed {
    db: Db,
    gathering: Namespace,
    written: Namespace,
}

fn said(error: pipkin::kv::types::Error) -> String {
    format!("{error:?}")
}

impl Peer for Composed {
    fn create() -> Result<Self> {
        let open = |durability| {
            let options = Options { create: true, read_only: false, durability, cache_bytes: 64 << 20, segment_bytes: 0 };
            let db = Db::open("composed.pipkin", options)?;
            let namespace = db.namespace(None)?;
            Ok((db, namespace))
        };
        let (_, gathering) = open(Durability::Buffered).map_err(said)?;
        let (db, written) = open(Durability::Written).map_err(said)?;
        Ok(Self { db, gathering, written })
    }

    fn put_together<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        records.try_for_each(|(key, value)| self.gathering.put(key, value)).map_err(said)?;
        self.db.flush(Durability::Written).map(drop).map_err(said)
    }

    fn commit<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let Some((key, value)) = records.next() else { return Ok(()) };
        let Some(second) = records.next() else { return self.written.put(key, value).map_err(said) };
        let op = |(key, value): Record<'_>| Op { namespace: None, key: key.to_vec(), value: Some(value.to_vec()) };
        let ops: Vec<Op> = [(key, value), second].into_iter().chain(records).map(op).collect();
        self.db.write(&ops, Durability::Written).map_err(said)
    }

    fn get_each<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        keys.try_for_each(|key| self.written.get(key).map(|value| each(value.as_deref()))).map_err(said)
    }

    fn get_batch(&self, keys: &[&[u8]], mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        self.written.get_many(&keys).map_err(said)?.iter().for_each(|value| each(value.as_deref()));
        Ok(())
    }

    fn walk(&self, _: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let scan = self.written.scan(&[]);
        loop {
            let page = scan.next(1000, 1 << 20).map_err(said)?;
            if page.is_empty() || !page.iter().all(|entry| each(&entry.key, &entry.value)) {
                return Ok(());
            }
        }
    }
}
