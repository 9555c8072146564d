//! import --from: stores of other engines. What each engine's store holds is tested where it is read; here is one of SQLite.

use crate::support::{Folder, STORE};

const SHOP: &[u8] = include_bytes!("../data/shop.sqlite");
const PAIRS: &[u8] = include_bytes!("../data/pairs.sqlite");

#[cfg(not(feature = "from-sqlite"))]
#[test]
fn an_engine_that_is_not_built_in_says_how_to_get_it() {
    let folder = Folder::new();
    folder.write("shop.sqlite", SHOP);
    folder.write("pairs.sqlite", PAIRS);
    let error = folder.run(&["import", STORE, "shop.sqlite", "--from", "sqlite", "--json"]).exits(2).error();
    assert_eq!(error["kind"], "not-built-in");
    assert!(error["message"].as_str().unwrap().contains("--features from-sqlite"), "{error}");
    assert_eq!(folder.names(), ["pairs.sqlite", "shop.sqlite"]);
}

#[cfg(feature = "from-sqlite")]
#[test]
fn every_table_becomes_a_namespace() {
    let folder = Folder::new();
    folder.write("shop.sqlite", SHOP);
    let report = folder.json(&["import", STORE, "shop.sqlite", "--from", "sqlite"]);
    assert_eq!(report["records"], 4);
    assert_eq!(folder.ok(&["get", STORE, "apple", "--namespace", "prices"]), b"40");
    let ada = folder.ok(&["get", STORE, "--hex", "8000000000000007", "--namespace", "people"]);
    assert_eq!(ada, br#"{"city":"London","id":7,"name":"Ada"}"#);
    // What is there is overwritten, and the source is as it was.
    folder.ok(&["put", STORE, "apple", "50", "--namespace", "prices"]);
    folder.ok(&["import", STORE, "shop.sqlite", "--from", "sqlite"]);
    assert_eq!(folder.ok(&["get", STORE, "apple", "--namespace", "prices"]), b"40");
    assert_eq!(folder.read("shop.sqlite"), SHOP);
}

#[cfg(feature = "from-sqlite")]
#[test]
fn one_table_goes_where_it_is_told() {
    let folder = Folder::new();
    folder.write("shop.sqlite", SHOP);
    folder.ok(&["import", STORE, "shop.sqlite", "--from", "sqlite", "--table", "prices"]);
    assert_eq!(folder.ok(&["get", STORE, "pear"]), b"55");
    let columns = ["--table", "people", "--key", "name", "--value", "city", "--namespace", "cities"];
    folder.ok(&[&["import", STORE, "shop.sqlite", "--from", "sqlite"][..], &columns].concat());
    assert_eq!(folder.ok(&["get", STORE, "Ada", "--namespace", "cities"]), b"London");
    assert_eq!(folder.ok(&["get", STORE, "Eve", "--namespace", "cities"]), b"");
}

#[cfg(feature = "from-sqlite")]
#[test]
fn what_cannot_be_imported_is_refused_before_there_is_a_store() {
    let folder = Folder::new();
    folder.write("pairs.sqlite", PAIRS);
    folder.write("shop.sqlite", SHOP);
    let refused = |args: &[&str], code: i32, kind: &str| {
        let error = folder.run(&[&["import", STORE], args, &["--json"]].concat()).exits(code).error();
        assert_eq!(error["kind"], kind, "{args:?}: {error}");
        assert_eq!(folder.names(), ["pairs.sqlite", "shop.sqlite"], "{args:?}");
    };
    refused(&["pairs.sqlite", "--from", "sqlite"], 8, "bad-input");
    refused(&["pairs.sqlite", "--from", "sqlite", "--table", "nothing"], 6, "not-found");
    refused(&["missing.sqlite", "--from", "sqlite"], 6, "not-found");
    refused(&["shop.sqlite", "--from", "sqlite", "--namespace", "here"], 2, "usage");
    refused(&["shop.sqlite", "--from", "lmdb", "--key", "id"], 2, "usage");
    refused(&["shop.sqlite", "--from", "sqlite", "--format", "csv"], 2, "usage");
    refused(&["shop.sqlite", "--table", "prices"], 2, "usage");

    // A row whose key is missing is found on the way: what came before is said.
    let pairs = ["pairs.sqlite", "--from", "sqlite", "--table", "pairs", "--key", "a"];
    let error = folder.run(&[&["import", STORE][..], &pairs, &["--json"]].concat()).exits(8).error();
    assert_eq!(error["records"], 1, "{error}");
    assert_eq!(folder.ok(&["get", STORE, "x"]), b"y");
}
