//! Plays the tape that every host of pipkin plays, through `pipkin:kv`: `player STORE`. The store is closed between the halves.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/admin-client" });

use pipkin::kv::admin;
use pipkin::kv::store::{Db, Namespace, Options};
use pipkin::kv::types::{Durability, Error, Op, Packed, Reason};
use pipkin_tape::{Change, Step, Tape};
use std::collections::HashMap;

/// A store and the namespaces that were asked for.
struct Player {
    db: Db,
    spaces: HashMap<&'static str, Namespace>,
}

impl Player {
    fn open(name: &str) -> Result<Self, Error> {
        let options = Options {
            create: true,
            read_only: false,
            durability: Durability::Written,
            cache_bytes: 1 << 20,
            segment_bytes: 0,
            exclusive: false,
            follow: false,
        };
        Ok(Self { db: Db::open(name, options)?, spaces: HashMap::new() })
    }

    fn play(mut self, steps: &[Step]) -> Result<(), String> {
        for (number, step) in steps.iter().enumerate() {
            self.step(step).map_err(|error| format!("step {number}: {error:?}"))?;
        }
        self.spaces.clear();
        self.packed_reads().map_err(|error| format!("packed: {error:?}"))?;
        Db::close(self.db).map_err(|error| format!("close: {error:?}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::One(change) => self.change(change),
            Step::Batch(records) => {
                let strings = records.iter().flat_map(|(key, value)| [key.as_slice(), value.as_slice()]);
                self.db.namespace(None)?.put_packed(&packed(strings), Durability::Written)
            }
            Step::Transaction(changes) => {
                let ops: Vec<Op> = changes.iter().map(|change| op(change.space, &change.key, change.value.as_ref())).collect();
                self.db.write(&ops, Durability::Written)
            }
            Step::DropNamespace(name) => {
                self.spaces.remove(name);
                self.db.drop_namespace(name).map(drop)
            }
            Step::Flush => self.db.flush(Durability::Synced).map(drop),
            Step::Checkpoint => admin::checkpoint(&self.db),
            Step::Compact => {
                while admin::compact_step(&self.db)?.is_some() {}
                Ok(())
            }
        }
    }

    /// Makes a change, and looks whether it can be seen.
    fn change(&mut self, Change { space, key, value }: &Change) -> Result<(), Error> {
        if !self.spaces.contains_key(space) {
            let opened = self.db.namespace((!space.is_empty()).then_some(*space))?;
            self.spaces.insert(space, opened);
        }
        let Some(records) = self.spaces.get(space) else {
            return Err(failed(Reason::NamespaceDropped, "a namespace that was dropped"));
        };
        match value {
            Some(value) => records.put(key, value)?,
            None => drop(records.delete(key)?),
        }
        let seen = records.get(key)?;
        if seen == *value { Ok(()) } else { Err(failed(Reason::Io, "a write cannot be seen")) }
    }
}

impl Player {
    /// What comes in one piece is what comes in many.
    fn packed_reads(&self) -> Result<(), Error> {
        let records = self.db.namespace(None)?;
        let (plain, in_pieces) = (records.scan(&[]), records.scan(&[]));
        let mut keys = vec![b"no such key".to_vec()];
        loop {
            let page = plain.next(100, 1 << 16)?;
            let strings = page.iter().flat_map(|entry| [entry.key.as_slice(), entry.value.as_slice()]);
            let (expected, found) = (packed(strings), in_pieces.next_packed(100, 1 << 16)?);
            if (&expected.lengths, &expected.bytes) != (&found.lengths, &found.bytes) {
                return Err(failed(Reason::Io, "a packed page has other records"));
            }
            if page.is_empty() {
                break;
            }
            keys.extend(page.into_iter().map(|entry| entry.key));
        }
        let found = records.get_packed(&packed(keys.iter().map(Vec::as_slice)))?;
        let values = records.get_many(&keys)?;
        let lengths = values.iter().map(|value| value.as_ref().map(|value| value.len() as u32));
        if !lengths.eq(found.lengths) || values.into_iter().flatten().flatten().ne(found.bytes) {
            return Err(failed(Reason::Io, "packed values are others"));
        }
        for (lengths, bytes) in [(vec![1, 2], 2), (vec![u32::MAX, 1], 0), (vec![1], 2)] {
            let (odd, before) = (Packed { lengths, bytes: vec![7; bytes] }, records.len()?);
            let refused = [records.get_packed(&odd).map(drop), records.put_packed(&odd, Durability::Written)];
            let is_refused =
                |answer: &Result<(), Error>| matches!(answer, Err(error) if matches!(error.reason, Reason::InvalidArgument));
            if !refused.iter().all(is_refused) || records.len()? != before {
                return Err(failed(Reason::Io, "lengths that do not fit were taken"));
            }
        }
        let key_alone = records.put_packed(&packed([&b"key"[..]].into_iter()), Durability::Written);
        if key_alone.is_ok() { Err(failed(Reason::Io, "a key without a value was taken")) } else { Ok(()) }
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

fn failed(reason: Reason, message: &str) -> Error {
    Error { reason, message: message.to_owned() }
}

fn op(space: &str, key: &[u8], value: Option<&Vec<u8>>) -> Op {
    Op { namespace: (!space.is_empty()).then(|| space.to_owned()), key: key.to_vec(), value: value.cloned(), ttl: None }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    for half in Tape::FULL.halves() {
        let played = Player::open(&name).map_err(|error| format!("open: {error:?}")).and_then(|player| player.play(&half));
        if let Err(error) = played {
            println!("{error}");
            std::process::exit(1);
        }
    }
}
