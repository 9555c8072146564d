//! The engine alone, over memory: what a put and a get cost, natively and in WebAssembly, and with the feature `encrypt` in sealed stores.
//!
//! ```sh
//! cargo run --release -p pipkin-wasi-programs --features native,encrypt --bin memory
//! cargo build -p pipkin-wasi-programs --bin memory --features encrypt --target wasm32-wasip2 --profile component
//! pipkin-host run target/wasm32-wasip2/component/memory.wasm
//! ```
//!
//! 100,000 records of 24 + 150 random bytes, read in another order; the best of seven rounds, in nanoseconds a record. The one takes the
//! processor's CRC-32C and AES, the other has a table, and computes.
#![allow(clippy::indexing_slicing, reason = "constants inside of arrays")]

#[cfg(feature = "encrypt")]
use engine::Cipher;
use engine::{Builder, Db, Result};
use std::hint::black_box;
use std::time::Instant;

const RECORDS: usize = 100_000;
const ROUNDS: usize = 7;

type Record = ([u8; 24], [u8; 150]);

/// A xorshift generator (George Marsaglia): the same records everywhere.
fn records() -> Vec<Record> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut fill = |bytes: &mut [u8]| {
        for byte in bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state.to_le_bytes()[3];
        }
    };
    let mut record = |_| {
        let mut record = ([0; 24], [0; 150]);
        fill(&mut record.0);
        fill(&mut record.1);
        record
    };
    (0..RECORDS).map(&mut record).collect()
}

/// Nanoseconds that `work` took for each record.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e9 / RECORDS as f64)
}

/// A kind of store.
type Way = (&'static str, Builder);

/// The kinds of stores, which take turns.
fn ways() -> Vec<Way> {
    std::iter::once(("plain", Db::builder())).chain(sealed()).collect()
}

#[cfg(feature = "encrypt")]
fn sealed() -> impl Iterator<Item = Way> {
    let ciphers = [("AES-256-GCM", Cipher::Aes256Gcm), ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305)];
    ciphers.into_iter().map(|(name, cipher)| (name, Db::builder().encryption_key([7; 32]).cipher(cipher)))
}

#[cfg(not(feature = "encrypt"))]
fn sealed() -> impl Iterator<Item = Way> {
    std::iter::empty()
}

fn main() -> Result<()> {
    let records = records();
    // A prime that does not divide their number: each is read once.
    let shuffled = || (0..RECORDS).filter_map(|index| records.get(index * 7919 % RECORDS));
    let mut best = vec![[f64::MAX; 2]; ways().len()];
    for _ in 0..ROUNDS {
        for ((_, builder), best) in ways().into_iter().zip(&mut best) {
            let db = builder.in_memory()?;
            let put = timed(|| records.iter().try_for_each(|(key, value)| db.insert(key, value)))?;
            let get = timed(|| {
                shuffled().try_for_each(|(key, value)| {
                    let found = db.get(key)?;
                    assert!(black_box(found).as_deref() == Some(value), "a record is not what was put");
                    Ok(())
                })
            })?;
            *best = [best[0].min(put), best[1].min(get)];
        }
    }
    for ((name, _), [put, get]) in ways().iter().zip(best) {
        println!("{name}: put {put:.0} ns, get {get:.0} ns");
    }
    Ok(())
}
