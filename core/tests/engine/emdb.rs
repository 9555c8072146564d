//! Whoever comes from emdb finds everything again: each public method, option, field and variant of emdb 1.0.3 with every feature on, and
//! what does the same here, as a call that runs, or the reason why there is none.
//!
//! What is not built yet is listed by the name that it is to have. Once a function of that name exists, this test fails until the entry
//! calls it.
#![cfg(all(feature = "native", feature = "ordered"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::{Db, Durability, Error, FlushPolicy, Namespace, OwnedValue, Ttl};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What there is here for something of emdb.
enum Here {
    /// It is used like this.
    Calls(fn(&Db, &Namespace)),
    /// There is none, on purpose.
    Never(&'static str),
}

use Here::{Calls, Never};

const ASYNC: &str = "`AsyncDb` of the feature `async` has them; `core/tests/tasks` calls each of its own";

/// A sealed store, in builds that have them.
#[cfg(feature = "encrypt")]
fn sealed(how: u8) {
    let builder = match how {
        0 => Db::builder().encryption_key([7; 32]),
        1 => Db::builder().encryption_passphrase("correct horse"),
        2 => Db::builder().encryption_key([7; 32]).cipher(pipkin::Cipher::ChaCha20Poly1305),
        5 => {
            let at = scratch("sealed");
            Db::open(&at).unwrap().close().unwrap();
            let builder = || Db::builder().path(&at).encryption_key([7; 32]);
            builder().enable_encryption().unwrap().close().unwrap();
            return builder().disable_encryption().unwrap().close().unwrap();
        }
        4 => {
            let db = Db::builder().encryption_key([7; 32]).in_memory().unwrap();
            return assert!(db.rotate_encryption_key([8; 32]).unwrap().is_finished);
        }
        _ => Db::builder().encryption_key([7; 32]).cipher(pipkin::Cipher::Aes256Gcm),
    };
    drop(builder.in_memory().unwrap());
}

/// Without the feature there are none.
#[cfg(not(feature = "encrypt"))]
fn sealed(_: u8) {}

/// The methods of emdb's types, in the order of its source.
const BUILDER: [(&str, Here); 14] = [
    ("new", Calls(|_, _| drop(Db::builder().in_memory().unwrap()))),
    ("path", Calls(|_, _| drop(Db::builder().path(scratch("path")).open().unwrap()))),
    ("app_name", Calls(|_, _| drop(Db::builder().data_root(scratch("app")).app_name("app").open().unwrap()))),
    ("database_name", Calls(|_, _| drop(Db::builder().data_root(scratch("name")).database_name("main").open().unwrap()))),
    (
        "data_root",
        Calls(|_, _| drop(Db::builder().data_root(scratch("root")).app_name("app").database_name("main").open().unwrap())),
    ),
    ("default_ttl", Calls(|_, _| drop(Db::builder().default_ttl(Duration::from_secs(1)).in_memory().unwrap()))),
    ("enable_range_scans", Calls(|_, _| drop(Db::builder().ordered(true).in_memory().unwrap()))),
    ("iouring_sqpoll", Never("writes go through the file's map or one system call each; a ring was measured and no faster")),
    ("flush_policy", Calls(|_, _| drop(Db::builder().flush_policy(FlushPolicy::Group).in_memory().unwrap()))),
    ("encryption_key", Calls(|_, _| sealed(0))),
    ("encryption_passphrase", Calls(|_, _| sealed(1))),
    ("cipher", Calls(|_, _| sealed(2))),
    ("build", Calls(|_, _| drop(Db::builder().path(scratch("build")).open().unwrap()))),
    ("build_async", Never(ASYNC)),
];

const EMDB: [(&str, Here); 44] = [
    ("open", Calls(|_, _| drop(Db::open(scratch("open")).unwrap()))),
    ("open_in_memory", Calls(|_, _| drop(Db::open_in_memory().unwrap()))),
    ("builder", Calls(|_, _| drop(Db::builder()))),
    ("clone_handle", Calls(|db, _| drop(db.clone()))),
    ("path", Calls(|db, _| assert!(db.path().is_some_and(Path::exists)))),
    ("insert", Calls(|db, _| db.insert("key", "value").unwrap())),
    ("insert_many", Calls(|db, _| db.insert_many([("key", "value")]).unwrap())),
    ("get_zerocopy", Calls(|db, _| assert!(db.get_zerocopy_owned("a").unwrap().unwrap() == "1"))),
    ("get", Calls(|db, _| assert_eq!(db.get("a").unwrap(), Some(b"1".to_vec())))),
    ("remove", Calls(|db, _| assert_eq!(db.take("a").unwrap(), Some(b"1".to_vec())))),
    ("contains_key", Calls(|db, _| assert!(db.contains_key("a").unwrap()))),
    ("len", Calls(|db, _| assert_eq!(db.len().unwrap(), 3))),
    ("is_empty", Calls(|db, _| assert!(!db.is_empty().unwrap()))),
    ("clear", Calls(|db, _| db.clear().unwrap())),
    ("flush", Calls(|db, _| assert!(db.flush().unwrap() >= Durability::Os))),
    ("stats", Calls(|db, _| assert_eq!(db.stats().unwrap().records, 6))),
    ("checkpoint", Calls(|db, _| db.checkpoint().unwrap())),
    ("iter", Calls(|db, _| assert_eq!(db.iter().count(), 3))),
    ("keys", Calls(|db, _| assert_eq!(db.keys().count(), 3))),
    ("range", Calls(|db, _| assert_eq!(db.range("a".."c").unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 2))),
    ("range_iter", Calls(|db, _| assert_eq!(db.range("a".."c").unwrap().count(), 2))),
    ("range_prefix", Calls(|db, _| assert_eq!(db.range_prefix("a").unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 1))),
    ("range_prefix_iter", Calls(|db, _| assert_eq!(db.range_prefix("a").unwrap().count(), 1))),
    ("iter_from", Calls(|db, _| assert_eq!(db.iter_from("b").unwrap().count(), 2))),
    ("iter_after", Calls(|db, _| assert_eq!(db.iter_after("b").unwrap().count(), 1))),
    ("insert_with_ttl", Calls(|db, _| db.insert_with_ttl("key", "value", Duration::from_secs(60)).unwrap())),
    ("expires_at", Calls(|db, _| assert_eq!(db.expires_at("a").unwrap(), None))),
    ("ttl", Calls(|db, _| assert_eq!(db.ttl("a").unwrap(), None))),
    ("persist", Calls(|db, _| assert!(!db.persist("a").unwrap()))),
    ("sweep_expired", Calls(|db, _| assert_eq!(db.sweep_expired().unwrap(), 0))),
    ("lock_holder", Calls(|db, _| assert_eq!(Db::lock_holder(db.path().unwrap()).unwrap().unwrap().pid, std::process::id()))),
    ("break_lock", Calls(|db, _| assert!(matches!(Db::break_lock(db.path().unwrap()), Err(Error::Locked { .. }))))),
    ("backup_to", Calls(|db, _| assert_eq!(db.backup_to(scratch("backup")).unwrap().records, 7))),
    ("compact", Calls(|db, _| assert!(db.compact().is_ok()))),
    ("namespace", Calls(|db, _| drop(db.namespace("new").unwrap()))),
    ("drop_namespace", Calls(|db, _| assert!(db.drop_namespace("users").unwrap()))),
    ("list_namespaces", Calls(|db, _| assert_eq!(db.list_namespaces(), ["users"]))),
    ("transaction", Calls(|db, _| db.transaction(|tx| tx.insert("key", "value")).unwrap())),
    ("enable_encryption", Calls(|_, _| sealed(5))),
    ("disable_encryption", Calls(|_, _| sealed(5))),
    ("rotate_encryption_key", Calls(|_, _| sealed(4))),
    ("group", Calls(|db, _| assert_eq!(grouped(db).group("g").unwrap().count(), 2))),
    ("delete_group", Calls(|db, _| assert_eq!(grouped(db).delete_group("g").unwrap(), 2))),
    ("focus", Calls(|db, _| assert_eq!(grouped(db).focus("g").name(), b"g"))),
];

const NAMESPACE: [(&str, Here); 23] = [
    ("name", Calls(|_, users| assert_eq!(users.name(), "users"))),
    ("insert", Calls(|_, users| users.insert("key", "value").unwrap())),
    ("insert_many", Calls(|_, users| users.insert_many([("key", "value")]).unwrap())),
    ("get", Calls(|_, users| assert_eq!(users.get("a").unwrap(), Some(b"1".to_vec())))),
    ("get_zerocopy", Calls(|_, users| assert!(users.get_zerocopy_owned("a").unwrap().unwrap() == "1"))),
    ("remove", Calls(|_, users| assert_eq!(users.take("a").unwrap(), Some(b"1".to_vec())))),
    ("contains_key", Calls(|_, users| assert!(users.contains_key("a").unwrap()))),
    ("len", Calls(|_, users| assert_eq!(users.len().unwrap(), 3))),
    ("is_empty", Calls(|_, users| assert!(!users.is_empty().unwrap()))),
    ("clear", Calls(|_, users| users.clear().unwrap())),
    ("iter", Calls(|_, users| assert_eq!(users.iter().count(), 3))),
    ("keys", Calls(|_, users| assert_eq!(users.keys().count(), 3))),
    ("range", Calls(|_, users| assert_eq!(users.range("a"..="c").unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 3))),
    (
        "range_prefix",
        Calls(|_, users| assert_eq!(users.range_prefix("c").unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 1)),
    ),
    ("range_iter", Calls(|_, users| assert_eq!(users.range(..).unwrap().count(), 3))),
    ("range_prefix_iter", Calls(|_, users| assert_eq!(users.range_prefix("c").unwrap().count(), 1))),
    ("iter_from", Calls(|_, users| assert_eq!(users.iter_from("c").unwrap().count(), 1))),
    ("iter_after", Calls(|_, users| assert_eq!(users.iter_after("c").unwrap().count(), 0))),
    ("insert_with_ttl", Calls(|_, users| users.insert_with_ttl("key", "value", Duration::from_secs(60)).unwrap())),
    ("expires_at", Calls(|_, users| assert_eq!(users.expires_at("a").unwrap(), None))),
    ("ttl", Calls(|_, users| assert_eq!(users.ttl("a").unwrap(), None))),
    ("persist", Calls(|_, users| assert!(!users.persist("a").unwrap()))),
    ("sweep_expired", Calls(|db, _| assert_eq!(db.sweep_expired().unwrap(), 0))),
];

const FOCUS: [(&str, Here); 8] = [
    ("set", Calls(|db, _| grouped(db).focus("g").insert("key", "value").unwrap())),
    ("get", Calls(|db, _| assert_eq!(grouped(db).focus("g").get("x").unwrap(), Some(b"8".to_vec())))),
    ("remove", Calls(|db, _| assert_eq!(grouped(db).focus("g").take("x").unwrap(), Some(b"8".to_vec())))),
    ("contains_key", Calls(|db, _| assert!(grouped(db).focus("g").contains_key("x").unwrap()))),
    ("focus", Calls(|db, _| assert!(grouped(db).focus("g").focus("y").contains_key("z").unwrap()))),
    ("iter", Calls(|db, _| assert_eq!(grouped(db).focus("g").iter().count(), 2))),
    ("delete_all", Calls(|db, _| assert_eq!(grouped(db).focus("g").delete_all().unwrap(), 2))),
    ("set_with_ttl", Calls(|db, _| db.focus("g").insert_with_ttl("key", "value", Duration::from_secs(60)).unwrap())),
];

const TRANSACTION: [(&str, Here); 5] = [
    ("insert", Calls(|db, users| db.transaction(|tx| tx.insert_in(users, "key", "value")).unwrap())),
    ("insert_with_ttl", Calls(|db, _| db.transaction(|tx| tx.insert_with_ttl("key", "value", Duration::from_secs(60))).unwrap())),
    ("remove", Calls(|db, _| assert!(db.transaction(|tx| tx.remove("a")).unwrap()))),
    ("get", Calls(|db, _| assert_eq!(db.transaction(|tx| tx.get("a")).unwrap(), Some(b"1".to_vec())))),
    ("contains_key", Calls(|db, _| assert!(db.transaction(|tx| tx.contains_key("a")).unwrap()))),
];

const VALUE_REF: [(&str, Here); 4] = [
    ("len", Calls(|db, _| assert_eq!(value(db).len(), 1))),
    ("is_empty", Calls(|db, _| assert!(!value(db).is_empty()))),
    ("as_slice", Calls(|db, _| assert_eq!(&*value(db), b"1"))),
    ("into_vec", Calls(|db, _| assert_eq!(value(db).into_vec(), b"1"))),
];

const STATS: [(&str, Here); 7] = [
    ("live_records", Calls(|db, _| assert_eq!(db.stats().unwrap().records, 6))),
    ("namespace_count", Calls(|db, _| assert_eq!(db.stats().unwrap().namespaces, 1))),
    ("logical_size_bytes", Calls(|db, _| assert!(db.stats().unwrap().live_bytes > 0))),
    ("file_size_bytes", Calls(|db, _| assert!(db.stats().unwrap().file_bytes > 0))),
    ("preallocated_bytes", Calls(|db, _| assert!(db.stats().unwrap().free_bytes < db.stats().unwrap().file_bytes))),
    ("range_scans_enabled", Never("a store without the ordered index answers a range with `Error::NotOrdered`")),
    ("encrypted", Never("`Db::cipher` says whether a store is sealed, and how")),
];

const LOCK_HOLDER: [(&str, Here); 4] = [
    ("schema_version", Never("the note has one form")),
    ("pid", Calls(|db, _| assert_eq!(Db::lock_holder(db.path().unwrap()).unwrap().unwrap().pid, std::process::id()))),
    ("acquired_at_unix_millis", Calls(|db, _| assert_eq!(holder(db).since.is_some(), cfg!(target_os = "linux")))),
    ("crate_version", Calls(|db, _| assert_eq!(holder(db).program.is_some(), cfg!(target_os = "linux")))),
];

const FLUSH_POLICY: [(&str, Here); 3] = [
    ("OnEachFlush", Calls(|_, _| drop(Db::builder().flush_policy(FlushPolicy::OnEachFlush).in_memory().unwrap()))),
    ("Group", Calls(|_, _| drop(Db::builder().flush_policy(FlushPolicy::Group).in_memory().unwrap()))),
    ("WriteThrough", Calls(|_, _| drop(Db::builder().flush_policy(FlushPolicy::WriteThrough).in_memory().unwrap()))),
];

/// Variants of `Ttl`, `Cipher` and `EncryptionInput`.
const CHOICES: [(&str, Here); 7] = [
    ("Ttl::Default", Calls(|db, _| db.insert_with_ttl("key", "value", Ttl::Default).unwrap())),
    ("Ttl::Never", Calls(|db, _| db.insert_with_ttl("key", "value", Ttl::Never).unwrap())),
    ("Ttl::After", Calls(|db, _| db.insert_with_ttl("key", "value", Ttl::After(Duration::from_secs(60))).unwrap())),
    ("Cipher::Aes256Gcm", Calls(|_, _| sealed(3))),
    ("Cipher::ChaCha20Poly1305", Calls(|_, _| sealed(2))),
    ("EncryptionInput::Key", Calls(|_, _| sealed(0))),
    ("EncryptionInput::Passphrase", Calls(|_, _| sealed(1))),
];

/// Variants of `Error`, by what ours is called.
const ERRORS: [(&str, Here); 12] = [
    ("InvalidPath", Calls(|_, _| assert!(matches!(Db::open(""), Err(Error::InvalidArgument(_)))))),
    ("TtlOverflow", Never("what reaches too far is for ever")),
    ("Io", Calls(|_, _| assert!(matches!(Db::open(scratch("none").join("x/y")), Err(Error::Storage(_)))))),
    ("MagicMismatch", Calls(|_, _| assert!(matches!(Db::open(foreign()), Err(Error::NotAStore { .. }))))),
    ("VersionMismatch", Never("`Error::NewerVersion`, tested with a forged file in `golden`")),
    ("FeatureMismatch", Never("`Error::Unsupported`, tested with forged records in `evidence`")),
    ("Corrupted", Never("`Error::Corrupt`, tested in `damage`")),
    ("InvalidConfig", Calls(|_, _| assert!(matches!(Db::builder().segment_size(1).in_memory(), Err(Error::InvalidArgument(_)))))),
    ("LockBusy", Calls(|db, _| assert!(matches!(Db::open(db.path().unwrap()), Err(Error::Locked { .. }))))),
    ("LockfileError", Never("there is no lock file: the lock is on the store itself")),
    ("Encryption", Never("`NotSealed`, `KeyNeeded`, `Forged` and `NoRandomness` each say what was wrong")),
    ("EncryptionKeyMismatch", Never("`WrongKey` says that a key does not open the store")),
];

/// The methods of `AsyncEmdb` and `AsyncNamespace`.
const ASYNC_EMDB: &str = "open open_in_memory builder from_sync sync_handle path insert insert_many get remove contains_key len is_empty \
    clear flush checkpoint stats backup_to compact iter keys range range_prefix iter_from iter_after iter_stream keys_stream range_stream \
    range_prefix_stream iter_from_stream iter_after_stream insert_with_ttl expires_at ttl persist sweep_expired namespace drop_namespace \
    list_namespaces transaction";
const ASYNC_NAMESPACE: &str = "name sync_handle insert insert_many get remove contains_key len is_empty clear iter keys range \
    range_prefix iter_from iter_after iter_stream keys_stream range_stream range_prefix_stream iter_from_stream iter_after_stream \
    insert_with_ttl expires_at ttl persist sweep_expired";

/// Where everything of this test is, until its end.
fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emdb-{}", std::process::id()))
}

/// A path that nothing is at.
fn scratch(name: &str) -> std::path::PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    folder().join(format!("{}-{name}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn foreign() -> std::path::PathBuf {
    let path = scratch("foreign");
    fs::write(&path, "a file of another program, and long enough to be one".repeat(100)).unwrap();
    path
}

/// The store with a group of two records.
fn grouped(db: &Db) -> &Db {
    db.insert_many([("g.x", "8"), ("g.y.z", "9")]).unwrap();
    db
}

fn value(db: &Db) -> OwnedValue {
    db.get_zerocopy_owned("a").unwrap().unwrap()
}

fn holder(db: &Db) -> pipkin::storage::native::LockHolder {
    Db::lock_holder(db.path().unwrap()).unwrap().unwrap()
}

#[test]
fn everything_of_emdb_is_here_or_says_why_not() {
    fs::create_dir_all(folder()).unwrap();
    let types: [(&str, &[(&str, Here)]); 11] = [
        ("EmdbBuilder", &BUILDER),
        ("Emdb", &EMDB),
        ("Namespace", &NAMESPACE),
        ("Focus", &FOCUS),
        ("Transaction", &TRANSACTION),
        ("ValueRef", &VALUE_REF),
        ("EmdbStats", &STATS),
        ("LockHolder", &LOCK_HOLDER),
        ("FlushPolicy", &FLUSH_POLICY),
        ("choices", &CHOICES),
        ("Error", &ERRORS),
    ];
    let (mut called, mut never) = (0, 0);
    for (of, entries) in types {
        for (name, here) in entries {
            match here {
                Calls(call) => {
                    let path = scratch("store");
                    let db = Db::builder().path(&path).ordered(true).open().unwrap();
                    let users = db.namespace("users").unwrap();
                    db.insert_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
                    users.insert_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
                    println!("{of}::{name}");
                    call(&db, &users);
                    drop((db, users));
                    called += 1;
                }
                Never(why) => {
                    assert!(!why.is_empty());
                    never += 1;
                }
            }
        }
    }
    fs::remove_dir_all(folder()).unwrap();
    let methods = |list: &str| list.split_whitespace().collect::<BTreeSet<_>>().len();
    assert_eq!((methods(ASYNC_EMDB), methods(ASYNC_NAMESPACE)), (40, 27), "{ASYNC}");
    println!("emdb 1.0.3: {called} called, {never} left out on purpose; {} of the async handles", 40 + 27);
    assert!(called >= 75, "{called}");
}
