//! The engine in a dedicated worker over one OPFS access handle: storage contract, file format, and exchange of files between hosts.

use std::sync::Arc;

use js_sys::Uint8Array;
use pipkin::storage::{MemoryStorage, conformance};
use pipkin::{Db, Durability, Error, Storage, StorageErrorKind};
use pipkin_tape::Tape;
use pipkin_tape::expiring::check_expiring;
use pipkin_tape::kinds::check_kinds;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::error::reason;
use crate::exports::{Store, answer, entropy, failure, room};
use crate::files::{Access, bytes_of, open_file, weak_handle};
use crate::storage::{OpfsStorage, cached};

/// The contract has at least this many checks.
const CHECKS_MIN: u32 = 1000;

/// Every released version of the format.
const GOLDEN: [(&str, &[u8]); 1] = [("v1.pipkin", include_bytes!("../../tests/golden/v1.pipkin"))];

#[wasm_bindgen_test]
async fn the_storage_keeps_the_contract() {
    keeps_the_contract(create("contract").await);
}

#[wasm_bindgen_test]
async fn the_storage_keeps_the_contract_when_every_call_is_short() {
    let handle = weak_handle("short", "write: (b, o) => real.write(b.subarray(0, 1000), o)").await;
    keeps_the_contract(OpfsStorage::from_handle(handle).unwrap());
}

/// With so little memory that blocks evict each other all the time.
#[wasm_bindgen_test]
async fn the_storage_keeps_the_contract_behind_a_cache() {
    keeps_the_contract(cached(create("cached").await, 3 * 4096).unwrap());
    keeps_the_contract(cached(create("uncached").await, 0).unwrap());
}

#[wasm_bindgen_test]
async fn the_tape_leaves_the_same_store_through_a_cache() {
    let open = async |access| {
        let file = cached(open_file("cached tape", access).await.unwrap(), 1 << 20).unwrap();
        Db::builder().entropy(entropy().unwrap()).clock(crate::clock::BrowserClock).open_storage(Box::new(file)).unwrap()
    };
    for half in [Tape::begin, Tape::resume] {
        half(Tape::FULL, &open(Access::Create).await).unwrap();
    }
    assert_eq!(Tape::FULL.finish(&open(Access::Existing).await), Ok(Tape::FULL.expected()));
}

/// Files cannot be opened within synchronous code, so every check uses the same file, emptied.
fn keeps_the_contract(storage: impl Storage + 'static) {
    let storage = Arc::new(storage);
    let mut options = conformance::Options::default();
    options.sparse = true;
    options.durability = Some(Durability::Os);
    let checks = conformance::run_with(options, &mut || {
        storage.set_len(0).unwrap();
        Box::new(storage.clone())
    });
    let checks = checks.unwrap();
    assert!(checks >= CHECKS_MIN, "only {checks} checks ran");
}

#[wasm_bindgen_test]
async fn the_tape_leaves_the_same_store_as_everywhere() {
    for half in [Tape::begin, Tape::resume] {
        assert_eq!(half(Tape::FULL, &open("tape", Access::Create).await), Ok(Durability::Os));
    }
    let db = open("tape", Access::Existing).await;
    assert!(db.open_report().clean);
    assert_eq!(Tape::FULL.finish(&db), Ok(Tape::FULL.expected()));
    db.close().unwrap();

    // The same bytes on another host.
    let memory = MemoryStorage::from_vec(bytes_of("tape").await);
    let copy = Db::builder().entropy([1; 32]).open_storage(Box::new(memory)).unwrap();
    assert_eq!(Tape::FULL.finish(&copy), Ok(Tape::FULL.expected()));
}

#[wasm_bindgen_test]
async fn a_store_written_elsewhere_opens_here() {
    let memory = MemoryStorage::new();
    for half in [Tape::begin, Tape::resume] {
        half(Tape::FULL, &Db::builder().entropy([2; 32]).open_storage(Box::new(memory.clone())).unwrap()).unwrap();
    }
    create("elsewhere").await.write_at(0, &[&memory.to_vec()]).unwrap();
    assert_eq!(Tape::FULL.finish(&open("elsewhere", Access::Existing).await), Ok(Tape::FULL.expected()));
}

#[wasm_bindgen_test]
async fn every_golden_file_opens() {
    for (name, bytes) in GOLDEN {
        create(name).await.write_at(0, &[bytes]).unwrap();
        let db = open(name, Access::Existing).await;
        let found = Tape::SMALL.finish(&db).unwrap();
        db.insert("written in a browser", "yes").unwrap();
        db.close().unwrap();

        let db = open(name, Access::Existing).await;
        assert_eq!(db.get("written in a browser").unwrap().as_deref(), Some(&b"yes"[..]));
        assert_eq!(pipkin_tape::digest(&db).unwrap().records, found.records + 1);
    }
}

/// Records that expire, some of which have.
const EXPIRING: [(&str, &[u8]); 3] = [
    ("expiring-killed.pipkin", include_bytes!("../../tests/golden/expiry/killed.pipkin")),
    ("expiring-compacted.pipkin", include_bytes!("../../tests/golden/expiry/compacted.pipkin")),
    ("expiring-calendar.pipkin", include_bytes!("../../tests/golden/expiry/calendar.pipkin")),
];

#[wasm_bindgen_test]
async fn records_that_expire_are_read_and_compacted() {
    for (name, bytes) in EXPIRING {
        create(name).await.write_at(0, &[bytes]).unwrap();
        let db = open(name, Access::Existing).await;
        check_expiring(&db).unwrap();
        db.compact().unwrap();
        check_expiring(&db).unwrap();
        db.close().unwrap();
        check_expiring(&open(name, Access::Existing).await).unwrap();
    }
}

/// Records of every kind and with every flag.
const KINDS: [(&str, &[u8]); 3] = [
    ("written.pipkin", include_bytes!("../../tests/golden/kinds/written.pipkin")),
    ("killed.pipkin", include_bytes!("../../tests/golden/kinds/killed.pipkin")),
    ("compacted.pipkin", include_bytes!("../../tests/golden/kinds/compacted.pipkin")),
];

#[wasm_bindgen_test]
async fn what_this_build_does_not_know_is_carried_and_said() {
    for (name, bytes) in KINDS {
        create(name).await.write_at(0, &[bytes]).unwrap();
        let db = open(name, Access::Existing).await;
        check_kinds(&db).unwrap();
        db.compact().unwrap();
        check_kinds(&db).unwrap();
        db.close().unwrap();
        // A copy needs no origin, since nobody holds a position.
        let without_origins = |bytes: &[u8]| {
            // At a time at which what expired long ago has expired.
            let mut contents = pipkin_reader::read_at(bytes, 2).unwrap();
            contents.events.iter_mut().for_each(|event| event.fields.origin = None);
            contents.records.values_mut().for_each(|record| record.fields.origin = None);
            contents
        };
        let (before, after) = (without_origins(bytes), without_origins(&bytes_of(name).await));
        assert_eq!(after.events, before.events, "{name}");
        for (key, record) in &before.records {
            let copy = after.records.get(key).unwrap();
            assert_eq!((&copy.value, &copy.fields), (&record.value, &record.fields), "{name}: {key:?}");
        }
    }
}

#[wasm_bindgen_test]
async fn a_store_of_a_newer_version_is_refused() {
    let refused: [(&str, &[u8]); 3] = [
        ("adopt.pipkin", include_bytes!("../../tests/golden/refused/adopt.pipkin")),
        ("feature.pipkin", include_bytes!("../../tests/golden/refused/feature.pipkin")),
        ("version.pipkin", include_bytes!("../../tests/golden/refused/version.pipkin")),
    ];
    for (name, bytes) in refused {
        create(name).await.write_at(0, &[bytes]).unwrap();
        let error = try_open(name, Access::Existing).await.unwrap_err();
        assert!(matches!(error, Error::NewerVersion { .. } | Error::Unsupported { .. }), "{name}: {error}");
        assert!(bytes_of(name).await == bytes, "{name}");
    }
}

#[wasm_bindgen_test]
async fn a_second_opener_is_refused_until_the_first_is_gone() {
    let first = open("held", Access::Create).await;
    let refused = reason(&open_file("held", Access::Create).await.unwrap_err());
    assert!(refused.starts_with("NoModificationAllowedError: "), "{refused}");
    drop(first);
    open("held", Access::Existing).await;
}

/// At a full quota Chromium throws; Firefox throws another error, or writes a part, or nothing.
#[wasm_bindgen_test]
async fn a_full_quota_loses_nothing_that_was_flushed() {
    // Each with whether the browser refuses before anything is written: only then does the store still accept writes.
    let quotas = [
        (
            "no growth",
            true,
            "truncate: n => { if (n > 9e6) throw new DOMException('full', 'NS_ERROR_FILE_NO_DEVICE_SPACE'); real.truncate(n) }",
        ),
        (
            "no write",
            false,
            "write: (b, o) => { if (o.at + b.length > 9e6) throw new DOMException('full', 'QuotaExceededError'); return real.write(b, o) }",
        ),
        ("short write", false, "write: (b, o) => real.write(b.subarray(0, Math.max(0, 9e6 - o.at)), o)"),
    ];
    for (name, asked_in_time, method) in quotas {
        let storage = OpfsStorage::from_handle(weak_handle(name, method).await).unwrap();
        let db =
            Db::builder().entropy(entropy().unwrap()).clock(crate::clock::BrowserClock).open_storage(Box::new(storage)).unwrap();
        db.insert("fits", vec![0x70; 1 << 20]).unwrap();
        db.flush().unwrap();
        let full = db.insert("does not fit", vec![0x70; 20 << 20]).unwrap_err();
        match (asked_in_time, &full) {
            (true, Error::NoSpace) => {}
            (false, Error::Storage(error)) if error.kind == StorageErrorKind::NoSpace => {}
            _ => panic!("{name}: {full}"),
        }
        assert_eq!(db.is_poisoned(), !asked_in_time, "{name}");
        assert_eq!(db.get("fits").unwrap().map(|value| value.len()), Some(1 << 20), "{name}");
        drop(db);

        let db = open(name, Access::Existing).await;
        pipkin_tape::verified(&db).unwrap();
        assert_eq!(db.get("fits").unwrap().map(|value| value.len()), Some(1 << 20), "{name}");
        assert_eq!(db.get("does not fit").unwrap(), None, "{name}");
    }
}

async fn create(name: &str) -> OpfsStorage {
    open_file(name, Access::Create).await.unwrap()
}

async fn open(name: &str, access: Access) -> Db {
    try_open(name, access).await.unwrap()
}

async fn try_open(name: &str, access: Access) -> Result<Db, Error> {
    let file = open_file(name, access).await.unwrap();
    Db::builder().entropy(entropy().unwrap()).clock(crate::clock::BrowserClock).open_storage(Box::new(file))
}

/// The npm package and the one of wasm-pack call this.
#[wasm_bindgen_test]
async fn what_javascript_stores_it_finds_and_every_failure_has_a_code() {
    let store = Store::open(weak_handle("exports", "").await, true, 1 << 20, 1 << 20, 0, &[]).unwrap();
    put(&[b"key", b"value"]);
    assert_eq!(store.set(3, 5), 0.0);
    put(&[b"key"]);
    assert_eq!((store.get(3), answered(5)), (5.0, b"value".to_vec()));
    put(&[b"key"]);
    assert_eq!(store.has(3), 1.0);
    put(&[b"other"]);
    assert_eq!(store.get(5), -1.0);
    put(&[b"no message"]);
    assert_eq!((store.run(10, 0, 0.0), code_of(&failure())), (-2.0, Some(7.0)));
    put(&[b"key"]);
    assert_eq!(store.delete(3), 1.0);
    store.close().unwrap();
    put(&[b"key"]);
    assert_eq!((store.get(3), code_of(&failure())), (-2.0, Some(8.0)));
    assert_eq!(code_of(&store.stats().unwrap_err()), Some(8.0));
    assert_eq!(
        code_of(&Store::open(weak_handle("no store", "").await, false, 1 << 20, 1 << 20, 0, &[]).unwrap_err()),
        Some(10.0)
    );
}

/// All of the memory of the module, as JavaScript sees it.
fn memory() -> Uint8Array {
    let memory: js_sys::WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    Uint8Array::new(&memory.buffer())
}

/// Puts bytes into the room.
fn put(parts: &[&[u8]]) {
    let bytes = parts.concat();
    memory().set(&Uint8Array::from(&*bytes), room(bytes.len()) as u32);
}

fn answered(len: u32) -> Vec<u8> {
    let at = answer() as u32;
    memory().slice(at, at + len).to_vec()
}

fn code_of(thrown: &JsValue) -> Option<f64> {
    js_sys::Reflect::get(thrown, &"code".into()).unwrap().as_f64()
}
