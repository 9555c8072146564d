//! What quotas refuse, and what still works at the limit.

use super::Quota;
use crate::keyvalue::WasiKeyValueCtx;
use crate::keyvalue::bucket::{Bucket, Refused};
use pipkin::Db;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn bucket(ctx: &WasiKeyValueCtx, name: &str) -> Bucket {
    Bucket::open(Bucket::find(ctx, name).unwrap()).unwrap()
}

#[track_caller]
fn over(answer: Result<(), Refused>, what: &str) {
    let Err(Refused::Other(words)) = answer else { panic!("{answer:?}") };
    assert!(words.contains("quota") && words.contains(what), "{words}");
}

fn whole(path: &Path) -> u64 {
    let db = Db::open(path).unwrap();
    assert!(db.verify().unwrap().is_ok());
    db.len().unwrap()
}

/// A guest filled 9 GB of file and 7 GB of the host's memory: nothing limited what a store may take.
#[test]
fn a_store_takes_no_more_records_than_its_quota() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::default().records(100);
    let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").quota("", quota).build();
    let bucket = bucket(&ctx, "");
    (0..100).for_each(|n| bucket.set(&format!("k{n}"), b"v").unwrap());
    over(bucket.set("new", b"v"), "records");
    over(bucket.increment("new", |old: u64| old.checked_add(1)).map(drop), "records");
    bucket.set("k7", b"another value").unwrap();
    bucket.delete("k8").unwrap();
    let three: Vec<_> = ["x", "y", "k1"].map(|key| (key.to_owned(), b"v".to_vec())).into();
    over(bucket.set_many(&three), "records");
    assert_eq!(bucket.get("k1").unwrap().unwrap(), b"v");
    bucket.set_many(three.get(1..).unwrap()).unwrap();
    over(bucket.set("z", b"v"), "records");
    drop((bucket, ctx));
    assert_eq!(whole(&folder.path().join("default.pipkin")), 100);
}

#[test]
fn guests_that_write_at_once_get_exactly_the_quota() {
    const MOST: u64 = 700;
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::default().records(MOST);
    let builder = WasiKeyValueCtx::builder().directory(folder.path()).store("a").store("b").total_quota(quota);
    let ctx = builder.build();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (guest, name) in ["a", "b", "a", "b"].into_iter().enumerate() {
            let (ctx, written) = (ctx.clone(), &written);
            scope.spawn(move || {
                let bucket = bucket(&ctx, name);
                let set = |n: &u32| bucket.set(&format!("{guest} {n}"), b"v").is_ok();
                written.fetch_add((0..400).filter(set).count() as u64, Ordering::Relaxed);
            });
        }
    });
    drop(ctx);
    let kept = whole(&folder.path().join("a.pipkin")) + whole(&folder.path().join("b.pipkin"));
    assert_eq!((kept, written.into_inner()), (MOST, MOST));
}

#[test]
fn a_file_does_not_grow_over_its_quota_and_removals_make_room() {
    const MOST: u64 = 2 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("default.pipkin");
    let build = || {
        let builder = WasiKeyValueCtx::builder().directory(folder.path()).store("");
        builder.quota("", Quota::default().file_bytes(MOST)).build()
    };
    let ctx = build();
    let open = bucket(&ctx, "");
    let set = |n: &u32| open.set(&format!("k{n}"), &[7; 1000]);
    let written = (0..3000).take_while(|n| set(n).is_ok()).count() as u32;
    let count = written / 4 * 4;
    over(set(&written), "bytes");
    assert!((1000..2000).contains(&count), "{count}");
    assert!(path.metadata().unwrap().len() <= MOST);
    assert_eq!(open.get("k0").unwrap().unwrap(), [7; 1000]);
    for round in 0..20 {
        (0..count).filter(|n| n % 2 == 0).for_each(|n| open.delete(&format!("k{n}")).unwrap());
        let again = (0..count / 4).filter(|n| set(&(n * 4)).is_ok()).count() as u32;
        assert_eq!(again, count / 4, "in round {round}");
        assert!(path.metadata().unwrap().len() <= MOST);
    }
    drop((open, ctx));
    let records = u64::from(written - count / 2 + count / 4);
    assert_eq!(whole(&path), records);
    let ctx = build();
    assert_eq!(bucket(&ctx, "").get("k1").unwrap().unwrap(), [7; 1000]);
}

#[test]
fn the_files_of_a_context_share_a_quota_also_those_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let before = Db::open(folder.path().join("old.pipkin")).unwrap();
    (0..400_u32).for_each(|n| before.insert(n.to_le_bytes(), [7; 1000]).unwrap());
    before.close().unwrap();
    let used = folder.path().join("old.pipkin").metadata().unwrap().len();
    let builder = || WasiKeyValueCtx::builder().directory(folder.path()).store("old").store("new");
    let all = used + (200 << 10);
    let ctx = builder().total_quota(Quota::default().file_bytes(all)).build();
    let new = bucket(&ctx, "new");
    let count = (0..1000).take_while(|n| new.set(&format!("k{n}"), &[7; 1000]).is_ok()).count();
    assert!((20..200).contains(&count), "{count}");
    over(new.set("k", &[7; 1000]), "bytes");
    let len = |name| folder.path().join(name).metadata().unwrap().len();
    assert!(len("old.pipkin") + len("new.pipkin") <= all);
    drop((new, ctx));
    let ctx = builder().total_quota(Quota::default().file_bytes(used / 2)).build();
    over(bucket(&ctx, "old").set("k", &vec![7; 1 << 20]), "bytes");
}

#[test]
fn an_index_takes_no_more_memory_than_its_quota() {
    const MOST: u64 = 1 << 20;
    let quota = Quota::default().index_bytes(MOST);
    let ctx = WasiKeyValueCtx::builder().store_in_memory("").quota("", quota).build();
    let bucket = bucket(&ctx, "");
    let count = (0..1_000_000).take_while(|n| bucket.set(&format!("k{n}"), b"").is_ok()).count();
    over(bucket.set("new", b""), "memory");
    bucket.set("k1", b"again").unwrap();
    let store = ctx.entry("").unwrap().store().opened().unwrap();
    let used = store.call().unwrap().stats().unwrap().index_bytes;
    println!("{count} records took {used} bytes of {MOST}");
    assert!(count > 20_000 && used < MOST + MOST / 16, "{count} {used}");
}
