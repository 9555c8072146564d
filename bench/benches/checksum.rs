//! The checksum of short and of long bytes, beside the crate `crc32c`, and of long ones that are in no cache. In nanoseconds, the best of several rounds.
//!
//! `cargo bench -p pipkin-bench --bench checksum`

use std::hint::black_box;
use std::time::Instant;

const LENGTHS: [usize; 8] = [20, 60, 100, 170, 250, 768, 4096, 65_536];
const ROUNDS: usize = 7;
/// Bytes that are summed in one round.
const ROUND_BYTES: usize = 64 << 20;

fn main() {
    // `cargo bench -- --test` only looks whether it runs.
    let round = if std::env::args().any(|argument| argument == "--test") { 1 << 20 } else { ROUND_BYTES };
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    println!("{:>8}  {:>8}  {:>8}", "bytes", "pipkin", "crc32c");
    for len in LENGTHS {
        let [own, other] = [pipkin::crc32c, crc32c::crc32c].map(|sum: fn(&[u8]) -> u32| {
            let count = round / (len + 100);
            let best = (0..ROUNDS).map(|_| nanoseconds(sum, &bytes, len, count)).fold(f64::MAX, f64::min);
            (best * 10.0).round() / 10.0
        });
        println!("{len:>8}  {own:>8}  {other:>8}");
    }
    for len in [16_384, 65_536] {
        let [own, other] = [pipkin::crc32c, crc32c::crc32c].map(|sum: fn(&[u8]) -> u32| cold(sum, len, round));
        println!("{len:>8}  {own:>8.0}  {other:>8.0}, in no cache");
    }
}

/// What a checksum of long bytes takes that were not touched lately, in nanoseconds: the best of several rounds. Their length is a power of two.
fn cold(sum: fn(&[u8]) -> u32, len: usize, round: usize) -> f64 {
    let bytes = vec![7_u8; 8 * round];
    let places = bytes.len() / len;
    let once = |_| {
        let start = Instant::now();
        // Each place once, in an order that no processor foresees: the factor is odd, and the number of places a power of two.
        let all = (0..places)
            .map(|number| number * 7919 % places * len)
            .fold(0, |all, at| all ^ sum(black_box(bytes.get(at..at + len).unwrap_or_default())));
        black_box(all);
        start.elapsed().as_nanos() as f64 / places as f64
    };
    (0..ROUNDS).map(once).fold(f64::MAX, f64::min)
}

/// What one checksum takes. Each begins at another place, as records do.
fn nanoseconds(sum: fn(&[u8]) -> u32, bytes: &[u8], len: usize, count: usize) -> f64 {
    let (mut at, mut all) = (0, 0);
    let start = Instant::now();
    for _ in 0..count {
        all ^= sum(black_box(bytes.get(at..at + len).unwrap_or_default()));
        at = (at + len + 3) % 100_000;
    }
    black_box(all);
    start.elapsed().as_nanos() as f64 / count as f64
}
