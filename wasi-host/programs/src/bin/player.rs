//! Plays the tape that every host of pipkin plays, through `pipkin:kv`: `player STORE`. The store is closed between the halves.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/admin-client" });

use pipkin::kv::admin;
use pipkin::kv::store::{Db, Namespace, Options};
use pipkin::kv::types::{Durability, Error, Op, Reason};
use pipkin_tape::{Change, Step, Tape};
use std::collections::HashMap;

/// A store and the namespaces that were asked for.
struct Player {
    db: Db,
    spaces: HashMap<&'static str, Namespace>,
}

impl Player {
    fn open(name: &str) -> Result<Self, Error> {
        let options =
            Options { create: true, read_only: false, durability: Durability::Written, cache_bytes: 1 << 20, segment_bytes: 0 };
        Ok(Self { db: Db::open(name, options)?, spaces: HashMap::new() })
    }

    fn play(mut self, steps: &[Step]) -> Result<(), String> {
        for (number, step) in steps.iter().enumerate() {
            self.step(step).map_err(|error| format!("step {number}: {error:?}"))?;
        }
        self.spaces.clear();
        Db::close(self.db).map_err(|error| format!("close: {error:?}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::One(change) => self.change(change),
            Step::Batch(records) => {
                let ops: Vec<Op> = records.iter().map(|(key, value)| op("", key, Some(value))).collect();
                self.db.write(&ops, Durability::Written)
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

fn failed(reason: Reason, message: &str) -> Error {
    Error { reason, message: message.to_owned() }
}

fn op(space: &str, key: &[u8], value: Option<&Vec<u8>>) -> Op {
    Op { namespace: (!space.is_empty()).then(|| space.to_owned()), key: key.to_vec(), value: value.cloned() }
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
