//! Transactions that want the same keys: 8 threads, each of whose transactions reads one of 16 counters and writes it back one higher, beside
//! fjall (optimistic, as here) and redb (one writer at a time). No commit is flushed. At the end the counters must add up to the commits.

mod fjall;
mod pipkin;
mod redb;

use std::path::Path;
use std::time::Instant;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const KEYS: u64 = 16;
const THREADS: u64 = 8;
const ROUNDS: usize = 5;

pub(crate) fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

pub(crate) fn one_higher(old: &[u8]) -> Result<[u8; 8]> {
    Ok((u64::from_le_bytes(old.try_into()?) + 1).to_le_bytes())
}

/// A store whose transactions raise counters.
pub(crate) trait Counters: Sized + Sync {
    /// Opens a store in an empty folder, with a counter of 0 for each of `keys` keys.
    fn open(folder: &Path, keys: u64) -> Result<Self>;

    /// Raises a counter in a transaction, which runs again after each conflict; returns how often it ran.
    fn raise(&self, key: [u8; 8]) -> Result<u64>;

    fn value(&self, key: [u8; 8]) -> Result<u64>;
}

/// Commits a second, and how often each transaction ran.
fn measure<C: Counters>(steps: u64) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir_in(".")?;
    let counters = C::open(folder.path(), KEYS)?;
    let raise = |thread: u64| (0..steps).map(|step| counters.raise(key((thread * 7 + step * 5) % KEYS))).sum::<Result<u64>>();
    let begun = Instant::now();
    let runs = std::thread::scope(|scope| {
        let raise = &raise;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || raise(thread))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread has panicked")?).sum::<Result<u64>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let (commits, sum) = (THREADS * steps, (0..KEYS).map(|number| counters.value(key(number))).sum::<Result<u64>>()?);
    if sum != commits {
        return Err(format!("{commits} commits have raised the counters by {sum}").into());
    }
    Ok((commits as f64 / seconds, runs as f64 / commits as f64))
}

fn main() -> Result<()> {
    let steps: u64 = std::env::var("PIPKIN_STEPS").map_or(Ok(20_000), |steps| steps.parse())?;
    let engines: [(&str, fn(u64) -> Result<(f64, f64)>); 3] =
        [("pipkin", measure::<pipkin::Pipkin>), ("fjall", measure::<fjall::Fjall>), ("redb", measure::<redb::Redb>)];
    let mut all = engines.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, measure), rounds) in engines.iter().zip(&mut all) {
            rounds.push(measure(steps)?);
        }
    }
    println!("{THREADS} threads, {KEYS} keys, medians of {ROUNDS} rounds that alternate");
    for ((name, _), rounds) in engines.iter().zip(&mut all) {
        rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (rate, runs) = rounds[ROUNDS / 2];
        println!("{name:8} {rate:9.0} commits a second, {runs:.2} runs a commit");
    }
    Ok(())
}
