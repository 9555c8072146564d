//! Writes golden stores with compressed values: `cargo run -p pipkin-tests --example golden-compressed -- tests/golden`. Golden files are never
//! written again.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step ends the program")]

use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Cipher, Compression, Db};
use pipkin_tape::compressed::{ALONE, COMPACTED, COUNT, KEY, SPACE, check_compressed, key, value, zeros};
use std::fs;
use std::path::Path;

fn write_all(db: &Db) {
    let space = db.namespace(SPACE).unwrap();
    space.set_compression(Some(Compression::OnCompaction)).unwrap();
    space.insert_many((0..COMPACTED).map(|number| (key(number), value(number)))).unwrap();
    db.compact().unwrap();
    space.set_compression(Some(Compression::OnWrite)).unwrap();
    space.insert_many((COMPACTED..COUNT).map(|number| (key(number), value(number)))).unwrap();
    db.set_compression(Some(Compression::OnWrite)).unwrap();
    for (key, len) in ALONE {
        db.insert(key, zeros(len)).unwrap();
    }
    check_compressed(db).unwrap();
    let stats = db.compression_stats().unwrap();
    assert!(stats.records > 690 && stats.dictionaries == 1, "{stats:?}");
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the golden files");
    let folder = Path::new(&folder).join("compressed");
    fs::create_dir_all(&folder).unwrap();
    let builder = || Db::builder().entropy([8; 32]).segment_size(16 * 1024).background(false);
    let sealed = || builder().encryption_key(KEY).cipher(Cipher::ChaCha20Poly1305).compress_sealed(true);
    let stores: [(&str, &dyn Fn() -> Builder); 2] = [("plain.pipkin", &builder), ("sealed.pipkin", &sealed)];
    for (name, builder) in stores {
        let path = folder.join(name);
        if path.exists() {
            println!("{} is there: golden files are never written again", path.display());
            continue;
        }
        let storage = MemoryStorage::new();
        let db = builder().open_storage(Box::new(storage.clone())).unwrap();
        write_all(&db);
        println!("{:?}", pipkin_tape::digest(&db).unwrap());
        db.close().unwrap();
        let bytes = storage.to_vec();
        fs::write(&path, &bytes).unwrap();
        println!("{}: {} bytes", path.display(), bytes.len());
    }
}
