//! What order costs when a store is opened: with the ordered index and without it, and how soon the first range answers, in memory and from the
//! disk. Records with 24-byte keys in no order and 100-byte values.
//!
//! `PIPKIN_BENCH_RECORDS=5000000 cargo bench -p pipkin-bench --bench order`
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Builder, Db, Result};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

fn key(number: u64) -> String {
    format!("{:016x}/{:07}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number % 10_000_000)
}

/// Resident bytes of this process that are not of files.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Takes the file out of the system's cache; says nothing where that cannot be done.
fn forget(path: &Path) {
    let _ = std::process::Command::new("dd")
        .arg("if=/dev/null")
        .arg(format!("of={}", path.display()))
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
        .output();
}

struct Opened {
    open: Duration,
    range: Duration,
}

/// Opens the store, and reads the first ten records behind a key.
fn open(builder: Builder, ordered: bool, number: u64) -> Result<Opened> {
    let started = Instant::now();
    let db = builder.open()?;
    let open = started.elapsed();
    let started = Instant::now();
    if ordered {
        assert_eq!(db.range(key(number)..)?.take(10).filter(Result::is_ok).count(), 10);
    }
    let range = started.elapsed();
    Ok(Opened { open, range })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Names the store to the process that only measures memory: this one has memory left from the load.
const CHILD: &str = "PIPKIN_BENCH_ORDER_STORE";

fn measure_memory(path: &Path, records: u64) -> Result<()> {
    let before = anonymous();
    let db = Db::builder().path(path).ordered(true).background(false).read_only(true).open()?;
    let opened = anonymous();
    assert_eq!(db.range_keys(..)?.filter(Result::is_ok).count() as u64, records);
    let per = |bytes: u64| bytes as f64 / records as f64;
    let (opened, read) = (opened.saturating_sub(before), anonymous().saturating_sub(before));
    println!("memory: {:.2} bytes a record when opened, {:.1} once all keys are read", per(opened), per(read));
    Ok(())
}

fn main() -> Result<()> {
    let records = std::env::var("PIPKIN_BENCH_RECORDS").ok().and_then(|records| records.parse().ok()).unwrap_or(100_000);
    if let Some(path) = std::env::var_os(CHILD) {
        return measure_memory(Path::new(&path), records);
    }
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let path = folder.path().join("order.pipkin");
    let builder = |ordered| Db::builder().path(&path).ordered(ordered).background(false);
    let load = |ordered| -> Result<Duration> {
        let db = builder(ordered).open()?;
        let started = Instant::now();
        for first in (0..records).step_by(1000) {
            db.insert_many((first..records.min(first + 1000)).map(|number| (key(number), [7; 100])))?;
        }
        let took = started.elapsed();
        db.close()?;
        Ok(took)
    };
    println!("{records} records loaded in {:.1?}", load(true)?);
    println!("closed: {} bytes", std::fs::metadata(&path).expect("a file").len());
    for is_cold in [false, true] {
        let (mut plain, mut ordered, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS as u64 {
            for with in [false, true] {
                if is_cold {
                    forget(&path);
                }
                let opened = open(builder(with).read_only(true), with, round * 7919 % (records / 2))?;
                if with {
                    ordered.push(opened.open);
                    ranges.push(opened.range);
                } else {
                    plain.push(opened.open);
                }
            }
        }
        let name = if is_cold { "from the disk" } else { "in memory" };
        println!(
            "{name}: opened without order in {:.1?}, with order in {:.1?}, the first range of 10 in {:.1?}",
            median(plain),
            median(ordered),
            median(ranges)
        );
    }
    let child = std::process::Command::new(std::env::current_exe().expect("this program"));
    let status = { child }.env(CHILD, &path).env("PIPKIN_BENCH_RECORDS", records.to_string()).status();
    assert!(status.is_ok_and(|status| status.success()), "the measurement of memory failed");
    std::fs::remove_file(&path).expect("the file");
    println!("{records} records loaded without order in {:.1?}", load(false)?);
    let started = Instant::now();
    let db = builder(true).open()?;
    println!("order switched on: opened in {:.1?}", started.elapsed());
    let started = Instant::now();
    db.checkpoint()?;
    db.close()?;
    println!("checkpoint and close: {:.1?}", started.elapsed());
    println!("opened again in {:.1?}", open(builder(true), true, 1)?.open);
    Ok(())
}
