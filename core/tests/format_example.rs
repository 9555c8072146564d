//! The worked example of `FORMAT.md`: the same bytes come out of the engine, and the engine reads them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests fail by panicking")]

use pipkin::Db;
use pipkin::storage::MemoryStorage;

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

/// The lines of the example: offset in the file, bytes in hex.
fn lines() -> Vec<(usize, Vec<u8>)> {
    let text = include_str!("../FORMAT.md");
    let block = text.split("<!-- example -->").nth(1).unwrap();
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
    let lines = lines();
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
    for (offset, part) in lines() {
        bytes[offset..offset + part.len()].copy_from_slice(&part);
    }
    let db = Db::builder().read_only(true).open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
    assert!(db.open_report().clean);
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.get("color").unwrap(), None);
    assert_eq!(db.namespace("users").unwrap().get("7").unwrap().unwrap(), b"Ada");
}
