//! Event streams: what reading costs where events stand among records, before and after compaction; what memory they take; how soon a store with
//! many of them is open; and what threads cost each other that append one type.
//!
//! `cargo bench -p pipkin-bench --bench events`; `PIPKIN_BENCH_EVENTS` sets the number, 1,000,000 by default.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Db, EventRef, Events, Expected, NewEvent};
use pipkin_bench::Random;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 150] = [7; 150];
/// Events of one commit, where nothing stands between them.
const BATCH: u64 = 1000;
const THREADS: u64 = 8;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let set = std::env::var("PIPKIN_BENCH_EVENTS").ok().and_then(|text| text.parse().ok());
    let events: u64 = if is_test { 2_000 } else { set.unwrap_or(1_000_000) };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);

    println!("{events} events of 150 bytes; nanoseconds for one\n");
    println!("| | all in order, in place | the same, as copies | of a stream | by number, any order |");
    println!("|---|---|---|---|---|");
    let one = fill(&path("one"), events, 1);
    row("one stream", &one, events, 1);
    let memory_of_events = one.stats().expect("figures").index_bytes;
    drop(one);
    let many = fill(&path("many"), events, events / 10);
    row("streams of ten", &many, events, events / 10);
    let memory_of_both = many.stats().expect("figures").index_bytes;
    many.close().expect("closed");
    let mixed = fill_mixed(&path("mixed"), events / 10);
    row("ten puts between two, a tenth of the events", &mixed, events / 10, 1000);
    mixed.compact().expect("compacted");
    row("the same, compacted", &mixed, events / 10, 1000);
    drop(mixed);

    let streams = (memory_of_both.saturating_sub(memory_of_events)) as f64 / (events / 10) as f64;
    println!("\nmemory: {:.2} bytes an event, {streams:.1} a stream", memory_of_events as f64 / events as f64);
    drop(fill(&path("few"), 10_000.min(events), 1000.min(events / 10)));
    for (name, count) in [("few", 10_000.min(events)), ("many", events)] {
        let (opened, appended) = open(&path(name));
        println!("{count} events: open in {opened:.2?}, the first append, which loads the index, in {appended:.2?}");
    }
    #[cfg(target_os = "linux")]
    println!(
        "{:.2} reads of the device for a single event that is not in memory",
        cold(&path("many"), if is_test { 10 } else { 1000 })
    );
    for (index, types) in [1, THREADS, 1, THREADS, 1, THREADS].into_iter().enumerate() {
        let took = threads(&path(&format!("threads {index}")), types, events / 50);
        println!("{THREADS} threads, {types} types: {:.0} ns an event", took.as_nanos() as f64 / (events / 50 * THREADS) as f64);
    }
}

/// Pages that one event by its number takes from the medium, where the system has none of the file in memory but the index of events.
#[cfg(target_os = "linux")]
fn cold(path: &Path, reads: u64) -> f64 {
    let db = Db::open(path).expect("opened");
    let from = log(&db);
    let last = from.last_number().expect("a number");
    from.get_by_number(last).expect("read").expect("an event");
    let file = std::fs::File::open(path).expect("the file");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
    let mut random = Random::new(5);
    let before = faults();
    for _ in 0..reads {
        black_box(from.get_by_number(1 + random.below(last)).expect("read").expect("an event"));
    }
    (faults() - before) as f64 / reads as f64
}

/// Page faults of this process so far that waited for a medium.
#[cfg(target_os = "linux")]
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("figures of this process");
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().nth(9).and_then(|count| count.parse().ok()).expect("a count of faults")
}

fn log(db: &Db) -> Events {
    db.events("log").expect("a log")
}

fn stream(number: u64, streams: u64) -> String {
    // Those of a stream do not stand together.
    format!("stream {}", number % streams)
}

fn fill(path: &Path, events: u64, streams: u64) -> Db {
    let db = Db::open(path).expect("opened");
    let to = log(&db);
    for first in (0..events).step_by(BATCH as usize) {
        if streams == 1 {
            let some = (0..BATCH).map(|_| NewEvent::new("T", &PAYLOAD[..]));
            to.append("stream 0", Expected::Any, some).expect("appended");
            continue;
        }
        let batch = (first..first + BATCH).fold(db.batch(), |batch, number| {
            batch.append(&to, stream(number, streams), Expected::Any, [NewEvent::new("T", &PAYLOAD[..])])
        });
        batch.commit().expect("committed");
    }
    db.checkpoint().expect("written");
    db
}

fn fill_mixed(path: &Path, events: u64) -> Db {
    let db = Db::open(path).expect("opened");
    let to = log(&db);
    let mut random = Random::new(3);
    for number in 0..events {
        to.append(&stream(number, 1000), Expected::Any, [NewEvent::new("T", &PAYLOAD[..])]).expect("appended");
        for _ in 0..10 {
            db.insert((random.below(events) as u32).to_le_bytes(), PAYLOAD).expect("inserted");
        }
    }
    db
}

fn per(count: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn row(name: &str, db: &Db, events: u64, streams: u64) {
    let log = log(db);
    let look = |event: EventRef<'_>| {
        black_box(event.payload());
    };
    let in_place = || log.all().for_each(look).expect("read");
    // The second time: what the first one brings into memory is not measured.
    in_place();
    let in_place = per(events, in_place);
    let copies = per(events, || assert!(log.all().iter().expect("read").all(|event| event.is_ok())));
    let some = streams.min(1000);
    let mut found = 0;
    let start = Instant::now();
    for number in 0..some {
        log.stream(stream(number, streams)).for_each(|_| found += 1).expect("read");
    }
    let of_stream = start.elapsed().as_nanos() as f64 / f64::from(found);
    let (mut random, reads) = (Random::new(1), events.min(200_000));
    let single = per(reads, || {
        for _ in 0..reads {
            assert!(log.get_by_number(1 + random.below(events)).expect("read").is_some());
        }
    });
    println!("| {name} | {in_place:.0} | {copies:.0} | {of_stream:.0} | {single:.0} |");
}

fn open(path: &Path) -> (Duration, Duration) {
    let start = Instant::now();
    let db = Db::open(path).expect("opened");
    let opened = start.elapsed();
    let start = Instant::now();
    log(&db).append("stream 0", Expected::Any, [NewEvent::new("T", "")]).expect("appended");
    let appended = start.elapsed();
    db.close().expect("closed");
    (opened, appended)
}

fn threads(path: &Path, types: u64, each: u64) -> Duration {
    let db = Db::open(path).expect("opened");
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = log(&db);
            scope.spawn(move || {
                let (stream, kind) = (format!("s{thread}"), format!("T{}", thread % types));
                for _ in 0..each {
                    log.append(&stream, Expected::Any, [NewEvent::new(&*kind, &PAYLOAD[..])]).expect("appended");
                }
            });
        }
    });
    start.elapsed()
}
