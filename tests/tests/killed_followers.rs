//! `kill -9` of a process in which four writers write, four followers hear of every commit, and compaction runs. Each follower notes what it
//! hears in a file of its own; whichever of them the kill interrupts, at the end none has missed a commit, and none has heard one twice.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::{Builder, Db};
use pipkin_tests::followers::{FOLLOWERS, WRITERS, check, follow, register, write_on};
use pipkin_tests::parallel::{Failure, Outcome, for_each, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::rng::derive;
use pipkin_tests::victim;
use pipkin_tests::witness::Note;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Kills that the normal run owes.
const KILLS_LEAST: u64 = 300;
/// Kills that one store lives through.
const KILLS_PER_STORE: u64 = 20;

fn builder(folder: &Path, seed: u64) -> Builder {
    let segment_size = [16 * 1024, 64 * 1024, 1 << 20][(seed % 3) as usize];
    let path = folder.join("store.pipkin");
    Db::builder().path(path).mmap(!seed.is_multiple_of(5)).segment_size(segment_size).replay_debt_max(500_000)
}

/// Not a test of its own: the child that is killed, when the environment says so.
#[test]
fn child() {
    let Some((folder, seed)) = victim::told() else { return };
    let db = builder(&folder, seed).open().unwrap();
    register(&db).unwrap();
    victim::is_at_work(&folder).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, folder, over) = (&db, &folder, &over);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut note = Note::open(folder, writer).unwrap();
                write_on(db, writer, over, |number| note.write(number).unwrap()).unwrap();
            });
        }
        for follower in 0..FOLLOWERS {
            scope.spawn(move || {
                if let Err(what) = follow(db, folder, follower, Some(over), &AtomicU64::new(0)) {
                    // The other threads run for ever.
                    eprintln!("follower {follower}: {what}");
                    std::process::exit(1);
                }
            });
        }
        victim::maintain(db).unwrap();
    });
}

fn acknowledged(folder: &Path) -> Result<Vec<u64>, String> {
    (0..WRITERS)
        .map(|writer| Note::open(folder, writer).and_then(|mut note| note.read()).map_err(|error| error.to_string()))
        .collect()
}

/// Kills a child again and again, then lets the followers read to the end.
fn lives(folder: &Path, seed: u64, quota: &Quota, heard: &AtomicU64) -> Result<(), String> {
    for kill in 1..=KILLS_PER_STORE {
        victim::kill_one(folder, seed, &mut derive(seed, kill))?;
        check(folder, &acknowledged(folder)?, kill, false).map_err(|what| format!("after kill {kill}: {what}"))?;
        quota.add(1);
    }
    let words = |error: pipkin::Error| format!("{error} ({error:?})");
    let db = builder(folder, seed).background(false).open().map_err(words)?;
    db.flush().map_err(words)?;
    (0..FOLLOWERS).try_for_each(|follower| follow(&db, folder, follower, None, heard))?;
    check(folder, &acknowledged(folder)?, KILLS_PER_STORE, true).map_err(|what| format!("at the end: {what}"))
}

fn one_store(seed: u64, quota: &Quota, heard: &AtomicU64) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (a kill's moment varies: may take several runs)"), what);
    let folder = tempfile::tempdir_in(victim::place(seed)).map_err(|error| fail(error.to_string()))?;
    lives(folder.path(), seed, quota, heard)
        .map_err(|what| fail(format!("{what}\n  the store was kept in {}", victim::keep(folder.path(), seed).display())))
}

#[test]
fn no_follower_misses_a_commit_or_hears_one_twice() {
    let quota = Quota::new("killed_followers", KILLS_LEAST);
    let heard = AtomicU64::new(0);
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("killed_followers", one_store(env_u64("PIPKIN_SEED", 0), &quota, &heard));
    }
    let stores = env_u64("PIPKIN_KILLED_FOLLOWERS", KILLS_LEAST).div_ceil(KILLS_PER_STORE);
    let outcome = for_each(1..=stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one_store(seed, &quota, &heard)
    });
    unwrap("killed_followers", outcome);
    quota.finish(format_args!("{stores} stores, {} commits heard at their ends", heard.load(Ordering::Relaxed)));
}
