//! Two instances of the component on one folder, each under a Wasmtime of its own thread, as `wasmtime serve` runs requests. Nothing locks
//! the file: they lost each other's updates, and left a store that never opened again.

use super::machine::types::{Durability, Error, Reason};
use super::machine::{Machine, Options, Secret};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Requests at a time, and how many each of them makes.
const AT_ONCE: u64 = 8;
const REQUESTS: u64 = 25;
/// How often a request begins again that was fenced off.
const TRIES: u64 = 200;
/// Upper bound of the pause before it does, in milliseconds.
const PAUSE_MAX: u64 = 4096;

impl Machine {
    /// One request: an instance of its own opens the store, counts one up, flushes and closes. `counter` is the key.
    fn request(&self, folder: &Path, secret: Option<&Secret>, counter: &[u8]) -> Result<u64, Error> {
        let (mut instance, provider) = self.start(folder);
        let store = provider.pipkin_kv_store();
        let options = Options {
            create: true,
            read_only: false,
            durability: Durability::Written,
            cache_bytes: 1 << 20,
            segment_bytes: 16 * 1024,
            exclusive: false,
            follow: false,
        };
        let db = match secret {
            Some(secret) => store.db().call_open_sealed(&mut instance, "shared.pipkin", options, secret),
            None => store.db().call_open(&mut instance, "shared.pipkin", options),
        };
        let db = db.unwrap()?;
        let records = store.db().call_namespace(&mut instance, db, None).unwrap()?;
        let old = store.namespace().call_get(&mut instance, records, counter).unwrap()?;
        let count = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap())) + 1;
        store.namespace().call_put(&mut instance, records, counter, &count.to_le_bytes()).unwrap()?;
        store.db().call_flush(&mut instance, db, Durability::Synced).unwrap()?;
        // The other half goes away as an instance does that a host drops.
        if count % 2 == 0 {
            store.db().call_close(&mut instance, db).unwrap()?;
        }
        Ok(count)
    }
}

/// Pauses twice as long as before on average, but all requests differently: without it, all eight fence each other off for minutes.
fn back_off(worker: u64, request: u64, tried: u64) {
    let most = PAUSE_MAX.min(1 << tried.min(63));
    std::thread::sleep(Duration::from_millis((worker * 37 + request * 61 + tried * 17) % most));
}

#[test]
fn requests_on_one_store_lose_no_update_that_was_flushed_and_the_loser_is_told_so() {
    serves(Machine::shared(), None, REQUESTS);
}

/// The first of them create the store at once. A third of the requests is enough.
#[test]
fn requests_on_one_sealed_store_lose_no_update_that_was_flushed_either() {
    serves(Machine::sealed(), Some(&Secret::Key(vec![7; 32])), REQUESTS / 3);
}

fn serves(machine: &Machine, secret: Option<&Secret>, requests: u64) {
    let folder = tempfile::tempdir().unwrap();
    let fenced = AtomicU64::new(0);
    let serve = &|worker: u64| {
        for request in 0..requests {
            let mut tries = 0..TRIES;
            let flushed = tries.any(|tried| match machine.request(folder.path(), secret, b"count") {
                Ok(_) => true,
                Err(Error { reason: Reason::Fenced, .. }) => {
                    fenced.fetch_add(1, Ordering::Relaxed);
                    back_off(worker, request, tried);
                    false
                }
                Err(error) => panic!("a request was told {:?}: {}", error.reason, error.message),
            });
            assert!(flushed, "request {request} of {worker} was fenced off {TRIES} times");
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            scope.spawn(move || serve(worker));
        }
    });
    let fenced = fenced.into_inner();
    let builder = pipkin::Db::builder().path(folder.path().join("shared.pipkin"));
    let builder = if secret.is_some() { builder.encryption_key([7; 32]) } else { builder };
    let db = builder.open().unwrap();
    let count = u64::from_le_bytes(db.get("count").unwrap().unwrap().try_into().unwrap());
    println!("{} requests flushed, {fenced} fenced off and begun again, the counter is {count}", AT_ONCE * requests);
    assert!(db.verify().unwrap().is_ok());
    assert!(fenced > 0, "no two requests met");
    // A close may be fenced off behind a flush that was acknowledged, and the request begins again: it counts twice.
    assert!(count >= AT_ONCE * requests, "{} updates were acknowledged, {count} are there", AT_ONCE * requests);
}
