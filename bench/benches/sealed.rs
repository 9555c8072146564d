//! What sealing costs: a store that is not sealed beside one of each cipher, records of a key of 16 bytes and a value of 150.
//!
//! ```text
//! cargo bench -p pipkin-bench --bench sealed
//! ```
//!
//! Times are medians of seven rounds that alternate, in nanoseconds a record, and as ratios to the store that is not sealed.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "a failure ends the measurement, which prints")]

use pipkin::{Cipher, Db};
use pipkin_bench::Random;
use std::path::Path;
use std::time::Instant;

const RECORDS: u64 = 200_000;
const ROUNDS: usize = 7;
const WAYS: [(&str, Option<Cipher>); 3] =
    [("plain", None), ("AES-256-GCM", Some(Cipher::Aes256Gcm)), ("ChaCha20-Poly1305", Some(Cipher::ChaCha20Poly1305))];
const THREADS: [u64; 4] = [1, 2, 4, 8];
const WHAT: [&str; 8] = ["put, 1 thread", "put, 2", "put, 4", "put, 8", "put, 64 KiB", "get", "iterate", "open"];

fn open(path: &Path, cipher: Option<Cipher>) -> Db {
    let builder = match cipher {
        Some(cipher) => Db::builder().encryption_key([7; 32]).cipher(cipher),
        None => Db::builder(),
    };
    builder.path(path).open().expect("the store opens")
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key.iter_mut().zip(number.to_be_bytes()).for_each(|(place, byte)| *place = byte);
    key
}

/// Nanoseconds a step.
fn timed(steps: u64, work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_nanos() as f64 / steps as f64
}

fn put(db: &Db, threads: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let value = [thread as u8; 150];
                for number in (thread..RECORDS).step_by(threads as usize) {
                    db.insert(key(number), value).expect("there is room");
                }
            });
        }
    });
}

/// One of each of `WHAT`.
fn round(folder: &Path, cipher: Option<Cipher>) -> [f64; WHAT.len()] {
    let path = folder.join("sealed.pip");
    let mut found = [0.0; WHAT.len()];
    for (place, threads) in found.iter_mut().zip(THREADS) {
        let db = open(&path, cipher);
        *place = timed(RECORDS, || put(&db, threads));
        db.close().expect("it closes");
        if threads != THREADS[0] {
            std::fs::remove_file(&path).expect("the file is there");
        } else {
            std::fs::rename(&path, folder.join("kept.pip")).expect("the file is there");
        }
    }
    let large = 2000;
    let db = open(&path, cipher);
    let value = vec![7; 64 << 10];
    found[4] = timed(large, || (0..large).for_each(|number| db.insert(key(number % 500), &value).expect("there is room")));
    db.close().expect("it closes");
    std::fs::remove_file(&path).expect("the file is there");
    let mut db = None;
    found[7] = timed(RECORDS, || db = Some(open(&folder.join("kept.pip"), cipher)));
    let db = db.expect("it is open");
    let mut random = Random::new(1);
    let get =
        || (0..RECORDS).for_each(|_| drop(db.get(key(random.below(RECORDS))).expect("it can be read").expect("it is there")));
    found[5] = timed(RECORDS, get);
    found[6] = timed(RECORDS, || assert!(db.iter().filter(Result::is_ok).count() as u64 == RECORDS));
    db.close().expect("it closes");
    std::fs::remove_file(folder.join("kept.pip")).expect("the file is there");
    found
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the stores");
    let rounds: Vec<[[f64; WHAT.len()]; WAYS.len()]> =
        (0..ROUNDS).map(|_| WAYS.map(|(_, cipher)| round(folder.path(), cipher))).collect();
    println!("| ns a record | {} |", WAYS.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(WAYS.len()));
    for (what, name) in WHAT.iter().enumerate() {
        let of = |way: usize| median(rounds.iter().filter_map(|round| round.get(way)?.get(what).copied()).collect());
        let plain = of(0);
        let columns: Vec<String> = (0..WAYS.len()).map(|way| format!("{:.0} ({:.2})", of(way), of(way) / plain)).collect();
        println!("| {name} | {} |", columns.join(" | "));
    }
}
