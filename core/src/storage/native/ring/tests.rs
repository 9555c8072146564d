#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::cached::Cached;
use super::epochs::Epochs;
use super::lane::{Lane, RECORD, STRETCH, What};
use super::range::PAGE;
use super::{IoUring, IoUringState, direct, storage};
use crate::storage::native::map::Map;
use crate::storage::{NativeOptions, NativeStorage, Storage};
use crate::{Db, Error};
use std::path::Path;

const ALWAYS: IoUring = IoUring { auto: false, depth: 8, sqpoll: false, direct: true };

/// What both ways of reading have to have in common; the first is the one that users get.
const WAYS: [IoUring; 3] = [ALWAYS, IoUring { direct: false, ..ALWAYS }, IoUring { sqpoll: true, depth: 1024, ..ALWAYS }];

fn open(path: &Path, options: IoUring) -> Box<dyn Storage> {
    let (storage, state) = storage::RingStorage::over(NativeStorage::open(path, NativeOptions::default()).unwrap(), options);
    assert!(matches!(state, IoUringState::Used { direct, .. } if direct == options.direct), "{state:?}");
    storage
}

/// True where a sandbox refuses io_uring: the tests of the rings cannot run there.
fn is_refused() -> bool {
    let refused = io_uring::IoUring::new(1).err();
    refused.iter().for_each(|error| println!("io_uring is refused here: {error}"));
    refused.is_some()
}

/// Has the system forget what its cache has of the file.
fn chill(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn what_was_announced_is_taken_from_the_ring_until_it_is_written() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    chill(&path);
    let file = std::fs::File::open(&path).unwrap();
    let (past, epochs) = (direct::open(&file, &path, true).unwrap(), Epochs::new());
    let map = Map::new(&file, bytes.len() as u64);
    let in_cache = Cached { file: &file, map: &map };
    let cached = (in_cache, bytes.len() as u64);
    let mut lane = Lane::new(ALWAYS, &past, None).unwrap();
    let taken = |lane: &mut Lane, offset: u64, len: usize| {
        let mut out = vec![0; len];
        let len = lane.take(offset, &mut out, &epochs);
        assert!(out[..len] == bytes[offset as usize..][..len], "{offset}");
        len
    };
    let records: Vec<u64> = (0..10).map(|number| number * 16 * PAGE).collect();
    lane.announce(What::Records, records.iter().map(|offset| (*offset, PAGE)), cached, &epochs);
    let found: Vec<usize> = records.iter().map(|offset| taken(&mut lane, offset + 100, 1000)).collect();
    assert_eq!((&found[..8], &found[8..]), (&[1000; 8][..], &[0; 2][..]), "as many as it has slots");
    assert_eq!(taken(&mut lane, PAGE - 1, 1000), 1, "up to where it was announced");
    lane.announce(What::Stretches, [(500 * PAGE / 4, STRETCH), (500 * PAGE / 4 + STRETCH, STRETCH)].into_iter(), cached, &epochs);
    assert_eq!(taken(&mut lane, 500 * PAGE / 4 + 5, 200_000), 200_000);
    epochs.written(16 * PAGE + 4000, 97);
    let found: Vec<usize> = records.iter().take(3).map(|offset| taken(&mut lane, offset + 100, 1000)).collect();
    assert_eq!(found, [1000, 0, 1000], "what was written is not taken");
    epochs.all_written();
    assert_eq!(taken(&mut lane, 100, 1000), 0);
    assert!(!(0..240).any(|page| in_cache.has(page * PAGE, PAGE)), "the system's cache was left alone");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 10], 5 * PAGE).unwrap();
    assert_eq!((in_cache.has(5 * PAGE, 1), in_cache.has(5 * PAGE - 1, 2)), (true, false));
}

#[test]
fn what_was_announced_is_never_older_than_what_was_written() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, options) in WAYS.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let storage = open(&path, options);
        let len = 600_000;
        let mut model: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        storage.write_at(0, &[&model]).unwrap();
        storage.sync().unwrap();
        let mut dice = Dice(number as u64);
        for turn in 0..1500_u32 {
            let offset = dice.below(len - 1);
            match dice.below(8) {
                0 if turn % 4 == 0 => chill(&path),
                1 | 2 => {
                    let bytes = vec![turn as u8; dice.below(9000).min(len - offset) as usize];
                    storage.write_at(offset, &[&bytes]).unwrap();
                    model[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
                3 => {
                    storage.will_read(&[offset], dice.below(2 * STRETCH) as usize + 1);
                }
                4 | 5 => {
                    let offsets: Vec<u64> = (0..dice.below(20)).map(|_| dice.below(len + 10_000)).collect();
                    storage.will_read(&offsets, dice.below(RECORD + 2000) as usize);
                    // Some of what was announced.
                    for offset in offsets.into_iter().filter(|offset| *offset < len).step_by(2) {
                        let mut out = vec![0; dice.below(6000).min(len - offset) as usize];
                        storage.read_at(offset, &mut out).unwrap();
                        assert!(out == model[offset as usize..][..out.len()], "{options:?}: turn {turn}, {offset}");
                    }
                }
                _ => {
                    let mut out = vec![0; dice.below(300_000).min(len - offset) as usize];
                    storage.read_at(offset, &mut out).unwrap();
                    assert!(out == model[offset as usize..][..out.len()], "{options:?}: turn {turn}, {offset}");
                }
            }
        }
    }
}

/// A writer appends, readers announce pages that it is writing to; what is published must be there.
#[test]
fn pages_that_are_written_meanwhile_have_what_was_published() {
    if is_refused() {
        return;
    }
    use std::sync::atomic::{AtomicU64, Ordering};
    const LEN: u64 = 64;
    const ALL: u64 = 40_000;
    let folder = tempfile::tempdir().unwrap();
    for options in [ALWAYS, WAYS[1]] {
        let path = folder.path().join(format!("{}", options.direct));
        let (storage, published) = (open(&path, options), AtomicU64::new(0));
        storage.reserve(0, ALL * LEN).unwrap();
        let record = |number: u64| [number as u8 ^ (number >> 8) as u8; LEN as usize];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..ALL {
                    storage.write_at(number * LEN, &[&record(number)]).unwrap();
                    published.store(number + 1, Ordering::Release);
                    if number % 2048 == 0 {
                        chill(&path);
                    }
                }
            });
            for reader in 0..3 {
                let (storage, published) = (&storage, &published);
                scope.spawn(move || {
                    let mut dice = Dice(reader);
                    while published.load(Ordering::Acquire) < ALL {
                        let seen = published.load(Ordering::Acquire);
                        let numbers: Vec<u64> = (0..8).map(|_| (seen + 100).saturating_sub(dice.below(400))).collect();
                        let offsets: Vec<u64> = numbers.iter().map(|number| number * LEN).collect();
                        storage.will_read(&offsets, LEN as usize);
                        let seen = published.load(Ordering::Acquire);
                        for number in numbers.into_iter().filter(|number| *number < seen) {
                            let mut out = [0; LEN as usize];
                            storage.read_at(number * LEN, &mut out).unwrap();
                            assert_eq!(out, record(number), "{number} of {seen}");
                        }
                    }
                });
            }
        });
    }
}

/// The kernel may write to memory of the rings for as long as something is in flight.
#[test]
fn a_storage_that_is_dropped_with_reads_in_flight_waits_for_them() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes = vec![7; 3_000_000];
    open(&path, ALWAYS).write_at(0, &[&bytes]).unwrap();
    for options in WAYS {
        for _ in 0..20 {
            chill(&path);
            let storage = open(&path, options);
            storage.will_read(&[0], bytes.len());
            storage.will_read(&[PAGE, 500_000, 1_000_000, 2_999_999], 100);
            drop(storage);
        }
    }
}

#[test]
fn the_end_of_a_file_is_where_it_is() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let storage = open(&path, ALWAYS);
    storage.write_at(0, &[&[1; 5000]]).unwrap();
    chill(&path);
    storage.will_read(&[4900, 4999, 5000, u64::MAX - 5], 200);
    storage.will_read(&[4900, u64::MAX - 5], 100_000);
    let mut out = [0; 100];
    storage.read_at(4900, &mut out).unwrap();
    assert_eq!(out, [1; 100]);
    assert!(storage.read_at(4901, &mut out).is_err());
    // The announced page ended in the middle, and goes on by now.
    storage.set_len(4950).unwrap();
    storage.set_len(9000).unwrap();
    storage.read_at(4900, &mut out).unwrap();
    assert_eq!((&out[..50], &out[50..]), (&[1; 50][..], &[0; 50][..]));
}

#[test]
fn a_store_of_records_of_all_lengths_reads_as_it_was_written() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let value = |key: u32| vec![key as u8; [10, 150, 1000, 5000, 20_000, 300_000][key as usize % 6] + key as usize % 7];
    let builder = || Db::builder().path(&path).io_uring(ALWAYS).segment_size(1 << 20);
    let db = builder().open().unwrap();
    assert!(matches!(db.open_report().io_uring, Some(IoUringState::Used { direct: true, .. })));
    let keys: Vec<u32> = (0..600).collect();
    for key in &keys {
        db.insert(key.to_le_bytes(), value(*key)).unwrap();
    }
    for _ in 0..2 {
        db.flush().unwrap();
        chill(&path);
        for (key, found) in keys.iter().zip(db.get_many(keys.iter().map(|key| key.to_le_bytes())).unwrap()) {
            assert!(found == Some(value(*key)), "{key}");
        }
        chill(&path);
        for key in &keys {
            assert!(db.get(key.to_le_bytes()).unwrap() == Some(value(*key)), "{key}");
            db.insert(key.to_le_bytes(), value(*key)).unwrap();
        }
        chill(&path);
        db.compact().unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
    drop(db);
    chill(&path);
    let db = builder().open().unwrap();
    assert_eq!((db.len().unwrap(), db.iter().count()), (600, 600));
}

/// The filter holds for its thread alone.
fn refuse_io_uring(errno: u32) {
    let op = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let (load, jump, answer) = (0x20, 0x15, 0x06);
    let mut program = [
        op(load, 0, 0),
        libc::sock_filter { jf: 1, ..op(jump, 0, libc::SYS_io_uring_setup as u32) },
        op(answer, 0, libc::SECCOMP_RET_ERRNO | errno),
        op(answer, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: only this thread loses rights.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program is valid for the call.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }, 0);
}

#[test]
fn a_sandbox_that_refuses_io_uring_gets_a_store_without_it_and_hears_why() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let refused = std::thread::spawn(move || {
            refuse_io_uring(errno as u32);
            let folder = tempfile::tempdir().unwrap();
            let db = Db::builder().path(folder.path().join("store")).io_uring(ALWAYS).background(false).open().unwrap();
            db.insert("color", "green").unwrap();
            assert_eq!(db.get_many(["color"]).unwrap(), [Some(b"green".to_vec())]);
            db.flush().unwrap();
            db.open_report().io_uring.clone()
        });
        let Some(IoUringState::Refused(why)) = refused.join().unwrap() else { panic!("not refused") };
        assert!(why.contains("the system refuses io_uring: "), "{why}");
    }
}

#[test]
fn a_file_that_fits_into_memory_a_follower_and_a_strange_file_system_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Db::builder().path(&path).io_uring(IoUring::default()).open().unwrap();
    let state = writer.open_report().io_uring.clone();
    assert!(matches!(state, Some(IoUringState::FitsMemory { file: 0, memory }) if memory > 0), "{state:?}");
    #[cfg(feature = "followers")]
    {
        let follower = Db::builder().path(&path).follow(true).io_uring(ALWAYS).open().unwrap();
        assert!(matches!(follower.open_report().io_uring, Some(IoUringState::Refused(_))));
    }
    let strange = Path::new("/proc/self/status");
    let why = direct::open(&std::fs::File::open(strange).unwrap(), strange, true).unwrap_err();
    assert!(why.contains("this file system is 0x9fa0"), "{why}");
    assert!(Db::builder().path(folder.path().join("none")).io_uring(ALWAYS).read_only(true).open().is_err());
}

#[test]
fn a_forked_child_reads_without_the_rings_of_its_parent() {
    if is_refused() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::builder().path(&path).io_uring(ALWAYS).background(false).open().unwrap();
    let keys: Vec<[u8; 4]> = (0..2000_u32).map(u32::to_le_bytes).collect();
    for key in &keys {
        db.insert(key, [7; 500]).unwrap();
    }
    let all = |db: &Db| db.get_many(&keys).is_ok_and(|found| found.iter().all(|value| value.as_deref() == Some(&[7; 500][..])));
    for _ in 0..5 {
        db.flush().unwrap();
        chill(&path);
        assert!(all(&db));
        // SAFETY: the child only calls the store, whose locks no other thread holds, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let reads = all(&db);
            let is_refused = matches!(db.insert("child", "lost"), Err(Error::Storage(_)));
            drop(db);
            // SAFETY: ends the process without running anything of the test's.
            unsafe { libc::_exit(i32::from(!reads || !is_refused)) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for the call.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        chill(&path);
        assert!(all(&db));
    }
}
