//! `kill -9` of a real process under load. The child writes from several threads while it compacts and checkpoints; a file
//! outside of the store bears witness of what was acknowledged. After each kill everything acknowledged must be there, flushed
//! or not, nothing else may be, and the store must verify. The same store is killed many times over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::testing::TestClock;
use pipkin::{Builder, Db, IoUring};
use pipkin_tests::parallel::{Failure, Outcome, for_each, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::rng::derive;
use pipkin_tests::victim;
use pipkin_tests::whole::Whole;
use pipkin_tests::witness::{LONG_MS, Model, Note, Spaces, WRITERS, expires};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kills that the normal run owes.
const KILLS_LEAST: u64 = 180;
/// Kills that one store lives through.
const KILLS_PER_STORE: u64 = 30;

/// The stores differ in how they are opened.
fn builder(path: &Path, seed: u64) -> Builder {
    let segment_size = [16 * 1024, 64 * 1024, 1 << 20, 4 << 20][(seed % 4) as usize];
    let builder = Db::builder().path(path).mmap(!seed.is_multiple_of(3)).segment_size(segment_size).replay_debt_max(500_000);
    if seed % 5 == 2 {
        pipkin::testing::ignore_system_cache(true);
        return builder.io_uring(IoUring { auto: false, depth: 32, direct: seed.is_multiple_of(2), ..IoUring::default() });
    }
    builder
}

/// Not a test of its own: the child that is killed, when the environment says so.
#[test]
fn child() {
    let Some((folder, seed)) = victim::told() else { return };
    let db = builder(&folder.join("store.pipkin"), seed).open().unwrap();
    let spaces = Spaces::open(&db).unwrap();
    victim::is_at_work(&folder).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (spaces, folder, db) = (&spaces, &folder, &db);
            scope.spawn(move || {
                let mut note = Note::open(folder, writer).unwrap();
                for number in note.read().unwrap() + 1..=u64::MAX {
                    spaces.play(seed, writer, number).unwrap();
                    note.write(number).unwrap();
                    if number % 97 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
        victim::maintain(&db).unwrap();
    });
}

fn one_kill(folder: &Path, seed: u64, kill: u64, models: &mut [Model]) -> Result<usize, String> {
    let mut rng = derive(seed, kill);
    victim::kill_one(folder, seed, &mut rng)?;
    let copy = rng.chance(1, 2);
    // The store itself goes on under the system's clock.
    let time = if rng.chance(1, 2) { LONG_MS } else { LONG_MS / 2 };
    let clock = (copy && expires(seed)).then(|| TestClock::new(time));
    verify(folder, seed, copy, clock, models)
}

/// Looks at what is left: at a copy, so that the next child recovers from the kill itself, or at the store. Returns how many records have expired
/// meanwhile.
fn verify(folder: &Path, seed: u64, copy: bool, clock: Option<TestClock>, models: &mut [Model]) -> Result<usize, String> {
    let store = folder.join("store.pipkin");
    let path = if copy { folder.join("copy.pipkin") } else { store.clone() };
    if !store.exists() {
        return if models.iter().all(|model| model.played == 0) { Ok(0) } else { Err("the store is gone".into()) };
    }
    if copy {
        std::fs::copy(&store, &path).map_err(|error| error.to_string())?;
    }
    let words = |error: pipkin::Error| format!("{error} ({error:?})");
    let builder = builder(&path, seed).background(false).ordered(copy);
    let builder = clock.iter().fold(builder, |builder, clock| builder.clock(clock.clone()));
    let db = builder.open().map_err(|error| format!("open after the kill: {}", words(error)))?;
    let spaces = Spaces::open(&db).map_err(words)?.under(clock);
    for (writer, model) in (0..).zip(models.iter_mut()) {
        let mut note = Note::open(folder, writer).map_err(|error| error.to_string())?;
        let acked = note.read().map_err(|error| error.to_string())?;
        model.find(&spaces, seed, writer, acked)?;
        note.write(model.played).map_err(|error| error.to_string())?;
    }
    let expired = Whole { models, shared: BTreeMap::new() }.compare(&spaces)?;
    let report = db.verify().map_err(words)?;
    if !report.is_ok() {
        return Err(format!("verify after the kill finds {:?}", report.damage));
    }
    drop(spaces);
    db.close().map_err(words)?;
    if copy {
        std::fs::remove_file(path).map_err(|error| error.to_string())?;
    }
    Ok(expired)
}

/// What a run has done beside its kills.
#[derive(Default)]
struct Counts {
    operations: AtomicU64,
    expired: AtomicU64,
}

fn one_store(seed: u64, quota: &Quota, counts: &Counts) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (a kill's moment varies: may take several runs)"), what);
    let folder = tempfile::tempdir_in(victim::place(seed)).map_err(|error| fail(error.to_string()))?;
    let mut models = vec![Model::default(); WRITERS as usize];
    for kill in 0..KILLS_PER_STORE {
        let expired = one_kill(folder.path(), seed, kill, &mut models).map_err(|what| {
            let kept = victim::keep(folder.path(), seed);
            fail(format!("kill {kill}: {what}\n  the store was kept in {}", kept.display()))
        })?;
        counts.expired.fetch_add(expired as u64, Ordering::Relaxed);
        quota.add(1);
    }
    counts.operations.fetch_add(models.iter().map(|model| model.played).sum(), Ordering::Relaxed);
    Ok(())
}

#[test]
fn a_killed_process_loses_nothing_that_it_was_told_is_stored() {
    let quota = Quota::new("kill", KILLS_LEAST);
    let counts = Counts::default();
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("kill", one_store(env_u64("PIPKIN_SEED", 0), &quota, &counts));
    }
    let stores = env_u64("PIPKIN_KILLS", KILLS_LEAST + KILLS_PER_STORE).div_ceil(KILLS_PER_STORE);
    let outcome = for_each(1..=stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one_store(seed, &quota, &counts)
    });
    unwrap("kill", outcome);
    let (operations, expired) = (counts.operations.into_inner(), counts.expired.into_inner());
    assert!(expired > 0, "no record expired while a store was looked at");
    quota.finish(format_args!(
        "{stores} stores, {operations} operations acknowledged and found again, {expired} records expired while looked at"
    ));
}
