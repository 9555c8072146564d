//! What a call costs: natively, through the component, and from a guest through the provider. Keys of 24 bytes, values of 150, 10,000
//! records, nothing flushed: `cargo bench -p pipkin-wasi-host --bench calls`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step ends the measurement")]

#[path = "../tests/support/build.rs"]
mod build;
#[path = "../tests/support/program.rs"]
mod program;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipkin_wasi_host::keyvalue::WasiKeyValueCtx;
use pipkin_wasi_host::{Durability, Host, Op, Options};
use program::Program;
use std::hint::black_box;
use std::time::Duration;

const KEYS: u64 = 10_000;
const VALUE: [u8; 150] = [7; 150];

fn key(number: u64) -> Vec<u8> {
    format!("{:024x}", number.wrapping_mul(7919) % KEYS).into_bytes()
}

/// Every call gets the next key.
struct Keys(Vec<Vec<u8>>, usize);

impl Keys {
    fn new() -> Self {
        Self((0..KEYS).map(key).collect(), 0)
    }

    fn next(&mut self) -> &[u8] {
        self.1 = (self.1 + 1) % self.0.len();
        self.0.get(self.1).map(Vec::as_slice).unwrap_or_default()
    }

    fn batch(&self) -> Vec<Op> {
        self.0
            .iter()
            .take(100)
            .map(|key| Op { namespace: None, key: key.clone(), value: Some(VALUE.to_vec()), ttl: None })
            .collect()
    }
}

fn native(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let db = pipkin::Db::open(folder.path().join("native")).unwrap();
    let mut keys = Keys::new();
    keys.0.iter().for_each(|key| db.insert(key, VALUE).unwrap());
    let mut group = criterion.benchmark_group("native");
    group.bench_function("put", |bencher| bencher.iter(|| db.insert(keys.next(), VALUE).unwrap()));
    group.bench_function("get", |bencher| bencher.iter(|| black_box(db.get(keys.next()).unwrap())));
    group.throughput(Throughput::Elements(100));
    let batch = keys.batch();
    let write = || {
        let batch = batch.iter().fold(db.batch(), |batch, op| match &op.value {
            Some(value) => batch.insert(&op.key, value),
            None => batch.remove(&op.key),
        });
        batch.commit().unwrap();
    };
    group.bench_function("batch of 100", |bencher| bencher.iter(write));
}

fn component(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::builder().component(build::product()).directory(folder.path()).build().unwrap();
    let mut keys = Keys::new();
    let mut group = criterion.benchmark_group("component");
    for (name, durability) in [("written", Durability::Written), ("buffered", Durability::Buffered)] {
        let mut db = host.open_with(name, Options { durability, ..Options::default() }).unwrap();
        keys.0.iter().for_each(|key| db.insert(key, &VALUE).unwrap());
        group.bench_function(format!("put, {name}"), |bencher| bencher.iter(|| db.insert(keys.next(), &VALUE).unwrap()));
    }
    let mut db = host.open("reads").unwrap();
    keys.0.iter().for_each(|key| db.insert(key, &VALUE).unwrap());
    group.bench_function("get", |bencher| bencher.iter(|| black_box(db.get(keys.next()).unwrap())));
    group.bench_function("get, missing", |bencher| bencher.iter(|| black_box(db.get(keys.next().split_at(1).1).unwrap())));
    group.throughput(Throughput::Elements(100));
    let batch = keys.batch();
    group.bench_function("batch of 100", |bencher| bencher.iter(|| db.write(&batch, Durability::Written).unwrap()));
    group.throughput(Throughput::Elements(KEYS));
    group.sample_size(20);
    group.bench_function("scan of 10,000", |bencher| bencher.iter(|| db.scan(b"").unwrap().count()));
}

/// Sealed, beside the same component without a key.
fn sealed(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let host =
        Host::builder().component(build::sealed()).directory(folder.path()).encryption_key("sealed", [7; 32]).build().unwrap();
    let mut keys = Keys::new();
    let mut group = criterion.benchmark_group("component with sealed stores");
    for name in ["plain", "sealed"] {
        let mut db = host.open(name).unwrap();
        keys.0.iter().for_each(|key| db.insert(key, &VALUE).unwrap());
        group.bench_function(format!("put, {name}"), |bencher| bencher.iter(|| db.insert(keys.next(), &VALUE).unwrap()));
        group.bench_function(format!("get, {name}"), |bencher| bencher.iter(|| black_box(db.get(keys.next()).unwrap())));
    }
}

/// Makes so many calls of a verb, and says how many nanoseconds they took.
type Run<'a> = &'a dyn Fn(&str, u64) -> String;

/// Measured inside of the guest.
fn guests(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("meter");
    let served = Program::new(&path);
    let context = WasiKeyValueCtx::builder().directory(folder.path()).store("served").build();
    let both = Program::of(&build::composed(&path, build::product()));
    let runs: [(&str, Run<'_>); 2] = [
        ("wasi:keyvalue, served", &|verb, count| served.run(&context, &["served", verb, &count.to_string()]).unwrap()),
        ("wasi:keyvalue, composed", &|verb, count| both.run_in(folder.path(), &["composed", verb, &count.to_string()]).unwrap()),
    ];
    for (name, run) in runs {
        let mut group = criterion.benchmark_group(name);
        run("set", KEYS);
        for verb in ["set", "increment", "get", "missing", "set-many", "get-many"] {
            group.bench_function(verb, |bencher| {
                bencher.iter_custom(|count| {
                    // A run of a few calls would measure the start of the instance.
                    let calls = count.max(1000);
                    let took = Duration::from_nanos(run(verb, calls).trim().parse().unwrap());
                    took.mul_f64(count as f64 / calls as f64)
                });
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500)).sample_size(30);
    targets = native, component, sealed, guests
}
criterion_main!(benches);
