//! Every verb of `pipkin:kv`.

use super::{host, open, small};
use pipkin_wasi_host::{Durability, Error, Op, Options, Reason};
use std::collections::BTreeMap;

fn op(namespace: Option<&str>, key: &[u8], value: Option<&[u8]>) -> Op {
    Op { namespace: namespace.map(str::to_owned), key: key.to_vec(), value: value.map(<[u8]>::to_vec), ttl: None }
}

#[test]
fn what_is_put_is_got_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    assert!(db.is_empty().unwrap());
    for (key, value) in [(&b""[..], &b"empty key"[..]), (b"\0\xff", b""), (b"key", b"old"), (b"key", b"new")] {
        db.insert(key, value).unwrap();
        assert_eq!(db.get(key).unwrap().unwrap(), value);
    }
    assert_eq!(db.len().unwrap(), 3);
    assert!(db.contains_key(b"key").unwrap() && !db.contains_key(b"none").unwrap());
    let keys = [b"none".to_vec(), b"key".to_vec(), b"\0\xff".to_vec()];
    assert_eq!(db.get_many(&keys).unwrap(), [None, Some(b"new".to_vec()), Some(vec![])]);
    assert!(db.remove(b"key").unwrap() && !db.remove(b"key").unwrap());
    assert_eq!(db.get(b"key").unwrap(), None);
    assert_eq!(db.flush().unwrap(), Durability::Synced);
    db.close().unwrap();
}

#[test]
fn many_records_go_in_as_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), vec![n as u8; n as usize % 70]))).unwrap();
    db.records(Some("other")).insert_many([(&b""[..], &b"empty key"[..]), (b"k", b""), (b"k", b"last")]).unwrap();
    let values = db.get_many((0..1001_u32).map(u32::to_le_bytes)).unwrap();
    for (n, value) in values.into_iter().enumerate() {
        assert_eq!(value, (n < 1000).then(|| vec![n as u8; n % 70]), "{n}");
    }
    let mut other = db.records(Some("other"));
    assert_eq!(other.get_many([&b"k"[..], b""]).unwrap(), [Some(b"last".to_vec()), Some(b"empty key".to_vec())]);
    assert_eq!(other.len().unwrap(), 2);
}

#[test]
fn long_values_and_keys_pass_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    let pattern = |len: usize| (0..len).map(|n| (n * 31 % 251) as u8).collect::<Vec<u8>>();
    for len in [4095, 4096, 4097, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5 << 20] {
        let key = pattern(len.min(64 * 1024));
        db.insert(&key, &pattern(len)).unwrap();
        assert!(db.get(&key).unwrap() == Some(pattern(len)), "{len} bytes");
    }
}

#[test]
fn a_batch_is_one_commit_over_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    db.insert(b"gone", b"1").unwrap();
    let ops = [
        op(None, b"gone", None),
        op(Some("a"), b"k", Some(b"1")),
        op(Some("b"), b"k", Some(b"2")),
        op(Some("a"), b"k", Some(b"3")),
    ];
    db.write(&ops, Durability::Synced).unwrap();
    assert_eq!(db.get(b"gone").unwrap(), None);
    assert_eq!(db.namespaces().unwrap(), ["a", "b"]);
    assert_eq!(db.records(Some("a")).get(b"k").unwrap().unwrap(), b"3");
    assert_eq!(db.records(Some("b")).len().unwrap(), 1);
    db.records(Some("b")).clear().unwrap();
    assert!(db.records(Some("b")).is_empty().unwrap());
    assert!(db.drop_namespace("a").unwrap() && !db.drop_namespace("a").unwrap());
    assert_eq!(db.records(Some("a")).get(b"k").unwrap(), None, "a name that is used again is a new namespace");

    let bad = [op(None, b"half", Some(b"x")), op(None, &vec![0; 65_537], Some(b"x"))];
    let refused = db.write(&bad, Durability::Written).unwrap_err();
    assert!(matches!(refused.reason(), Some(Reason::KeyTooLong(_))), "{refused}");
    assert_eq!(db.get(b"half").unwrap(), None);
}

/// An instance has room for some 100,000 handles.
#[test]
fn namespaces_come_and_go_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    db.records(Some("kept")).insert(b"k", b"v").unwrap();
    for _ in 0..110_000 {
        db.records(Some("n")).get(b"k").unwrap();
        db.drop_namespace("n").unwrap();
    }
    // More than are kept open, each asked for twice.
    for name in (0..2500).chain(0..2500).map(|n| format!("n{n}")) {
        db.records(Some(&name)).get(b"k").unwrap();
    }
    assert_eq!(db.records(Some("kept")).get(b"k").unwrap().unwrap(), b"v");
    assert_eq!(db.namespaces().unwrap().len(), 2501);
}

#[test]
fn swaps_by_value_and_by_version() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    assert!(db.compare_and_swap(b"k", None, Some(b"a")).unwrap());
    assert!(!db.compare_and_swap(b"k", None, Some(b"b")).unwrap());
    let mut all = db.records(None);
    let seen = all.get_versioned(b"k").unwrap().unwrap();
    assert_eq!(seen.value, b"a");
    all.insert(b"k", b"b").unwrap();
    all.insert(b"k", b"a").unwrap();
    assert!(
        !all.compare_version_and_swap(b"k", Some(seen.version), Some(b"c")).unwrap(),
        "the value came back, the version did not"
    );
    let seen = all.get_versioned(b"k").unwrap().unwrap();
    assert!(all.compare_version_and_swap(b"k", Some(seen.version), None).unwrap());
    assert!(all.compare_version_and_swap(b"k", None, Some(b"d")).unwrap());
    assert!(db.compare_and_swap(b"k", Some(b"d"), None).unwrap());
    assert!(db.is_empty().unwrap());
}

#[test]
fn scans_come_in_pages_and_hold_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = host(folder.path()).open("a.pipkin").unwrap();
    let records: BTreeMap<Vec<u8>, Vec<u8>> = (0..5000_u32)
        .map(|n| (format!("{}/{n}", ["even", "odd"][n as usize % 2]).into_bytes(), vec![n as u8; n as usize % 300]))
        .collect();
    let ops: Vec<Op> = records.iter().map(|(key, value)| op(None, key, Some(value))).collect();
    db.write(&ops, Durability::Buffered).unwrap();
    let mut found = BTreeMap::new();
    for entry in db.scan(b"").unwrap() {
        let entry = entry.unwrap();
        assert_eq!(found.insert(entry.key, entry.value), None, "a record came twice");
    }
    assert_eq!(found, records);
    assert_eq!(db.scan(b"odd/").unwrap().count(), 2500);
    assert_eq!(db.scan(b"none").unwrap().count(), 0);
    // A handle for each walk, and many more walks than handles: those that were left half way are given back, too.
    for _ in 0..200 {
        assert!(db.scan(b"even/").unwrap().next().is_some());
    }
    db.records(Some("other")).insert(b"x", b"y").unwrap();
    assert_eq!(db.records(Some("other")).scan(b"").unwrap().count(), 1);
}

#[test]
fn figures_compaction_checkpoints_and_verifying() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    for round in 0..20_u8 {
        for n in 0..100_u8 {
            db.insert(&[n], &[round; 200]).unwrap();
        }
    }
    let before = db.stats().unwrap();
    assert_eq!((before.records, before.segment_bytes), (100, 16 * 1024));
    assert!(before.index_bytes > 0 && before.replay_bytes > 0 && before.dead_bytes > before.live_bytes);
    let mut steps = 0;
    while let Some(step) = db.compact_step().unwrap() {
        steps += 1;
        assert!(step.bytes_copied > 0 || step.bytes_freed > 0 || steps < 1000);
    }
    assert!(steps > 5, "{steps} steps");
    let after = db.stats().unwrap();
    assert!(after.dead_bytes < before.dead_bytes && after.free_segments > before.free_segments);
    db.checkpoint().unwrap();
    assert!(db.stats().unwrap().replay_bytes < before.replay_bytes);
    let report = db.verify().unwrap();
    assert!(report.damage.is_empty() && report.records >= 100 && report.bytes > 20_000, "{report:?}");
    assert!((0..100_u8).all(|n| db.get(&[n]).unwrap() == Some(vec![19; 200])));
}

#[test]
fn a_backup_is_a_store_and_never_replaces_one() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let mut db = open(&host, "a.pipkin");
    db.insert(b"k", b"v").unwrap();
    assert!(db.backup("copy.pipkin").unwrap() > 0);
    assert!(matches!(db.backup("copy.pipkin").unwrap_err().reason(), Some(Reason::InvalidArgument)));
    assert!(matches!(db.backup("a.pipkin").unwrap_err().reason(), Some(Reason::InvalidArgument)));
    assert_eq!(open(&host, "copy.pipkin").get(b"k").unwrap().unwrap(), b"v");
    let native = pipkin::Db::open(folder.path().join("copy.pipkin")).unwrap();
    assert_eq!(native.get("k").unwrap().unwrap(), b"v");
}

#[test]
fn a_read_only_handle_reads_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let options = Options { read_only: true, ..small() };
    assert!(matches!(host.open_with("a.pipkin", options), Err(Error::Lock(pipkin::Error::NotFound { .. }))));
    let mut db = open(&host, "a.pipkin");
    db.insert(b"k", b"v").unwrap();
    db.close().unwrap();
    let bytes = std::fs::read(folder.path().join("a.pipkin")).unwrap();
    let (mut one, mut two) = (host.open_with("a.pipkin", options).unwrap(), host.open_with("a.pipkin", options).unwrap());
    assert_eq!(one.get(b"k").unwrap(), two.get(b"k").unwrap());
    assert!(matches!(one.insert(b"k", b"w").unwrap_err().reason(), Some(Reason::ReadOnly)));
    assert!(matches!(one.insert_many([(b"k", b"w")]).unwrap_err().reason(), Some(Reason::ReadOnly)));
    assert!(matches!(one.write(&[], Durability::Written).unwrap_err().reason(), Some(Reason::ReadOnly)));
    assert!(matches!(one.records(Some("none")).len().unwrap_err().reason(), Some(Reason::ReadOnly)));
    assert!(matches!(one.records(Some("")).len().unwrap_err().reason(), Some(Reason::NamespaceName(_))));
    assert!(one.verify().unwrap().damage.is_empty());
    drop((one, two));
    assert_eq!(std::fs::read(folder.path().join("a.pipkin")).unwrap(), bytes);
}

/// The host makes a store that nobody else may read, and the component made the copy of it with the rights of any file.
#[cfg(unix)]
#[test]
fn a_backup_is_as_private_as_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mut db = open(&host(folder.path()), "a.pipkin");
    db.insert(b"key", b"value").unwrap();
    db.backup("copy.pipkin").unwrap();
    for name in ["a.pipkin", "copy.pipkin"] {
        assert_eq!(std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}
