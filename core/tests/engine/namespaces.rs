//! Namespaces that several threads create, clear and drop at once.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};
use std::sync::Barrier;

/// The second to create a namespace gave its name another number, and what the first had written was gone.
#[test]
fn two_who_create_a_namespace_at_once_get_the_same() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 300;
    let db = Db::open_in_memory().unwrap();
    for round in 0..ROUNDS {
        let name = format!("namespace {round}");
        let start = Barrier::new(THREADS as usize);
        let write = |thread: u32| {
            start.wait();
            db.namespace(&name).unwrap().insert(thread.to_le_bytes(), "value").unwrap();
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let write = &write;
                scope.spawn(move || write(thread));
            }
        });
        assert_eq!(db.namespace(&name).unwrap().len().unwrap(), u64::from(THREADS), "round {round}");
    }
}

/// A clear that a drop overtakes must not bring the name back, nor clear what carries it by then.
#[test]
fn a_clear_beside_a_drop_leaves_what_comes_behind_alone() {
    const ROUNDS: u32 = 2000;
    let db = Db::open_in_memory().unwrap();
    for round in 0..ROUNDS {
        let old = db.namespace("name").unwrap();
        old.insert("old", "value").unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                match old.clear() {
                    Ok(()) | Err(Error::NamespaceDropped) => {}
                    Err(error) => panic!("{error}"),
                }
            });
            start.wait();
            assert!(db.drop_namespace("name").unwrap());
            if round % 2 == 0 {
                db.namespace("name").unwrap().insert("new", "value").unwrap();
            }
        });
        let left = db.list_namespaces();
        if round % 2 == 0 {
            assert_eq!(db.namespace("name").unwrap().get("new").unwrap().as_deref(), Some(&b"value"[..]), "round {round}");
            assert!(db.drop_namespace("name").unwrap());
        } else {
            assert_eq!(left, [""; 0], "round {round}");
        }
    }
}

/// A batch and a transaction took a namespace of another store by its bare number: they wrote over the records of the namespace that has
/// this number here, or wrote records under a number that nobody has, and the next opening took them away.
#[test]
fn a_namespace_of_another_store_is_refused_by_every_call_that_takes_one() {
    let (here, there) = (Db::open_in_memory().unwrap(), Db::open_in_memory().unwrap());
    let mine = here.namespace("mine").unwrap();
    mine.insert("key", "old").unwrap();
    // The same number as `mine`, and one that the other store has not given out.
    let (same, unknown) = (there.namespace("same").unwrap(), there.namespace("unknown").unwrap());
    for foreign in [&same, &unknown, &there.default_namespace()] {
        let refused = |result: Result<(), Error>, call: &str| match result {
            Err(error @ Error::InvalidArgument(_)) => assert!(error.to_string().contains("another store"), "{call}: {error}"),
            other => panic!("{call}: {other:?}"),
        };
        refused(here.batch().insert("other", "new").insert_in(foreign, "key", "new").commit(), "Batch::insert_in");
        refused(here.batch().insert("other", "new").remove_in(foreign, "key").commit(), "Batch::remove_in");
        refused(here.transaction(|tx| tx.get_in(foreign, "key").map(drop)), "get_in");
        refused(here.transaction(|tx| tx.contains_key_in(foreign, "key").map(drop)), "contains_key_in");
        refused(here.transaction(|tx| tx.insert_in(foreign, "key", "new")), "insert_in");
        refused(here.transaction(|tx| tx.remove_in(foreign, "key").map(drop)), "remove_in");
    }
    assert_eq!((mine.get("key").unwrap(), here.len().unwrap()), (Some(b"old".to_vec()), 0));
    // A handle from a clone is of the same store.
    let again = here.clone().namespace("mine").unwrap();
    here.batch().insert_in(&again, "key", "new").commit().unwrap();
    here.transaction(|tx| tx.insert_in(&again, "other", "new")).unwrap();
    assert_eq!(mine.len().unwrap(), 2);
}

/// A host kept its books among the namespaces of its users: they showed in every list, and whoever cleared all that was listed had messages
/// of tabs carried out twice.
#[test]
fn system_namespaces_are_hidden_from_lists_and_figures_and_refused_by_name() {
    let storage = MemoryStorage::new();
    let open = || Db::builder().background(false).open_storage(Box::new(storage.clone())).unwrap();
    let check = |db: &Db| {
        assert_eq!(db.list_namespaces(), ["books"]);
        let stats = db.stats().unwrap();
        assert_eq!((stats.namespaces, stats.records), (1, 2));
        for name in ["\0", "\0books", "\0anything"] {
            assert!(matches!(db.namespace(name), Err(Error::SystemNamespace)), "{name:?}");
            assert!(matches!(db.drop_namespace(name), Err(Error::SystemNamespace)), "{name:?}");
            assert!(db.find_namespace(name).is_none(), "{name:?}");
        }
        let books = db.find_system_namespace("books").unwrap();
        assert_eq!(books.get("key").unwrap().as_deref(), Some(&b"of the host"[..]));
        assert!(db.find_system_namespace("others").is_none());
    };
    let db = open();
    db.insert("key", "of the user").unwrap();
    db.namespace("books").unwrap().insert("key", "of the user").unwrap();
    let books = db.system_namespace("books").unwrap();
    db.batch().insert_in(&books, "key", "of the host").insert_in(&books, "another", "of the host").commit().unwrap();
    check(&db);
    db.checkpoint().unwrap();
    db.compact().unwrap();
    drop((books, db));
    let db = open();
    check(&db);
    let backup = MemoryStorage::new();
    db.backup_to_storage(&backup).unwrap();
    check(&Db::builder().open_storage(Box::new(backup)).unwrap());
    #[cfg(feature = "salvage")]
    {
        let target = Db::open_in_memory().unwrap();
        let report = pipkin::salvage(&storage, &target, &mut |_, _| {}).unwrap();
        assert_eq!((report.records, report.replaced), (4, 0));
        check(&target);
    }
    db.system_namespace("books").unwrap().clear().unwrap();
    assert_eq!(db.find_system_namespace("books").unwrap().len().unwrap(), 0);
}
