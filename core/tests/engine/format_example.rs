//! The worked example of `FORMAT.md`: the same bytes come out of the engine, and the engine reads them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, SnapshotState};

fn example() -> MemoryStorage {
    let storage = MemoryStorage::default();
    let open = || {
        Db::builder()
            .segment_size(4096)
            .entropy(*b"FORMAT.md sampleand seed of hash")
            .open_storage(Box::new(storage.clone()))
            .unwrap()
    };
    let db = open();
    db.insert("color", "green").unwrap();
    db.flush().unwrap();
    db.insert_many([("a", "1"), ("b", "2")]).unwrap();
    db.remove("color").unwrap();
    db.namespace("users").unwrap().insert("7", "Ada").unwrap();
    db.close().unwrap();
    storage
}

/// A store with a value over two extents, a compaction and a checkpoint: the bytes in front of the compaction, and of the closed store.
fn second_example() -> (Vec<u8>, Vec<u8>) {
    let storage = MemoryStorage::default();
    let builder = Db::builder().segment_size(4096).background(false).entropy(*b"FORMAT.md sampleand seed of hash");
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    db.insert("color", "green").unwrap();
    db.insert("large", [b'x'; 5000]).unwrap();
    db.remove("large").unwrap();
    db.insert("a", "1").unwrap();
    db.checkpoint().unwrap();
    let before = storage.to_vec();
    db.compact().unwrap();
    db.insert("b", "2").unwrap();
    db.close().unwrap();
    (before, storage.to_vec())
}

/// The lines of the example of that number: offset in the file, bytes in hex.
fn lines(number: usize) -> Vec<(usize, Vec<u8>)> {
    let text = include_str!("../../FORMAT.md");
    let block = text.split("<!-- example -->").nth(2 * number - 1).unwrap();
    let line = |line: &str| {
        let (offset, rest) = line.split_once(": ")?;
        let hex: String = rest.split("  ").next()?.split_whitespace().collect();
        let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)).collect::<Result<Vec<u8>, _>>();
        Some((offset.trim().parse().ok()?, bytes.ok()?))
    };
    block.lines().filter_map(line).collect()
}

#[test]
fn the_example_in_the_specification_is_what_the_engine_writes() {
    let bytes = example().to_vec();
    if std::env::var_os("PIPKIN_PRINT_EXAMPLE").is_some() {
        for (offset, len) in
            [(0, 224), (508, 4), (4096, 224), (4604, 4), (16_384, 80), (16_572, 4), (16_896, 80), (17_084, 4), (17_088, 128)]
        {
            for row in (offset..offset + len).step_by(16) {
                let hex: Vec<String> = bytes
                    .get(row..(row + 16).min(offset + len).min(bytes.len()))
                    .unwrap_or_default()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                println!("{row}: {}", hex.join(" "));
            }
        }
        println!("length {}", bytes.len());
    }
    let lines = lines(1);
    assert!(lines.len() > 12);
    let covered: usize = lines.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(covered > 250);
    for (offset, expected) in lines {
        assert_eq!(bytes[offset..offset + expected.len()], expected, "at {offset}");
    }
}

#[test]
fn the_engine_reads_the_bytes_of_the_specification() {
    let mut bytes = vec![0; example().to_vec().len()];
    for (offset, part) in lines(1) {
        bytes[offset..offset + part.len()].copy_from_slice(&part);
    }
    let db = Db::builder().read_only(true).open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
    assert!(db.open_report().clean);
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.get("color").unwrap(), None);
    assert_eq!(db.namespace("users").unwrap().get("7").unwrap().unwrap(), b"Ada");
}

#[test]
fn the_second_example_is_what_the_engine_writes() {
    let (before, closed) = second_example();
    if let Some(folder) = std::env::var_os("PIPKIN_WRITE_EXAMPLE") {
        for (name, bytes) in [("before", &before), ("closed", &closed)] {
            std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
        }
    }
    for (number, bytes) in [(2, &closed), (3, &before)] {
        for (offset, expected) in lines(number) {
            assert_eq!(bytes[offset..offset + expected.len()], expected, "at {offset}");
        }
    }
    assert!(lines(2).len() > 40 && lines(3).len() > 5);
}

#[test]
fn the_engine_reads_the_second_example_by_its_snapshot() {
    let mut bytes = vec![0; second_example().1.len()];
    for (offset, part) in lines(2) {
        bytes[offset..offset + part.len()].copy_from_slice(&part);
    }
    let db = Db::builder().read_only(true).open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
    assert_eq!(db.open_report().snapshot, SnapshotState::Loaded);
    let found: Vec<_> = ["a", "b", "color", "large"].map(|key| db.get(key).unwrap().map(|value| value.to_vec())).into();
    assert_eq!(found, [Some(b"1".to_vec()), Some(b"2".to_vec()), Some(b"green".to_vec()), None]);
}
