//! Writes a golden file: `cargo run -p pipkin-tape --example golden -- tests/golden/vN.pipkin`, once for each version of the format.
//!
//! It holds the small tape, written in two sessions with segments of 16 KiB, so that every kind of record, a value over several
//! segments, a snapshot and a compacted segment are in it. Golden files are never written again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the program")]

use pipkin::Db;
use pipkin::storage::MemoryStorage;
use pipkin_tape::Tape;

fn main() {
    let path = std::env::args().nth(1).expect("the path of the new file");
    assert!(!std::fs::exists(&path).unwrap(), "{path} exists; golden files are never written again");
    let storage = MemoryStorage::new();
    for (half, entropy) in [(Tape::begin as fn(_, &_) -> _, [1; 32]), (Tape::resume, [2; 32])] {
        let db = Db::builder().entropy(entropy).segment_size(16 * 1024).open_storage(Box::new(storage.clone())).unwrap();
        half(Tape::SMALL, &db).unwrap();
        db.close().unwrap();
    }
    std::fs::write(&path, storage.to_vec()).unwrap();
    println!("{path}: {} bytes, {:?}", storage.to_vec().len(), Tape::SMALL.expected());
}
