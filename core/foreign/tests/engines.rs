//! Stores that the engines themselves have made are read whole, and stay as they are; what is no store of an engine is refused.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use pipkin_foreign::{Columns, Engine, Error};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// What a table should hold, and the expiry of each record.
type Records = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Bytes of all kinds and lengths, the empty value and keys with zeros among them.
#[cfg_attr(not(feature = "all"), allow(dead_code, reason = "without an engine nothing is made"))]
fn records(salt: u8) -> Records {
    let record = |number: u16| {
        let key = [&[salt][..], &number.to_be_bytes(), b"\0\xff"].concat();
        (key, (vec![salt ^ number as u8; usize::from(number) % 700], None))
    };
    (0..2000).map(record).collect()
}

/// The bytes of every file of a store, but for those of locks.
fn bytes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    if path.is_file() {
        files.insert(String::new(), std::fs::read(path).unwrap());
        return files;
    }
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !name.to_lowercase().contains("lock") {
            files.extend(bytes(&entry.path()).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        }
    }
    files
}

/// Reads everything, and says that it stayed as it was.
#[cfg_attr(not(feature = "all"), allow(dead_code, reason = "without an engine nothing is made"))]
fn read(engine: Engine, path: &Path, columns: &Columns) -> BTreeMap<(String, bool), Records> {
    let before = bytes(path);
    let source = pipkin_foreign::open(engine, path, columns).unwrap();
    let mut tables = BTreeMap::new();
    for table in source.tables().unwrap() {
        let mut records = Records::new();
        let each = &mut |record: pipkin_foreign::Record<'_>| {
            let old = records.insert(record.key.to_vec(), (record.value.to_vec(), record.expires_at));
            assert_eq!(old, None, "a key came twice");
            ControlFlow::Continue(())
        };
        source.read(&table.name, each).unwrap();
        let mut first = 0;
        source
            .read(&table.name, &mut |_| {
                first += 1;
                ControlFlow::Break(())
            })
            .unwrap();
        assert_eq!(first, records.len().min(1), "a reading that is broken off");
        tables.insert((table.name, table.is_default), records);
    }
    let missing = source.read("no such table", &mut |_| ControlFlow::Continue(()));
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    drop(source);
    assert!(bytes(path) == before, "reading has changed the files of {}", engine.name());
    tables
}

#[cfg_attr(not(feature = "all"), allow(dead_code, reason = "without an engine nothing is made"))]
fn expected(tables: &[(&str, bool, &Records)]) -> BTreeMap<(String, bool), Records> {
    tables.iter().map(|(name, is_default, records)| (((*name).to_owned(), *is_default), (*records).clone())).collect()
}

#[cfg(feature = "redb")]
#[test]
fn redb_is_read_with_the_types_of_its_tables() {
    use redb::{Database, MultimapTableDefinition, TableDefinition};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (plain, empty) = (records(1), Records::new());
    let db = Database::create(&path).unwrap();
    let write = db.begin_write().unwrap();
    {
        let mut table = write.open_table(TableDefinition::<&[u8], &[u8]>::new("plain")).unwrap();
        for (key, (value, _)) in &plain {
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        }
        write.open_table(TableDefinition::<&str, u64>::new("empty")).unwrap();
        write.open_table(TableDefinition::<&str, u64>::new("visits")).unwrap().insert("ada", 7).unwrap();
        let mut numbers = write.open_table(TableDefinition::<i64, &str>::new("numbers")).unwrap();
        numbers.insert(-1, "before").unwrap();
        numbers.insert(1, "after").unwrap();
    }
    write.commit().unwrap();
    drop(db);
    let visits = Records::from([(b"ada".to_vec(), (7_u64.to_be_bytes().to_vec(), None))]);
    let order = |number: i64| (number ^ i64::MIN).to_be_bytes().to_vec();
    let numbers = Records::from([(order(-1), (b"before".to_vec(), None)), (order(1), (b"after".to_vec(), None))]);
    let tables = [("plain", false, &plain), ("empty", false, &empty), ("visits", false, &visits), ("numbers", false, &numbers)];
    assert!(read(Engine::Redb, &path, &Columns::default()) == expected(&tables));

    // What is no map of bytes is said to be none, before anything of it is read.
    let db = Database::open(&path).unwrap();
    let write = db.begin_write().unwrap();
    write.open_multimap_table(MultimapTableDefinition::<&str, &str>::new("many")).unwrap().insert("a", "1").unwrap();
    write.open_table(TableDefinition::<(u8, u8), f64>::new("pairs")).unwrap().insert((1, 2), 0.5).unwrap();
    write.commit().unwrap();
    drop(db);
    let source = pipkin_foreign::open(Engine::Redb, &path, &Columns::default()).unwrap();
    for table in ["many", "pairs"] {
        assert!(source.tables().unwrap().iter().any(|other| other.name == table));
        let refused = source.read(table, &mut |_| panic!("a record came"));
        assert!(matches!(&refused, Err(Error::Unsupported { table: named, .. }) if named == table), "{refused:?}");
    }
}

#[cfg(feature = "sled")]
#[test]
fn sled_is_read_with_all_its_trees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (plain, other) = (records(1), records(2));
    let db = sled::open(&path).unwrap();
    for (tree, records) in [(&db as &sled::Tree, &plain), (&db.open_tree("users").unwrap(), &other)] {
        for (key, (value, _)) in records {
            tree.insert(key, value.as_slice()).unwrap();
        }
    }
    db.flush().unwrap();
    drop(db);
    let tables = [("__sled__default", true, &plain), ("users", false, &other)];
    assert!(read(Engine::Sled, &path, &Columns::default()) == expected(&tables));
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let plain = records(1);
    let mut db = rusty_leveldb::DB::open(&path, rusty_leveldb::Options::default()).unwrap();
    for (key, (value, _)) in &plain {
        db.put(key, value).unwrap();
    }
    db.put(b"removed", b"1").unwrap();
    db.delete(b"removed").unwrap();
    db.close().unwrap();
    drop(db);
    assert!(read(Engine::LevelDb, &path, &Columns::default()) == expected(&[("default", true, &plain)]));
}

#[cfg(feature = "lmdb")]
#[test]
fn lmdb_is_read_with_and_without_named_databases() {
    use heed::types::Bytes;
    use heed::{CommitOrAbort, EnvOpenOptions};
    let (plain, other) = (records(1), records(2));
    for names in [&[None][..], &[None, Some("users")], &[Some("users")]] {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: nobody else touches the files of this folder.
        let env = unsafe { EnvOpenOptions::new().max_dbs(8).map_size(64 << 20).open(folder.path()) }.unwrap();
        let mut tables = Vec::new();
        for name in names {
            let write = env.write_txn().unwrap();
            let made = env.create_databases_and_commit(write, |opener, write| {
                opener.create_database::<Bytes, Bytes>(write, *name).map(CommitOrAbort::<_, ()>::Commit)
            });
            let database = made.unwrap().commit().unwrap();
            let records = if name.is_some() { &other } else { &plain };
            let mut write = env.write_txn().unwrap();
            for (key, (value, _)) in records {
                database.put(&mut write, key, value).unwrap();
            }
            write.commit().unwrap();
            tables.push((name.unwrap_or_default(), name.is_none(), records));
        }
        drop(env);
        assert!(read(Engine::Lmdb, folder.path(), &Columns::default()) == expected(&tables), "{names:?}");
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_is_read_with_all_its_column_families_beside_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (plain, other) = (records(1), records(2));
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = rocksdb::DB::open_cf(&options, &path, ["default", "users"]).unwrap();
    for (key, (value, _)) in &plain {
        db.put(key, value).unwrap();
    }
    let users = db.cf_handle("users").unwrap();
    for (key, (value, _)) in &other {
        db.put_cf(users, key, value).unwrap();
    }
    let tables = [("default", true, &plain), ("users", false, &other)];
    assert!(read(Engine::RocksDb, &path, &Columns::default()) == expected(&tables));
}

#[cfg(feature = "emdb")]
#[test]
fn emdb_is_read_with_namespaces_and_expiries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.emdb");
    let (mut plain, other) = (records(1), records(2));
    let db = emdb::Emdb::open(&path).unwrap();
    db.insert_many(plain.iter().map(|(key, (value, _))| (key.clone(), value.clone()))).unwrap();
    let hour = emdb::Ttl::After(std::time::Duration::from_secs(3600));
    db.insert_with_ttl(b"session".to_vec(), b"ada".to_vec(), hour).unwrap();
    plain.insert(b"session".to_vec(), (b"ada".to_vec(), db.expires_at("session").unwrap()));
    let users = db.namespace("users").unwrap();
    users.insert_many(other.iter().map(|(key, (value, _))| (key.clone(), value.clone()))).unwrap();
    db.flush().unwrap();
    drop((users, db));
    let tables = [("", true, &plain), ("users", false, &other)];
    assert!(plain.values().any(|(_, expires_at)| expires_at.is_some()));
    assert!(read(Engine::Emdb, &path, &Columns::default()) == expected(&tables));
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_is_read_by_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let made = connection.execute_batch(
        "CREATE TABLE plain (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID;
         CREATE TABLE turned (v TEXT, k INTEGER PRIMARY KEY);
         INSERT INTO turned VALUES ('before', -1), ('after', 1), (NULL, 2);
         CREATE TABLE computed (doubled INTEGER AS (2 * n), k TEXT PRIMARY KEY, n INTEGER);
         INSERT INTO computed (k, n) VALUES ('a', 7);
         CREATE TABLE \"odd \"\"name\" (id TEXT PRIMARY KEY, name TEXT, height REAL);
         INSERT INTO \"odd \"\"name\" VALUES ('ada', 'Ada', 1.5);",
    );
    made.unwrap();
    let plain = records(1);
    let write = connection.unchecked_transaction().unwrap();
    for (key, (value, _)) in &plain {
        connection.execute("INSERT INTO plain VALUES (?1, ?2)", (key, value)).unwrap();
    }
    write.commit().unwrap();
    drop(connection);
    let order = |number: i64| (number ^ i64::MIN).to_be_bytes().to_vec();
    let text = |text: &str| (text.as_bytes().to_vec(), None);
    let turned = Records::from([(order(-1), text("before")), (order(1), text("after")), (order(2), text(""))]);
    let odd = Records::from([(b"ada".to_vec(), text(r#"{"height":1.5,"id":"ada","name":"Ada"}"#))]);
    let computed = Records::from([(b"a".to_vec(), text("7"))]);
    let tables =
        [("plain", false, &plain), ("turned", false, &turned), ("odd \"name", false, &odd), ("computed", false, &computed)];
    assert!(read(Engine::Sqlite, &path, &Columns::default()) == expected(&tables));

    // By other columns; and a key that is NULL is no key.
    let columns = |key: &str, value: &str| Columns { key: Some(key.to_owned()), value: Some(value.to_owned()) };
    let read_one = |table: &str, columns: &Columns| {
        let mut found = Vec::new();
        let source = pipkin_foreign::open(Engine::Sqlite, &path, columns).unwrap();
        let result = source.read(table, &mut |record| {
            found.push((record.key.to_vec(), record.value.to_vec()));
            ControlFlow::Continue(())
        });
        result.map(|()| found)
    };
    assert_eq!(read_one("odd \"name", &columns("name", "height")).unwrap(), [(b"Ada".to_vec(), b"1.5".to_vec())]);
    assert!(matches!(read_one("turned", &columns("v", "k")), Err(Error::Unsupported { .. })));
    assert!(matches!(read_one("turned", &columns("k", "w")), Err(Error::Unsupported { .. })));

    // What JSON cannot hold is no JSON, and not null.
    let connection = rusqlite::Connection::open(&path).unwrap();
    let endless = "CREATE TABLE endless (k TEXT PRIMARY KEY, v REAL, w TEXT); INSERT INTO endless VALUES ('a', 9e999, 'w')";
    connection.execute_batch(endless).unwrap();
    drop(connection);
    assert!(matches!(read_one("endless", &Columns::default()), Err(Error::Unsupported { .. })));
    assert_eq!(read_one("endless", &columns("k", "v")).unwrap(), [(b"a".to_vec(), b"inf".to_vec())]);
}

#[test]
fn what_is_no_store_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no store of anybody's, but long enough to hold a header. ".repeat(400)).unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for engine in Engine::ALL {
        for path in [&text, &empty] {
            let before = bytes(path);
            let refused = pipkin_foreign::open(engine, path, &Columns::default()).map(drop);
            assert!(matches!(refused, Err(Error::Failed { .. } | Error::NotBuiltIn { .. })), "{}: {refused:?}", engine.name());
            assert_eq!(bytes(path), before, "{}", engine.name());
        }
        let missing = pipkin_foreign::open(engine, &folder.path().join("missing"), &Columns::default()).map(drop);
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    }
}
