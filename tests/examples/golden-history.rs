//! Writes golden stores with history: `cargo run -p pipkin-tests --example golden-history -- tests/golden`. Golden files are never written again.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step ends the program")]

use std::fs;
use std::path::Path;

use pipkin::Db;
use pipkin::storage::MemoryStorage;

fn open(storage: &MemoryStorage) -> Db {
    let builder = Db::builder().entropy([6; 32]).segment_size(4096).background(false);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

/// Overwrites five keys with rising numbers, and compacts.
fn churn(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.insert([number as u8 % 5], [&number.to_le_bytes()[..], &[0; 90]].concat()).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the golden files");
    let folder = Path::new(&folder).join("history");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        assert!(!path.exists(), "{} exists; golden files are never written again", path.display());
        fs::write(&path, bytes).unwrap();
        println!("{}: {} bytes", path.display(), bytes.len());
    };
    let storage = MemoryStorage::new();
    let db = open(&storage);
    drop(db.consumer("mirror").start().unwrap());
    churn(&db, 0..60);
    let cache = db.namespace("cache").unwrap();
    cache.insert("page", "1").unwrap();
    cache.clear().unwrap();
    churn(&db, 60..120);
    db.close().unwrap();
    // A list with history, and a floor in front of all of it.
    write("listed.pipkin", &storage.to_vec());

    let db = open(&storage);
    let mut mirror = db.consumer("mirror").start().unwrap();
    for _ in 0..60 {
        let commit = mirror.try_next().unwrap().unwrap();
        mirror.ack(commit.position()).unwrap();
    }
    // In the tail: a floor frame frees a part of the listed history, its space is used again, and more is retired under the floor.
    while db.compact_step().unwrap().is_some() {}
    for number in 120..200_u32 {
        db.insert([number as u8 % 5], [&number.to_le_bytes()[..], &[0; 90]].concat()).unwrap();
    }
    while db.compact_step().unwrap().is_some() {}
    db.flush().unwrap();
    write("tail.pipkin", &storage.to_vec());
}
