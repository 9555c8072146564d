//! An index in memory beside one in the file: opening, reads, writes, memory, and what is read of the medium.
//!
//! ```sh
//! PIPKIN_BENCH_RECORDS=5000000 cargo bench -p pipkin-bench --bench index_memory
//! ```
//!
//! Each kind is loaded, closed, and measured in a process of its own. `PIPKIN_INDEX=resident` or `in-file` runs one of them,
//! `PIPKIN_INDEX_FOLDER` says where the stores lie; one that is there is not loaded again. The memory is what Linux says in `/proc/self`. In a
//! control group whose limit the file exceeds, most reads wait for the medium.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Db, IndexMemory};
use pipkin_bench::record_count;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const VALUE_LEN: usize = 150;
/// Reads and writes of each measurement.
const CALLS: u64 = 500_000;
/// No measurement takes longer.
const MEASURED_MAX: Duration = Duration::from_secs(60);
/// Records of one commit while a store is loaded.
const TOGETHER: u64 = 100;

/// 24 bytes, in no order.
fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key
}

/// One record after the other, each as likely as any.
fn random(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % count
    })
}

fn open(path: &Path, index: IndexMemory) -> Db {
    Db::builder().index_memory(index).path(path).open().expect("open")
}

/// A figure of a file under `/proc/self`: the number behind a word.
fn figure(file: &str, word: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(word)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn print_memory(what: &str) {
    let mib = |word: &str| figure("status", word) as f64 / 1024.0;
    println!("{what:24} anonymous {:8.1} MiB, of files {:9.1} MiB", mib("RssAnon:"), mib("RssFile:"));
}

/// Runs calls until they are done or time is over, and prints what they took.
fn measure(what: &str, calls: impl Iterator<Item = u64>, mut call: impl FnMut(u64)) {
    let mut took: Vec<u64> = Vec::with_capacity(CALLS as usize);
    let (begun, read) = (Instant::now(), figure("io", "read_bytes:"));
    for number in calls {
        let before = Instant::now();
        call(number);
        took.push(before.elapsed().as_nanos() as u64);
        if begun.elapsed() > MEASURED_MAX {
            break;
        }
    }
    let read = figure("io", "read_bytes:") - read;
    let count = took.len() as u64;
    let mean = took.iter().sum::<u64>() / count.max(1);
    took.sort_unstable();
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(0);
    println!(
        "{what:24} {mean:7} ns on average, median {:7}, p99 {:8}, p99.9 {:9}; {:7.0} bytes of the medium a call, {count} calls",
        at(0.5),
        at(0.99),
        at(0.999),
        read as f64 / count.max(1) as f64
    );
}

fn load(path: &Path, index: IndexMemory, count: u64) {
    let (begun, db) = (Instant::now(), open(path, index));
    let mut most = 0;
    for from in (0..count).step_by(TOGETHER as usize) {
        db.insert_many((from..count.min(from + TOGETHER)).map(|number| (key(number), [7; VALUE_LEN]))).expect("insert");
        if from % (TOGETHER * 1000) == 0 {
            most = most.max(figure("status", "RssAnon:"));
        }
    }
    db.close().expect("close");
    println!(
        "{:24} {:7.1} s, at most {:.1} MiB of anonymous memory",
        "load",
        begun.elapsed().as_secs_f64(),
        most as f64 / 1024.0
    );
}

fn one(folder: &Path, name: &str, index: IndexMemory, count: u64) {
    let path = folder.join(format!("{name}.pipkin"));
    if std::env::var_os("PIPKIN_INDEX_STEP").is_none_or(|step| step == "load") && !path.exists() {
        load(&path, index, count);
    }
    if std::env::var_os("PIPKIN_INDEX_STEP").is_some_and(|step| step == "load") {
        return;
    }
    let begun = Instant::now();
    let db = open(&path, index);
    println!("{:24} {:7.1} ms", "open", begun.elapsed().as_secs_f64() * 1000.0);
    print_memory("after open");
    let begun = Instant::now();
    let records = db.len().expect("len");
    println!("{:24} {:7.1} ms, {records} records", "build all shards", begun.elapsed().as_secs_f64() * 1000.0);
    assert_eq!(records, count, "the store in the folder has another number of records");
    print_memory("with all shards built");
    let get = |number: u64| assert!(db.get_zerocopy(key(number)).expect("get").is_some());
    measure("get", random(count).take(CALLS as usize), get);
    measure("get, again", random(count).take(CALLS as usize), get);
    measure("get of what is not there", random(count).take(CALLS as usize), |number| {
        assert!(db.get_zerocopy(key(count + number)).expect("get").is_none());
    });
    print_memory("behind the reads");
    measure("put of what is there", random(count).skip(7).take(CALLS as usize), |number| {
        db.insert(key(number), [8; VALUE_LEN]).expect("put");
    });
    print_memory("behind the writes");
    db.checkpoint().expect("checkpoint");
    let stats = db.stats().expect("stats");
    print_memory("behind a checkpoint");
    let each = |bytes: u64| bytes as f64 / count as f64;
    println!(
        "{:24} {:.2} bytes of memory a record, {:.2} of the file",
        "index",
        each(stats.index_bytes),
        each(stats.index_file_bytes)
    );
    db.close().expect("close");
}

fn main() {
    let count = record_count() as u64;
    let kinds = [("resident", IndexMemory::Resident), ("in-file", IndexMemory::in_file())];
    let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = std::env::var_os("PIPKIN_INDEX_FOLDER").map_or_else(|| own.path().to_path_buf(), PathBuf::from);
    let only = std::env::var("PIPKIN_INDEX").ok();
    for (name, index) in kinds {
        match &only {
            Some(only) if only == name => one(&folder, name, index, count),
            Some(_) => {}
            None => {
                println!("\n{name}, {count} records of 24 + {VALUE_LEN} bytes");
                for step in ["load", "measure"] {
                    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
                    child.env("PIPKIN_INDEX", name).env("PIPKIN_INDEX_STEP", step).env("PIPKIN_INDEX_FOLDER", &folder);
                    assert!(child.status().expect("a child").success(), "{name} failed");
                }
            }
        }
    }
}
