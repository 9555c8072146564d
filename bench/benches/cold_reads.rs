//! Records that are not in memory: how long one takes, alone and in batches, beside the system's own ways to read the same bytes.
//! `PIPKIN_BENCH_VALUE` says how long values are.
//!
//! The cache of the system is emptied before each measurement (of this file only), so the figures are those of the medium. The
//! rows `raw` read as many bytes from random places of the same file: one `pread` after the other, one submission to io_uring for
//! each batch, and hints (`fadvise`) for each batch with reads behind them. pipkin's batches use the last.
//!
//! Found on a virtual disk, Linux 6.18, 1 M records, microseconds a record: `get` 43, `get_many` 11; raw: `pread` 37, io_uring 12 in
//! batches of 32 and 13 of 128, hints 9 and 9. Before the map was advised that reads are random a `get` took 137, because the system
//! reads ahead. So pipkin's reads through the
//! system's cache use no ring; `io_uring.rs` has the reads past it.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

#[cfg(target_os = "linux")]
mod linux {
    use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
    use io_uring::{IoUring, opcode, types};
    use pipkin::{Builder, Db, IndexMemory};
    use pipkin_bench::{KEY_LEN, Random, new_folder, record_count, records, shuffled_keys, sum};
    use std::fs::File;
    use std::hint::black_box;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::time::{Duration, Instant};

    /// Records of one measurement.
    const READS: usize = 512;
    /// Records of a range.
    const RANGE: usize = 50;
    /// Bytes that the raw rows read: a record.
    const LEN: usize = 182;

    /// Has the system forget the file.
    fn chill(path: &Path) -> File {
        let file = File::open(path).expect("the file");
        file.sync_all().expect("sync");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
        file
    }

    pub(super) fn run(criterion: &mut Criterion) {
        let count = record_count();
        let folder = new_folder(env!("CARGO_TARGET_TMPDIR").as_ref()).expect("a folder");
        let path = folder.path().join("cold.pipkin");
        let records = records(count, 1);
        let keys = shuffled_keys(&records);
        let db = Db::builder().path(&path).ordered(true).open().expect("open");
        for (key, value) in &records {
            db.insert(key, value).expect("insert");
        }
        db.close().expect("close");
        let mut group = criterion.benchmark_group("cold_reads");
        group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(READS as u64));
        store(&mut group, &path, &keys);
        raw(&mut group, &path);
        group.finish();
    }

    type Keys = [[u8; KEY_LEN]];

    /// A store whose index is built and whose file is not in memory.
    fn cold_store(path: &Path, options: Builder) -> Db {
        let db = options.path(path).open().expect("open");
        // A part of the index is built when a key of it is first asked for, and of the file reads what it needs then.
        db.stats().expect("stats");
        drop(chill(path));
        db
    }

    fn store(group: &mut BenchmarkGroup<'_, WallTime>, path: &Path, keys: &Keys) {
        let mut turns = keys.chunks(READS).cycle();
        let mut row = |name: &str, options: fn() -> Builder, read: fn(&Db, &Keys)| {
            let mut timed = || {
                let db = cold_store(path, options());
                let keys = turns.next().expect("keys");
                let start = Instant::now();
                read(&db, keys);
                start.elapsed()
            };
            group.bench_function(name, |bench| bench.iter_custom(|turns| (0..turns).map(|_| timed()).sum()));
        };
        let in_file = || Db::builder().index_memory(IndexMemory::in_file());
        row("get", Db::builder, get);
        row("get_many", Db::builder, get_many);
        row("in_file/get", in_file, get);
        row("in_file/get_many", in_file, get_many);
        row("ranges", || Db::builder().ordered(true), ranges);
    }

    fn get(db: &Db, keys: &Keys) {
        for key in keys {
            black_box(sum(&db.get_zerocopy(key).expect("get").expect("a record")));
        }
    }

    fn get_many(db: &Db, keys: &Keys) {
        db.get_many_with(keys, |_, value| assert!(black_box(value.map(sum)).is_some())).expect("get_many");
    }

    /// As many records as keys, in ranges that begin with some of the keys. What a range needs of the order is read, too.
    fn ranges(db: &Db, keys: &Keys) {
        for key in keys.iter().step_by(RANGE) {
            let mut left = RANGE;
            let each = |_: &[u8], value: &[u8]| {
                black_box(sum(value));
                left -= 1;
                left > 0
            };
            db.range_with(key.as_slice().., each).expect("range");
        }
    }

    fn raw(group: &mut BenchmarkGroup<'_, WallTime>, path: &Path) {
        let len = path.metadata().expect("a file").len() - LEN as u64;
        let mut random = Random::new(7);
        let mut timed = |read: &dyn Fn(&File, &[u64])| {
            let file = chill(path);
            let offsets: Vec<u64> = (0..READS).map(|_| random.below(len)).collect();
            let start = Instant::now();
            read(&file, &offsets);
            start.elapsed()
        };
        let pread = |file: &File, offsets: &[u64]| {
            let mut out = [0; LEN];
            for &offset in offsets {
                file.read_exact_at(&mut out, offset).expect("read");
                black_box(sum(&out));
            }
        };
        group.bench_function("raw/pread", |bench| bench.iter_custom(|turns| (0..turns).map(|_| timed(&pread)).sum()));
        for batch in [32, 128] {
            let hints = |file: &File, offsets: &[u64]| {
                for offsets in offsets.chunks(batch) {
                    for &offset in offsets {
                        let len = std::num::NonZeroU64::new(LEN as u64);
                        rustix::fs::fadvise(file, offset, len, rustix::fs::Advice::WillNeed).expect("fadvise");
                    }
                    pread(file, offsets);
                }
            };
            group.bench_function(format!("raw/hints/{batch}"), |bench| {
                bench.iter_custom(|turns| (0..turns).map(|_| timed(&hints)).sum())
            });
            let ring = |file: &File, offsets: &[u64]| uring(file, offsets, batch);
            group.bench_function(format!("raw/io_uring/{batch}"), |bench| {
                bench.iter_custom(|turns| (0..turns).map(|_| timed(&ring)).sum())
            });
        }
    }

    /// All reads of a batch in one submission. Without io_uring, where the kernel refuses it, nothing is read.
    fn uring(file: &File, offsets: &[u64], batch: usize) {
        let Ok(mut ring) = IoUring::new(batch as u32) else { return };
        let mut out = vec![[0; LEN]; batch];
        for offsets in offsets.chunks(batch) {
            for (&offset, out) in offsets.iter().zip(&mut out) {
                let read = opcode::Read::new(types::Fd(file.as_raw_fd()), out.as_mut_ptr(), LEN as u32).offset(offset).build();
                // SAFETY: file and buffer live until all completions of the batch have been seen below.
                unsafe { ring.submission().push(&read) }.expect("room in the queue");
            }
            ring.submit_and_wait(offsets.len()).expect("submit");
            assert_eq!(ring.completion().filter(|done| done.result() == LEN as i32).count(), offsets.len());
            black_box(out.iter().map(|out| sum(out)).sum::<u64>());
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    {
        let mut criterion = criterion::Criterion::default().configure_from_args();
        linux::run(&mut criterion);
        criterion.final_summary();
    }
}
