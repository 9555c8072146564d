//! What a follower in another process costs and how far it lags: the time from a put to the refresh that shows it, the follower's processor time, and
//! the writer's time with and without it.
//!
//! `cargo bench -p pipkin-bench --bench followers`; `PIPKIN_RATE` is the number of puts a second (default 100,000). `PIPKIN_STORE_GB`: the lag alone, in a
//! store of so many gigabytes that is compacted meanwhile.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Keys that are overwritten in turn.
const KEYS: u64 = 200_000;
/// One of so many puts is looked at.
const SAMPLED: u64 = 20;
/// Alternations of rounds with and without a follower.
const ROUNDS: usize = 10;
/// The argument of the process that follows.
const FOLLOW: &str = "--follow-it";
/// The argument of a process that is about as busy as a follower at 100,000 puts a second, and knows nothing of the store: what the writer loses
/// beside it, it loses to the machine.
const BE_BUSY: &str = "--be-busy";
/// It works for a quarter of each millisecond, over so many bytes.
const BUSY: (Duration, Duration, usize) = (Duration::from_micros(250), Duration::from_micros(750), 1 << 20);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path] = arguments.as_slice()
        && what == FOLLOW
    {
        return follow(Path::new(path));
    }
    if arguments.iter().any(|argument| argument == BE_BUSY) {
        be_busy();
    }
    // `cargo bench -- --test` only looks whether it runs.
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let rate = std::env::var("PIPKIN_RATE").ok().and_then(|rate| rate.parse().ok()).unwrap_or(100_000_u64);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("followed.pipkin");
    let db = Db::open(&path).expect("an empty store");
    db.insert("number", 0_u64.to_be_bytes()).expect("insert");

    let seconds = if is_test { 1 } else { 10 };
    if let Some(gigabytes) = std::env::var("PIPKIN_STORE_GB").ok().and_then(|number| number.parse().ok()) {
        return large(&db, &path, (gigabytes, rate, seconds));
    }
    let mut follower = start(&path);
    let (number, took) = paced(&db, rate, Duration::from_secs(seconds));
    println!("{number} puts in {seconds} s, which took {:.2} s:", took.as_secs_f64());
    end(&db, &mut follower);

    let mut idle = start(&path);
    std::thread::sleep(Duration::from_secs(if is_test { 0 } else { 5 }));
    println!("nobody writes:");
    end(&db, &mut idle);

    let puts = if is_test { 1_000 } else { 500_000 };
    println!(
        "{puts} puts without a pause take {:.3} of their time alone, medians of {ROUNDS}",
        ratio(is_test, || Beside::Follower(&db, start_quiet(&path)), || puts_take(&db, puts))
    );
    let time = if is_test { Duration::from_millis(10) } else { Duration::from_secs(2) };
    let paced = || self::paced(&db, rate, time).1;
    println!("at {rate} a second they take {:.3}", ratio(is_test, || Beside::Follower(&db, start_quiet(&path)), paced));
    println!(
        "beside a process that is as busy and follows nothing, {:.3}",
        ratio(is_test, || Beside::Stranger(stranger()), paced)
    );
}

/// The lag in a large store of which a third has been removed, while it is compacted.
fn large(db: &Db, path: &Path, (gigabytes, rate, seconds): (u64, u64, u64)) {
    let key = |number: u64| [&b"large"[..], &number.to_be_bytes()].concat();
    let count = gigabytes * 1_000_000;
    for first in (0..count).step_by(10_000) {
        let records = (first..count.min(first + 10_000)).map(|number| (key(number), [number as u8; 1_000]));
        db.insert_many(records).expect("insert");
    }
    for first in (0..count).step_by(30_000) {
        db.remove_many((first..count.min(first + 10_000)).map(key)).expect("remove");
    }
    let mut follower = start(path);
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| {
            let begun = Instant::now();
            let report = db.compact().expect("compact");
            (begun.elapsed(), report)
        });
        let late = scope.spawn(|| start(path));
        // The writer's part of the lag: how long bursts take, and how much of that its thread waits for a processor.
        let (mut bursts, mut served, mut waited) = (Vec::new(), Vec::new(), processor_wait());
        let mut longest = Duration::ZERO;
        let timed_put = |number| {
            let begun = Instant::now();
            put(db, number);
            longest = longest.max(begun.elapsed());
        };
        let (number, took) = paced_with(rate, Duration::from_secs(seconds), timed_put, |burst| {
            let burst = burst.as_nanos() as u64;
            let before = std::mem::replace(&mut waited, processor_wait());
            bursts.push(burst);
            served.push(burst.saturating_sub(waited - before));
        });
        println!(
            "{number} puts in {seconds} s, which took {:.2} s, in {gigabytes} GB, with a second follower that opens meanwhile:",
            took.as_secs_f64()
        );
        print_times("a burst of the writer", &mut bursts);
        print_times("without the writer's waits for a processor", &mut served);
        println!("  the writer's longest put: {:.0} us", longest.as_secs_f64() * 1e6);
        let mut late = late.join().expect("the second follower starts");
        end(db, &mut follower);
        late.wait().expect("the second follower ends");
        let (took, report) = compaction.join().expect("compaction ends");
        println!(
            "  beside a compaction of {:.1} s, which copied {} and freed {} bytes",
            took.as_secs_f64(),
            report.bytes_copied,
            report.bytes_freed
        );
    });
}

/// A process beside the writer, which ends with this.
enum Beside<'a> {
    Follower(&'a Db, Child),
    Stranger(Child),
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        match self {
            Self::Follower(db, follower) => end(db, follower),
            Self::Stranger(child) => {
                child.kill().expect("it can be killed");
                child.wait().expect("it ends");
            }
        }
    }
}

fn stranger() -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(BE_BUSY).stdout(Stdio::null()).spawn().expect("the process starts")
}

fn be_busy() -> ! {
    let (busy, idle, len) = BUSY;
    let mut bytes = vec![0_u8; len];
    loop {
        let begun = Instant::now();
        while begun.elapsed() < busy {
            bytes.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        std::hint::black_box(&bytes);
        std::thread::sleep(idle);
    }
}

/// The time beside another process over the time alone, in turn: the median of the ratios.
fn ratio<'a>(is_test: bool, beside: impl Fn() -> Beside<'a>, run: impl Fn() -> Duration) -> f64 {
    let mut ratios = Vec::new();
    for _ in 0..if is_test { 1 } else { ROUNDS } {
        let alone = run();
        let other = beside();
        ratios.push(run().as_secs_f64() / alone.as_secs_f64());
        drop(other);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    at(&ratios, 0.5)
}

fn at<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    sorted.get((sorted.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or_default()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn put(db: &Db, number: u64) {
    let mut value = [7; 100];
    let (stamp, rest) = value.split_at_mut(8);
    stamp.copy_from_slice(&now().to_be_bytes());
    if let Some(place) = rest.first_chunk_mut::<8>() {
        *place = number.to_be_bytes();
    }
    db.insert((number % KEYS).to_be_bytes(), value).expect("insert");
}

/// Puts at a rate, in a burst each half millisecond; how many, and the time that they took themselves.
fn paced(db: &Db, rate: u64, time: Duration) -> (u64, Duration) {
    paced_with(rate, time, |number| put(db, number), |_| {})
}

/// As [`paced`], by `put`; tells `each` how long each burst has taken.
fn paced_with(rate: u64, time: Duration, mut put: impl FnMut(u64), mut each: impl FnMut(Duration)) -> (u64, Duration) {
    let begun = Instant::now();
    let (mut number, mut took) = (0, Duration::ZERO);
    while begun.elapsed() < time {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        let burst = Instant::now();
        while number < due {
            number += 1;
            put(number);
        }
        let of_burst = burst.elapsed();
        took += of_burst;
        each(of_burst);
        std::thread::sleep(Duration::from_micros(500));
    }
    (number, took)
}

fn puts_take(db: &Db, puts: u64) -> Duration {
    let begun = Instant::now();
    (0..puts).for_each(|number| put(db, number));
    begun.elapsed()
}

/// The file by which a follower says that it has opened the store.
fn opened(path: &Path) -> PathBuf {
    path.with_extension("opened")
}

fn spawn(path: &Path, out: Stdio) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let child = command.arg(FOLLOW).arg(path).stdout(out).spawn().expect("the follower starts");
    // It opens, which takes a moment, and in a large store seconds.
    let ready = opened(path);
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_file(ready).expect("a file that is there");
    child
}

fn start(path: &Path) -> Child {
    spawn(path, Stdio::inherit())
}

fn start_quiet(path: &Path) -> Child {
    spawn(path, Stdio::null())
}

/// The follower ends by itself once it sees the word for that.
fn end(db: &Db, follower: &mut Child) {
    db.insert("end", "").expect("insert");
    follower.wait().expect("the follower ends");
    db.remove("end").expect("remove");
}

/// Follows until the store says `end`; prints the lag of the puts that it saw come, and its processor time.
fn follow(path: &Path) {
    let opening = Instant::now();
    let db = Db::builder().path(path).follow(true).open().expect("the store is there");
    println!("  opened in {:.0} ms", opening.elapsed().as_secs_f64() * 1e3);
    std::fs::write(opened(path), "").expect("a file beside the store");
    let (begun, cpu) = (Instant::now(), processor_time());
    let stamp = |number: u64| -> Option<(u64, u64)> {
        let value = db.get((number % KEYS).to_be_bytes()).expect("get")?;
        let (stamp, rest) = value.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*stamp), u64::from_be_bytes(*rest.first_chunk::<8>()?)))
    };
    let open_since = now();
    let mut lags: Vec<u64> = Vec::new();
    // The same without the time in which this thread could have run, and no processor was free; and that time up to each refresh.
    let mut served: Vec<u64> = Vec::new();
    let mut waits: Vec<(u64, u64)> = Vec::new();
    let (mut seen, mut rounds_late) = (0, 0);
    loop {
        db.refresh_within(Duration::from_secs(1)).expect("refresh");
        let shown = now();
        waits.push((shown, processor_wait()));
        if db.contains_key("end").expect("get") {
            break;
        }
        // What has come since. A later one under the same key was written a whole round after the next one.
        while let Some((begun, number)) = stamp(seen + SAMPLED)
            && number >= seen + SAMPLED
        {
            rounds_late += u64::from(number > seen + SAMPLED);
            seen = number;
            // What was written while it opened it has not followed.
            if begun >= open_since {
                let lag = shown.saturating_sub(begun);
                let before = waits.partition_point(|(at, _)| *at <= begun).checked_sub(1).and_then(|place| waits.get(place));
                let waited = waits.last().zip(before).map_or(0, |(last, before)| last.1 - before.1);
                lags.push(lag);
                served.push(lag.saturating_sub(waited));
            }
        }
    }
    let (taken, used) = (begun.elapsed().as_secs_f64(), processor_time() - cpu);
    for (what, lags) in [("lag", &mut lags), ("without its own waits for a processor", &mut served)] {
        print_times(what, lags);
    }
    if rounds_late > 0 {
        println!("  {rounds_late} times it was a round of {KEYS} puts behind");
    }
    let stats = db.stats().expect("stats");
    println!(
        "  the follower used {:.1} % of a processor; {} refreshes, {} rebuilds",
        used / taken * 100.0,
        stats.refreshes,
        stats.rebuilds
    );
}

fn print_times(what: &str, nanos: &mut [u64]) {
    nanos.sort_unstable();
    let micros = |share| at(nanos, share) as f64 / 1e3;
    if !nanos.is_empty() {
        println!(
            "  {what}: median {:.0} us, 99 % {:.0} us, longest {:.0} us, of {}",
            micros(0.5),
            micros(0.99),
            micros(1.0),
            nanos.len()
        );
    }
}

/// Seconds on a processor, where the system tells.
fn processor_time() -> f64 {
    schedstat(0).map_or(f64::NAN, |nanos| nanos as f64 / 1e9)
}

/// Nanoseconds in which this thread could have run, and no processor was free.
fn processor_wait() -> u64 {
    schedstat(1).unwrap_or_default()
}

fn schedstat(field: usize) -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().nth(field)?.parse().ok()
}
