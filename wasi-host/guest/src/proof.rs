//! The exports of `pipkin:proof/suite`, which test the storage contract and the file format on this host.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use pipkin::storage::MemoryStorage;
use pipkin::storage::conformance::{Options, run_with};
use pipkin::{Db, Durability, Error, Storage};
use pipkin_tape::Tape;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::Descriptor;

use crate::bindings::exports::pipkin::kv::types::Durability as Wanted;
use crate::open::{self, How, cached};
use crate::storage::{Access, WasiStorage};

wit_bindgen::generate!({ path: "../../wit/proof", world: "proof" });

use exports::pipkin::proof::suite::{Digest, Entropy, Guest};

struct Proof;

export!(Proof);

impl Guest for Proof {
    fn conformance(path: String) -> Result<u32, String> {
        let directory = directory()?;
        let mut options = Options::default();
        options.sparse = true;
        options.durability = Some(Durability::Device);
        let file = |name: &str| WasiStorage::open(&directory, name, Access::Create).map_err(|error| error.to_string());
        let plain = conforming(options, &mut |number| Ok(Box::new(file(&format!("{path}-{number}"))?)))?;
        // A table of three blocks, so that they push each other out.
        let behind_a_cache = conforming(options, &mut |number| {
            let storage = cached(file(&format!("{path}-cached-{number}"))?, 3 * 4096);
            Ok(Box::new(storage.map_err(|error| error.to_string())?))
        })?;
        Ok(plain + behind_a_cache)
    }

    fn tape(path: String, entropy: Entropy) -> Result<Digest, String> {
        let open = || open(&path, Access::Create, entropy);
        for half in [Tape::begin, Tape::resume] {
            let durability = half(Tape::FULL, &open()?)?;
            if durability != Durability::Device {
                return Err(format!("flush promised {durability:?}, not Device"));
            }
        }
        let db = open()?;
        let digest = Tape::FULL.finish(&db)?;
        db.close().map_err(|error| error.to_string())?;
        Ok(digest.into())
    }

    fn read(path: String) -> Result<Digest, String> {
        let db = open(&path, Access::Read, (0, 0))?;
        pipkin_tape::verified(&db)?;
        Ok(pipkin_tape::digest(&db)?.into())
    }

    fn put(path: String, entropy: Entropy, key: Vec<u8>, len: u32) -> Result<(), String> {
        let db = open(&path, Access::Create, entropy)?;
        let stored = db.insert(key, vec![0x70; len as usize]).and_then(|()| db.flush());
        stored.and_then(|_| db.close()).map_err(|error| error.to_string())
    }

    fn fill(path: String) -> Result<u32, String> {
        filled(&path).map_err(|error| error.to_string())?
    }
}

/// Fills a store as the verbs do: each change is handed over before the next one.
fn filled(path: &str) -> Result<Result<u32, String>, Error> {
    let how = How { create: true, read_only: false, cache_bytes: 1 << 20, segment_bytes: 0, exclusive: true, follow: false };
    let store = open::open(path, how, crate::secret::Unlocking::NONE)?;
    let value = vec![9; 10_000];
    let mut number = 0_u32;
    let refused = loop {
        let put = store.db()?.insert(number.to_le_bytes(), &value).and_then(|()| store.settle(Wanted::Written));
        match put {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    if !matches!(refused, Error::NoSpace) {
        return Ok(Err(format!("put {number} was refused with other words: {refused}")));
    }
    if store.db()?.get(number.to_le_bytes())?.is_some() || store.db()?.len()? != u64::from(number) {
        return Ok(Err(format!("put {number} was refused, and is there")));
    }
    for key in 0..number {
        if store.db()?.get(key.to_le_bytes())?.as_ref() != Some(&value) {
            return Ok(Err(format!("record {key} was acknowledged, and is not what it was")));
        }
        store.db()?.remove(key.to_le_bytes())?;
        store.settle(Wanted::Written)?;
    }
    store.close()?;
    drop(store);
    let again = open::open(path, how, crate::secret::Unlocking::NONE)?;
    let is_empty = again.db()?.is_empty()?;
    again.db()?.insert("again", &value)?;
    again.settle(Wanted::Synced)?;
    Ok(if is_empty { Ok(number) } else { Err("what was removed came back".to_string()) })
}

/// Runs the suite over the storages that `open` gives; returns how many checks were made.
fn conforming(options: Options, open: &mut dyn FnMut(u32) -> Result<Box<dyn Storage>, String>) -> Result<u32, String> {
    let (mut number, mut refused) = (0, None);
    let checks = run_with(options, &mut || {
        number += 1;
        open(number).unwrap_or_else(|error| {
            refused = Some(error);
            Box::new(MemoryStorage::new())
        })
    });
    refused.map_or(checks, Err)
}

impl From<pipkin_tape::Digest> for Digest {
    fn from(digest: pipkin_tape::Digest) -> Self {
        Self { records: digest.records, hash: digest.hash }
    }
}

fn directory() -> Result<Descriptor, String> {
    get_directories().into_iter().next().map(|(directory, _)| directory).ok_or_else(|| "no preopened directory".to_string())
}

fn open(path: &str, access: Access, entropy: Entropy) -> Result<Db, String> {
    let storage = WasiStorage::open(&directory()?, path, access).map_err(|error| error.to_string())?.exclusive(true);
    let storage = cached(storage, 1 << 20).map_err(|error| error.to_string())?;
    let mut random = [0; 32];
    for (place, word) in random.as_chunks_mut().0.iter_mut().zip([entropy.0, entropy.1, !entropy.0, !entropy.1]) {
        *place = word.to_le_bytes();
    }
    Db::builder()
        .entropy(random)
        .clock(crate::clock::WasiClock)
        .read_only(access == Access::Read)
        .open_storage(Box::new(storage))
        .map_err(|error| error.to_string())
}
