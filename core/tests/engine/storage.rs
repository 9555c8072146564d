//! Every storage passes the same suite; and what only files have: locks, rights, names, maps.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::storage::conformance::{Options, run, run_with};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::FaultStorage;
use pipkin::{Durability, Storage, StorageError};

/// Fewer checks than this mean that parts of the suite did not run.
const CHECKS_MIN: u32 = 3000;

fn options(sparse: bool, durability: Durability) -> Options {
    let mut options = Options::default();
    options.sparse = sparse;
    options.durability = Some(durability);
    options
}

#[test]
fn memory_conforms() {
    let checks = run_with(options(true, Durability::None), &mut || Box::new(MemoryStorage::new())).unwrap();
    assert!(checks >= CHECKS_MIN, "{checks} checks");
}

#[test]
fn the_crash_simulator_conforms() {
    run_with(options(true, Durability::Device), &mut || Box::new(CrashStorage::new())).unwrap();
}

#[test]
fn a_crash_image_conforms() {
    run_with(options(true, Durability::Device), &mut || Box::new(CrashImage::from_bytes(&[]))).unwrap();
}

#[test]
fn the_fault_injector_conforms_while_no_fault_is_armed() {
    run_with(options(true, Durability::None), &mut || Box::new(FaultStorage::new(MemoryStorage::new()))).unwrap();
}

#[test]
fn handles_to_one_memory_see_the_same_bytes_and_it_takes_over_a_vector() {
    for len in [0, 1, 5000, 65_536, 65_537, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let storage = MemoryStorage::from_vec(bytes.clone());
        let same = storage.clone();
        assert_eq!(same.to_vec(), bytes);
        storage.write_at(len as u64 + 3, &[b"x"]).unwrap();
        assert_eq!(same.len().unwrap(), len as u64 + 4);
        assert_eq!(same.to_vec()[len..], [0, 0, 0, b'x']);
    }
}

/// A storage that breaks the contract in one way, chosen by number.
struct Broken {
    inner: MemoryStorage,
    way: u32,
}

impl Storage for Broken {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        let old = self.inner.len()?;
        match self.way {
            0 if len < old => Ok(()),
            1 if len > old => self.inner.write_at(len - 1, &[b"x"]),
            // Old bytes come back when the file grows again.
            2 if len < old => {
                let mut kept = vec![0; (old - len).min(5) as usize];
                self.inner.read_at(len, &mut kept)?;
                self.inner.set_len(len)?;
                self.inner.write_at(len, &[&kept])?;
                self.inner.set_len(len + 1)
            }
            _ => self.inner.set_len(len),
        }
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        match self.way {
            3 if offset.saturating_add(out.len() as u64) > self.inner.len()? => Ok(()),
            4 if out.len() > 65_536 => self.inner.read_at(offset, &mut out[..65_536]),
            5 => self.inner.read_at(offset & 0xFFFF_FFFF, out),
            _ => self.inner.read_at(offset, out),
        }
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        match self.way {
            6 => self.inner.write_at(offset, &parts[..parts.len().min(1)]),
            7 => self.inner.write_at(offset, &parts[..parts.len().min(1024)]),
            8 => self.inner.write_at(offset & 0xFFFF_FFFF, parts),
            9 if parts.iter().all(|part| part.is_empty()) => self.inner.reserve(0, offset),
            10 if parts.concat().len() > 1_048_576 => self.inner.write_at(offset, &[&parts.concat()[..1_048_576]]),
            11 => {
                let len = self.inner.len()?;
                let end = offset.checked_add(parts.concat().len() as u64);
                self.inner.write_at(offset, parts)?;
                // Cuts what another thread has appended meanwhile. Only the threads of the suite have no name.
                end.filter(|end| *end > len && std::thread::current().name().is_none()).map_or(Ok(()), |end| {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    self.inner.set_len(end)
                })
            }
            _ => self.inner.write_at(offset, parts),
        }
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        Ok(if self.way == 12 { Durability::Device } else { Durability::None })
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        match self.way {
            13 => self.inner.set_len(offset.saturating_add(len)),
            14 => Ok(()),
            _ => self.inner.reserve(offset, len),
        }
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        match self.way {
            15 => {
                let end = offset.saturating_add(len).next_multiple_of(4096).min(self.inner.len()?);
                self.inner.write_at(offset, &[&vec![0; end.saturating_sub(offset) as usize]])
            }
            16 if offset + len >= self.inner.len()? => self.inner.set_len(offset.min(self.inner.len()?)),
            _ => Ok(()),
        }
    }
    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        match self.way {
            18 => self.inner.write_at(offset, &parts[..parts.len().min(1)]).is_ok(),
            19 => self.inner.write_at(offset + 1, parts).is_ok(),
            _ => false,
        }
    }
    fn claim(&self) -> Result<(), StorageError> {
        if self.way == 17 { self.inner.write_at(8192, &[&[1; 65]]) } else { Ok(()) }
    }
}

#[test]
fn the_suite_sees_every_planted_breach() {
    let suite = |way| run_with(options(true, Durability::None), &mut || Box::new(Broken { inner: MemoryStorage::new(), way }));
    suite(u32::MAX).unwrap();
    // Without the standard library there are no threads to be cut off by (11).
    for way in (0..=19).filter(|way| cfg!(feature = "std") || *way != 11) {
        assert!(suite(way).is_err(), "breach {way} went unseen");
    }
}

#[test]
fn the_short_call_runs_the_suite() {
    assert!(run(&mut || Box::new(MemoryStorage::new())).unwrap() >= 2500);
}

#[cfg(feature = "native")]
mod native {
    use super::{CHECKS_MIN, options, run_with};
    use pipkin::storage::native::{NativeOptions, NativeStorage, data_path};
    use pipkin::{Durability, Error, Storage, StorageErrorKind};
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    const WRITE: NativeOptions = NativeOptions { read_only: false, create: true, mmap: true, write_through: false };
    const READ: NativeOptions = NativeOptions { read_only: true, ..WRITE };

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_file_conforms_with_and_without_a_map() {
        for mmap in [true, false] {
            let folder = folder();
            let mut number = 0;
            let options = options(cfg!(unix), Durability::Device);
            let checks = run_with(options, &mut || {
                number += 1;
                let path = folder.path().join(format!("{number}"));
                let storage = NativeStorage::open(&path, NativeOptions { mmap, ..WRITE }).unwrap();
                assert_eq!(storage.is_mapped(), mmap);
                Box::new(storage)
            });
            assert!(checks.unwrap() >= CHECKS_MIN - if cfg!(unix) { 0 } else { 100 });
        }
    }

    /// Past the system's cache and through it. Where a sandbox refuses io_uring, only that is said.
    #[cfg(all(feature = "io-uring", target_os = "linux"))]
    #[test]
    fn a_file_that_is_read_through_io_uring_conforms() {
        use pipkin::{IoUring, IoUringState};
        for direct in [true, false] {
            let (folder, mut refused) = (folder(), None);
            let mut number = 0;
            let checks = run_with(options(true, Durability::Device), &mut || {
                number += 1;
                let file = NativeStorage::open(&folder.path().join(format!("{number}")), WRITE).unwrap();
                let (storage, state) = file.with_io_uring(IoUring { auto: false, depth: 1 + number % 64, direct, sqpoll: false });
                refused = (!matches!(state, IoUringState::Used { .. })).then_some(state);
                storage
            });
            assert!(checks.unwrap() >= CHECKS_MIN - 100);
            assert!(matches!(refused, None | Some(IoUringState::Refused(_))), "{refused:?}");
            refused.into_iter().for_each(|state| println!("{state:?}"));
        }
    }

    #[test]
    fn a_map_shows_the_file_as_it_grows() {
        let folder = folder();
        let storage = NativeStorage::open(&folder.path().join("store"), WRITE).unwrap();
        let mut views = Vec::new();
        for megabyte in 0..12_u64 {
            storage.write_at(megabyte << 20, &[&vec![megabyte as u8 + 1; 1 << 20]]).unwrap();
            // SAFETY: the file is only appended to below.
            views.extend(unsafe { storage.view(megabyte << 20, 1 << 20) });
        }
        for view in &views {
            assert!(view.iter().all(|byte| *byte == view[0] && *byte > 0));
        }
        // Everywhere but on Windows a view never has to wait for a longer map.
        assert!(views.len() == 12 || (cfg!(windows) && views.len() > 4), "{} views", views.len());
    }

    /// Windows cannot cut a mapped file. What the engine sees is cut all the same, and the file when it is closed.
    #[test]
    fn a_mapped_file_can_be_cut_and_grown_and_is_cut_for_good_when_closed() {
        let folder = folder();
        let path = folder.path().join("store");
        let storage = NativeStorage::open(&path, WRITE).unwrap();
        storage.write_at(0, &[&vec![7; 300_000]]).unwrap();
        // SAFETY: this slice is not used after the next line.
        assert!(unsafe { storage.view(0, 300_000) }.is_some());
        storage.set_len(100_000).unwrap();
        storage.write_at(150_000, &[b"x"]).unwrap();
        storage.set_len(200_000).unwrap();
        let mut expected = vec![7; 100_000];
        expected.resize(200_000, 0);
        expected[150_000] = b'x';
        let mut seen = vec![0; 200_000];
        storage.read_at(0, &mut seen).unwrap();
        assert!(seen == expected);
        storage.set_len(180_000).unwrap();
        drop(storage);
        assert!(fs::read(&path).unwrap() == expected[..180_000]);
    }

    #[test]
    fn a_missing_file_is_created_only_when_that_was_asked_for() {
        let folder = folder();
        let path = folder.path().join("store");
        for options in [NativeOptions { create: false, ..WRITE }, READ] {
            assert!(matches!(NativeStorage::open(&path, options), Err(Error::NotFound { .. })));
            assert!(!path.exists());
        }
        assert!(matches!(lock_holder(&path), Err(Error::NotFound { .. })));
        assert!(matches!(pipkin::Db::break_lock(&path), Err(Error::NotFound { .. })) && !path.exists());
        drop(NativeStorage::open(&path, WRITE).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
        drop(NativeStorage::open(&path, NativeOptions { create: false, ..WRITE }).unwrap());
        let error = NativeStorage::open(&folder.path().join("no/store"), WRITE).unwrap_err();
        assert!(error.to_string().contains("there is no folder"), "{error}");
    }

    #[test]
    fn a_folder_or_a_device_is_not_a_store() {
        let folder = folder();
        for options in [WRITE, READ] {
            assert!(matches!(NativeStorage::open(folder.path(), options), Err(Error::IsDirectory { .. })));
            assert!(matches!(NativeStorage::open(Path::new(""), options), Err(Error::InvalidArgument(_))));
        }
        assert!(matches!(lock_holder(folder.path()), Err(Error::IsDirectory { .. })));
        #[cfg(unix)]
        assert!(matches!(NativeStorage::open(Path::new("/dev/null"), WRITE), Err(Error::InvalidArgument(_))));
    }

    #[test]
    fn a_write_protected_file_opens_for_reading_only() {
        let folder = folder();
        let path = folder.path().join("store");
        fs::write(&path, b"pipkin").unwrap();
        let writable = fs::metadata(&path).unwrap().permissions();
        let mut protected = writable.clone();
        protected.set_readonly(true);
        fs::set_permissions(&path, protected).unwrap();
        assert!(matches!(NativeStorage::open(&path, WRITE), Err(Error::ReadOnly)));
        let storage = NativeStorage::open(&path, READ).unwrap();
        assert!(storage.is_read_only());
        let mut seen = [0; 6];
        storage.read_at(0, &mut seen).unwrap();
        assert_eq!(&seen, b"pipkin");
        let refused = [
            storage.write_at(0, &[b"x"]),
            storage.set_len(1),
            storage.reserve(0, 9),
            storage.discard(0, 1),
            storage.sync().map(drop),
        ];
        for result in refused {
            assert_eq!(result.unwrap_err().kind, StorageErrorKind::ReadOnly);
        }
        storage.claim().unwrap();
        storage.release().unwrap();
        drop(storage);
        assert_eq!(fs::read(&path).unwrap(), b"pipkin");
        fs::set_permissions(&path, writable).unwrap();
    }

    #[test]
    fn one_writer_or_many_readers() {
        let folder = folder();
        let path = folder.path().join("store");
        let writer = NativeStorage::open(&path, WRITE).unwrap();
        writer.set_len(16_384).unwrap();
        let holder_seen = |options| match NativeStorage::open(&path, options) {
            Err(Error::Locked { holder, path: named }) => {
                assert_eq!(named, path.display().to_string());
                holder
            }
            other => panic!("not locked: {other:?}"),
        };
        for options in [WRITE, READ] {
            assert_eq!(holder_seen(options), None, "no note before the engine has claimed the file");
        }
        writer.claim().unwrap();
        for options in [WRITE, READ] {
            assert_eq!(holder_seen(options), Some(std::process::id()));
        }
        assert_eq!(lock_holder(&path).unwrap(), Some(std::process::id()));
        writer.release().unwrap();
        assert_eq!(lock_holder(&path).unwrap(), None);
        writer.claim().unwrap();
        drop(writer);
        assert_eq!(lock_holder(&path).unwrap(), None);
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "the note goes with the writer");

        let readers = [NativeStorage::open(&path, READ).unwrap(), NativeStorage::open(&path, READ).unwrap()];
        assert_eq!(holder_seen(WRITE), None);
        drop(readers);
        NativeStorage::open(&path, WRITE).unwrap();
    }

    #[test]
    fn a_short_file_gets_no_note() {
        let folder = folder();
        let path = folder.path().join("store");
        let storage = NativeStorage::open(&path, WRITE).unwrap();
        storage.set_len(8192).unwrap();
        storage.claim().unwrap();
        drop(storage);
        assert_eq!(fs::metadata(&path).unwrap().len(), 8192);
    }

    /// The number of the process that has a store open.
    fn lock_holder(path: &Path) -> pipkin::Result<Option<u32>> {
        Ok(pipkin::Db::lock_holder(path)?.map(|holder| holder.pid))
    }

    const CHILD_PATH: &str = "PIPKIN_TEST_LOCK_PATH";

    /// Not a test of its own: what the child process of the next ones runs.
    #[test]
    fn child_that_holds_the_lock() {
        let Some(path) = std::env::var_os(CHILD_PATH) else {
            return;
        };
        let storage = NativeStorage::open(Path::new(&path), WRITE).unwrap();
        storage.set_len(16_384).unwrap();
        storage.claim().unwrap();
        println!("\nholding");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }

    fn start_child(path: &Path) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storage::native::child_that_holds_the_lock", "--nocapture"])
            .env(CHILD_PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().trim() == "holding"), "the child did not get the lock");
        child
    }

    #[test]
    fn another_process_is_named_and_its_death_frees_the_lock() {
        let folder = folder();
        let path = folder.path().join("store");
        for round in 0..3 {
            let mut child = start_child(&path);
            for options in [WRITE, READ] {
                match NativeStorage::open(&path, options) {
                    Err(Error::Locked { holder, .. }) => assert_eq!(holder, Some(child.id())),
                    other => panic!("round {round}: not locked: {other:?}"),
                }
            }
            assert_eq!(lock_holder(&path).unwrap(), Some(child.id()));
            let seen = pipkin::Db::lock_holder(&path).unwrap().unwrap();
            if cfg!(target_os = "linux") {
                assert_eq!(seen.program, Some(std::fs::canonicalize(std::env::current_exe().unwrap()).unwrap()));
                assert!(seen.host.is_some_and(|host| !host.is_empty()));
                let age = std::time::SystemTime::now().duration_since(seen.since.unwrap()).unwrap_or_default();
                assert!(age < std::time::Duration::from_secs(600), "a child of this test began {age:?} ago");
            }
            assert!(matches!(pipkin::Db::break_lock(&path), Err(Error::Locked { holder: Some(pid), .. }) if pid == child.id()));
            // Killed, not asked: nothing of the child runs any more.
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(lock_holder(&path).unwrap(), None);
            // What a dead process leaves needs no breaking, and looking at it changes nothing.
            let before = fs::read(&path).unwrap();
            pipkin::Db::break_lock(&path).unwrap();
            assert!(fs::read(&path).unwrap() == before);
            let storage = NativeStorage::open(&path, WRITE).unwrap();
            let mut note = [0; 8];
            storage.read_at(8192, &mut note).unwrap();
            assert_eq!(&note, b"PIPKHOLD", "the dead child's note is still there, and counts for nothing");
            // Held by a reader, the old note names nobody.
            drop(storage);
            let reader = NativeStorage::open(&path, READ).unwrap();
            assert!(matches!(NativeStorage::open(&path, WRITE), Err(Error::Locked { holder: None, .. })));
            drop(reader);
        }
    }

    #[test]
    fn a_file_longer_than_what_fits_is_refused_as_lack_of_space() {
        let folder = folder();
        let storage = NativeStorage::open(&folder.path().join("store"), WRITE).unwrap();
        storage.write_at(0, &[b"pipkin"]).unwrap();
        for len in [1 << 63, u64::MAX] {
            assert_eq!(storage.set_len(len).unwrap_err().kind, StorageErrorKind::NoSpace);
            assert_eq!(storage.write_at(len - 1, &[b"x"]).unwrap_err().kind, StorageErrorKind::NoSpace);
            assert_eq!(storage.reserve(0, len).unwrap_err().kind, StorageErrorKind::NoSpace);
        }
        assert_eq!(storage.len().unwrap(), 6);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reserve_sets_real_blocks_aside_and_discard_gives_them_back() {
        use std::os::unix::fs::MetadataExt;
        let folder = folder();
        let path = folder.path().join("store");
        let storage = NativeStorage::open(&path, WRITE).unwrap();
        let blocks = || fs::metadata(&path).unwrap().blocks() * 512;
        storage.set_len(1 << 20).unwrap();
        let before = blocks();
        storage.reserve(0, 1 << 20).unwrap();
        if blocks() == before {
            eprintln!("this file system sets no blocks aside");
            return;
        }
        assert!(blocks() >= 1 << 20);
        storage.write_at(0, &[&vec![7; 1 << 20]]).unwrap();
        storage.discard(0, 1 << 20).unwrap();
        storage.sync().unwrap();
        assert!(blocks() < 1 << 16);
        assert_eq!(storage.len().unwrap(), 1 << 20);
    }

    #[test]
    fn a_name_becomes_a_path_and_a_bad_name_an_error() {
        let folder = folder();
        let path = data_path("app", "main", Some(folder.path())).unwrap();
        assert_eq!(path, folder.path().join("app").join("main.pipkin"));
        assert!(folder.path().join("app").is_dir() && !path.exists());
        assert_eq!(data_path("app", "main", Some(folder.path())).unwrap(), path);
        let deep = data_path("app", "main", Some(&folder.path().join("a/b"))).unwrap();
        drop(NativeStorage::open(&deep, WRITE).unwrap());
        for (app, name) in [("", "main"), ("..", "main"), ("a/b", "main"), ("app", ""), ("app", "../main"), ("app", "a\\b")] {
            assert!(matches!(data_path(app, name, Some(folder.path())), Err(Error::InvalidArgument(_))), "{app} {name}");
        }
    }

    #[test]
    fn openers_that_race_for_a_new_file_get_one_writer() {
        let folder = folder();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}"));
            let start = std::sync::Barrier::new(4);
            let results: Vec<_> = std::thread::scope(|scope| {
                let open = || {
                    start.wait();
                    NativeStorage::open(&path, WRITE)
                };
                let handles: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
                handles.into_iter().map(|handle| handle.join().unwrap()).collect()
            });
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
            assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(Error::Locked { .. }))));
        }
    }
}
