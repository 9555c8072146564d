//! A program that uses the standard `wasi:keyvalue`, whoever serves it.
#![allow(missing_docs, reason = "generated exports")]

use pipkin_peers::bindings::exports::pipkin::peers::peer::Guest;
use pipkin_peers::{Exported, Peer, Record, Result, words};
use wasi::keyvalue::store::{Bucket, open};
use wasi::keyvalue::{atomics, batch};

wit_bindgen::generate!({ path: "../../../wit/deps/keyvalue-draft", world: "wasi:keyvalue/imports" });

mod empty {
    wit_bindgen::generate!({ path: "../wit", world: "pipkin:peers/needs-nothing" });
    pub(crate) use pipkin::peers::empty::nothing;
}

struct Component;

impl Guest for Component {
    type Store = Exported<Served>;
    fn nothing() {}
}

pipkin_peers::bindings::export!(Component with_types_in pipkin_peers::bindings);

struct Served(Bucket);

fn text(key: &[u8]) -> Result<&str> {
    std::str::from_utf8(key).map_err(words)
}

impl Peer for Served {
    fn create() -> Result<Self> {
        Ok(Self(open("").map_err(words)?))
    }

    fn put_together<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        records.try_for_each(|record| self.commit([record].into_iter()))
    }

    fn commit<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let Some((key, value)) = records.next() else { return Ok(()) };
        let Some(second) = records.next() else { return self.0.set(text(key)?, value).map_err(words) };
        let all = [(key, value), second].into_iter().chain(records);
        let owned = all.map(|(key, value)| Ok((text(key)?.to_owned(), value.to_vec()))).collect::<Result<Vec<_>>>()?;
        batch::set_many(&self.0, &owned).map_err(words)
    }

    fn get_each<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        keys.try_for_each(|key| self.0.get(text(key)?).map(|value| each(value.as_deref())).map_err(words))
    }

    fn get_batch(&self, keys: &[&[u8]], mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        let keys = keys.iter().map(|key| Ok(text(key)?.to_owned())).collect::<Result<Vec<_>>>()?;
        let records = batch::get_many(&self.0, &keys).map_err(words)?;
        records.iter().for_each(|record| each(record.as_ref().map(|(_, value)| value.as_slice())));
        Ok(())
    }

    /// The standard has no walk over values: keys in pages, and the values of a page together.
    fn walk(&self, _: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut cursor = None;
        loop {
            let page = self.0.list_keys(cursor).map_err(words)?;
            let records = batch::get_many(&self.0, &page.keys).map_err(words)?;
            let goes_on = records.iter().flatten().all(|(key, value)| each(key.as_bytes(), value));
            cursor = page.cursor;
            if cursor.is_none() || !goes_on {
                return Ok(());
            }
        }
    }

    fn increment<'a>(&self, mut keys: impl Iterator<Item = &'a str>) -> Result<bool> {
        keys.try_for_each(|key| atomics::increment(&self.0, key, 1).map(drop).map_err(words))?;
        Ok(true)
    }

    fn call_nothing(&self, count: u32) -> bool {
        (0..count).for_each(|_| empty::nothing());
        true
    }
}
