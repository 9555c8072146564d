//! What transactions cost beside the same writes without one: 10 reads and 10 writes of keys that nobody else uses, by 1 and 8 threads, beside
//! batches; one read and one write beside `insert`; 16 keys that all threads want; and `insert` while a transaction lives.
//!
//! `cargo bench -p pipkin-bench --bench transactions`
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Keys of each thread, and those that all threads want.
const KEYS: u64 = 20_000;
const CONTENDED: u64 = 16;
/// Alternations of what is compared.
const ROUNDS: usize = 5;
const THREADS: u64 = 8;

fn key(thread: u64, number: u64) -> [u8; 8] {
    ((thread << 32) + number % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Runs `step` for each thread and each number, and returns how long that takes for one step, in microseconds.
fn time(threads: u64, steps: u64, step: impl Fn(u64, u64) + Sync) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let step = &step;
            scope.spawn(move || (0..steps).for_each(|number| step(thread, number)));
        }
    });
    begun.elapsed().as_secs_f64() * 1e6 / (threads * steps) as f64
}

/// Compares two ways; the second is the one with transactions.
fn compare(what: &str, without: impl Fn() -> f64, with: impl Fn() -> f64) {
    let (mut plain, mut transactions): (Vec<f64>, Vec<f64>) = (0..ROUNDS).map(|_| (without(), with())).unzip();
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let (plain, transactions) = (median(&mut plain), median(&mut transactions));
    println!("{what:58} {plain:8.2} us, {transactions:8.2} us: {:.2} times", transactions / plain);
}

fn ten_and_ten(db: &Db, thread: u64, number: u64) {
    let mut tx = db.begin().expect("begin");
    for place in 0..10 {
        black_box(tx.get(key(thread, number * 20 + place)).expect("get"));
        tx.insert(key(thread, number * 20 + 10 + place), [1; 100]).expect("insert");
    }
    tx.commit().expect("nobody else uses these keys");
}

fn batch_of_ten(db: &Db, thread: u64, number: u64) {
    let mut batch = db.batch();
    for place in 0..10 {
        black_box(db.get(key(thread, number * 20 + place)).expect("get"));
        batch = batch.insert(key(thread, number * 20 + 10 + place), [1; 100]);
    }
    batch.commit().expect("commit");
}

fn main() {
    // `cargo bench -- --test` only looks whether it runs.
    let steps = if std::env::args().any(|argument| argument == "--test") { 10 } else { 10_000 };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let db = Db::builder().path(folder.path().join("store.pipkin")).open().expect("the store opens");
    for thread in 0..THREADS {
        db.insert_many((0..KEYS).map(|number| (key(thread, number), [0; 100]))).expect("insert");
    }
    for threads in [1, THREADS] {
        let batches = || time(threads, steps, |thread, number| batch_of_ten(&db, thread, number));
        let transactions = || time(threads, steps, |thread, number| ten_and_ten(&db, thread, number));
        compare(&format!("{threads} threads, 10 reads, then 10 writes: batch, transaction"), batches, transactions);
    }
    for threads in [1, THREADS] {
        let insert = |thread, number| {
            black_box(db.get(key(thread, number)).expect("get"));
            db.insert(key(thread, number), [2; 100]).expect("insert");
        };
        let transaction = |thread, number| {
            db.transaction(|tx| {
                black_box(tx.get(key(thread, number))?);
                tx.insert(key(thread, number), [2; 100])
            })
            .expect("commit");
        };
        let (plain, with) = (|| time(threads, steps, insert), || time(threads, steps, transaction));
        compare(&format!("{threads} threads, one read, one write: insert, transaction"), plain, with);
    }
    let runs = AtomicU64::new(0);
    let update = |thread: u64, number: u64| {
        let count = |old: Option<&[u8]>| old.and_then(|old| old.first().copied()).map(|old| vec![old.wrapping_add(1); 100]);
        db.update(key(0, (thread * 7 + number * 5) % CONTENDED), count).expect("update");
    };
    let transaction = |thread: u64, number: u64| {
        db.transaction(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let old = tx.get(key(0, (thread * 7 + number * 5) % CONTENDED))?.and_then(|old| old.first().copied());
            tx.insert(key(0, (thread * 7 + number * 5) % CONTENDED), [old.unwrap_or(0).wrapping_add(1); 100])
        })
        .expect("commit");
    };
    compare("8 threads, 16 keys: update, transaction", || time(THREADS, steps, update), || time(THREADS, steps, transaction));
    let least = ROUNDS as u64 * THREADS * steps;
    println!("{:58} {:8.2} runs a commit", "", runs.into_inner() as f64 / least as f64);
    let insert = |thread, number| db.insert(key(thread, number), [3; 100]).expect("insert");
    let beside = || {
        let tx = db.begin().expect("begin");
        black_box(tx.get("none").expect("get"));
        time(THREADS, steps, insert)
    };
    compare("8 threads, insert: alone, while a transaction lives", || time(THREADS, steps, insert), beside);
}
