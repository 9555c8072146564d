//! Namespaces that several threads create, clear and drop at once.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

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
