//! Compressed values: what the native engine has compressed reads in the component, and the other way round.

use super::{host, open};
use pipkin_wasi_host::{Compression, Durability};
use std::path::Path;

fn document(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    format!(
        r#"{{"feature":"api.Interface{}.method{mixed:x}","support":{{"version_added":"{}"}},"standard_track":true}}"#,
        number % 97,
        number % 50
    )
    .into_bytes()
}

fn key(number: u32) -> Vec<u8> {
    format!("doc-{number:05}").into_bytes()
}

/// A native store; what a namespace says about compression counts.
fn native(path: &Path) -> pipkin::Db {
    pipkin::Db::builder().path(path).open().unwrap()
}

#[test]
fn what_is_compressed_on_one_side_reads_on_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let host = host(folder.path());

    let mut db = open(&host, "a.pipkin");
    assert_eq!(db.records(None).compression().unwrap(), Compression::Off);
    db.records(None).set_compression(Compression::OnCompaction).unwrap();
    for numbers in [0..1500, 1500..3000] {
        db.insert_many(numbers.map(|number| (key(number), document(number)))).unwrap();
    }
    let before = db.stats().unwrap().live_bytes;
    while db.compact_step().unwrap().is_some() {}
    assert!(db.stats().unwrap().live_bytes * 5 < before * 3, "{before} {:?}", db.stats());
    for number in (0..3000).step_by(7) {
        assert_eq!(db.get(&key(number)).unwrap(), Some(document(number)));
    }
    db.records(None).set_compression(Compression::OnWrite).unwrap();
    db.insert_many((3000..3500).map(|number| (key(number), document(number)))).unwrap();
    assert!(db.verify().unwrap().damage.is_empty());
    db.flush().unwrap();
    db.close().unwrap();

    let there = native(&path);
    assert!(there.is_compressed());
    assert_eq!(there.compression(), pipkin::Compression::OnWrite);
    let stats = there.compression_stats().unwrap();
    assert!(stats.records > 3400 && stats.dictionaries == 1 && stats.stored_bytes * 2 < stats.plain_bytes, "{stats:?}");
    for number in 0..3500 {
        assert_eq!(there.get(key(number)).unwrap(), Some(document(number)));
    }
    there.insert_many((3500..4000).map(|number| (key(number), document(number)))).unwrap();
    there.compact().unwrap();
    there.close().unwrap();

    let mut db = open(&host, "a.pipkin");
    assert_eq!(db.records(None).compression().unwrap(), Compression::OnWrite);
    let keys: Vec<Vec<u8>> = (0..4000).map(key).collect();
    let values: Vec<Option<Vec<u8>>> = keys.chunks(500).flat_map(|keys| db.get_many(keys).unwrap()).collect();
    assert!(values.into_iter().zip(0..).all(|(value, number)| value == Some(document(number))));
    db.records(None).set_compression(Compression::Off).unwrap();
    db.insert(b"plain", &document(1)).unwrap();
    assert_eq!(db.get(b"plain").unwrap(), Some(document(1)));
    assert_eq!(db.flush().unwrap(), Durability::Synced);
    db.close().unwrap();
}
