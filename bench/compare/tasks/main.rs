//! 10,000 tasks on two threads of tokio, each of which reads and makes durable writes: pipkin's async face beside redb and fjall behind
//! `spawn_blocking`, and for how long a poll keeps its thread.
//!
//! `cargo run --release --no-default-features --features tasks --bin pipkin-compare-tasks`; `PIPKIN_BENCH_TASKS`, `_GETS` and `_PUTS` (of each
//! task), `_RECORDS` (there before), `_ROUNDS`, `_PEERS` (names, with commas), `_DIR`. Every value that is read is added up, and the sum compared.
//! Rates and polls come from passes of their own: measuring a poll costs microseconds.

mod blocked;
mod engines;

use blocked::Measured;
use engines::{Engine, Fjall, Key, Pipkin, PipkinBlocking, Redb, VALUE_LEN};
use std::time::Instant;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

struct Sizes {
    tasks: u64,
    gets: u64,
    puts: u64,
    records: u64,
    rounds: u64,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(format!("PIPKIN_BENCH_{name}")).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A mixer of bits: the same bytes for the same number, everywhere.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn key(number: u64) -> Key {
    let mut key = [0; 24];
    for (place, part) in key.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *part = mixed(number * 3 + place as u64).to_le_bytes();
    }
    key
}

fn value(number: u64) -> [u8; VALUE_LEN] {
    let mut value = [0; VALUE_LEN];
    for (place, part) in value.chunks_mut(8).enumerate() {
        part.iter_mut().zip(mixed(!number ^ place as u64).to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    value
}

/// One task: gets among records that were there, then durable puts of new ones.
async fn work<E: Engine>(engine: E, task: u64, sizes: (u64, u64, u64)) -> Result<()> {
    let (gets, puts, records) = sizes;
    for turn in 0..puts {
        for get in 0..gets {
            let asked = mixed((task * puts + turn) * gets + get) % records;
            let expected: u64 = value(asked).iter().map(|byte| u64::from(*byte)).sum();
            if engine.get(key(asked)).await? != expected {
                return Err("an engine has answered with another value".into());
            }
        }
        let new = records + task * puts + turn;
        engine.put(key(new), value(new)).await?;
    }
    Ok(())
}

/// Seconds of all tasks together.
fn run<E: Engine>(sizes: &Sizes, is_measured: bool) -> Result<f64> {
    let folder = match std::env::var_os("PIPKIN_BENCH_DIR") {
        Some(path) => tempfile::tempdir_in(path)?,
        None => tempfile::tempdir_in(".")?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let engine = E::open(folder.path())?;
    let records: Vec<_> = (0..sizes.records).map(|number| (key(number), value(number))).collect();
    engine.load(&records)?;
    let each = (sizes.gets, sizes.puts, sizes.records);
    let began = Instant::now();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..sizes.tasks {
            let work = work(engine.clone(), task, each);
            if is_measured {
                tasks.spawn(Measured(Box::pin(work)));
            } else {
                tasks.spawn(work);
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Result::<()>::Ok(())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn measure<E: Engine>(name: &str, sizes: &Sizes) -> Result<()> {
    let peers = std::env::var("PIPKIN_BENCH_PEERS").unwrap_or_default();
    if !peers.is_empty() && !peers.split(',').any(|peer| peer == name) {
        return Ok(());
    }
    let mut seconds = (0..sizes.rounds).map(|_| run::<E>(sizes, false)).collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN);
    let calls = (sizes.tasks * sizes.puts * (sizes.gets + 1)) as f64;
    blocked::take();
    run::<E>(sizes, true)?;
    let polls = blocked::take();
    println!(
        "{name:16} {:9.0} calls/s, {:8.0} durable puts/s (median of {}); {} polls, longest {} us, asleep at most {} us, more than 1 ms {} times",
        calls / median,
        (sizes.tasks * sizes.puts) as f64 / median,
        seconds.len(),
        polls.count,
        polls.longest_us,
        polls.longest_blocked_us,
        polls.blocked_over_1_ms,
    );
    Ok(())
}

fn main() -> Result<()> {
    let sizes = Sizes {
        tasks: number("TASKS", 10_000),
        gets: number("GETS", 9),
        puts: number("PUTS", 1),
        records: number("RECORDS", 100_000),
        rounds: number("ROUNDS", 3),
    };
    println!("{} tasks, each {} times {} gets and a durable put; {} records", sizes.tasks, sizes.puts, sizes.gets, sizes.records);
    measure::<Pipkin>("pipkin", &sizes)?;
    measure::<PipkinBlocking>("pipkin-blocking", &sizes)?;
    measure::<Fjall>("fjall", &sizes)?;
    measure::<Redb>("redb", &sizes)
}
