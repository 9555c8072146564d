//! The blocks of the file that the component keeps: records are read where they lie in them, and checked once.

use super::{Rng, host, open, small};
use pipkin_wasi_host::{Options, Reason};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Turns over a byte in the middle of the value that stands in the file.
fn damage(path: &Path, value: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[at + value.len() / 2] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_that_comes_to_the_file_under_an_open_store_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let mut db = open(&host(folder.path()), "a.pipkin");
    let value = |n: u8| vec![n; 200];
    (1..100_u8).for_each(|n| db.insert(&[n], &value(n)).unwrap());
    db.flush().unwrap();
    (0..2).for_each(|_| assert!((1..100_u8).all(|n| db.get(&[n]).unwrap() == Some(value(n)))));
    assert!(db.verify().unwrap().damage.is_empty());
    assert!((1..100_u8).all(|n| db.get(&[n]).unwrap() == Some(value(n))));
    for n in [50, 7] {
        damage(&path, &value(n));
        let found = db.verify().unwrap().damage;
        assert!(!found.is_empty(), "what is kept in memory was looked at instead of the file");
        let read = db.get(&[n]).unwrap_err();
        assert!(matches!(read.reason(), Some(Reason::Corrupt(_))), "{read:?}");
    }
    damage(&path, &value(60));
    assert!(matches!(db.backup("copy.pipkin").unwrap_err().reason(), Some(Reason::Corrupt(_))));
    assert!(matches!(db.get(&[60]).unwrap_err().reason(), Some(Reason::Corrupt(_))));
}

/// Records of 128 bytes, so that those of neighbouring blocks begin at the same places inside of them.
#[test]
fn what_was_checked_says_nothing_about_what_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let options = Options { cache_bytes: 4096, ..small() };
    let mut db = host(folder.path()).open_with("a.pipkin", options).unwrap();
    let value = |n: u8| vec![n; 120];
    (0..100_u8).for_each(|n| db.insert(&[n], &value(n)).unwrap());
    for n in 1..31 {
        damage(&path, &value(n + 32));
        // The first read of a block fetches it; the second one reads where the record lies.
        for whole in [n, n, n + 33] {
            assert_eq!(db.get(&[whole]).unwrap(), Some(value(whole)));
        }
        let read = db.get(&[n + 32]).unwrap_err();
        assert!(matches!(read.reason(), Some(Reason::Corrupt(_))), "{n}: {read:?}");
    }
}

/// Blocks come and go under views of them, writes and compaction included.
#[test]
fn every_read_is_right_however_few_blocks_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    for blocks in [0, 1, 2, 7, 300] {
        let (mut model, mut rng) = (BTreeMap::new(), Rng(0x0b10c));
        let options = Options { cache_bytes: blocks * 4096, ..small() };
        let mut db = host.open_with(&format!("{blocks}.pipkin"), options).unwrap();
        for step in 0..3000_u32 {
            let key = rng.below(150).to_le_bytes().to_vec();
            // Around the length of a block now and then, and mostly short.
            let len = if rng.below(10) == 0 { rng.below(9000) } else { rng.below(300) };
            match rng.below(8) {
                0..4 => {
                    let value: Vec<u8> = (0..len).map(|n| (n as u32 ^ step) as u8).collect();
                    db.insert(&key, &value).unwrap();
                    model.insert(key, value);
                }
                4 => assert_eq!(db.remove(&key).unwrap(), model.remove(&key).is_some()),
                _ => assert_eq!(db.get(&key).unwrap().as_ref(), model.get(&key)),
            }
            if step % 500 == 499 {
                while db.compact_step().unwrap().is_some() {}
                let found: BTreeMap<_, _> =
                    db.scan(b"").unwrap().map(Result::unwrap).map(|entry| (entry.key, entry.value)).collect();
                assert!(found == model, "{blocks} blocks, step {step}");
            }
        }
        assert!(db.verify().unwrap().damage.is_empty());
    }
}
