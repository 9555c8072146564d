//! Writes a golden file: `cargo run -p pipkin-tape --example golden -- tests/golden/vN.pipkin`, once for each version of the format. With `aes` or
//! `chacha` behind the path it is sealed with that suite, under a key of 32 bytes 07.
//!
//! It holds the small tape, written in two sessions with segments of 16 KiB, so that every kind of record, a value over several
//! segments, a snapshot and a compacted segment are in it. Golden files are never written again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step ends the program")]

use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Cipher, Db};
use pipkin_tape::Tape;

fn main() {
    let path = std::env::args().nth(1).expect("the path of the new file");
    assert!(!std::fs::exists(&path).unwrap(), "{path} exists; golden files are never written again");
    let sealed: fn(Builder) -> Builder = match std::env::args().nth(2).as_deref() {
        None => |builder| builder,
        Some("aes") => |builder| builder.encryption_key([7; 32]).cipher(Cipher::Aes256Gcm),
        Some("chacha") => |builder| builder.encryption_key([7; 32]).cipher(Cipher::ChaCha20Poly1305),
        Some(other) => panic!("{other} is no suite"),
    };
    let storage = MemoryStorage::new();
    for (half, entropy) in [(Tape::begin as fn(_, &_) -> _, [1; 32]), (Tape::resume, [2; 32])] {
        let builder = sealed(Db::builder().entropy(entropy).segment_size(16 * 1024));
        let db = builder.open_storage(Box::new(storage.clone())).unwrap();
        half(Tape::SMALL, &db).unwrap();
        db.close().unwrap();
    }
    std::fs::write(&path, storage.to_vec()).unwrap();
    println!("{path}: {} bytes, {:?}", storage.to_vec().len(), Tape::SMALL.expected());
}
