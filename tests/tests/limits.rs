//! The edges: empty and longest keys and values, thousands of namespaces, and everything that is no store, or not ours to
//! write. Each refusal is a typed error and leaves the file as it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::limits::{KEY_LEN_MAX, NAMESPACE_NAME_LEN_MAX, VALUE_LEN_MAX};
use pipkin::{Db, Error};
use pipkin_tests::counting::{Counting, held, peak};
use pipkin_tests::forge;
use pipkin_tests::mount::Mount;
use pipkin_tests::quota::Quota;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.pipkin");
    (folder, path)
}

/// A closed store with a few records.
fn small_store(path: &Path) {
    let db = Db::open(path).unwrap();
    for key in 0_u32..100 {
        db.insert(key.to_le_bytes(), [7; 50]).unwrap();
    }
    db.close().unwrap();
}

#[test]
fn empty_keys_empty_values_and_the_longest_key_are_records_like_any_other() {
    let (_folder, path) = folder();
    let quota = Quota::new("limits, edges of length", 6);
    let longest = vec![b'k'; KEY_LEN_MAX];
    for segment_size in [4096, 64 * 1024, 4 << 20] {
        let _ = std::fs::remove_file(&path);
        let open = || Db::builder().path(&path).segment_size(segment_size).open().unwrap();
        let db = open();
        let check = |db: &Db| {
            assert_eq!(db.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
            assert_eq!(db.get(b"empty value").unwrap().as_deref(), Some(&b""[..]));
            assert_eq!(db.get(&longest).unwrap().as_deref(), Some(&b"longest key"[..]));
            assert!(db.contains_key(b"").unwrap());
            assert_eq!(db.get_zerocopy(b"empty value").unwrap().unwrap().len(), 0);
            assert_eq!((db.len().unwrap(), db.iter().count(), db.keys().count()), (3, 3, 3));
        };
        db.insert(b"", b"empty key").unwrap();
        db.insert(b"empty value", b"").unwrap();
        db.insert(&longest, b"longest key").unwrap();
        check(&db);
        db.compact().unwrap();
        check(&db);
        db.close().unwrap();
        let db = open();
        check(&db);
        assert!(db.remove(b"").unwrap() && db.remove(&longest).unwrap() && db.remove(b"empty value").unwrap());
        assert!(db.is_empty().unwrap());
        db.close().unwrap();
        assert!(open().is_empty().unwrap());
        quota.add(2);
    }
    quota.finish("checked before and after a reopen");
}

/// 24 bytes a record in the list, and 16 for where its tombstone is; less than 64 while the list grows and is sorted.
#[test]
fn deleting_a_group_takes_at_most_64_bytes_of_memory_for_each_record() {
    const RECORDS: u64 = 200_000;
    let quota = Quota::new("limits, memory of a deletion", 2);
    for ordered in [false, true] {
        let (_folder, path) = folder();
        // No checkpoint in between: its buffers are not of the deletion.
        let db = Db::builder().path(&path).ordered(ordered).background(false).replay_debt_max(1 << 40).open().unwrap();
        for first in (0..RECORDS).step_by(1000) {
            db.insert_many((first..first + 1000).map(|number| (format!("g.{}.{number}", "x".repeat(80)), "value"))).unwrap();
        }
        let (removed, held) = peak(|| db.delete_group("g").unwrap());
        println!("ordered {ordered}: {} bytes a record", held as f64 / RECORDS as f64);
        assert_eq!((removed, db.len().unwrap()), (RECORDS, 0));
        assert!(held > 24 * RECORDS && held < 64 * RECORDS, "ordered {ordered}: {held}");
        quota.add(1);
    }
    quota.finish("with and without the ordered index");
}

#[test]
fn a_key_or_value_over_its_limit_is_refused_by_every_verb_and_changes_nothing() {
    let (_folder, path) = folder();
    let db = Db::open(&path).unwrap();
    db.insert(b"stays", b"here").unwrap();
    let named = db.namespace("named").unwrap();
    let key = vec![0; KEY_LEN_MAX + 1];
    // Never touched, so it takes address space and no memory.
    let value = vec![0; VALUE_LEN_MAX + 1];
    let quota = Quota::new("limits, too long", 14);
    let refused = |what: &str, error: Option<Error>| {
        let right = match error {
            Some(Error::KeyTooLong { len }) => len == KEY_LEN_MAX + 1,
            Some(Error::ValueTooLong { len }) => len == VALUE_LEN_MAX + 1,
            _ => false,
        };
        assert!(right, "{what}: {error:?}");
        quota.add(1);
    };
    refused("insert, key", db.insert(&key, b"v").err());
    refused("get, key", db.get(&key).err());
    refused("remove, key", db.remove(&key).err());
    refused("contains_key, key", db.contains_key(&key).err());
    refused("insert_many, key", db.insert_many([(&b"a"[..], &b"b"[..]), (&key, b"v")]).err());
    refused("compare_and_swap, key", db.compare_and_swap(&key, None, Some(b"v")).err());
    refused("update, key", db.update(&key, |_| Some(Vec::new())).err());
    refused("transaction, key", db.transaction(|txn| txn.insert(&key, b"v")).err());
    refused("named insert, key", named.insert(&key, b"v").err());
    let (error, held) = peak(|| db.insert(b"v", &value).err());
    refused("insert, value", error);
    assert!(held < 1 << 20, "refusing a value took {held} bytes");
    refused("insert_many, value", db.insert_many([(&b"a"[..], &b"b"[..]), (b"v", &value)]).err());
    refused("compare_and_swap, value", db.compare_and_swap(b"v", None, Some(&value)).err());
    refused("transaction, value", db.transaction(|txn| txn.insert(b"v", &value)).err());
    refused("named insert, value", named.insert(b"v", &value).err());
    assert_eq!((db.len().unwrap(), named.len().unwrap()), (1, 0), "a refused write left something behind");
    db.insert(b"goes", b"on").unwrap();
    quota.finish("verbs that refuse");
}

#[test]
fn names_of_namespaces_have_limits_and_there_may_be_thousands() {
    let (_folder, path) = folder();
    let quota = Quota::new("limits, namespaces", 5000);
    let db = Db::open(&path).unwrap();
    assert!(matches!(db.namespace(""), Err(Error::NamespaceName { len: 0 })));
    let long = "n".repeat(NAMESPACE_NAME_LEN_MAX);
    assert!(matches!(db.namespace(&format!("{long}n")), Err(Error::NamespaceName { .. })));
    db.namespace(&long).unwrap().insert(b"k", b"long name").unwrap();
    for i in 0..5000_u32 {
        let space = db.namespace(&format!("space-{i}")).unwrap();
        space.insert(b"same key", i.to_le_bytes()).unwrap();
        quota.add(1);
    }
    for i in (0..5000).step_by(2) {
        assert!(db.drop_namespace(&format!("space-{i}")).unwrap());
    }
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.list_namespaces().len(), 2501);
    for i in (1..5000_u32).step_by(2) {
        let space = db.namespace(&format!("space-{i}")).unwrap();
        assert_eq!(space.get(b"same key").unwrap().as_deref(), Some(&i.to_le_bytes()[..]));
        assert_eq!(space.len().unwrap(), 1);
    }
    let again = db.namespace("space-0").unwrap();
    assert!(again.is_empty().unwrap(), "a namespace that was dropped came back with its records");
    assert_eq!(db.namespace(&long).unwrap().get(b"k").unwrap().as_deref(), Some(&b"long name"[..]));
    quota.finish("namespaces made, half of them dropped");
}

/// Bytes that the system could give without swapping.
fn memory_available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn the_longest_value_is_stored_and_read_without_a_second_copy() {
    if memory_available() < 6 << 30 && !cfg!(windows) {
        println!("skipped: less than 6 GiB of memory available");
        return;
    }
    let (_folder, path) = folder();
    let db = Db::builder().path(&path).background(false).open().unwrap();
    let mut value = vec![0; VALUE_LEN_MAX];
    value.chunks_mut(4096).enumerate().for_each(|(i, page)| page[..8].copy_from_slice(&(i as u64).to_le_bytes()));
    let started = Instant::now();
    let ((), held) = peak(|| db.insert(b"big", &value).unwrap());
    println!("limits: 1 GiB stored in {:.2} s, {held} bytes held beside it", started.elapsed().as_secs_f64());
    assert!(held < 16 << 20, "storing 1 GiB took {held} bytes beside it");
    db.insert(b"small", b"behind it").unwrap();
    let started = Instant::now();
    let (right, held) = peak(|| *db.get_zerocopy(b"big").unwrap().unwrap() == *value);
    println!("limits: 1 GiB read and compared in {:.2} s, {held} bytes held", started.elapsed().as_secs_f64());
    assert!(right, "the value came back changed");
    assert!(held < 1 << 20, "reading 1 GiB without a copy took {held} bytes");
    let started = Instant::now();
    db.close().unwrap();
    let db = Db::builder().path(&path).background(false).open().unwrap();
    println!("limits: closed and opened again in {:.2} s", started.elapsed().as_secs_f64());
    assert!(*db.get_zerocopy(b"big").unwrap().unwrap() == *value, "the value came back changed after a reopen");
    assert_eq!(db.get(b"small").unwrap().as_deref(), Some(&b"behind it"[..]));
    db.remove(b"big").unwrap();
    db.compact().unwrap();
    let left = std::fs::metadata(&path).unwrap().len();
    assert!(left < 64 << 20, "1 GiB was removed and compacted away, {left} bytes are left");
}

/// The file is refused with an error of the kind, in every way of opening it, and stays as it was.
fn refused(path: &Path, what: &str, kind: impl Fn(&Error) -> bool) {
    let before = std::fs::read(path).ok();
    let modified = || std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let touched = modified();
    for read_only in [false, true] {
        let error = Db::builder().path(path).read_only(read_only).open().err();
        let error = error.unwrap_or_else(|| panic!("{what} was opened (read-only: {read_only})"));
        assert!(kind(&error), "{what} (read-only: {read_only}): {error:?}");
        assert!(error.to_string().len() > 30, "`{error}` does not say what to do");
    }
    assert_eq!(std::fs::read(path).ok(), before, "{what} was changed");
    assert_eq!(modified(), touched, "{what} was touched");
}

#[test]
fn what_is_no_store_is_refused_and_stays_as_it_was() {
    let (folder, path) = folder();
    let quota = Quota::new("limits, foreign files", 12);
    let png: Vec<u8> = [&b"\x89PNG\r\n\x1a\n"[..], &[5; 3000]].concat();
    let sqlite: Vec<u8> = [&b"SQLite format 3\0"[..], &[0; 8000]].concat();
    let foreign: [(&str, Vec<u8>); 8] = [
        ("a line of text", b"hello, world\n".to_vec()),
        ("one byte", vec![1]),
        ("a picture", png),
        ("a SQLite database", sqlite),
        ("a long text", b"all work and no play makes jack a dull boy\n".repeat(3000)),
        ("zeros and a last byte", [vec![0; 20_000], vec![9]].concat()),
        ("a name alone", b"PIPKIN".to_vec()),
        ("noise", (0..50_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
    ];
    for (what, bytes) in foreign {
        std::fs::write(&path, bytes).unwrap();
        refused(&path, what, |error| matches!(error, Error::NotAStore { .. }));
        quota.add(1);
    }
    let mut newer = {
        let _ = std::fs::remove_file(&path);
        small_store(&path);
        std::fs::read(&path).unwrap()
    };
    forge::set_version(&mut newer, 99);
    std::fs::write(&path, newer).unwrap();
    refused(&path, "a store of a newer version", |error| matches!(error, Error::NewerVersion { found: 99, .. }));
    refused(folder.path(), "a directory", |error| matches!(error, Error::IsDirectory { .. }));
    quota.add(2);
    let missing = folder.path().join("missing.pipkin");
    let error = Db::builder().path(&missing).create(false).open().err();
    assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
    let error = Db::builder().path(&missing).read_only(true).open().err();
    assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
    assert!(!missing.exists(), "a failed open created the file");
    quota.add(2);
    quota.finish("refused, unchanged");
}

#[test]
fn a_read_only_store_gives_answers_and_takes_nothing() {
    let (_folder, path) = folder();
    small_store(&path);
    let before = std::fs::read(&path).unwrap();
    let db = Db::builder().path(&path).read_only(true).open().unwrap();
    assert_eq!(db.len().unwrap(), 100);
    assert_eq!(db.get(5_u32.to_le_bytes()).unwrap().unwrap(), [7; 50]);
    assert!(db.verify().unwrap().is_ok());
    let writes: [(&str, Option<Error>); 9] = [
        ("insert", db.insert(b"a", b"b").err()),
        ("remove", db.remove(5_u32.to_le_bytes()).err()),
        ("insert_many", db.insert_many([(b"a", b"b")]).err()),
        ("transaction", db.transaction(|txn| txn.insert(b"a", b"b")).err()),
        ("namespace", db.namespace("new").err()),
        ("clear", db.clear().err()),
        ("compact", db.compact().err()),
        ("checkpoint", db.checkpoint().err()),
        ("update", db.update(b"a", |_| Some(Vec::new())).err()),
    ];
    for (what, error) in writes {
        assert!(matches!(error, Some(Error::ReadOnly)), "{what}: {error:?}");
    }
    db.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before, "a read-only open changed the file");
}

#[test]
fn a_write_protected_medium_is_read_and_left_alone() {
    let Some(mount) = Mount::tmpfs(32 * 1024) else { return };
    let path = mount.path().join("store.pipkin");
    small_store(&path);
    let before = std::fs::read(&path).unwrap();
    if !mount.remount("ro") {
        println!("skipped: the mount cannot be made read-only");
        return;
    }
    let error = Db::open(&path).err();
    assert!(matches!(error, Some(Error::ReadOnly)), "{error:?}");
    let db = Db::builder().path(&path).read_only(true).open().unwrap();
    assert_eq!(db.len().unwrap(), 100);
    drop(db);
    let error = Db::open(mount.path().join("new.pipkin")).err();
    assert!(matches!(error, Some(Error::ReadOnly)), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

const HOLD: &str = "PIPKIN_HOLD";

/// Not a test of its own: the process that holds a store open, when the environment says so.
#[test]
fn holder() {
    let Ok(path) = std::env::var(HOLD) else { return };
    let db = Db::open(&path).unwrap();
    db.insert(b"held", b"yes").unwrap();
    std::fs::write(format!("{path}.ready"), b"").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_second_opener_is_told_who_holds_the_store_and_no_lock_outlives_its_holder() {
    let (folder, path) = folder();
    small_store(&path);
    let locked_by = |path: &Path, pid: u32| {
        for read_only in [false, true] {
            let error = Db::builder().path(path).read_only(read_only).open().err();
            let Some(Error::Locked { holder, .. }) = error else { panic!("{} opened: {error:?}", path.display()) };
            assert_eq!(holder, Some(pid), "the wrong holder is named");
        }
    };
    // In this process, under every name the file has.
    let db = Db::open(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let other_name = folder.path().join("hard link");
    std::fs::hard_link(&path, &other_name).unwrap();
    let spelled = folder.path().join(".").join("store.pipkin");
    let mut names = vec![path.clone(), other_name, spelled];
    #[cfg(unix)]
    {
        let symlink = folder.path().join("symbolic link");
        std::os::unix::fs::symlink(&path, &symlink).unwrap();
        names.push(symlink);
    }
    names.iter().for_each(|name| locked_by(name, std::process::id()));
    assert_eq!(std::fs::read(&path).unwrap(), before, "a refused opener changed the file");
    db.close().unwrap();
    // In another process.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLD, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = folder.path().join("store.pipkin.ready");
    let started = Instant::now();
    while !ready.exists() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(2));
    }
    locked_by(&path, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.get(b"held").unwrap().as_deref(), Some(&b"yes"[..]));
    assert_eq!(db.len().unwrap(), 101);
}

#[test]
fn the_file_of_an_application_lies_under_its_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Db::builder().app_name("an app").database_name("main").data_root(folder.path()).open();
    let db = open().unwrap();
    db.insert(b"k", b"v").unwrap();
    db.close().unwrap();
    assert!(folder.path().join("an app").join("main.pipkin").is_file());
    assert_eq!(open().unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// Each used to have a thread of its own, 76 kB of memory and a terabyte of addresses, of which a process has 128.
#[cfg(target_os = "linux")]
#[test]
fn hundreds_of_small_stores_take_a_few_threads_and_little_memory_disk_and_addresses_each() {
    use std::os::unix::fs::MetadataExt;
    const STORES: u64 = 200;
    // What all of them take beyond that while one after the other writes: 32 kB, and 89 kB on a busy machine.
    const WHILE_WRITING: u64 = 96 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::new("limits, small stores", 4 * STORES);
    let path = |number: u64| folder.path().join(format!("{number}.pipkin"));
    let is_small = |number: u64| {
        let file = std::fs::metadata(path(number)).unwrap();
        // A file system may count a block of its own, for the list of the file's places.
        file.len() <= 64 * 1024 && file.blocks() * 512 <= 68 * 1024
    };
    let status = |name: &str| -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    for round in 0..2_u64 {
        let (threads, open, addresses_kib) = (status("Threads"), descriptors(), status("VmSize"));
        let open_all = || -> Vec<Db> { (0..STORES).map(|number| Db::open(path(number)).unwrap()).collect() };
        let before = held();
        let (stores, opened) = peak(open_all);
        let has_opened = held();
        let write = |(number, db): (usize, &Db)| {
            assert_eq!(db.len().unwrap(), round);
            db.insert(round.to_le_bytes(), number.to_le_bytes()).unwrap();
            db.flush().unwrap();
            assert_eq!(db.get(round.to_le_bytes()).unwrap().unwrap(), number.to_le_bytes());
        };
        let ((), written) = peak(|| stores.iter().enumerate().for_each(write));
        let (kept, grown) = ((held() - before).max(0) as u64, (held() - has_opened).max(0) as u64);
        assert!(opened.max(kept) < STORES * 16 * 1024, "{} bytes of memory each", opened.max(kept) / STORES);
        assert!(written < grown + WHILE_WRITING, "{} bytes while one writes", written - grown);
        // Other tests of this program may run: they hold a few of each, not hundreds.
        assert!(status("Threads") < threads + STORES / 4, "{} threads", status("Threads"));
        assert!(descriptors() < open + STORES + STORES / 4, "{} descriptors", descriptors());
        assert!((status("VmSize") - addresses_kib) / STORES < 4 << 20, "{} KiB of addresses", status("VmSize") - addresses_kib);
        for number in 0..STORES {
            assert!(is_small(number), "while open");
            quota.add(1);
        }
        drop(stores);
        for number in 0..STORES {
            assert!(is_small(number), "when closed");
            quota.add(1);
        }
    }
    quota.finish("open and closed");
}
