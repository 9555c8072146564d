//! The store against a `BTreeMap`: one tape on every backend, all answers equal; then many threads at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::storage::crash::CrashStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{CacheOptions, CachedStorage, MemoryStorage, conformance};
use pipkin::{Builder, Db, Durability, IoUring};
use pipkin_tests::arena::Arena;
use pipkin_tests::disk::Disk;
use pipkin_tests::drive::{DiskHost, Fault, Host, Player, Setup, check_gets, check_state, space};
use pipkin_tests::model::State;
use pipkin_tests::parallel::{Failure, Outcome, for_each, guard, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::threads;
use pipkin_tests::tape::{Edit, Op, Tape, Val, key_bytes};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys of a tape.
const KEYS: u16 = 40;
/// Tapes of the normal run; each is played on every backend.
const TAPES: u32 = 100;

fn val() -> impl Strategy<Value = Val> {
    let len = prop_oneof![1 => Just(0_u32), 16 => 0..300_u32, 3 => 300..3000_u32, 1 => 3000..20_000_u32];
    (len, any::<u32>()).prop_map(|(len, tag)| Val { len, tag })
}

fn ns() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0_u8), 1 => 1..4_u8]
}

fn edit() -> impl Strategy<Value = Edit> {
    (ns(), 0..KEYS, proptest::option::weighted(0.7, val()))
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS;
    let maybe = || proptest::option::weighted(0.75, val());
    prop_oneof![
        30 => (ns(), key(), val()).prop_map(|(ns, key, val)| Op::Put(ns, key, val)),
        10 => (ns(), key()).prop_map(|(ns, key)| Op::Del(ns, key)),
        6 => (ns(), prop::collection::vec((key(), val()), 0..8)).prop_map(|(ns, records)| Op::Many(ns, records)),
        8 => (any::<bool>(), prop::collection::vec(edit(), 0..8)).prop_map(|(keep, edits)| Op::Txn(keep, edits)),
        5 => (ns(), key(), any::<bool>(), maybe()).prop_map(|(ns, key, hit, val)| Op::Cas(ns, key, hit, val)),
        5 => (ns(), key(), maybe()).prop_map(|(ns, key, val)| Op::Update(ns, key, val)),
        1 => ns().prop_map(Op::Clear),
        1 => (1..4_u8).prop_map(Op::Drop),
        4 => Just(Op::Flush),
        2 => Just(Op::Checkpoint),
        4 => Just(Op::Step),
        2 => Just(Op::Compact),
        2 => Just(Op::Reopen),
        2 => Just(Op::Kill),
        1 => Just(Op::Backup),
        1 => Just(Op::Verify),
    ]
}

/// A store in plain memory. A killed process leaves a copy behind.
struct MemoryHost(std::sync::Mutex<MemoryStorage>, Setup, AtomicU64);

impl MemoryHost {
    fn new(setup: &Setup) -> Self {
        Self(Default::default(), setup.clone(), AtomicU64::new(1))
    }

    fn leave_a_copy(&self) {
        let mut storage = self.0.lock().unwrap();
        *storage = MemoryStorage::from_vec(storage.to_vec());
    }
}

impl Host for MemoryHost {
    fn open(&self) -> pipkin::Result<Db> {
        let storage = self.0.lock().unwrap().clone();
        self.1.open(storage, self.2.fetch_add(1, Ordering::Relaxed))
    }
    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        self.leave_a_copy();
        drop(db);
        self.open()
    }
    fn durability(&self) -> Durability {
        Durability::None
    }
}

/// The same behind a cache of so few blocks that they push each other out all the time.
struct CachedHost(MemoryHost);

impl Host for CachedHost {
    fn open(&self) -> pipkin::Result<Db> {
        let MemoryHost(storage, setup, opens) = &self.0;
        let options = CacheOptions { cache_bytes: 5 * 4096, read_bytes: 8192 };
        let storage = CachedStorage::<_>::new(storage.lock().unwrap().clone(), options)?;
        setup.open(storage, opens.fetch_add(1, Ordering::Relaxed))
    }
    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        self.0.leave_a_copy();
        drop(db);
        self.open()
    }
    fn durability(&self) -> Durability {
        Durability::None
    }
}

/// A store behind a fault injector that injects none.
struct FaultHost(FaultStorage<CrashStorage>, Setup, AtomicU64);

impl Host for FaultHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.1.open(self.0.clone(), self.2.fetch_add(1, Ordering::Relaxed))
    }
    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        drop(db);
        self.open()
    }
}

/// A file. A killed process leaves a copy behind, taken while it lives.
struct FileHost {
    folder: tempfile::TempDir,
    file: AtomicU64,
    way: Way,
    segment_size: u32,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    NotMapped,
    Mapped,
    IoUring,
}

impl Way {
    fn builder(self) -> Builder {
        match self {
            Self::NotMapped => Db::builder().mmap(false),
            Self::Mapped => Db::builder(),
            Self::IoUring => {
                // All is in memory here: reads would find it there.
                pipkin::testing::ignore_system_cache(true);
                Db::builder().io_uring(IoUring { auto: false, depth: 32, ..IoUring::default() })
            }
        }
    }
}

impl FileHost {
    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.pipkin", self.file.load(Ordering::Relaxed)))
    }
}

impl Host for FileHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.way.builder().path(self.path()).segment_size(self.segment_size).background(false).open()
    }
    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        let old = self.path();
        self.file.fetch_add(1, Ordering::Relaxed);
        std::fs::copy(&old, self.path()).unwrap();
        drop(db);
        std::fs::remove_file(old).unwrap();
        self.open()
    }
}

/// `get_many`, `is_empty` and `keys` of every namespace.
fn check_the_rest(db: &Db, state: &State) -> Result<(), Fault> {
    for (&ns, space) in &state.spaces {
        let handle = space::namespace(db, ns)?;
        let found = handle.get_many((0..KEYS).map(key_bytes))?;
        let right: Vec<_> = (0..KEYS).map(|key| space.get(&key).map(|val| val.bytes())).collect();
        if found != right {
            return Fault::wrong(format!("get_many of namespace {ns} differs from get"));
        }
        let mut keys = handle.keys().collect::<pipkin::Result<Vec<_>>>()?;
        keys.sort_unstable();
        let mut right: Vec<_> = space.keys().map(|&key| key_bytes(key)).collect();
        right.sort_unstable();
        if keys != right || handle.is_empty()? != space.is_empty() || handle.len()? != space.len() as u64 {
            return Fault::wrong(format!("keys, len or is_empty of namespace {ns} are wrong"));
        }
    }
    let stats = db.stats()?;
    if stats.records != state.records() || stats.namespaces + 1 < state.spaces.len() as u64 {
        return Fault::wrong(format!("stats count {} records, should be {}", stats.records, state.records()));
    }
    Ok(())
}

fn play(host: impl Host, tape: &Tape) -> Result<(), Fault> {
    let mut player = Player::open(host, State::default())?;
    let mut since = 0;
    player.play_all(tape, |player, op| {
        since += 1;
        let keep = player.history.states.split_off(player.history.newest());
        player.history.states = keep;
        player.history.flushed = 0;
        if since % 8 != 0 && !matches!(op, Op::Compact | Op::Checkpoint | Op::Reopen | Op::Kill | Op::Clear(_)) {
            return Ok(());
        }
        let (db, state) = (player.db()?, player.history.now());
        check_state(&db, state)?;
        check_gets(&db, state, KEYS)?;
        check_the_rest(&db, state)
    })?;
    check_state(&player.db()?, player.history.now())
}

/// Plays the tape on every backend.
fn play_everywhere(tape: &Tape, files: bool) -> Result<(), String> {
    let sizes = [4096, 16 * 1024, 1 << 20];
    for segment_size in sizes {
        let setup = Setup {
            segment_size,
            replay_debt_max: if segment_size == 4096 { 10_000 } else { 1 << 20 },
            clock: None,
            sealed: false,
        };
        let place = |name: &str| format!("{name}, segments of {segment_size} bytes");
        play(MemoryHost::new(&setup), tape).map_err(|fault| fault.at(place("memory")).to_string())?;
        play(CachedHost(MemoryHost::new(&setup)), tape).map_err(|fault| fault.at(place("memory, cached")).to_string())?;
        let crash = DiskHost::new(Disk::default(), setup.clone(), 1);
        play(crash, tape).map_err(|fault| fault.at(place("crash simulator")).to_string())?;
        let fault = FaultHost(FaultStorage::new(CrashStorage::new()), setup, AtomicU64::new(1));
        play(fault, tape).map_err(|fault| fault.at(place("fault injector")).to_string())?;
        for way in [Way::NotMapped, Way::Mapped, Way::IoUring].into_iter().filter(|_| files) {
            let folder = tempfile::tempdir_in(fast_folder()).map_err(|error| error.to_string())?;
            let file = FileHost { folder, file: AtomicU64::new(0), way, segment_size };
            play(file, tape).map_err(|fault| fault.at(place(&format!("file, {way:?}"))).to_string())?;
        }
    }
    Ok(())
}

/// Where syncs cost nothing: answers are compared here, not durability.
fn fast_folder() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

fn one_tape(seed: u64, files: bool) -> Outcome {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tapes = prop::collection::vec(op(), 1..160).prop_map(Tape);
    let outcome =
        runner.run(&tapes, |tape| guard(|| play_everywhere(&tape, files)).unwrap_or_else(Err).map_err(TestCaseError::fail));
    outcome.map_err(|error| match error {
        TestError::Fail(reason, tape) => Failure::new(format!("PIPKIN_TAPE='{tape}'\n  or: PIPKIN_SEED={seed}"), reason),
        TestError::Abort(reason) => Failure::new(format!("PIPKIN_SEED={seed}"), reason),
    })
}

#[test]
fn one_tape_gives_the_same_answers_on_every_backend() {
    if let Ok(text) = std::env::var("PIPKIN_TAPE") {
        let tape = text.parse().unwrap_or_else(|error| panic!("PIPKIN_TAPE: {error}"));
        return unwrap("model", play_everywhere(&tape, true).map_err(|what| Failure::new(format!("PIPKIN_TAPE='{tape}'"), what)));
    }
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("model", one_tape(env_u64("PIPKIN_SEED", 0), true));
    }
    let tapes = env_u64("PIPKIN_TAPES", u64::from(TAPES));
    let quota = Quota::new("model", tapes);
    let first = env_u64("PIPKIN_FIRST_SEED", 1);
    let outcome = for_each(first..first + tapes, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        quota.add(1);
        one_tape(seed, true)
    });
    unwrap("model", outcome);
    quota.finish("tapes, each on memory, a cache over it, crash simulator, fault injector and files with and without a map and through io_uring, 3 segment sizes");
}

/// Checked reads beside writers that the normal run owes.
const READS_LEAST: u64 = 100_000;

fn threads_on(name: &'static str, rounds: u64, open: impl Fn() -> pipkin::Result<Db>) {
    let reads = Quota::new(name, READS_LEAST);
    let mut maintenance = 0;
    for round in 0..rounds {
        let run = threads::Run::default();
        let budget = threads::Budget { ops: 6000, seed: env_u64("PIPKIN_SEED", round) };
        let db = open().unwrap();
        unwrap(name, run.work(&db, &budget));
        db.close().unwrap();
        let db = open().unwrap();
        run.check(&db).unwrap_or_else(|what| panic!("{name}: after a reopen: {what}"));
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{name}: {:?}", report.damage);
        for name in db.list_namespaces() {
            db.drop_namespace(&name).unwrap();
        }
        db.clear().unwrap();
        reads.add(run.reads());
        maintenance += run.maintenance();
    }
    reads.finish(format_args!("{maintenance} compactions, checkpoints, flushes, walks and backups beside them"));
}

#[test]
fn threads_on_a_mapped_file_see_only_what_was_written() {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let path = folder.path().join("threads.pipkin");
    threads_on("threads, mapped file", 2, || Db::builder().path(&path).segment_size(64 * 1024).open());
}

#[test]
fn threads_on_a_file_without_a_map_see_only_what_was_written() {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let path = folder.path().join("threads.pipkin");
    threads_on("threads, file without a map", 2, || Db::builder().path(&path).mmap(false).segment_size(64 * 1024).open());
}

/// Whether the system allows io_uring is in the open report; where it does not, this is the test of a mapped file.
#[test]
fn threads_on_a_file_that_is_read_through_io_uring_see_only_what_was_written() {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let path = folder.path().join("threads.pipkin");
    threads_on("threads, file through io_uring", 2, || Way::IoUring.builder().path(&path).segment_size(64 * 1024).open());
}

#[test]
fn threads_in_memory_see_only_what_was_written() {
    let storage = MemoryStorage::new();
    let setup = Setup { segment_size: 16 * 1024, replay_debt_max: 100_000, clock: None, sealed: false };
    let opens = AtomicU64::new(1);
    threads_on("threads, memory", 2, || setup.open(storage.clone(), opens.fetch_add(1, Ordering::Relaxed)));
}

/// Where a range is read that is being written, ThreadSanitizer says so.
#[test]
fn threads_on_bytes_that_nobody_guards_see_only_what_was_written() {
    let arena = Arena::new(64 << 20);
    let setup = Setup { segment_size: 16 * 1024, replay_debt_max: 100_000, clock: None, sealed: false };
    let opens = AtomicU64::new(1);
    threads_on("threads, unguarded bytes", 2, || setup.open(arena.clone(), opens.fetch_add(1, Ordering::Relaxed)));
}

/// What the test above stands on.
#[test]
fn bytes_that_nobody_guards_are_a_storage_as_all_others() {
    let checks = conformance::run(&mut || Box::new(Arena::new(64 << 20))).unwrap();
    assert!(checks > 0);
}
