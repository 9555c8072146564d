//! A program that uses `pipkin:kv`, for composing it with the component.
#![allow(missing_docs, reason = "generated exports")]

use pipkin::kv::store::{Db, Namespace, Options};
use pipkin::kv::types::{Durability, Packed};
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
            let options = Options {
                create: true,
                read_only: false,
                durability,
                cache_bytes: 64 << 20,
                segment_bytes: 0,
                exclusive: false,
                follow: false,
            };
            let db = Db::open("composed.pipkin", options)?;
            let namespace = db.namespace(None)?;
            Ok((db, namespace))
        };
        let (_, gathering) = open(Durability::Buffered).map_err(said)?;
        let (db, written) = open(Durability::Written).map_err(said)?;
        Ok(Self { db, gathering, written })
    }

    fn put_together<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.commit(records)
    }

    fn put_gathered<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        records.try_for_each(|(key, value)| self.gathering.put(key, value)).map_err(said)?;
        self.db.flush(Durability::Written).map(drop).map_err(said)
    }

    fn commit<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let Some((key, value)) = records.next() else { return Ok(()) };
        let Some(second) = records.next() else { return self.written.put(key, value).map_err(said) };
        let records = [(key, value), second].into_iter().chain(records);
        let packed = packed(records.flat_map(|(key, value)| [key, value]));
        self.written.put_packed(&packed, Durability::Written).map_err(said)
    }

    fn get_each<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        keys.try_for_each(|key| self.written.get(key).map(|value| each(value.as_deref()))).map_err(said)
    }

    fn get_batch(&self, keys: &[&[u8]], mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        let found = self.written.get_packed(&packed(keys.iter().copied())).map_err(said)?;
        let mut rest = found.bytes.as_slice();
        for length in found.lengths {
            each(length.map(|length| cut(&mut rest, length)).transpose()?);
        }
        Ok(())
    }

    fn walk(&self, _: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let scan = self.written.scan(&[]);
        loop {
            let page = scan.next_packed(1000, 1 << 20).map_err(said)?;
            let (mut lengths, mut rest) = (page.lengths.iter(), page.bytes.as_slice());
            if lengths.len() == 0 {
                return Ok(());
            }
            while let (Some(&key), Some(&value)) = (lengths.next(), lengths.next()) {
                if !each(cut(&mut rest, key)?, cut(&mut rest, value)?) {
                    return Ok(());
                }
            }
        }
    }
}

fn packed<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Packed {
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    for string in strings {
        lengths.push(string.len() as u32);
        bytes.extend_from_slice(string);
    }
    Packed { lengths, bytes }
}

fn cut<'a>(rest: &mut &'a [u8], length: u32) -> Result<&'a [u8]> {
    rest.split_off(..length as usize).ok_or_else(|| "the lengths do not fit".to_owned())
}
