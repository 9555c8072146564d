//! Two instances of the component on one folder, each under a Wasmtime of its own thread, as `wasmtime serve` runs requests. Nothing locks
//! the file: they lost each other's updates, and left a store that never opened again.

use super::machine::types::{Durability, Error, Reason};
use super::machine::{Machine, Options};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests at a time, and how many each of them makes.
const AT_ONCE: u64 = 8;
const REQUESTS: u64 = 25;
/// How often a request begins again that was fenced off.
const TRIES: u64 = 200;

impl Machine {
    /// One request: an instance of its own opens the store, counts one up, flushes and closes. `counter` is the key.
    fn request(&self, folder: &Path, counter: &[u8]) -> Result<u64, Error> {
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
        let db = store.db().call_open(&mut instance, "shared.pipkin", options).unwrap()?;
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

#[test]
fn requests_on_one_store_lose_no_update_that_was_flushed_and_the_loser_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::shared();
    let (done, fenced, given_up) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    let answer = (0..TRIES).find_map(|_| match machine.request(folder.path(), b"count") {
                        Ok(count) => Some(count),
                        Err(Error { reason: Reason::Fenced, .. }) => {
                            fenced.fetch_add(1, Ordering::Relaxed);
                            None
                        }
                        Err(error) => panic!("a request was told {:?}: {}", error.reason, error.message),
                    });
                    let ended = if answer.is_some() { &done } else { &given_up };
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let db = pipkin::Db::open(folder.path().join("shared.pipkin")).unwrap();
    let count = u64::from_le_bytes(db.get("count").unwrap().unwrap().try_into().unwrap());
    println!(
        "{} requests flushed, {} fenced off and begun again, {} given up, the counter is {count}",
        get(&done),
        get(&fenced),
        get(&given_up)
    );
    assert!(db.verify().unwrap().is_ok());
    assert!(get(&done) > 0);
    // A close may be fenced off behind a flush that was acknowledged, and the request begins again: it counts twice.
    assert!(count >= get(&done), "{} updates were acknowledged, {count} are there", get(&done));
}
