//! A guest that exports `wasi:keyvalue/watcher` is told of what others do to a store.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step is a failed test")]

#[path = "support/build.rs"]
mod build;
#[path = "support/ctx.rs"]
mod ctx;

use ctx::{Ctx, view};
use pipkin::Db;
use pipkin_wasi_host::keyvalue::{self, SyncPolicy, WasiKeyValueCtx, Watcher};
use std::time::Duration;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::WasiCtx;

struct Host {
    engine: Engine,
    component: Component,
}

impl Host {
    fn new(program: &str) -> Self {
        let engine = pipkin_wasi_host::engine().unwrap();
        let component = Component::from_file(&engine, build::program(program)).unwrap();
        Self { engine, component }
    }

    fn watch(&self, watched: &Db, told: &Db, consumer: Option<&str>) -> wasmtime::Result<(Store<Ctx>, Watcher<Ctx>)> {
        let context = WasiKeyValueCtx::builder().engine("watched", watched.clone(), SyncPolicy::Manual);
        let context = context.engine("told", told.clone(), SyncPolicy::Manual).build();
        let mut linker = Linker::<Ctx>::new(&self.engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
        keyvalue::add_to_linker(&mut linker, view).unwrap();
        let ctx = Ctx { wasi: WasiCtx::builder().inherit_stderr().build(), table: ResourceTable::new(), keyvalue: context };
        let mut store = Store::new(&self.engine, ctx);
        let instance = linker.instantiate(&mut store, &self.component).unwrap();
        let watcher = Watcher::new(&mut store, &instance, view, "watched", consumer)?;
        Ok((store, watcher))
    }
}

/// The lines that the guest has kept, which are taken.
fn lines(told: &Db) -> Vec<String> {
    let mut lines: Vec<_> = told.iter().map(Result::unwrap).filter(|(key, _)| key != b"count").collect();
    lines.sort();
    told.clear().unwrap();
    lines.into_iter().map(|(_, line)| String::from_utf8(line).unwrap()).collect()
}

#[test]
fn a_guest_is_told_of_every_set_and_delete_in_order_once_it_is_durable() {
    let (host, watched, told) = (Host::new("watching"), Db::open_in_memory().unwrap(), Db::open_in_memory().unwrap());
    watched.insert("before", "1").unwrap();
    let (mut store, mut watcher) = host.watch(&watched, &told, None).unwrap();
    let mut tell = || watcher.tell(&mut store, Duration::from_millis(1)).unwrap();
    watched.insert("a", "1").unwrap();
    assert_eq!(tell(), 0, "it is not durable yet");
    watched.batch().insert("a", "2").insert("b", "").remove("before").remove("never").insert([0xff], "x").commit().unwrap();
    watched.namespace("other").unwrap().insert("a", "no part of a bucket").unwrap();
    watched.insert("c", "3").unwrap();
    watched.flush().unwrap();
    assert_eq!((tell(), tell(), tell(), tell()), (1, 3, 1, 0));
    assert_eq!(lines(&told), ["set a 1, and changed since", "set a 2", "set b ", "delete before", "set c 3"]);
    // What a guest does in its turn it is told of, too.
    watched.insert("undo", "me").unwrap();
    watched.flush().unwrap();
    assert_eq!(tell(), 1);
    watched.flush().unwrap();
    assert_eq!((tell(), tell()), (1, 0));
    assert_eq!(lines(&told), ["set undo me", "delete undo"]);
    watched.clear().unwrap();
    watched.flush().unwrap();
    assert_eq!(tell(), 0);
}

#[test]
fn a_consumer_goes_on_where_the_component_was_told_last() {
    let (host, watched, told) = (Host::new("watching"), Db::open_in_memory().unwrap(), Db::open_in_memory().unwrap());
    let consumer = Some("mailer");
    drop(host.watch(&watched, &told, consumer).unwrap());
    for round in 0..20 {
        watched.insert("k", round.to_string()).unwrap();
        watched.compact().unwrap();
    }
    watched.flush().unwrap();
    let (mut store, mut watcher) = host.watch(&watched, &told, consumer).unwrap();
    for _ in 0..12 {
        assert_eq!(watcher.tell(&mut store, Duration::ZERO).unwrap(), 1);
    }
    drop((store, watcher));
    let (mut store, mut watcher) = host.watch(&watched, &told, consumer).unwrap();
    while watcher.tell(&mut store, Duration::ZERO).unwrap() > 0 {}
    let expected: Vec<String> =
        (0..20).map(|round| format!("set k {round}{}", if round == 19 { "" } else { ", and changed since" })).collect();
    assert_eq!(lines(&told), expected);
}

#[test]
fn a_component_without_the_export_and_a_store_that_is_not_listed_are_refused() {
    let (watched, told) = (Db::open_in_memory().unwrap(), Db::open_in_memory().unwrap());
    let refused = Host::new("counter").watch(&watched, &told, None);
    assert!(refused.is_err_and(|error| format!("{error:?}").contains("wasi:keyvalue/watcher")));
}
