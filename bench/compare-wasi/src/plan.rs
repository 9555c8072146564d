//! Everything that is measured, in the order in which a round measures it.

use crate::Outcome;
use crate::args::Args;
use crate::data::{VALUE_LEN, key, shuffled};
use crate::host::{Called, complete};
use crate::native::Native;
use crate::peer::{Entry, Peer, Served, Work};
use pipkin_wasi_host::keyvalue::WasiKeyValueCtx;
use pipkin_wasi_host::{Durability, Host, Options, engine};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

const BATCH: usize = 100;

/// Where a figure stands: table, line, column.
pub(crate) type Place = (&'static str, &'static str, &'static str);

/// One figure, and how to get it.
pub(crate) struct Sample {
    pub(crate) place: Place,
    /// Nanoseconds for each operation or record, one number for each round.
    pub(crate) taken: Vec<f64>,
    measure: Box<dyn FnMut() -> Outcome<f64>>,
}

impl Sample {
    fn new(place: Place, measure: impl FnMut() -> Outcome<f64> + 'static) -> Self {
        Self { place, taken: Vec::new(), measure: Box::new(measure) }
    }

    /// Measures once more.
    pub(crate) fn take(&mut self) -> Outcome {
        self.taken.push((self.measure)()?);
        Ok(())
    }
}

pub(crate) const CALLED: &str = "called by the host";
pub(crate) const WITHIN: &str = "called within the sandbox";
pub(crate) const SERVED: &str = "wasi:keyvalue served by the host";

/// Starts everybody, each with a folder of its own in `folder`.
pub(crate) fn all(args: &Args, folder: &Path) -> Outcome<Vec<Sample>> {
    let engine = engine()?;
    let start = |name: &str, served| -> Outcome<_> {
        let folder = tempfile::tempdir_in(folder)?.keep();
        Ok(Rc::new(RefCell::new(Peer::start(&engine, &guest(args, name), &folder, served, args.records)?)))
    };
    let mut samples = if args.served { Vec::new() } else { sandboxed(args, folder, &start)? };
    let db = Native(pipkin::Db::open(folder.join("native"))?);
    let native = Rc::new(RefCell::new(db));
    native.borrow_mut().put_many(&entries(args))?;
    samples.extend(called(args, SERVED, "native call", &native));
    let lasting = |folder: &Path| Served::ByPipkin(WasiKeyValueCtx::builder().directory(folder).store("").build());
    let pipkin = start("keyvalue", lasting(folder))?;
    samples.extend(served(args, "pipkin", &pipkin));
    let count = args.count;
    samples.push(Sample::new((SERVED, "empty call", "pipkin"), move || {
        Ok(pipkin.borrow_mut().measure(Work::Nothing, count)? as f64 / f64::from(count))
    }));
    samples.extend(served(args, "in memory", &start("keyvalue", Served::InMemory)?));
    // In stores of their own: a walk counts the records.
    let counting = start("keyvalue", lasting(&folder.join("counters")))?;
    samples.extend(inside(args, SERVED, "pipkin", &counting, COUNTERS));
    samples.extend(inside(args, SERVED, "in memory", &start("keyvalue", Served::InMemory)?, COUNTERS));
    Ok(samples)
}

/// Starts a guest with a store that is served so.
type Start<'a> = &'a dyn Fn(&str, Served) -> Outcome<Rc<RefCell<Peer>>>;

fn guest(args: &Args, name: &str) -> PathBuf {
    args.guests.join(name).with_extension("wasm")
}

/// Those who have their store in a sandbox.
fn sandboxed(args: &Args, folder: &Path, start: Start<'_>) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    samples.extend(component(args, &guest(args, "pipkin"), folder)?);
    let composed = start("composed", Served::Not)?;
    // Not reported: the host calls the peers before they go on within, which leaves the caches of the processor full of them.
    samples.extend(called(args, "", "pipkin", &composed).into_iter().filter(|sample| sample.place.1 != "walk"));
    samples.extend(within(args, "pipkin", &composed));
    for name in ["redb", "sqlite"] {
        let column = if name == "redb" { "redb" } else { "SQLite" };
        if guest(args, name).is_file() {
            let peer = start(name, Served::Not)?;
            samples.extend(called(args, CALLED, column, &peer));
            samples.push(empty_calls(args, column, &peer));
            samples.extend(within(args, column, &peer));
        }
    }
    Ok(samples)
}

/// Every record once, in the order of its number.
fn entries(args: &Args) -> Vec<Entry> {
    (0..args.records).map(|number| entry(number.into())).collect()
}

fn entry(number: u64) -> Entry {
    (key(number).into_bytes(), vec![7; VALUE_LEN])
}

/// The component through `pipkin_wasi_host::Host`.
fn component(args: &Args, wasm: &Path, folder: &Path) -> Outcome<Vec<Sample>> {
    let host = Host::builder().component(wasm).directory(folder).build()?;
    let open = |name: &str, durability| -> Outcome<_> {
        let mut db = host.open_with(name, Options { durability, cache_bytes: 64 << 20, ..Options::default() })?;
        db.put_many(&entries(args))?;
        db.walk()?;
        Ok(Rc::new(RefCell::new(db)))
    };
    let mut samples = called(args, CALLED, "pipkin", &open("written", Durability::Written)?);
    let gathering = open("buffered", Durability::Buffered)?;
    let puts = called(args, CALLED, "pipkin", &gathering).into_iter().find(|sample| sample.place.1 == "put");
    samples.extend(puts.map(|sample| Sample { place: (CALLED, "put, gathered", "pipkin"), ..sample }));
    Ok(samples)
}

fn empty_calls(args: &Args, column: &'static str, peer: &Rc<RefCell<Peer>>) -> Sample {
    let (peer, count) = (peer.clone(), args.count);
    Sample::new((CALLED, "empty call", column), move || {
        let (mut peer, start) = (peer.borrow_mut(), Instant::now());
        (0..count).try_for_each(|_| peer.nothing())?;
        Ok(per(start, count))
    })
}

/// Calls a store, and says how many operations that were.
type Calls<C> = Box<dyn Fn(&mut C) -> Outcome<u32>>;

/// What a host asks, an operation in each call.
fn called<C: Called + 'static>(args: &Args, table: &'static str, column: &'static str, store: &Rc<RefCell<C>>) -> Vec<Sample> {
    let numbers = |seed| shuffled(args.records.into(), seed).take(args.count as usize);
    let puts: Rc<Vec<Entry>> = Rc::new(numbers(1).map(entry).collect());
    let gets: Rc<Vec<Vec<u8>>> = Rc::new(numbers(2).map(|number| key(number).into_bytes()).collect());
    let (count, records) = (args.count, args.records);
    let sample = |line: &'static str, work: Calls<C>| {
        let store = store.clone();
        Sample::new((table, line, column), move || {
            let (mut store, start) = (store.borrow_mut(), Instant::now());
            let done = work(&mut store)?;
            Ok(per(start, done))
        })
    };
    let (batched_puts, batched_gets) = (puts.clone(), gets.clone());
    vec![
        sample("put", Box::new(move |store| puts.iter().try_for_each(|entry| store.put(entry)).map(|()| count))),
        sample(
            "put, 100 in a commit",
            Box::new(move |store| batched_puts.chunks(BATCH).try_for_each(|entries| store.put_many(entries)).map(|()| count)),
        ),
        sample(
            "get",
            Box::new(move |store| {
                let found = gets.iter().try_fold(0, |bytes, key| {
                    Ok::<_, Box<dyn std::error::Error>>(bytes + store.get(key)?.map_or(0, |value| value.len()))
                })?;
                complete(found, gets.len())?;
                Ok(count)
            }),
        ),
        sample(
            "get, 100 in a call",
            Box::new(move |store| {
                let mut bytes = 0;
                for keys in batched_gets.chunks(BATCH) {
                    bytes += store.get_many(keys)?.iter().flatten().map(Vec::len).sum::<usize>();
                }
                complete(bytes, batched_gets.len())?;
                Ok(count)
            }),
        ),
        sample(
            "walk",
            Box::new(move |store| {
                complete(store.walk()?, records as usize)?;
                Ok(records)
            }),
        ),
    ]
}

/// What a guest does in loops of its own.
fn within(args: &Args, column: &'static str, peer: &Rc<RefCell<Peer>>) -> Vec<Sample> {
    let lines = [
        ("put, together", Work::PutTogether),
        ("put, gathered", Work::PutGathered),
        ("put", Work::PutAlone),
        ("put, 100 in a commit", Work::PutBatches),
        ("get", Work::Get),
        ("get, 100 in a call", Work::GetBatches),
        ("walk", Work::Walk),
    ];
    inside(args, WITHIN, column, peer, &lines)
}

const COUNTERS: &[(&str, Work)] = &[("increment", Work::Increment)];

/// The same through `wasi:keyvalue`, which has no transactions.
fn served(args: &Args, column: &'static str, peer: &Rc<RefCell<Peer>>) -> Vec<Sample> {
    let lines = [
        ("put", Work::PutAlone),
        ("put, 100 in a commit", Work::PutBatches),
        ("get", Work::Get),
        ("get, 100 in a call", Work::GetBatches),
        ("walk", Work::Walk),
    ];
    inside(args, SERVED, column, peer, &lines)
}

fn inside(
    args: &Args,
    table: &'static str,
    column: &'static str,
    peer: &Rc<RefCell<Peer>>,
    lines: &[(&'static str, Work)],
) -> Vec<Sample> {
    let sample = |&(line, work): &(&'static str, Work)| {
        let peer = peer.clone();
        let (count, divisor) = (args.count, if work == Work::Walk { args.records } else { args.count });
        Sample::new((table, line, column), move || Ok(peer.borrow_mut().measure(work, count)? as f64 / f64::from(divisor)))
    };
    lines.iter().map(sample).collect()
}

fn per(start: Instant, count: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(count)
}
