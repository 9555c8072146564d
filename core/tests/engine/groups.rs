//! Groups of records and handles to them: borders of prefixes, limits, damage, other writers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{find, flipped, killed, opened};
use pipkin::limits::KEY_LEN_MAX;
use pipkin::storage::MemoryStorage;
use pipkin::{Conflict, Db, Error, Focus, Namespace, Transaction};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn stores() -> Vec<Db> {
    let mut stores = vec![Db::open_in_memory().unwrap()];
    #[cfg(feature = "ordered")]
    stores.push(Db::builder().ordered(true).in_memory().unwrap());
    stores
}

fn keys(records: &Namespace) -> BTreeSet<Vec<u8>> {
    records.keys().collect::<Result<_, _>>().unwrap()
}

fn keys_of(group: pipkin::Group<'_>) -> BTreeSet<Vec<u8>> {
    group.map(|record| record.unwrap().0).collect()
}

fn set<const N: usize>(keys: [&[u8]; N]) -> BTreeSet<Vec<u8>> {
    keys.into_iter().map(<[u8]>::to_vec).collect()
}

const BORDERS: [&[u8]; 14] =
    [b"a", b"a.", b"a..", b"a..x", b"a.b", b"a.b.", b"a.b.c", b"a.b.c.d", b"a.bc", b"a.bc.d", b"a.b/", b"a/b", b".", b".x"];

#[test]
fn a_group_ends_where_its_dot_ends() {
    for db in stores() {
        let named = db.namespace("named").unwrap();
        for records in [&*db, &named] {
            records.insert_many(BORDERS.map(|key| (key, "value"))).unwrap();
            let group = |name: &[u8]| keys_of(records.group(name).unwrap());
            assert_eq!(group(b"a.b"), set([b"a.b.", b"a.b.c", b"a.b.c.d"]));
            assert_eq!(group(b"a.bc"), set([b"a.bc.d"]));
            assert_eq!(group(b"a."), set([b"a..", b"a..x"]));
            assert_eq!(group(b"."), set([]));
            assert_eq!(group(b"a").len(), 10);
            assert_eq!(group(b"none").len(), 0);
            assert_eq!(records.delete_group("a.b").unwrap(), 3);
            assert_eq!(records.delete_group("a.b").unwrap(), 0);
            assert_eq!(records.delete_group("a.").unwrap(), 2);
            assert_eq!(keys(records), set([b"a", b"a.", b"a.b", b"a.bc", b"a.bc.d", b"a.b/", b"a/b", b".", b".x"]));
            assert_eq!(records.delete_group("a").unwrap(), 5);
            assert_eq!(keys(records), set([b"a", b"a/b", b".", b".x"]));
        }
        assert_eq!((db.len().unwrap(), named.len().unwrap()), (4, 4), "each call has changed one namespace");
    }
}

#[test]
fn names_of_the_highest_bytes_have_groups() {
    for db in stores() {
        let all: [&[u8]; 6] = [b"\xff", b"\xff.", b"\xff.\xff", b"\xff\xff.\xff", b"\xff\xff", b"\xff/"];
        db.insert_many(all.map(|key| (key, ""))).unwrap();
        assert_eq!(keys_of(db.group(b"\xff").unwrap()), set([b"\xff.", b"\xff.\xff"]));
        assert_eq!(db.delete_group(b"\xff\xff").unwrap(), 1);
        assert_eq!(db.delete_group(b"\xff").unwrap(), 2);
        assert_eq!(keys(&db), set([b"\xff", b"\xff\xff", b"\xff/"]));
    }
}

#[test]
fn an_empty_name_is_no_group_but_the_namespace_itself_in_focus() {
    for db in stores() {
        db.insert_many(BORDERS.map(|key| (key, "value"))).unwrap();
        assert!(matches!(db.group(""), Err(Error::InvalidArgument(_))));
        assert!(matches!(db.delete_group(""), Err(Error::InvalidArgument(_))));
        let all = db.focus("");
        assert_eq!((all.name(), all.focus("").name(), all.focus("a").name()), (&b""[..], &b""[..], &b"a"[..]));
        assert_eq!((all.len().unwrap(), keys_of(all.iter())), (14, keys(&db)));
        assert!(matches!(all.delete_all(), Err(Error::InvalidArgument(_))));
        assert!(matches!(all.insert(vec![1; KEY_LEN_MAX + 1], ""), Err(Error::KeyTooLong { .. })));
        assert_eq!(all.get("a.b").unwrap().as_deref(), Some(&b"value"[..]));
        // Below a group an empty name is a name like any other.
        let odd = db.focus("a").focus("");
        assert_eq!((odd.name(), keys_of(odd.iter())), (&b"a."[..], set([b"", b"x"])));
        assert_eq!(odd.delete_all().unwrap(), 2);
        assert_eq!(db.len().unwrap(), 12);
    }
}

#[test]
fn a_focus_has_the_verbs_of_its_namespace_under_its_own_keys() {
    for db in stores() {
        let users = db.namespace("users").unwrap();
        db.insert("7.name", "another namespace").unwrap();
        users.insert_many([("7", "x"), ("70.name", "x")]).unwrap();
        let ada = users.focus("7");
        ada.insert("name", "Ada").unwrap();
        ada.insert_many([("mail", "1"), ("age", "36")]).unwrap();
        assert_eq!(ada.get_many(["name", "none", "age"]).unwrap(), [Some(b"Ada".to_vec()), None, Some(b"36".to_vec())]);
        assert_eq!(ada.swap("age", "37").unwrap().as_deref(), Some(&b"36"[..]));
        assert!(ada.compare_and_swap("age", Some(b"37"), Some(b"38")).unwrap());
        ada.update("age", |old| old.map(|old| [old, b"!"].concat())).unwrap();
        assert_eq!(ada.get("age").unwrap().as_deref(), Some(&b"38!"[..]));
        let (_, version) = ada.get_versioned("age").unwrap().unwrap();
        assert!(ada.compare_version_and_swap("age", Some(version), None).unwrap() && !ada.contains_key("age").unwrap());
        let prefs = ada.focus("prefs").focus("colors");
        prefs.insert("", "empty").unwrap();
        assert_eq!(users.get("7.prefs.colors.").unwrap().as_deref(), Some(&b"empty"[..]));
        assert_eq!((prefs.len().unwrap(), ada.len().unwrap(), users.len().unwrap()), (1, 3, 5));
        assert_eq!(keys_of(ada.iter()), set([b"name", b"mail", b"prefs.colors."]));
        assert_eq!((ada.take("mail").unwrap(), ada.remove("mail").unwrap()), (Some(b"1".to_vec()), false));
        assert_eq!(ada.remove_many(["name", "none"]).unwrap(), 1);
        assert_eq!((ada.delete_all().unwrap(), ada.is_empty().unwrap()), (1, true));
        assert_eq!(keys(&users), set([b"7", b"70.name"]));
        assert_eq!(db.len().unwrap(), 1);
        db.drop_namespace("users").unwrap();
        assert!(matches!(ada.insert("name", ""), Err(Error::NamespaceDropped)));
        assert!(matches!(ada.delete_all(), Err(Error::NamespaceDropped)));
        assert_eq!(ada.iter().count(), 0);
    }
}

#[cfg(feature = "ordered")]
#[test]
fn ranges_of_a_focus_stay_inside_it() {
    use std::ops::Bound;
    let db = Db::builder().ordered(true).in_memory().unwrap();
    db.insert_many(BORDERS.map(|key| (key, "value"))).unwrap();
    let ab = db.focus("a.b");
    let listed = |range: pipkin::FocusRange<'_>| range.map(|record| record.unwrap().0).collect::<Vec<_>>();
    assert_eq!(listed(ab.range(..).unwrap()), [&b""[..], b"c", b"c.d"]);
    assert_eq!(listed(ab.range("a"..).unwrap()), [&b"c"[..], b"c.d"]);
    assert_eq!(listed(ab.range(.."c.").unwrap()), [&b""[..], b"c"]);
    assert_eq!(listed(ab.range(..="c.d").unwrap()).len(), 3);
    assert_eq!(listed(ab.range((Bound::Excluded(""), Bound::Excluded("c.d"))).unwrap()), [b"c"]);
    assert_eq!(listed(ab.range("z"..).unwrap()).len() + listed(ab.range("z".."a").unwrap()).len(), 0);
    assert_eq!(listed(ab.range_prefix("c.").unwrap()), [b"c.d"]);
    assert_eq!(listed(ab.iter_after("c").unwrap()), [b"c.d"]);
    assert_eq!(listed(ab.iter_from("c").unwrap()).len(), 2);
    assert_eq!(ab.range(..).unwrap().rev().map(|record| record.unwrap().0).collect::<Vec<_>>(), [&b"c.d"[..], b"c", b""]);
    assert_eq!(db.focus("").range("a.b.".."a.b/").unwrap().count(), 3);
    let plain = Db::open_in_memory().unwrap();
    assert!(matches!(plain.focus("a").range(..), Err(Error::NotOrdered)));
}

#[test]
fn a_key_that_is_too_long_with_its_group_says_so() {
    for db in stores() {
        let group = db.focus(vec![b'g'; KEY_LEN_MAX - 11]);
        group.insert([1; 10], "fits").unwrap();
        assert_eq!((group.len().unwrap(), keys(&db).first().unwrap().len()), (1, KEY_LEN_MAX));
        let refused = group.insert([1; 11], "").unwrap_err();
        assert!(matches!(refused, Error::GroupKeyTooLong { group, key: 11 } if group == KEY_LEN_MAX - 10), "{refused:?}");
        assert!(refused.to_string().contains("the key has 11 bytes, and 65526 more with the name of its group"), "{refused}");
        assert!(matches!(group.get([1; 11]), Err(Error::GroupKeyTooLong { .. })));
        assert!(matches!(group.key([1; 11]), Err(Error::GroupKeyTooLong { .. })));
        assert!(matches!(group.insert_many([([1; 11], "")]), Err(Error::GroupKeyTooLong { .. })));
        assert_eq!(group.delete_all().unwrap(), 1);
        // Nothing can be in a group whose name alone is too long.
        let beyond = db.focus(vec![b'g'; KEY_LEN_MAX + 1]);
        assert_eq!((beyond.iter().count(), beyond.delete_all().unwrap()), (0, 0));
        assert!(matches!(beyond.insert("", ""), Err(Error::GroupKeyTooLong { .. })));
    }
}

#[test]
fn a_focus_goes_to_other_threads_and_keeps_the_store_open() {
    fn is_shareable<T: Send + Sync + Clone + 'static>() {}
    is_shareable::<Focus>();
    let db = Db::open_in_memory().unwrap();
    let jobs = db.focus("jobs");
    drop(db);
    std::thread::spawn(move || jobs.insert("1", "sweep").unwrap()).join().unwrap();
}

/// The call removes what was there when it took its locks: of each writer, the keys up to one of them and none behind it.
#[test]
fn beside_writers_the_deletion_has_one_moment() {
    let rounds = if cfg!(debug_assertions) { 20 } else { 60 };
    for (round, db) in (0..rounds).flat_map(|round| stores().into_iter().map(move |db| (round, db))) {
        db.insert_many((0..500_u32).map(|number| (format!("g.old.{number}"), "old"))).unwrap();
        db.insert_many((0..500_u32).map(|number| (format!("other.{number}"), "stays"))).unwrap();
        let (done, written) = (AtomicBool::new(false), AtomicU32::new(0));
        let (removed, last) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2_u32)
                .map(|writer| {
                    let (db, done, written) = (&db, &done, &written);
                    scope.spawn(move || {
                        let mut number = 0_u32;
                        while !done.load(Ordering::Relaxed) {
                            db.insert(format!("g.{writer}.{number:06}"), "new").unwrap();
                            db.insert(format!("g.old.{}", number % 500), "again").unwrap();
                            number += 1;
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        number
                    })
                })
                .collect();
            while written.load(Ordering::Relaxed) < 40 {
                std::thread::yield_now();
            }
            if round % 3 == 0 {
                db.compact().unwrap();
            }
            let removed = db.delete_group("g").unwrap();
            done.store(true, Ordering::Relaxed);
            (removed, writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>())
        });
        assert!(removed >= 500, "{removed}");
        for (writer, last) in last.into_iter().enumerate() {
            let left: Vec<u32> = db
                .focus(format!("g.{writer}"))
                .keys()
                .map(|key| String::from_utf8(key.unwrap()).unwrap().parse().unwrap())
                .collect::<BTreeSet<u32>>()
                .into_iter()
                .collect();
            let first = left.first().copied().unwrap_or(last);
            assert_eq!(left, (first..last).collect::<Vec<_>>(), "writer {writer} of round {round}");
        }
        assert_eq!(db.focus("other").len().unwrap(), 500);
        assert_eq!(db.len().unwrap(), db.iter().map(Result::unwrap).count() as u64);
        assert!(db.verify().unwrap().is_ok());
    }
}

/// What has expired is not there: it is neither listed nor counted, and a deletion beside it takes it away for good.
#[cfg(all(feature = "testing", feature = "ordered"))]
#[test]
fn records_of_a_group_that_have_expired_are_not_in_it() {
    use std::time::Duration;
    for ordered in [false, true] {
        let clock = pipkin::testing::TestClock::new(1_700_000_000_000);
        let file = MemoryStorage::new();
        let open = || {
            Db::builder().clock(clock.clone()).ordered(ordered).background(false).open_storage(Box::new(file.clone())).unwrap()
        };
        let db = open();
        let group = db.focus("g");
        group.insert_many([("old", "1"), ("stays", "2")]).unwrap();
        group.insert_with_ttl("old", "newer", Duration::from_secs(60)).unwrap();
        group.insert_with_ttl("late", "3", Duration::from_secs(600)).unwrap();
        let before = db.snapshot();
        assert_eq!((group.len().unwrap(), group.iter().count()), (3, 3));
        clock.advance(Duration::from_secs(61));
        assert_eq!((group.len().unwrap(), keys_of(group.iter())), (2, set([b"late", b"stays"])));
        assert_eq!((group.delete_all().unwrap(), group.delete_all().unwrap()), (2, 0));
        assert_eq!((db.len().unwrap(), group.is_empty().unwrap(), before.len().unwrap()), (0, true, 3));
        drop(before);
        db.insert_with_ttl("h.x", "4", Duration::from_secs(1)).unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!((db.delete_group("h").unwrap(), db.compact().is_ok(), db.len().unwrap()), (0, true, 0));
        drop((group, db));
        clock.set(1_700_000_000_000);
        let db = open();
        assert_eq!((db.len().unwrap(), db.iter().count(), db.verify().unwrap().is_ok()), (0, 0, true), "under an earlier clock");
    }
}

#[test]
fn a_damaged_record_stops_the_deletion_unless_its_key_is_known() {
    let file = MemoryStorage::new();
    let db = opened(file.clone(), 64 * 1024);
    db.insert_many((0..20).map(|number| (format!("g.{number}"), format!("the value of {number}")))).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = file.to_vec();
    // In a value: the key is known, and the record can go.
    let db = opened(flipped(&bytes, find(&bytes, b"value of 7")), 64 * 1024);
    assert!(matches!(db.get("g.7"), Err(Error::Corrupt { .. })));
    assert_eq!((db.delete_group("g").unwrap(), db.len().unwrap(), db.get("g.7").unwrap()), (20, 0, None));
    // In a key: it may be one of the group, or not.
    let at = find(&bytes, b"g.7the value");
    let db = opened(flipped(&bytes, at), 64 * 1024);
    assert!(matches!(db.delete_group("g"), Err(Error::Corrupt { .. })));
    assert_eq!(db.len().unwrap(), 20, "nothing was removed");
    assert!(db.remove("g.7").unwrap());
    assert_eq!((db.delete_group("g").unwrap(), db.len().unwrap()), (19, 0));
}

/// Whichever call of the file fails, all of the group is left or nothing of it, in this session and after a crash.
#[cfg(feature = "testing")]
#[test]
fn a_call_that_fails_leaves_all_of_a_group_or_nothing() {
    use pipkin::StorageErrorKind;
    use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
    for (on, effect) in [
        (Io::Change, Effect::Error(StorageErrorKind::Other)),
        (Io::Write, Effect::Torn { bytes: 700 }),
        (Io::Read, Effect::Error(StorageErrorKind::Other)),
        (Io::Change, Effect::Error(StorageErrorKind::NoSpace)),
    ] {
        let (mut failed, mut poisoned) = (0, 0);
        for nth in 1.. {
            let file = MemoryStorage::new();
            let faults = FaultStorage::new(file.clone());
            let db = opened(faults.clone(), 4096);
            db.insert_many((0..200).map(|number| (format!("g.{number}"), [7; 20]))).unwrap();
            db.flush().unwrap();
            faults.arm(Fault::nth(nth, on, effect));
            let deleted = db.delete_group("g");
            let hit = faults.counts().failed > 0;
            faults.disarm();
            let left = if deleted.is_ok() { 0 } else { 200 };
            assert_eq!((db.len().unwrap(), db.iter().map(Result::unwrap).count()), (left, left as usize), "{on:?} {nth}");
            poisoned += u32::from(db.is_poisoned());
            failed += u32::from(deleted.is_err());
            killed(db);
            let found = opened(file, 4096).len().unwrap();
            // A write that has failed may have landed as a whole.
            assert!(found == left || found == 0, "{on:?} {nth}: {found} of {left}");
            if !hit {
                break;
            }
        }
        println!("{on:?} {effect:?}: {failed} calls failed, {poisoned} stores were closed to writes");
        assert!(failed > 3, "{on:?} {effect:?}: {failed}");
    }
}

#[test]
fn a_group_that_is_deleted_conflicts_with_who_has_read_of_it() {
    for db in stores() {
        let other = db.namespace("other").unwrap();
        // More than one block of what transactions remember, and more than a window of what is read ahead.
        let fill = || {
            for space in [&*db, &other] {
                space.insert_many((0..200).map(|number| (format!("g.{number:03}"), "1"))).unwrap();
                space.insert("h.1", "1").unwrap();
            }
        };
        let tries = |read: &dyn Fn(&mut Transaction)| {
            fill();
            let mut tx = db.begin().unwrap();
            read(&mut tx);
            assert_eq!(db.delete_group("g").unwrap(), 200);
            tx.insert("written", "1").unwrap();
            match tx.commit() {
                Ok(()) => None,
                Err(Error::Conflict(conflict)) => Some(conflict),
                Err(error) => panic!("{error:?}"),
            }
        };
        assert_eq!(tries(&|_| ()), None);
        assert_eq!(tries(&|tx| assert!(tx.contains_key("h.1").unwrap() && !tx.contains_key("g").unwrap())), None);
        assert_eq!(tries(&|tx| assert!(tx.get_in(&other, "g.007").unwrap().is_some())), None);
        assert_eq!(tries(&|tx| tx.insert("g.007", "2").unwrap()), None);
        assert_eq!(db.get("g.007").unwrap().as_deref(), Some(&b"2"[..]), "written after the group was deleted");
        db.remove("g.007").unwrap();
        for key in ["g.000", "g.063", "g.064", "g.100", "g.199"] {
            assert_eq!(tries(&|tx| assert!(tx.get(key).unwrap().is_some())), Some(Conflict::Key), "{key}");
        }
        assert_eq!(tries(&|tx| assert!(tx.iter().unwrap().count() > 200)), Some(Conflict::Range));
        #[cfg(feature = "ordered")]
        if db.range(..).is_ok() {
            assert_eq!(tries(&|tx| assert_eq!(tx.range("g.150".."g.151").unwrap().count(), 1)), Some(Conflict::Range));
            assert_eq!(tries(&|tx| assert_eq!(tx.range("g.".."g.000").unwrap().count(), 0)), None);
        }
        // A transaction reads on in its snapshot, and a read that comes later counts, too.
        fill();
        let mut tx = db.begin().unwrap();
        assert_eq!(db.delete_group("g").unwrap(), 200);
        assert!(tx.remove("g.007").unwrap());
        assert!(matches!(tx.commit(), Err(Error::Conflict(Conflict::Key))));
    }
}
