//! Input that nobody should give: the answer is an error in words, never a stopped instance.

use super::{Rng, builder, host, open, small};
use pipkin_wasi_host::{Durability, Error, Op, Options, Reason};
use std::fs;
use std::path::Path;

#[test]
fn names_that_leave_the_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(folder.path().join("outside"), "secret").unwrap();
    let host = host(&inner);
    for name in ["../outside", "/outside", "a/../../outside", "", ".", "..", "./a", "a/../b"] {
        let refused = host.open(name).map(drop).unwrap_err();
        assert!(matches!(refused.reason(), Some(Reason::AccessDenied)), "{name:?}: {refused}");
    }
    let mut db = open(&host, "a.pipkin");
    assert!(matches!(db.backup("../copy").unwrap_err().reason(), Some(Reason::AccessDenied)));
    for name in ["a\\b", "a\nb", "a//b", "a/./b", "a/"] {
        let refused = host.open(name).map(drop).unwrap_err();
        assert!(matches!(refused.reason(), Some(Reason::AccessDenied)), "{name:?}: {refused}");
    }
    assert_eq!(fs::read(folder.path().join("outside")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "a name that is refused makes no file");
    #[cfg(unix)]
    open(&host, "a:b").insert(b"k", b"v").unwrap();
}

#[test]
fn a_backup_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = builder(folder.path()).fuel_limit(1 << 40).build().unwrap().open("a.pipkin").unwrap();
    (0..100_u8).for_each(|n| db.insert(&[n], &[n; 4000]).unwrap());
    db.set_fuel_limit(1_000_000);
    assert!(matches!(db.backup("stopped.pipkin"), Err(Error::Trapped(_))));
    db.set_fuel_limit(1 << 40);
    db.flush().unwrap();
    let path = folder.path().join("a.pipkin");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(4000).position(|window| window == [50; 4000]).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(db.backup("damaged.pipkin").unwrap_err().reason(), Some(Reason::Corrupt(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn links_that_leave_the_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    pipkin::Db::open(folder.path().join("outside")).unwrap().insert("k", "secret").unwrap();
    std::os::unix::fs::symlink("../outside", inner.join("link")).unwrap();
    let refused = host(&inner).open("link").map(drop).unwrap_err();
    assert!(matches!(refused, Error::Store(_)), "{refused}");
}

#[test]
fn what_is_no_store_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("text"), "this is not a store").unwrap();
    let (text, directory) = (host.open("text").map(drop).unwrap_err(), host.open("folder").map(drop).unwrap_err());
    assert!(text.to_string().contains("not a pipkin store"), "{text}");
    assert!(directory.to_string().contains("is a directory"), "{directory}");
    assert_eq!(fs::read(folder.path().join("text")).unwrap(), b"this is not a store");
    let missing = host.open_with("none", Options { create: false, ..small() }).map(drop).unwrap_err();
    assert!(missing.to_string().contains("there is no store"), "{missing}");
    assert!(!folder.path().join("none").exists());
}

#[test]
fn arguments_beyond_the_limits_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    for segment_bytes in [1, 3000, 5000, u32::MAX] {
        let refused = host.open_with("odd.pipkin", Options { segment_bytes, ..Options::default() }).map(drop).unwrap_err();
        assert!(matches!(refused.reason(), Some(Reason::InvalidArgument)), "{refused}");
    }
    let mut db = open(&host, "a.pipkin");
    let long = vec![0; 64 * 1024 + 1];
    for refused in
        [db.insert(&long, b"").unwrap_err(), db.get(&long).map(drop).unwrap_err(), db.remove(&long).map(drop).unwrap_err()]
    {
        assert!(refused.to_string().contains("65537 bytes"), "{refused}");
    }
    for name in ["", &"n".repeat(1025)] {
        let refused = db.records(Some(name)).get(b"k").unwrap_err();
        assert!(matches!(refused.reason(), Some(Reason::NamespaceName(_))), "{refused}");
        let op = Op { namespace: Some(name.to_owned()), key: vec![], value: Some(vec![]), ttl: None };
        assert!(db.write(&[op], Durability::Written).is_err());
    }
    assert!(db.get_many(vec![b"k"; 100_000]).unwrap().iter().all(Option::is_none));
    db.write(&[], Durability::Buffered).unwrap();
    db.insert_many::<&[u8], &[u8]>([]).unwrap();
    assert!(db.insert_many([(&b"half"[..], &b"x"[..]), (&long, b"x")]).unwrap_err().to_string().contains("65537 bytes"));
    assert!(db.is_empty().unwrap());
}

/// Damaged files: the component must not stop, and must not tell what the native engine would not.
#[test]
fn damaged_stores_are_answered_as_natively() {
    let golden = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/v1.pipkin")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (host, path) = (host(folder.path()), folder.path().join("a.pipkin"));
    let (mut rng, mut refused, mut opened) = (Rng(0xbad), 0, 0);
    for _ in 0..150 {
        let mut bytes = golden.clone();
        match rng.below(3) {
            0 => bytes.truncate(rng.below(golden.len() as u64) as usize),
            1 => (0..8).for_each(|_| bytes[rng.below(golden.len() as u64) as usize] ^= 1 << rng.below(8)),
            _ => {
                let from = rng.below(golden.len() as u64 - 600) as usize;
                bytes[from..from + 512].fill(rng.next() as u8);
            }
        }
        fs::write(&path, &bytes).unwrap();
        let native = pipkin::Db::builder().path(&path).read_only(true).open().map(|db| db.iter().filter(Result::is_ok).count());
        let in_component = host.open_with("a.pipkin", Options { read_only: true, ..Options::default() });
        match (native, in_component) {
            (Ok(records), Ok(mut db)) => {
                let mut found = 0;
                for entry in db.scan(b"").unwrap() {
                    match entry {
                        Ok(_) => found += 1,
                        Err(error) => assert!(matches!(error.reason(), Some(Reason::Corrupt(_))), "{error}"),
                    }
                }
                assert!(found <= records);
                opened += 1;
            }
            (Err(native), Err(Error::Store(_))) => {
                let report = host.verify("a.pipkin");
                assert!(!matches!(report, Err(Error::Trapped(_))), "{native}");
                refused += 1;
            }
            (native, in_component) => panic!(
                "natively {native:?}, in the component {:?}",
                in_component.map(|_| "open").map_err(|error| error.to_string())
            ),
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "a store that is only read stays as it is");
    }
    assert!(refused > 20 && opened > 20, "{refused} refused, {opened} opened");
}

#[test]
fn an_answer_without_bounds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = host(folder.path()).open("a.pipkin").unwrap();
    db.insert(b"long", &vec![7; 8 << 20]).unwrap();
    let keys = vec![b"long".to_vec(); 17];
    let (fitting, _) = keys.split_at(16);
    assert_eq!(db.get_many(fitting).unwrap().iter().flatten().map(Vec::len).sum::<usize>(), 128 << 20);
    let refused = db.get_many(&keys).unwrap_err();
    assert!(matches!(refused.reason(), Some(Reason::InvalidArgument)) && refused.to_string().contains("fewer keys"), "{refused}");
    // The instance that refused goes on.
    assert_eq!(db.get(b"long").unwrap().unwrap().len(), 8 << 20);
}
