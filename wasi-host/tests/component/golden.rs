//! The golden stores in the component: what every version of the format left behind, and records of every kind and with every flag.

use super::{host, open};
use pipkin_tape::Tape;
use pipkin_tape::kinds::{CARRIED, COMPRESSED, EXPIRES, READABLE, REMOVED, SPACE, value_of};
use pipkin_tape::{compressed, expiring};
use pipkin_wasi_host::{Error, Options, Reason};
use std::fs;
use std::path::{Path, PathBuf};

fn golden(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pipkin")).collect()
}

#[test]
fn golden_stores_of_every_version_hold_the_tape_and_take_more() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let files = golden("");
    assert!(!files.is_empty());
    for path in files {
        fs::copy(&path, folder.path().join("a.pipkin")).unwrap();
        let mut db = open(&host, "a.pipkin");
        assert_eq!(db.stats().unwrap().records, Tape::SMALL.expected().records);
        assert!(db.verify().unwrap().damage.is_empty());
        db.insert(b"written in the component", b"yes").unwrap();
        db.close().unwrap();
        let db = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
        assert!(db.remove("written in the component").unwrap());
        assert_eq!(Tape::SMALL.finish(&db), Ok(Tape::SMALL.expected()), "{}", path.display());
    }
}

#[test]
fn stores_with_records_that_expire_are_read_and_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let files = golden("expiry");
    assert_eq!(files.len(), 3);
    for path in files {
        fs::copy(&path, folder.path().join("a.pipkin")).unwrap();
        let mut db = open(&host, "a.pipkin");
        for round in 0..2 {
            for space in [None, Some(expiring::SPACE)] {
                let mut records = db.records(space);
                let expected = expiring::expected(space.unwrap_or(""));
                for (key, expiry) in &expected {
                    let value = records.get(key.as_bytes()).unwrap();
                    assert_eq!(value, Some(expiring::value_of(key, *expiry).into_bytes()), "{round} {space:?} {key}");
                    assert_eq!(records.expires_at(key.as_bytes()).unwrap(), *expiry, "{round} {space:?} {key}");
                }
                for key in expiring::GONE {
                    assert_eq!(records.get(key.as_bytes()).unwrap(), None, "{round} {space:?} {key}");
                }
                assert_eq!(records.len().unwrap(), expected.len() as u64, "{round} {space:?}");
            }
            while db.compact_step().unwrap().is_some() {}
        }
        db.close().unwrap();
        expiring::check_expiring(&pipkin::Db::open(folder.path().join("a.pipkin")).unwrap()).unwrap();
    }
}

#[test]
fn stores_with_every_kind_and_flag_are_read_and_carried() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let files = golden("kinds");
    assert_eq!(files.len(), 3);
    for path in files {
        fs::copy(&path, folder.path().join("a.pipkin")).unwrap();
        let mut db = open(&host, "a.pipkin");
        for round in 0..2 {
            for space in [None, Some(SPACE)] {
                let mut records = db.records(space);
                let mut get = |key: &str| records.get(key.as_bytes());
                for key in READABLE {
                    assert_eq!(
                        get(key).unwrap(),
                        Some(value_of(space.unwrap_or(""), key).into_bytes()),
                        "{round} {space:?} {key}"
                    );
                }
                assert_eq!(get(EXPIRES.0).unwrap().as_deref(), Some(EXPIRES.1.as_bytes()), "{round} {space:?}");
                assert_eq!(get(COMPRESSED).unwrap().as_deref(), Some(&b"a value in one block"[..]), "{round} {space:?}");
                for key in CARRIED.into_iter().filter(|&key| key != COMPRESSED) {
                    let refused = get(key).unwrap_err();
                    assert!(matches!(refused.reason(), Some(Reason::Unsupported(_))), "{space:?} {key}: {refused}");
                }
                for key in REMOVED {
                    assert_eq!(get(key).unwrap(), None, "{space:?} {key}");
                }
            }
            while db.compact_step().unwrap().is_some() {}
        }
        db.close().unwrap();
        // A copy needs no origin, since nobody holds a position.
        let without_origins = |path: &std::path::Path| {
            // At a time at which what expired long ago has expired.
            let mut contents = pipkin_reader::read_at(&fs::read(path).unwrap(), 2).unwrap();
            contents.events.iter_mut().for_each(|event| event.fields.origin = None);
            contents.records.values_mut().for_each(|record| record.fields.origin = None);
            contents
        };
        let (contents, before) = (without_origins(&folder.path().join("a.pipkin")), without_origins(&path));
        assert_eq!(contents.events, before.events);
        let plain = |contents: &pipkin_reader::Contents| {
            contents
                .records
                .iter()
                .map(|(key, record)| (key.clone(), record.value.clone(), record.fields.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(plain(&contents), plain(&before));
    }
}

#[test]
fn stores_with_compressed_values_are_read_and_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let path = folder.path().join("a.pipkin");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/compressed/plain.pipkin"), &path).unwrap();
    let mut db = open(&host, "a.pipkin");
    let mut documents = db.records(Some(compressed::SPACE));
    for number in 0..compressed::COUNT {
        let key = compressed::key(number);
        assert_eq!(documents.get(key.as_bytes()).unwrap(), Some(compressed::value(number).into_bytes()), "{key}");
        // Written again: some by a session of the component, which compresses as the file says.
        if number % 2 == 0 {
            documents.insert(key.as_bytes(), compressed::value(number).as_bytes()).unwrap();
        }
    }
    for (key, len) in compressed::ALONE {
        assert_eq!(db.get(key.as_bytes()).unwrap(), Some(compressed::zeros(len)), "{key}");
    }
    while db.compact_step().unwrap().is_some() {}
    db.close().unwrap();
    let db = pipkin::Db::open(&path).unwrap();
    compressed::check_compressed(&db).unwrap();
    assert!(db.compression_stats().unwrap().records > 690);
}

#[test]
fn stores_of_a_newer_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    for path in golden("refused") {
        let name = path.file_name().unwrap().to_str().unwrap();
        fs::copy(&path, folder.path().join(name)).unwrap();
        let refused = host.open_with(name, Options::default()).map(drop).unwrap_err();
        assert!(matches!(refused.reason(), Some(Reason::NewerVersion(_) | Reason::Unsupported(_))), "{name}: {refused}");
        assert!(matches!(refused, Error::Store(_)), "{name}");
        assert!(fs::read(&path).unwrap() == fs::read(folder.path().join(name)).unwrap(), "{name}");
    }
}
