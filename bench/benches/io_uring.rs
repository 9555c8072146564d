//! A store that does not fit into memory, read through its map and through io_uring: `get_many`, `get` by many threads, and a compaction, alone and
//! beside readers; and what is written: records that nobody flushes, and durable ones. Then a write and a sync as two calls, and as two linked requests
//! of a ring.
//!
//! The process is to have less memory than the file, in a control group with a limit, and `PIPKIN_BENCH_RECORDS` says how long the file is. The
//! system's cache of the file is emptied before each row, and what the row itself brings into the cache stays; before the rows `hot` all of the
//! file is read into it, so they are for a process without a limit.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

#[cfg(target_os = "linux")]
mod linux {
    use io_uring::{IoUring as Ring, opcode, squeue, types};
    use pipkin::{Builder, Db, IoUring, IoUringState};
    use pipkin_bench::{Random, new_folder};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Keys of one `get_many`.
    const BATCH: usize = 512;

    /// How a store is opened.
    type Way = fn(Builder) -> Builder;

    struct Setup {
        records: u64,
        value: usize,
        /// How long each row is watched.
        watched: Duration,
    }

    fn key(number: u64) -> [u8; 24] {
        let mut key = [0; 24];
        key.iter_mut().zip(number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).for_each(|(to, from)| *to = from);
        key.iter_mut().skip(8).zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
        key
    }

    fn value(random: &mut Random, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| random.below(u64::MAX).to_le_bytes());
        words.take(len).collect()
    }

    /// Has the system forget the file.
    fn chill(path: &Path) {
        let file = File::open(path).expect("the file");
        file.sync_all().expect("sync");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
    }

    fn environment(name: &str, default: u64) -> u64 {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Rows can be named on the command line; without a name there are all of them.
    fn is_asked_for(what: &str) -> bool {
        let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
        named.is_empty() || named.iter().any(|name| name == what)
    }

    fn ring(depth: u32) -> IoUring {
        IoUring { auto: false, depth, ..IoUring::default() }
    }

    pub(super) fn run(is_test: bool) {
        let setup = Setup {
            records: if is_test { 2000 } else { environment("PIPKIN_BENCH_RECORDS", 1_000_000) },
            value: environment("PIPKIN_BENCH_VALUE", 1000) as usize,
            watched: if is_test { Duration::from_millis(20) } else { Duration::from_secs(4) },
        };
        let parent = std::env::var_os("PIPKIN_BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let folder = new_folder(parent.as_ref()).expect("a folder");
        let path = folder.path().join("ring.pipkin");
        fill(&path, &setup);
        println!("{} MB in the file", path.metadata().expect("a file").len() / 1_000_000);
        let auto = Db::builder().path(&path).background(false).io_uring(IoUring::default()).open().expect("open");
        println!("auto: {:?}", auto.open_report().io_uring);
        auto.close().expect("close");
        // Some, by their names, with commas between them.
        let only = std::env::var("PIPKIN_BENCH_WAY").ok();
        let ways: [(&str, Way); 6] = [
            ("mapped", |builder| builder),
            ("copied", |builder| builder.mmap(false)),
            ("ring 32", |builder| builder.io_uring(ring(32))),
            ("ring 128", |builder| builder.io_uring(ring(128))),
            ("ring 128 sqpoll", |builder| builder.io_uring(IoUring { sqpoll: true, ..ring(128) })),
            ("ring 128 cached", |builder| builder.io_uring(IoUring { direct: false, ..ring(128) })),
        ];
        let ways =
            ways.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only.split(',').any(|only| only == *name)));
        for (what, threads, many) in [("get_many", 1, true), ("get_many", 4, true), ("get", 1, false), ("get", 64, false)] {
            for (name, way) in ways.clone() {
                if !is_asked_for(what) {
                    continue;
                }
                let db = open(&path, way);
                row(&format!("{what}, {threads} threads, {name}"), &read(&db, &setup, threads, many, None));
            }
        }
        for (name, way) in ways.clone().filter(|_| is_asked_for("hot")) {
            for many in [true, false] {
                let db = open(&path, way);
                std::io::copy(&mut File::open(&path).expect("the file"), &mut std::io::sink()).expect("all of it");
                let what = if many { "get_many" } else { "get" };
                row(&format!("hot, {what}, 1 threads, {name}"), &read(&db, &setup, 1, many, None));
            }
        }
        if is_asked_for("compaction") {
            // The first one finds more to do than all that follow.
            compaction(&path, &setup, "not a figure", |builder| builder);
        }
        for (name, way) in ways.clone().filter(|_| is_asked_for("compaction")) {
            compaction(&path, &setup, name, way);
        }
        for (name, way) in ways.filter(|_| is_asked_for("writes")) {
            writes(folder.path(), &setup, name, way);
        }
        if is_asked_for("durable") {
            durable(folder.path(), is_test);
        }
    }

    fn fill(path: &Path, setup: &Setup) {
        let mut random = Random::new(3);
        let db = Db::builder().path(path).auto_compact_dead_share(2.0).open().expect("open");
        for number in 0..setup.records {
            db.insert(key(number), value(&mut random, setup.value)).expect("insert");
            if number % 200_000 == 199_999 {
                db.flush().expect("flush");
                chill(path);
            }
        }
        db.close().expect("close");
    }

    /// An open store whose index is built and whose records are not in memory.
    fn open(path: &Path, way: Way) -> Db {
        let builder = way(Db::builder().path(path).background(false).auto_compact_dead_share(2.0));
        let db = builder.open().expect("open");
        let state = db.open_report().io_uring.as_ref();
        assert!(state.is_none_or(|state| matches!(state, IoUringState::Used { .. })), "{state:?}");
        db.len().expect("len");
        db.contains_key(key(1)).expect("the index");
        chill(path);
        db
    }

    struct Read {
        records: u64,
        wall: Duration,
        /// Processor time of this process.
        busy: Duration,
    }

    fn row(name: &str, Read { records, wall, busy }: &Read) {
        let each = |time: &Duration| time.as_secs_f64() * 1e6 / *records as f64;
        println!("{name:44} {:7.2} us a record, {:7.2} us of a processor", each(wall), each(busy));
    }

    /// Time that this process has run, in user and in system.
    fn busy() -> Duration {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
        let fields = stat.rsplit_once(')').expect("fields").1.split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Random records, until the time is over or `done` is set.
    fn read(db: &Db, setup: &Setup, threads: u64, many: bool, done: Option<&AtomicBool>) -> Read {
        let (begin, busy_before) = (Instant::now(), busy());
        let is_over = || done.map_or(begin.elapsed() >= setup.watched, |done| done.load(Ordering::Relaxed));
        let one = |thread: u64| {
            let (mut random, mut records) = (Random::new(thread + 11), 0);
            while !is_over() {
                if many {
                    let keys: Vec<[u8; 24]> = (0..BATCH).map(|_| key(random.below(setup.records))).collect();
                    let mut bytes = 0;
                    db.get_many_with(&keys, |_, value| bytes += value.expect("a record").len()).expect("get_many");
                    assert_eq!(bytes, BATCH * setup.value);
                    records += BATCH as u64;
                } else {
                    let value = db.get_zerocopy(key(random.below(setup.records))).expect("get").expect("a record");
                    assert_eq!(value.len(), setup.value);
                    records += 1;
                }
            }
            records
        };
        let records = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a reader")).sum::<u64>()
        });
        Read { records: records.max(1), wall: begin.elapsed(), busy: busy() - busy_before }
    }

    /// A compaction alone, and one beside four readers, each of a store in which every second record was replaced.
    fn compaction(path: &Path, setup: &Setup, name: &str, way: Way) {
        for readers in [0, 4] {
            let db = open(path, way);
            let (mut random, kept) = (Random::new(5), setup.records / 8);
            for _ in 0..kept {
                let number = random.below(setup.records);
                db.insert(key(number), value(&mut random, setup.value)).expect("insert");
            }
            db.flush().expect("flush");
            chill(path);
            let (done, begin) = (AtomicBool::new(false), Instant::now());
            let (copied, wall, read) = std::thread::scope(|scope| {
                let reading = (readers > 0).then(|| scope.spawn(|| read(&db, setup, readers, false, Some(&done))));
                let report = db.compact().expect("compact");
                let wall = begin.elapsed();
                done.store(true, Ordering::Relaxed);
                (report, wall, reading.map(|reading| reading.join().expect("readers")))
            });
            println!("compaction, {readers} readers, {name:24} {wall:7.1?}, {} segments", copied.segments_retired);
            if let Some(read) = read {
                row(&format!("get beside it, {readers} threads, {name}"), &read);
            }
        }
    }

    /// A tenth of the records by themselves, flushed once at the end; then durable ones, by one thread and by 16.
    fn writes(folder: &Path, setup: &Setup, name: &str, way: Way) {
        let path = folder.join("written.pipkin");
        let db = way(Db::builder().path(&path).background(false)).open().expect("open");
        let put = |random: &mut Random, number| db.insert(key(number), value(random, setup.value)).expect("insert");
        let (mut random, records, begin, busy_before) = (Random::new(7), setup.records / 10, Instant::now(), busy());
        (0..records).for_each(|number| put(&mut random, number));
        db.flush().expect("flush");
        let took = Read { records: records.max(1), wall: begin.elapsed(), busy: busy() - busy_before };
        row(&format!("put, not flushed, 1 threads, {name}"), &took);
        for threads in [1, 16] {
            let (begin, busy_before) = (Instant::now(), busy());
            let one = |thread: u64| {
                let (mut random, mut records) = (Random::new(thread), 0);
                while begin.elapsed() < setup.watched {
                    put(&mut random, thread << 40 | records);
                    db.flush().expect("flush");
                    records += 1;
                }
                records
            };
            let records = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a writer")).sum::<u64>()
            });
            let took = Read { records: records.max(1), wall: begin.elapsed(), busy: busy() - busy_before };
            row(&format!("durable put, {threads} threads, {name}"), &took);
        }
        db.close().expect("close");
        std::fs::remove_file(&path).expect("remove");
    }

    /// 200 bytes made durable, one after the other: the middle of what they took.
    fn durable(folder: &Path, is_test: bool) {
        let turns = if is_test { 5 } else { 2000 };
        for threads in [1, 16] {
            for is_linked in [false, true, false, true] {
                let mut times: Vec<Duration> = std::thread::scope(|scope| {
                    let write =
                        |thread: u64| durable_one(&folder.join(format!("durable-{thread}")), turns / threads + 1, is_linked);
                    let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || write(thread))).collect();
                    threads.into_iter().flat_map(|thread| thread.join().expect("a writer")).collect()
                });
                times.sort();
                let median = times.get(times.len() / 2).expect("times");
                let how = if is_linked { "write and sync linked in a ring" } else { "pwrite, fdatasync" };
                println!("{how}, {threads} threads, a file each: median {median:?}");
            }
        }
    }

    fn durable_one(path: &Path, turns: u64, is_linked: bool) -> Vec<Duration> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, turns * 200).expect("space");
        file.sync_all().expect("sync");
        let (mut ring, bytes, fd) = (Ring::new(8).expect("a ring"), [7; 200], types::Fd(file.as_raw_fd()));
        let one = |turn: u64| {
            let begin = Instant::now();
            if is_linked {
                let write = opcode::Write::new(fd, bytes.as_ptr(), 200).offset(turn * 200).build().flags(squeue::Flags::IO_LINK);
                let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
                // SAFETY: file and buffer live until both completions have been seen below.
                unsafe { ring.submission().push_multiple(&[write, sync]) }.expect("room in the queue");
                ring.submit_and_wait(2).expect("submit");
                assert_eq!(ring.completion().filter(|done| done.result() >= 0).count(), 2);
            } else {
                file.write_all_at(&bytes, turn * 200).expect("write");
                file.sync_data().expect("sync");
            }
            begin.elapsed()
        };
        (0..turns).map(one).collect()
    }
}

fn main() {
    // `cargo bench -- --test` only looks whether it runs.
    #[cfg(target_os = "linux")]
    linux::run(std::env::args().any(|argument| argument == "--test"));
}
