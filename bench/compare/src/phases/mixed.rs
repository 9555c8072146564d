//! YCSB: reads and updates of keys of which a few are very popular. Updates are not flushed; each read sees what was written before.

use super::Job;
use super::together::together;
use crate::Result;
use crate::data::{EXTRA, Key, Random, Record, keys, shuffled, sum, to_load, values};
use crate::engine::{Engine, Reader};
use crate::sample::{Sink, Times, expect_equal};
use crate::zipf::Zipf;

/// Values that updates write, over and over.
const POOL: usize = 1024;

/// One request: a key, and for an update the value.
type Request<'a> = (&'a Key, Option<&'a [u8]>);

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    let scale = job.scale_for::<E>();
    let records = to_load(&scale);
    let engine: E = job.open()?;
    engine.load(records.iter().map(Record::pair))?;
    engine.settle()?;
    engine.sync_commits(false)?;

    let keys = shuffled(&keys(&records), 3); // popularity has nothing to do with age
    let pool = values(POOL, crate::data::VALUE_LEN);
    let zipf = Zipf::new(keys.len());
    let requests = |updates: f64, count: usize, seed: u64| -> Vec<Request<'_>> {
        let mut random = Random::new(seed);
        let mut request = || {
            let key = keys.get(zipf.rank(&mut random))?;
            let update = random.unit() < updates;
            let value = pool.get(random.next() as usize % POOL).map(Vec::as_slice);
            Some((key, value.filter(|_| update)))
        };
        (0..count).filter_map(|_| request()).collect()
    };
    let unflushed = job.unflushed_sink::<E>();
    for threads in [1, 2] {
        // Reads first: the store is the same for them in every round.
        for (workload, updates) in [("c", 0.0), ("b", 0.05), ("a", 0.5)] {
            let row = format!("ycsb_{workload}_{threads}");
            let sink = if updates > 0.0 { &unflushed } else { &job.sink };
            let all = requests(updates, scale.ycsb_ops, threads as u64);
            let (took, _) = together(all.chunks(all.len().div_ceil(threads)), |part| serve(&engine, part))?;
            sink.time(&row, took, all.len(), job.scale.ycsb_ops)?;
            if threads == 1 {
                latency(&engine, sink, &row, &requests(updates, scale.timed_ops.min(scale.ycsb_ops), 9))?;
            }
            engine.settle()?;
        }
    }
    engine.sync_commits(true)?;
    expect_equal("len", engine.len()?, records.len() as u64)?;
    engine.close()
}

/// Where nothing is written one view serves for all reads.
fn serve<E: Engine>(engine: &E, requests: &[Request<'_>]) -> Result<()> {
    let (mut hits, mut reads, mut total) = (0, 0, 0);
    if requests.iter().all(|(_, update)| update.is_none()) {
        let mut reader = engine.reader()?;
        for (key, _) in requests {
            hits += usize::from(reader.get(*key, |value| total += sum(value))?);
        }
        reads = requests.len();
    } else {
        for request in requests {
            match request {
                (key, Some(value)) => engine.put(*key, value)?,
                (key, None) => {
                    reads += 1;
                    hits += usize::from(engine.get(*key, |value| total += sum(value))?);
                }
            }
        }
    }
    std::hint::black_box(total);
    expect_equal("hits", hits, reads)
}

fn latency<E: Engine>(engine: &E, sink: &Sink, row: &str, requests: &[Request<'_>]) -> Result<()> {
    let mut times = Times::new()?;
    let mut total = 0;
    for request in requests {
        times.of(|| match request {
            (key, Some(value)) => engine.put(*key, value),
            (key, None) => engine.get(*key, |value| total += sum(value)).map(|_| ()),
        })?;
    }
    std::hint::black_box((total, EXTRA));
    sink.latency(row, &times)
}
