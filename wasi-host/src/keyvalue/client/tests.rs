//! What a guest of `pipkin:kv` is refused, and what it leaves behind.

use super::wit;
use super::wit::pipkin::kv::admin::Host as Admin;
use super::wit::pipkin::kv::store::{HostDb, HostNamespace, HostScan, HostSnapshot, Options, Secret};
use super::wit::pipkin::kv::types::{Compression, Durability, Error, Op, Reason, Ttl};
use crate::keyvalue::{Quota, SyncPolicy, WasiKeyValue, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
use pipkin::limits::KEY_LEN_MAX;
use std::time::Duration;
use wasmtime::component::{Resource, ResourceTable};

fn options(read_only: bool) -> Options {
    let durability = Durability::Written;
    Options { create: true, read_only, durability, cache_bytes: 0, segment_bytes: 0, exclusive: false, follow: false }
}

fn op(namespace: &str, key: &[u8], value: Option<Vec<u8>>) -> Op {
    Op { namespace: Some(namespace.to_owned()), key: key.to_vec(), value, ttl: None }
}

#[test]
fn a_write_that_the_quota_refuses_leaves_no_namespace_and_says_so_in_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("default.pipkin");
    let builder = || WasiKeyValueCtx::builder().directory(folder.path()).store("");
    let mut table = ResourceTable::new();
    let ctx = builder().quota("", Quota::default().file_bytes(200 << 10).records(50).namespaces(2)).build();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
    let mut write = |ops: Vec<Op>| HostDb::write(&mut view, Resource::new_own(db.rep()), ops, Durability::Written);
    let reason = |answer: Result<(), Error>| answer.unwrap_err().reason;
    write(vec![op("a", b"k", Some(vec![1]))]).unwrap();
    assert!(matches!(reason(write(vec![op("b", b"k", Some(vec![7; 1 << 20]))])), Reason::Quota));
    let many = (0..60_u8).map(|n| op("b", &[n], Some(vec![]))).collect();
    assert!(matches!(reason(write(many)), Reason::Quota));
    let names = ["b", "c", "d"].map(|name| op(name, b"k", Some(vec![]))).into();
    assert!(matches!(reason(write(names)), Reason::Quota));
    assert!(matches!(reason(write(vec![op("b", &[0; KEY_LEN_MAX + 1], Some(vec![]))])), Reason::KeyTooLong(_)));
    write(vec![op("nothing is in there", b"k", None)]).unwrap();
    drop(table);
    drop(ctx);
    let db = pipkin::Db::open(&path).unwrap();
    assert_eq!(db.list_namespaces(), ["a"]);
    assert!(db.verify().unwrap().is_ok());
}

#[test]
fn a_copy_counts_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let names = |quota| WasiKeyValueCtx::builder().directory(folder.path()).store("a").store("b").total_quota(quota).build();
    let source = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
    source.insert("k", vec![7; 100 << 10]).unwrap();
    source.close().unwrap();
    let used = folder.path().join("a.pipkin").metadata().unwrap().len();
    for (most, fits) in [(used + used / 2, false), (4 * used, true)] {
        let ctx = names(Quota::default().file_bytes(most));
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let db = HostDb::open(&mut view, "a".to_owned(), options(false)).unwrap();
        let own = || Resource::new_own(db.rep());
        let copied = wit::pipkin::kv::admin::Host::backup(&mut view, own(), "b".to_owned());
        assert_eq!((copied.is_ok(), folder.path().join("b.pipkin").exists()), (fits, fits), "{copied:?}");
        assert!(fits || matches!(copied.unwrap_err().reason, Reason::Quota));
    }
}

#[test]
fn a_prefix_that_no_key_has_is_an_empty_walk_and_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").build();
    let mut table = ResourceTable::new();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
    let space = HostDb::namespace(&mut view, db, None).unwrap();
    let own = || Resource::new_own(space.rep());
    for key in [vec![1; 2], vec![1; KEY_LEN_MAX]] {
        view.put(own(), key, vec![]).unwrap();
    }
    let mut found = |len| {
        let scan = view.scan(own(), vec![1; len]).unwrap();
        let records = HostScan::next(&mut view, Resource::new_own(scan.rep()), 10, u32::MAX).unwrap().len();
        (records, view.table.get(&scan).unwrap().kept_bytes())
    };
    assert_eq!(found(1), (2, 1));
    assert_eq!(found(KEY_LEN_MAX), (1, KEY_LEN_MAX));
    assert_eq!(found(KEY_LEN_MAX + 1), (0, 0));
}

/// A guest says when values are compressed; in a sealed store only where the embedder allows it.
#[test]
fn values_are_compressed_as_the_guest_says_and_the_embedder_allows() {
    let plain = |ctx: WasiKeyValueCtxBuilder| ctx;
    let sealed = |ctx: WasiKeyValueCtxBuilder| ctx.encryption_key("", [7; 32]);
    let allowed = |ctx: WasiKeyValueCtxBuilder| ctx.compress_sealed("").encryption_key("", [7; 32]);
    let ways: [(&dyn Fn(WasiKeyValueCtxBuilder) -> WasiKeyValueCtxBuilder, bool); 3] =
        [(&plain, true), (&sealed, false), (&allowed, true)];
    for (way, compresses) in ways {
        let folder = tempfile::tempdir().unwrap();
        let ctx = way(WasiKeyValueCtx::builder().directory(folder.path()).store("")).build();
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
        let own = || Resource::new_own(db.rep());
        let space = HostDb::namespace(&mut view, own(), None).unwrap();
        let records = || Resource::new_own(space.rep());
        assert_eq!(view.compression(records()).unwrap(), Compression::Off);
        let answer = view.set_compression(records(), Compression::OnWrite);
        match answer {
            Ok(()) => assert!(compresses),
            Err(error) => assert!(!compresses && matches!(error.reason, Reason::InvalidArgument), "{error:?}"),
        }
        view.put(records(), b"zeros".to_vec(), vec![0; 10_000]).unwrap();
        assert_eq!(view.get(records(), b"zeros".to_vec()).unwrap(), Some(vec![0; 10_000]));
        let live = Admin::get_stats(&mut view, own()).unwrap().live_bytes;
        assert_eq!(live < 5000, compresses, "{live}");
        let set = if compresses { Compression::OnWrite } else { Compression::Off };
        assert_eq!(view.compression(records()).unwrap(), set);
    }
}

/// The embedder has the secret: a guest opens the store without one, and gets nothing for one that it brings, be it right or wrong.
#[test]
fn a_guest_that_brings_a_secret_to_a_store_of_the_host_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = WasiKeyValueCtx::builder()
        .directory(folder.path())
        .store("sealed")
        .store("plain")
        .encryption_key("sealed", [7; 32])
        .build();
    let mut table = ResourceTable::new();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    for name in ["sealed", "plain", "unknown"] {
        for secret in
            [Secret::Key(vec![7; 32]), Secret::Key(vec![8; 32]), Secret::Key(vec![]), Secret::Passphrase(b"none".to_vec())]
        {
            let error = HostDb::open_sealed(&mut view, name.to_owned(), options(false), secret).unwrap_err();
            assert!(matches!(error.reason, Reason::AccessDenied) && error.message.contains("`open`"), "{error:?}");
        }
    }
    HostDb::open(&mut view, "sealed".to_owned(), options(false)).unwrap();
}

/// What the clock of the embedder's engine shows counts for guests, too; a guest that looks after its store sees that it is wrong.
#[test]
fn a_clock_of_the_host_that_goes_back_brings_nothing_back_until_it_is_asked_to() {
    let clock = pipkin::testing::TestClock::new(1_000_000_000);
    let native = pipkin::Db::builder().clock(clock.clone()).in_memory().unwrap();
    let ctx = WasiKeyValueCtx::builder().engine("s", native, SyncPolicy::Manual).build();
    let mut table = ResourceTable::new();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    let db = HostDb::open(&mut view, "s".to_owned(), options(false)).unwrap();
    let own = || Resource::new_own(db.rep());
    let space = HostDb::namespace(&mut view, own(), None).unwrap();
    let records = || Resource::new_own(space.rep());
    view.put_with_ttl(records(), b"k".to_vec(), b"v".to_vec(), Ttl::After(60_000)).unwrap();
    assert_eq!(view.expires_at(records(), b"k".to_vec()).unwrap(), Some(1_000_060_000));
    clock.advance(Duration::from_secs(60));
    assert!(!view.contains(records(), b"k".to_vec()).unwrap());
    clock.set(1_000_000_000);
    assert!(!view.contains(records(), b"k".to_vec()).unwrap());
    assert_eq!(Admin::get_stats(&mut view, own()).unwrap().clock_behind_ms, 60_000);
    Admin::reset_clock(&mut view, own()).unwrap();
    assert_eq!(Admin::get_stats(&mut view, own()).unwrap().clock_behind_ms, 0);
    clock.advance(Duration::from_secs(60));
    // Maintenance may have come first.
    assert!(Admin::sweep_expired(&mut view, own()).unwrap() <= 1);
    assert_eq!(Admin::get_stats(&mut view, own()).unwrap().expiring, 0);
    clock.set(1_000_000_000);
    Admin::reset_clock(&mut view, own()).unwrap();

    let reader = HostDb::open(&mut view, "s".to_owned(), options(true)).unwrap();
    let read_only = HostDb::namespace(&mut view, reader, None).unwrap();
    let read_only = || Resource::new_own(read_only.rep());
    let refused = [
        view.put_with_ttl(read_only(), b"k".to_vec(), b"v".to_vec(), Ttl::Never),
        view.persist(read_only(), b"k".to_vec()).map(drop),
        view.set_default_ttl(read_only(), Some(1)),
    ];
    assert!(refused.into_iter().all(|answer| matches!(answer.unwrap_err().reason, Reason::ReadOnly)));
    let lasting = view.with_ttl(read_only(), Some(Ttl::Never)).unwrap();
    assert!(matches!(view.put(lasting, b"k".to_vec(), b"v".to_vec()).unwrap_err().reason, Reason::ReadOnly));
}

/// Overwriting takes no new record, so no quota saw what is kept for snapshots: a guest that took one after the other, and wrote everything
/// over each time, got any amount of the host's memory.
#[test]
fn snapshots_take_no_more_memory_than_the_quota_and_the_oldest_says_that_it_was_ended() {
    const MOST: u64 = 1 << 20;
    let quota = Quota::default().index_bytes(MOST);
    let ctx = WasiKeyValueCtx::builder().store_in_memory("").quota("", quota).build();
    let mut table = ResourceTable::new();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
    let own = || Resource::new_own(db.rep());
    let space = HostDb::namespace(&mut view, own(), None).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..20_u8 {
        for key in 0..10_000_u32 {
            view.put(Resource::new_own(space.rep()), key.to_le_bytes().to_vec(), vec![round; 100]).unwrap();
        }
        snapshots.push(HostDb::snapshot(&mut view, own()).unwrap());
    }
    let store = ctx.entry("").unwrap().store().opened().unwrap();
    let held = || {
        let stats = store.call().unwrap().stats().unwrap();
        stats.snapshot_memory_bytes + stats.snapshot_held_bytes
    };
    // Maintenance is another thread's.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while held() > 5 * MOST && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    println!("{} snapshots hold {} bytes of {MOST}", snapshots.len(), held());
    assert!(held() <= 5 * MOST, "{}", held());
    let oldest = snapshots.swap_remove(0);
    assert!(matches!(HostSnapshot::namespaces(&mut view, oldest).unwrap_err().reason, Reason::SnapshotTooOld));
    let newest = snapshots.pop().unwrap();
    assert_eq!(HostSnapshot::namespaces(&mut view, newest).unwrap(), Vec::<String>::new());
}

#[test]
fn a_guest_follows_a_file_that_another_process_writes_and_is_up_to_date_where_the_host_writes() {
    let folder = tempfile::tempdir().unwrap();
    let outside = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
    outside.insert("k", "1").unwrap();
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("a").store("b").build();
    let mut table = ResourceTable::new();
    let mut view = WasiKeyValue::new(&ctx, &mut table);
    let following = Options { follow: true, ..options(false) };
    let records = |view: &mut WasiKeyValue<'_>, name: &str, options: Options| {
        let db = HostDb::open(view, name.to_owned(), options)?;
        let own = Resource::new_own(db.rep());
        Ok::<_, Error>((db, HostDb::namespace(view, own, None)?.rep()))
    };
    let locked = records(&mut view, "a", options(true)).map(drop).unwrap_err();
    assert!(matches!(locked.reason, Reason::Locked));
    let (db, space) = records(&mut view, "a", following).unwrap();
    let get = |view: &mut WasiKeyValue<'_>| HostNamespace::get(view, Resource::new_own(space), b"k".to_vec()).unwrap().unwrap();
    let refresh = |view: &mut WasiKeyValue<'_>, db: u32| HostDb::refresh(view, Resource::new_own(db));
    outside.insert("k", "2").unwrap();
    assert_eq!(get(&mut view), b"1");
    assert!(refresh(&mut view, db.rep()).unwrap() && !refresh(&mut view, db.rep()).unwrap());
    assert_eq!(get(&mut view), b"2");
    let put = HostNamespace::put(&mut view, Resource::new_own(space), b"k".to_vec(), b"3".to_vec());
    assert!(matches!(put.unwrap_err().reason, Reason::ReadOnly));
    outside.close().unwrap();

    let (writer, space) = records(&mut view, "b", options(false)).unwrap();
    let (reader, same) = records(&mut view, "b", following).unwrap();
    HostNamespace::put(&mut view, Resource::new_own(space), b"k".to_vec(), b"1".to_vec()).unwrap();
    assert_eq!(HostNamespace::get(&mut view, Resource::new_own(same), b"k".to_vec()).unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!refresh(&mut view, reader.rep()).unwrap());
    assert!(matches!(refresh(&mut view, writer.rep()).unwrap_err().reason, Reason::InvalidArgument));
}
