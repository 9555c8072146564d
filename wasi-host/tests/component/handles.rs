//! Handles of one instance that outlive each other, as a program that is composed with the component has them.

use super::build;
use exports::pipkin::kv::store::Options;
use exports::pipkin::kv::types::{Durability, Reason};
use pipkin_wasi_host::{Sandbox, engine, linker};
use wasmtime::Store;
use wasmtime::component::Component;

wasmtime::component::bindgen!({ path: "../wit", world: "pipkin:kv/provider" });

/// What it read, the store that was opened anew has written over: `corrupt` was the answer, with nothing wrong in the file.
#[test]
fn a_handle_to_a_store_that_was_closed_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().unwrap();
    let component = Component::from_file(&engine, build::product()).unwrap();
    let mut instance = Store::new(&engine, Sandbox::new(folder.path()).unwrap());
    let provider = Provider::instantiate(&mut instance, &component, &linker(&engine).unwrap()).unwrap();
    let (store, admin) = (provider.pipkin_kv_store(), provider.pipkin_kv_admin());
    let options = Options {
        create: true,
        read_only: false,
        durability: Durability::Written,
        cache_bytes: 0,
        segment_bytes: 16 * 1024,
        exclusive: false,
    };
    let open = |instance: &mut Store<Sandbox>| {
        let db = store.db().call_open(&mut *instance, "a.pipkin", options).unwrap().unwrap();
        let records = store.db().call_namespace(&mut *instance, db, None).unwrap().unwrap();
        (0..200_u8).for_each(|n| store.namespace().call_put(&mut *instance, records, &[n], &[n; 200]).unwrap().unwrap());
        (db, records)
    };
    let (first, old) = open(&mut instance);
    let bucket = provider.wasi_keyvalue0_2_0_draft_store().call_open(&mut instance, "a").unwrap().unwrap();
    let scan = store.namespace().call_scan(&mut instance, old, b"").unwrap();
    store.db().call_close(&mut instance, first).unwrap().unwrap();
    let (second, new) = open(&mut instance);
    while admin.call_compact_step(&mut instance, second).unwrap().unwrap().is_some() {}
    let read = store.namespace().call_get(&mut instance, old, &[7]).unwrap();
    assert!(matches!(read.unwrap_err().reason, Reason::Closed));
    let page = store.scan().call_next(&mut instance, scan, 10, 1000).unwrap();
    assert!(matches!(page.unwrap_err().reason, Reason::Closed));
    let written = store.namespace().call_put(&mut instance, old, &[7], b"").unwrap();
    assert!(matches!(written.unwrap_err().reason, Reason::Closed));
    let exists = provider.wasi_keyvalue0_2_0_draft_store().bucket().call_exists(&mut instance, bucket, "k").unwrap();
    assert!(format!("{exists:?}").contains("closed"), "{exists:?}");
    for handle in [old, scan, bucket] {
        handle.resource_drop(&mut instance).unwrap();
    }
    assert_eq!(store.namespace().call_get(&mut instance, new, &[7]).unwrap().unwrap().unwrap(), [7; 200]);
}
