//! Records that expire in the component, under the clocks that a host may have.

use super::handles::exports::pipkin::kv::types::{Reason, Ttl};
use super::handles::options;
use super::handles::{Provider, instance};
use pipkin_wasi_host::Sandbox;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::component::{Linker, ResourceAny};
use wasmtime::{Store, StoreContextMut};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;

const CLOCK: &str = "wasi:clocks/wall-clock@0.2.12";

/// A host whose clock shows so many seconds since 1970.
fn shows(linker: &mut Linker<Sandbox>, seconds: Arc<AtomicU64>) {
    let now = move |_: StoreContextMut<'_, Sandbox>, (): ()| {
        Ok((Datetime { seconds: seconds.load(Ordering::Relaxed), nanoseconds: 0 },))
    };
    linker.instance(CLOCK).unwrap().func_wrap("now", now).unwrap();
}

struct Clocked {
    seconds: Arc<AtomicU64>,
    store: Store<Sandbox>,
    provider: Provider,
    db: ResourceAny,
    records: ResourceAny,
}

impl Clocked {
    fn open(folder: &Path, seconds: u64) -> Self {
        let seconds = Arc::new(AtomicU64::new(seconds));
        let (mut store, provider) = instance(folder, |linker| shows(linker, seconds.clone()));
        let options = options(0);
        let kv = provider.pipkin_kv_store();
        let db = kv.db().call_open(&mut store, "a.pipkin", options).unwrap().unwrap();
        let records = kv.db().call_namespace(&mut store, db, None).unwrap().unwrap();
        Self { seconds, store, provider, db, records }
    }

    fn put(&mut self, key: &[u8], ttl: Option<Ttl>) -> Result<(), Reason> {
        let namespace = self.provider.pipkin_kv_store().namespace();
        let done = match ttl {
            None => namespace.call_put(&mut self.store, self.records, key, b"v"),
            Some(ttl) => namespace.call_put_with_ttl(&mut self.store, self.records, key, b"v", ttl),
        };
        done.unwrap().map_err(|error| error.reason)
    }

    fn set_default_ttl(&mut self, ms: u64) -> Result<(), Reason> {
        let namespace = self.provider.pipkin_kv_store().namespace();
        namespace.call_set_default_ttl(&mut self.store, self.records, Some(ms)).unwrap().map_err(|error| error.reason)
    }

    fn expires_at(&mut self, key: &[u8]) -> Option<u64> {
        let namespace = self.provider.pipkin_kv_store().namespace();
        namespace.call_expires_at(&mut self.store, self.records, key).unwrap().unwrap()
    }

    fn has(&mut self, key: &[u8]) -> bool {
        self.provider.pipkin_kv_store().namespace().call_contains(&mut self.store, self.records, key).unwrap().unwrap()
    }

    /// How many records expire, and by how much the clock is behind.
    fn stats(&mut self) -> (u64, u64) {
        let stats = self.provider.pipkin_kv_admin().call_get_stats(&mut self.store, self.db).unwrap().unwrap();
        (stats.expiring, stats.clock_behind_ms)
    }

    fn reset_clock(&mut self) -> Result<u64, Reason> {
        self.provider.pipkin_kv_admin().call_reset_clock(&mut self.store, self.db).unwrap().map_err(|error| error.reason)
    }

    fn sweep_expired(&mut self) -> u64 {
        self.provider.pipkin_kv_admin().call_sweep_expired(&mut self.store, self.db).unwrap().unwrap()
    }

    fn close(mut self) {
        self.provider.pipkin_kv_store().db().call_close(&mut self.store, self.db).unwrap().unwrap();
    }
}

#[test]
fn a_clock_that_goes_back_brings_nothing_back_until_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = Clocked::open(folder.path(), 1_000_000);
    open.put(b"minute", Some(Ttl::After(60_000))).unwrap();
    open.put(b"hour", Some(Ttl::After(3_600_000))).unwrap();
    assert_eq!((open.expires_at(b"minute"), open.stats()), (Some(1_000_060_000), (2, 0)));
    open.seconds.store(1_000_059, Ordering::Relaxed);
    assert!(open.has(b"minute"));
    open.seconds.store(1_000_060, Ordering::Relaxed);
    assert!(!open.has(b"minute") && open.has(b"hour"), "gone to the millisecond");
    open.seconds.store(1_000_000, Ordering::Relaxed);
    assert!(!open.has(b"minute"), "a clock that was set back");
    assert_eq!(open.stats().1, 60_000);
    open.close();

    let mut open = Clocked::open(folder.path(), 1_000_010);
    assert!(!open.has(b"minute"), "also in the next session");
    assert_eq!(open.stats().1, 50_000);
    open.reset_clock().unwrap();
    assert_eq!(open.stats().1, 0);
    open.put(b"again", Some(Ttl::After(1_000))).unwrap();
    assert_eq!(open.expires_at(b"again"), Some(1_000_011_000), "by the clock of the host");
    open.seconds.store(1_000_012, Ordering::Relaxed);
    assert_eq!((open.sweep_expired(), open.sweep_expired()), (1, 0), "once");
    open.close();
}

/// Hosts that give a component no clock let the calls of it answer 0. Everything that was to live for an hour was gone at once on all others.
#[test]
fn a_host_without_a_clock_refuses_what_would_expire_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = Clocked::open(folder.path(), 1_000_000);
    open.put(b"hour", Some(Ttl::After(3_600_000))).unwrap();
    open.close();

    let mut open = Clocked::open(folder.path(), 0);
    assert_eq!(open.put(b"new", Some(Ttl::After(3_600_000))), Err(Reason::NoClock));
    assert_eq!(open.put(b"new", Some(Ttl::At(5_000_000_000))), Err(Reason::NoClock));
    assert_eq!(open.set_default_ttl(1_000), Err(Reason::NoClock));
    assert_eq!(open.reset_clock(), Err(Reason::NoClock));
    assert!(!open.has(b"new") && open.has(b"hour"));
    open.put(b"stays", None).unwrap();
    open.put(b"forever", Some(Ttl::Never)).unwrap();
    open.close();

    let mut open = Clocked::open(folder.path(), 1_003_599);
    assert!(open.has(b"hour") && open.has(b"stays") && open.has(b"forever"));
    open.seconds.store(1_003_600, Ordering::Relaxed);
    assert!(!open.has(b"hour") && open.has(b"stays"));
    open.close();
}
