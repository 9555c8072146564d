//! YCSB under limited memory. Updates are not flushed; each read sees what was written before.

use super::super::together::together;
use super::device::Device;
use super::{Store, Values};
use crate::Result;
use crate::data::{Key, Random, key, sum};
use crate::engine::{Engine, Reader};
use crate::rows::LIMITED_THREADS;
use crate::sample::{Times, expect_equal, timed};
use crate::ycsb::{Choice, Request, Requests, WORKLOADS, Workload};
use crate::zipf::Zipf;

pub(super) fn run<E: Engine>(store: &Store<'_>, choice: Choice) -> Result<()> {
    let engine: E = store.open()?;
    engine.sync_commits(false)?;
    let ops = store.job.scale.limited_ops;
    let zipf = (choice == Choice::Zipfian).then(|| Zipf::new(store.records as usize));
    // No two runs insert the same: none inserts more than it has operations, in one of its workloads.
    let first = store.records + (2 * u64::from(store.ordered) + choice as u64) * ops as u64;
    let mut requests = Requests::new(store.records, first, zipf.as_ref(), 1 + choice as u64);
    for workload in WORKLOADS.iter().filter(|workload| workload.runs_with(choice) && workload.scans() == store.ordered) {
        let row = store.shape.row(&format!("{}_{}", choice.name(), workload.name));
        measure(store, &engine, workload, &mut requests, &row)?;
        if choice == Choice::Uniform && !workload.writes() {
            together_rows(store, &engine)?;
        }
    }
    engine.sync_commits(true)?;
    engine.close()
}

fn measure<E: Engine>(store: &Store<'_>, engine: &E, workload: &Workload, requests: &mut Requests<'_>, row: &str) -> Result<()> {
    let unflushed = store.job.unflushed_sink::<E>();
    let sink = if workload.writes() { &unflushed } else { &store.job.sink };
    let ops = store.job.scale.limited_ops;
    let device = Device::before(&store.job.folder)?;
    let mut times = Times::new()?;
    // Nearly all of them wait for the device: the clock does not matter.
    let (took, ()) = timed(|| {
        (0..ops).try_for_each(|_| {
            let request = requests.next(workload);
            times.of(|| serve(engine, &store.values, request))
        })
    })?;
    sink.time(row, took, ops, ops)?;
    sink.latency(row, &times)?;
    engine.flush()?;
    engine.settle()?;
    device.after(sink, row, ops)
}

fn serve<E: Engine>(engine: &E, values: &Values, request: Request) -> Result<()> {
    match request {
        Request::Read(number) => read(engine, number),
        Request::Modify(number) => {
            read(engine, number)?;
            engine.put(&key(number), values.of(number ^ 1))
        }
        Request::Update(number) | Request::Insert(number) => engine.put(&key(number), values.of(number ^ 1)),
        Request::Scan(number, count) => {
            let mut total = 0;
            let hits = engine.reader()?.range(&key(number), count, |_, value| total += sum(value))?;
            std::hint::black_box(total);
            expect_equal("whether a range is empty", hits == 0, false)
        }
    }
}

fn read<E: Engine>(engine: &E, number: u64) -> Result<()> {
    let mut total = 0;
    let found = engine.get(&key(number), |value| total += sum(value))?;
    std::hint::black_box(total);
    expect_equal("a record", found, true)
}

/// Reads of many threads, of records that are as likely as each other.
fn together_rows<E: Engine>(store: &Store<'_>, engine: &E) -> Result<()> {
    let ops = store.job.scale.limited_ops;
    let mut random = Random::new(9);
    let keys: Vec<Key> = (0..ops).map(|_| key(random.next() % store.records)).collect();
    let (took, _) = together(keys.chunks(ops.div_ceil(LIMITED_THREADS)), |part| {
        let mut reader = engine.reader()?;
        let (mut hits, mut total) = (0, 0);
        for key in part {
            hits += usize::from(reader.get(key, |value| total += sum(value))?);
        }
        std::hint::black_box(total);
        expect_equal("hits", hits, part.len())
    })?;
    store.job.sink.time(&store.shape.row("threads"), took, ops, ops)
}
