//! Sealed stores in the component: what one side has sealed the other one reads with the same key, and nobody without it.

use super::machine::types::{Durability, Reason as InComponent};
use super::machine::{Machine, Options, Secret};
use super::{build, small};
use pipkin_wasi_host::{Builder, Db, Error, Host, Reason, Result};
use std::path::Path;

const KEY: [u8; 32] = [7; 32];
const NAME: &str = "a.pipkin";
const OPTIONS: Options = Options {
    create: true,
    read_only: false,
    durability: Durability::Written,
    cache_bytes: 0,
    segment_bytes: 16 * 1024,
    exclusive: false,
    follow: false,
};

fn sealed(folder: &Path) -> Builder {
    Host::builder().component(build::sealed()).directory(folder).cache(build::folder().join("cache"))
}

fn open(builder: Builder) -> Result<Db> {
    builder.build()?.open_with(NAME, small())
}

fn native(folder: &Path) -> pipkin::Builder {
    pipkin::Db::builder().path(folder.join(NAME))
}

fn is_refused(opened: Result<Db>, reason: Reason) {
    match opened.map(drop) {
        Err(Error::Store(error)) => assert_eq!(error.reason, reason, "{}", error.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_sealed_on_one_side_is_read_and_written_on_the_other() {
    for begins_in_component in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for round in 0..4_u8 {
            if begins_in_component == (round % 2 == 0) {
                let mut db = open(sealed(folder).encryption_key(NAME, KEY)).unwrap();
                assert!((0..round).all(|before| db.get(&[before]).unwrap().is_some_and(|value| value == [before; 300])));
                db.insert(&[round], &[round; 300]).unwrap();
                db.records(Some("the name of a secret")).insert(&[round], b"MARKER").unwrap();
                db.close().unwrap();
            } else {
                let db = native(folder).encryption_key(KEY).open().unwrap();
                assert!((0..round).all(|before| db.get([before]).unwrap().is_some_and(|value| value == [before; 300])));
                db.insert([round], [round; 300]).unwrap();
                db.namespace("the name of a secret").unwrap().insert([round], "MARKER").unwrap();
                assert!(db.verify().unwrap().is_ok());
                db.close().unwrap();
            }
            let bytes = std::fs::read(folder.join(NAME)).unwrap();
            for text in [&b"MARKER"[..], b"secret", &[round; 40]].into_iter().filter(|text| text[0] != 0) {
                assert!(!bytes.windows(text.len()).any(|window| window == text), "{text:?} is readable");
            }
        }
    }
}

#[test]
fn without_the_key_with_another_one_and_with_one_for_a_plain_store_nothing_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    open(sealed(folder).encryption_key(NAME, KEY)).unwrap().close().unwrap();
    let before = std::fs::read(folder.join(NAME)).unwrap();
    is_refused(open(sealed(folder)), Reason::AccessDenied);
    is_refused(open(sealed(folder).encryption_key(NAME, [8; 32])), Reason::AccessDenied);
    is_refused(open(sealed(folder).encryption_passphrase(NAME, "none")), Reason::AccessDenied);
    let plain = Host::builder().component(build::product()).directory(folder).cache(build::folder().join("cache"));
    match open(plain.clone()).map(drop) {
        Err(Error::Store(error)) => assert!(matches!(error.reason, Reason::NewerVersion(_)), "{error:?}"),
        other => panic!("{other:?}"),
    }
    is_refused(open(plain.encryption_key(NAME, KEY)), Reason::InvalidArgument);
    assert_eq!(std::fs::read(folder.join(NAME)).unwrap(), before);
    std::fs::remove_file(folder.join(NAME)).unwrap();
    native(folder).open().unwrap().close().unwrap();
    is_refused(open(sealed(folder).encryption_key(NAME, KEY)), Reason::AccessDenied);
}

#[test]
fn a_passphrase_opens_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut db = open(sealed(folder).encryption_passphrase(NAME, "correct horse")).unwrap();
    db.insert(b"color", b"green").unwrap();
    db.close().unwrap();
    let db = native(folder).encryption_passphrase("correct horse").open().unwrap();
    assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..]));
    assert!(!format!("{:?}", sealed(folder).encryption_passphrase(NAME, "correct horse")).contains("correct"));
}

/// Whoever has a handle has what the secret opens; whoever wants another one needs the secret, too.
#[test]
fn a_second_handle_needs_the_secret_of_the_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let (mut instance, provider) = Machine::sealed().start(folder.path());
    let db = provider.pipkin_kv_store().db();
    let key = |byte: u8| Secret::Key(vec![byte; 32]);
    let first = db.call_open_sealed(&mut instance, NAME, OPTIONS, &key(7)).unwrap().unwrap();
    let denied = |opened: std::result::Result<_, super::machine::types::Error>| {
        assert!(matches!(opened.map(drop).map_err(|error| error.reason), Err(InComponent::AccessDenied)));
    };
    denied(db.call_open(&mut instance, NAME, OPTIONS).unwrap());
    denied(db.call_open_sealed(&mut instance, NAME, OPTIONS, &key(8)).unwrap());
    denied(db.call_open_sealed(&mut instance, NAME, OPTIONS, &Secret::Passphrase(vec![7; 32])).unwrap());
    let second = db.call_open_sealed(&mut instance, NAME, OPTIONS, &key(7)).unwrap().unwrap();
    let short = db.call_open_sealed(&mut instance, "b.pipkin", OPTIONS, &Secret::Key(vec![7; 31])).unwrap();
    assert!(matches!(short.map(drop).map_err(|error| error.reason), Err(InComponent::InvalidArgument)));
    for handle in [first, second] {
        handle.resource_drop(&mut instance).unwrap();
    }
}
