//! Names, presets, read-only stores, and reporting of errors.

use super::{WasiKeyValueCtx, file_name};
use crate::keyvalue::bucket::{Bucket, Refused};
use pipkin::Db;
use std::sync::{Arc, Mutex};

#[test]
fn no_name_is_a_path() {
    assert_eq!(file_name(""), "default.pipkin");
    assert_eq!(file_name("user-sessions_2"), "user-sessions_2.pipkin");
    assert_eq!(file_name("my.store"), "my.store.pipkin");
    assert_eq!(file_name("."), "%2E.pipkin");
    assert_eq!(file_name("../etc/passwd."), "%2E.%2Fetc%2Fpasswd%2E.pipkin");
    assert_eq!(file_name("C:\\x\0"), "C%3A%5Cx%00.pipkin");
    assert_eq!(file_name("ä"), "%C3%A4.pipkin");
}

fn bucket(ctx: &WasiKeyValueCtx, name: &str) -> Result<Bucket, Refused> {
    Bucket::open(Bucket::find(ctx, name)?)
}

#[test]
fn presets_are_there_when_a_store_is_empty_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let listed = || WasiKeyValueCtx::builder().directory(folder.path()).store("s").presets("s", [("a", "1"), ("b", "2")]);
    let ctx = listed().in_memory_data([("m", vec![3])]).build();
    let stored = bucket(&ctx, "s").unwrap();
    assert_eq!(stored.get("b").unwrap().unwrap(), b"2");
    stored.set("a", b"changed").unwrap();
    stored.delete("b").unwrap();
    assert_eq!(bucket(&ctx, "").unwrap().get("m").unwrap().unwrap(), [3]);
    bucket(&ctx, "").unwrap().set("n", b"4").unwrap();
    assert!(bucket(&ctx.clone(), "").unwrap().exists("n").unwrap(), "clones share what is in memory, too");
    drop((stored, ctx));
    let ctx = listed().build();
    let stored = bucket(&ctx, "s").unwrap();
    assert_eq!(stored.get("a").unwrap().unwrap(), b"changed");
    assert!(!stored.exists("b").unwrap());
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "memory has no file");
}

#[test]
fn a_store_that_is_listed_as_read_only_takes_no_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.pipkin");
    let db = Db::open(&path).unwrap();
    db.insert("k", "v").unwrap();
    db.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("s").read_only("s").build();
    let stored = bucket(&ctx, "s").unwrap();
    assert_eq!(stored.get("k").unwrap().unwrap(), b"v");
    let refused = |answer: Result<(), Refused>| matches!(answer, Err(Refused::AccessDenied));
    assert!(refused(stored.set("k", b"w")) && refused(stored.delete("k")));
    assert!(refused(stored.set_many(&[])) && refused(stored.delete_many(&[])));
    assert!(refused(stored.swap("k", None, b"w").map(drop)));
    assert!(refused(stored.increment("n", |old: u64| Some(old)).map(drop)));
    drop((stored, ctx));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn the_host_hears_what_guests_are_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.pipkin");
    let holder = Db::open(&path).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    let tell = move |name: &str, error: &pipkin::Error| told.lock().unwrap().push(format!("{name}: {error}"));
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("s").on_error(tell).build();
    let Err(Refused::Other(words)) = bucket(&ctx, "s") else { panic!("it is open elsewhere") };
    let (place, process) = (folder.path().to_str().unwrap(), std::process::id().to_string());
    assert!(!words.contains(place) && !words.contains(&process), "{words}");
    let heard = heard.lock().unwrap().join(";");
    assert!(heard.starts_with("s: ") && heard.contains(place) && heard.contains(&process), "{heard}");
    drop(holder);
}

#[test]
fn a_file_has_one_engine_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").store("default").build();
    let open = |name: &str| ctx.entry(name).unwrap().store().open(true, 0).unwrap();
    open("").call().unwrap().insert("k", "v").unwrap();
    assert_eq!(open("default").call().unwrap().get("k").unwrap().unwrap(), b"v");
}
