//! Writes golden stores with records that expire: `cargo run -p pipkin-tests --example golden-expiry -- tests/golden`. Golden files are never
//! written again.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step ends the program")]

use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Db, Ttl};
use pipkin_tape::expiring::{DEFAULT_MS, GONE, SPACE, START, WITH_EXPIRY, WITHOUT};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Earlier versions of everything, those that will have expired over them, and, in a later segment, what stays.
fn write_all(db: &Db, clock: &TestClock) {
    let space = db.namespace(SPACE).unwrap();
    for key in GONE {
        db.insert(key, "an earlier version").unwrap();
        space.insert(key, "an earlier version").unwrap();
    }
    db.insert("filler", [1; 3000]).unwrap();
    db.insert("filler", [2; 3000]).unwrap();
    for key in GONE {
        db.insert_with_ttl(key, "of a second", Duration::from_secs(1)).unwrap();
        space.insert_with_ttl(key, "of a second", Ttl::At(START + 1000)).unwrap();
    }
    space.set_default_ttl(Some(Duration::from_millis(DEFAULT_MS))).unwrap();
    for (key, expiry) in WITH_EXPIRY {
        db.insert_with_ttl(key, format!("until {expiry}"), Ttl::At(expiry)).unwrap();
        space.insert_with_ttl(key, format!("until {expiry}"), Ttl::At(expiry)).unwrap();
    }
    space.insert("by default", "for as long as the namespace says").unwrap();
    for key in WITHOUT {
        db.insert(key, "for ever").unwrap();
        space.insert_with_ttl(key, "for ever", Ttl::Never).unwrap();
    }
    db.insert("filler", [3; 3000]).unwrap();
    clock.advance(Duration::from_secs(1));
    for key in GONE {
        assert!(!db.contains_key(key).unwrap() && !space.contains_key(key).unwrap());
    }
    db.remove("filler").unwrap();
    db.flush().unwrap();
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the golden files");
    let folder = Path::new(&folder).join("expiry");
    fs::create_dir_all(&folder).unwrap();
    let open = |clock: &TestClock| {
        let storage = MemoryStorage::new();
        let builder = Db::builder().entropy([8; 32]).clock(clock.clone()).segment_size(4096).background(false).ordered(true);
        (storage.clone(), builder.open_storage(Box::new(storage)).unwrap())
    };
    let write = |name: &str, storage: &MemoryStorage| {
        let path = folder.join(name);
        if path.exists() {
            return println!("{} is there: golden files are never written again", path.display());
        }
        let bytes = storage.to_vec();
        fs::write(&path, &bytes).unwrap();
        println!("{}: {} bytes", path.display(), bytes.len());
    };
    let clock = TestClock::new(START);
    let (storage, db) = open(&clock);
    write_all(&db, &clock);
    // The log alone: what has expired is where it was written.
    write("killed.pipkin", &storage);
    db.checkpoint().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    // Compacted: of what has expired there are tombstones, or nothing any more.
    write("compacted.pipkin", &storage);

    let clock = TestClock::new(START);
    let (storage, db) = open(&clock);
    write_all(&db, &clock);
    db.checkpoint().unwrap();
    let (key, expiry) = WITH_EXPIRY[0];
    db.insert_with_ttl(key, format!("until {expiry}"), Ttl::At(expiry)).unwrap();
    db.checkpoint().unwrap();
    db.flush().unwrap();
    // The index snapshot has calendars, of whole shards and of changes.
    write("calendar.pipkin", &storage);
}
