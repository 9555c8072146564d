//! Handles of one instance, as a program that is composed with the component has them: those that outlive each other, and those of one store on
//! hosts that cannot tell files apart.

use super::build;
use exports::pipkin::kv::store::Options;
use exports::pipkin::kv::types::{Durability, Reason};
use pipkin_wasi_host::{Sandbox, engine, linker};
use std::path::Path;
use wasmtime::component::{Component, Linker, Resource};
use wasmtime::{Store, StoreContextMut};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{DescriptorType, ErrorCode, HostDescriptor};

wasmtime::component::bindgen!({ path: "../wit", world: "pipkin:kv/provider", additional_derives: [PartialEq] });

/// Small segments, and as many bytes of cached blocks as said.
pub(super) const fn options(cache_bytes: u32) -> Options {
    Options {
        create: true,
        read_only: false,
        durability: Durability::Written,
        cache_bytes,
        segment_bytes: 16 * 1024,
        exclusive: false,
        follow: false,
    }
}

/// What it read, the store that was opened anew has written over: `corrupt` was the answer, with nothing wrong in the file.
#[test]
fn a_handle_to_a_store_that_was_closed_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().unwrap();
    let component = Component::from_file(&engine, build::product()).unwrap();
    let mut instance = Store::new(&engine, Sandbox::new(folder.path()).unwrap());
    let provider = Provider::instantiate(&mut instance, &component, &linker(&engine).unwrap()).unwrap();
    let (store, admin) = (provider.pipkin_kv_store(), provider.pipkin_kv_admin());
    let options = options(0);
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

const FILES: &str = "wasi:filesystem/types@0.2.12";

/// An instance under a host whose functions of `wasi:filesystem` are those that `change` puts there.
pub(super) fn instance(folder: &Path, change: impl FnOnce(&mut Linker<Sandbox>)) -> (Store<Sandbox>, Provider) {
    let engine = engine().unwrap();
    let component = Component::from_file(&engine, build::product()).unwrap();
    let mut linker = linker(&engine).unwrap();
    linker.allow_shadowing(true);
    change(&mut linker);
    let mut instance = Store::new(&engine, Sandbox::new(folder).unwrap());
    let provider = Provider::instantiate(&mut instance, &component, &linker).unwrap();
    (instance, provider)
}

/// A host that never says that two descriptors are of one file, as `jco` does.
fn tells_no_files_apart(linker: &mut Linker<Sandbox>) {
    let is_same = |_: StoreContextMut<'_, Sandbox>, _: (Resource<Descriptor>, Resource<Descriptor>)| Ok((false,));
    linker.instance(FILES).unwrap().func_wrap("[method]descriptor.is-same-object", is_same).unwrap();
}

/// Two buckets of one name got an engine each where the host answers that no two descriptors are of one file. Of 600 sets that both acknowledged
/// 300 were lost.
#[test]
fn two_buckets_of_one_name_are_one_store_where_the_host_cannot_tell_files_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut instance, provider) = instance(folder.path(), tells_no_files_apart);
    let store = provider.wasi_keyvalue0_2_0_draft_store();
    let buckets = ["", "default"].map(|name| store.call_open(&mut instance, name).unwrap().unwrap());
    for number in 0..600 {
        let bucket = buckets[number % 2];
        store.bucket().call_set(&mut instance, bucket, &format!("key {number}"), b"value").unwrap().unwrap();
    }
    let other = buckets[1];
    assert!(store.bucket().call_exists(&mut instance, other, "key 0").unwrap().unwrap(), "each sees what the other has set");
    buckets.into_iter().for_each(|bucket| bucket.resource_drop(&mut instance).unwrap());
    drop(instance);
    let db = pipkin::Db::open(folder.path().join("default.pipkin")).unwrap();
    assert_eq!(db.len().unwrap(), 600);
    assert!(db.verify().unwrap().is_ok());
}

/// The name decides only where the host cannot tell: a host that can is believed when it says that the name is another file's by now.
#[cfg(unix)]
#[test]
fn a_name_that_has_become_another_files_is_another_store_where_the_host_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let (mut instance, provider) = instance(folder.path(), |_| ());
    let store = provider.wasi_keyvalue0_2_0_draft_store();
    let set = |instance: &mut Store<Sandbox>, bucket, key: &str| {
        store.bucket().call_set(instance, bucket, key, b"value").unwrap().unwrap();
    };
    let old = store.call_open(&mut instance, "s").unwrap().unwrap();
    set(&mut instance, old, "old");
    std::fs::rename(folder.path().join("s.pipkin"), folder.path().join("aside")).unwrap();
    let new = store.call_open(&mut instance, "s").unwrap().unwrap();
    set(&mut instance, new, "new");
    assert!(!store.bucket().call_exists(&mut instance, new, "old").unwrap().unwrap());
    [old, new].into_iter().for_each(|bucket| bucket.resource_drop(&mut instance).unwrap());
    for (name, key) in [("aside", "old"), ("s.pipkin", "new")] {
        let db = pipkin::Db::open(folder.path().join(name)).unwrap();
        assert!(db.len().unwrap() == 1 && db.contains_key(key).unwrap(), "{name}");
    }
}

/// A host whose folders cannot be synced, and say it by that code.
fn syncs_no_folders(linker: &mut Linker<Sandbox>, code: ErrorCode) {
    let sync = move |mut store: StoreContextMut<'_, Sandbox>, (file,): (Resource<Descriptor>,)| {
        let mut files = store.data_mut().filesystem();
        let again = Resource::new_borrow(file.rep());
        if HostDescriptor::get_type(&mut files, again).is_ok_and(|kind| matches!(kind, DescriptorType::Directory)) {
            return Ok((Err(code),));
        }
        Ok((HostDescriptor::sync_data(&mut files, file).map_err(|error| error.downcast().unwrap().into()),))
    };
    linker.instance(FILES).unwrap().func_wrap("[method]descriptor.sync-data", sync).unwrap();
}

/// A new store syncs the folder that it is in. `jco` answers `invalid` to that, and no store could be made there.
#[test]
fn a_folder_that_cannot_be_synced_is_no_failure_and_one_whose_sync_fails_is() {
    for (code, opens) in [
        (ErrorCode::Invalid, true),
        (ErrorCode::Unsupported, true),
        (ErrorCode::BadDescriptor, true),
        (ErrorCode::Io, false),
        (ErrorCode::InsufficientSpace, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mut instance, provider) = instance(folder.path(), |linker| syncs_no_folders(linker, code));
        let opened = provider.wasi_keyvalue0_2_0_draft_store().call_open(&mut instance, "s").unwrap();
        assert_eq!(opened.is_ok(), opens, "{code:?}: {opened:?}");
        let Ok(bucket) = opened else { continue };
        let store = provider.wasi_keyvalue0_2_0_draft_store();
        store.bucket().call_set(&mut instance, bucket, "key", b"value").unwrap().unwrap();
        bucket.resource_drop(&mut instance).unwrap();
        assert_eq!(pipkin::Db::open(folder.path().join("s.pipkin")).unwrap().len().unwrap(), 1, "{code:?}");
    }
}
