//! Many unclean ends in a row, on full media and others. See `pipkin_tests::suite::lives`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::{Db, Error};
use pipkin_tests::mount::Mount;
use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::lives::{Budget, Counts, one, run, taken};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Unclean ends that the normal run owes.
const DEATHS_LEAST: u64 = 2_000;

#[test]
fn whatever_number_of_unclean_ends_a_store_has_a_way_out_and_stays_bounded() {
    if std::env::var("PIPKIN_LIFE_SEED").is_ok() {
        return unwrap("lives", watched(|watch| one(env_u64("PIPKIN_LIFE_SEED", 0), &Counts::new(0), watch)));
    }
    let deaths = env_u64("PIPKIN_LIFE_DEATHS", DEATHS_LEAST);
    let counts = Counts::new(deaths);
    unwrap("lives", run(&Budget { deaths, seed: env_u64("PIPKIN_FIRST_SEED", 1) }, &counts));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    counts.deaths.finish(format_args!(
        "{} stores, {} deaths on full media, {} inside of a call, {} power cuts, {} removals; {} times what was stranded had to go",
        count(&counts.lives),
        count(&counts.full),
        count(&counts.inside),
        count(&counts.cuts),
        count(&counts.removals),
        count(&counts.given_up)
    ));
}

/// Lives at whose end nothing could be removed any more, or whose store took no more writes: segments that were kept for copies which a power cut
/// had stranded had taken all space; compaction had spent the reserve on a short extent, which is none; what was taken at the end of the
/// file counted as set aside, though a part of it had been given back; closing a full store had no room for a list; lists had taken the room of a compaction that crashes had ended twice.
#[test]
fn stores_that_had_no_way_out_have_one() {
    for seed in [213, 270, 510, 609, 677, 774, 779, 841, 442, 61, 173, 5012] {
        unwrap("lives", watched(|watch| one(seed, &Counts::new(0), watch)));
    }
}

const STORE: &str = "PIPKIN_LIVES_STORE";
const NOTE: &str = "PIPKIN_LIVES_NOTE";

/// Not a test of its own: a process that fills a store, or removes four of five keys of a range, and ends without a close, when the
/// environment says so.
#[test]
fn session() {
    let Ok(path) = std::env::var(STORE) else { return };
    let (from, to) = (env_u64("PIPKIN_LIVES_FROM", 0), env_u64("PIPKIN_LIVES_TO", 0));
    let db = Db::open(path).unwrap();
    if to == 0 {
        let keys = (0_u64..).find(|key| match db.insert(key.to_le_bytes(), [7; 200]) {
            Ok(()) => false,
            Err(Error::NoSpace) => true,
            Err(error) => panic!("{error}"),
        });
        std::fs::write(std::env::var(NOTE).unwrap(), keys.unwrap().to_string()).unwrap();
    }
    for key in (from..to).filter(|key| key % 5 != 0) {
        assert!(db.remove(key.to_le_bytes()).unwrap(), "{key} was not there");
    }
    // As a store in a `static` ends.
    std::process::exit(0);
}

/// Filled, 8 sessions that remove one key each and end without a close, then some that remove four of five: on a tmpfs of 14 MB and on one of
/// 64 MB every removal, compaction and insert was refused from the third session on, for good.
#[test]
fn a_full_file_system_has_a_way_out_after_processes_that_end_without_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("keys");
    let quota = Quota::new("lives, file systems", 0);
    for mib in [14, 64] {
        let Some(mount) = Mount::tmpfs(mib * 1024) else { return };
        let path = mount.path().join("store.pipkin");
        let run = |from: u64, to: u64| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "session", "--nocapture"])
                .env(STORE, &path)
                .env(NOTE, &note)
                .env("PIPKIN_LIVES_FROM", from.to_string())
                .env("PIPKIN_LIVES_TO", to.to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mib} MiB, session {from}..{to}: {:?}, {said}", output.status);
            quota.add(1);
        };
        run(0, 0);
        let keys: u64 = std::fs::read_to_string(&note).unwrap().parse().unwrap();
        (0..8).map(|number| number * 5 + 1).for_each(|key| run(key, key + 1));
        let part = (keys - 60) / 3;
        (0..3).for_each(|number| run(60 + number * part, 60 + (number + 1) * part));
        let db = Db::open(&path).unwrap();
        let before = db.stats().unwrap();
        db.compact().unwrap();
        for key in 0..keys / 3 {
            db.insert(format!("again {key}"), [8; 200]).unwrap_or_else(|error| panic!("{mib} MiB, {key} of {keys}: {error}"));
        }
        assert!(db.verify().unwrap().is_ok());
        println!(
            "lives: tmpfs of {mib} MiB, {keys} keys, {} bytes alive and {} of file when compacted",
            before.live_bytes, before.file_bytes
        );
        db.close().unwrap();
    }
    quota.finish("sessions of processes of their own");
}

/// Closing gave the reserve for removals back. Where another program took it, 30 % of a store were dead and `compact` answered `NoSpace`.
#[test]
fn a_store_that_is_closed_on_a_full_medium_has_a_way_out_though_others_take_what_it_gives_back() {
    unwrap("lives", taken());
    for mib in [14, 40] {
        let Some(mount) = Mount::tmpfs(mib * 1024) else { return };
        let (path, other) = (mount.path().join("store.pipkin"), mount.path().join("other"));
        let take_the_rest = || {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&other).unwrap();
            while std::io::Write::write(&mut file, &[1; 4096]).is_ok() {}
        };
        let db = Db::open(&path).unwrap();
        let keys = (0_u64..).take_while(|key| db.insert(key.to_le_bytes(), [7; 200]).is_ok()).count() as u64;
        db.close().unwrap();
        take_the_rest();
        let mut left = (0..keys).filter(|key| key % 10 < 3);
        for session in 0..4 {
            let db = Db::open(&path).unwrap();
            for key in left.by_ref().take(if session == 3 { usize::MAX } else { 1 }) {
                db.remove(key.to_le_bytes())
                    .unwrap_or_else(|error| panic!("{mib} MiB, session {session}, {key} of {keys}: {error}"));
            }
            if session == 3 {
                db.compact().unwrap_or_else(|error| panic!("{mib} MiB: {error}"));
                // Of the three tenths that are free again, the reserve, the index snapshot, and a segment that the medium is a few pages short
                // of cannot be used: on a quiet machine a twelfth was a hundred kilobytes too much.
                for key in 0..keys / 16 {
                    db.insert(format!("again {key}"), [8; 200])
                        .unwrap_or_else(|error| panic!("{mib} MiB, {key} of {keys}: {error}"));
                }
                assert!(db.verify().unwrap().is_ok());
            }
            db.close().unwrap();
            take_the_rest();
        }
        // With room again, closing keeps nothing back.
        assert!(mount.remount("size=200m"));
        let db = Db::open(&path).unwrap();
        assert!(db.remove(5_u64.to_le_bytes()).unwrap());
        let blocks = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap()) * 512;
        let before = blocks();
        db.close().unwrap();
        println!("lives: {mib} MiB, {keys} keys, {before} bytes of disk and {} when closed with room", blocks());
        assert!(blocks() + (4 << 20) <= before, "{mib} MiB: {before} bytes, {} when closed", blocks());
    }
}

/// The first write of a store on a full medium left a file behind that every later verb called no store.
#[test]
fn a_store_that_a_full_medium_has_no_room_for_leaves_nothing() {
    for free in [0, 4096, 8192, 12_288, 16_384, 20_480, 65_536] {
        let Some(mount) = Mount::tmpfs(1024) else { return };
        let (path, other) = (mount.path().join("store.pipkin"), mount.path().join("other"));
        std::fs::write(&other, vec![1; (1 << 20) - free]).unwrap_or_else(|error| panic!("{free}: {error}"));
        let written = Db::open(&path).and_then(|db| db.insert("key", [1; 100]).and_then(|()| db.close()));
        println!("lives: {free} bytes free, {written:?}, file there: {}", path.exists());
        assert!(matches!(written, Ok(()) | Err(Error::NoSpace)), "{free}: {written:?}");
        if path.exists() {
            let db =
                Db::builder().path(&path).read_only(true).open().unwrap_or_else(|error| panic!("{free} bytes free: {error}"));
            assert_eq!(db.len().unwrap(), u64::from(written.is_ok()));
        }
        // Truncated, not removed: a child that another test starts has this file open until it runs its program, and keeps its blocks.
        std::fs::write(&other, []).unwrap();
        Db::open(&path).unwrap().insert("key", "value").unwrap();
    }
}
