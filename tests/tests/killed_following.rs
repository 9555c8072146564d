//! `kill -9` of a process that writes and of one that follows it, in turn. Each writer's commit sets all of its keys to the commit's number, so
//! that a reader sees half of one at once; the follower notes what it has shown, and no later follower may show less.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::{Builder, Db, Error, Expected, NewEvent};
use pipkin_tests::drive::Setup;
use pipkin_tests::parallel::{Failure, Outcome, for_each, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::rng::{Rng, derive};
use pipkin_tests::victim;
use pipkin_tests::witness::Note;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Kills that the normal run owes.
const KILLS_LEAST: u64 = 300;
/// Kills that one store lives through.
const KILLS_PER_STORE: u64 = 20;
/// Events that the writer keeps at least, and more than it removes in one commit.
const EVENTS_KEPT: u64 = 40;
/// Keys of a commit.
const KEYS: u64 = 24;
/// The note of the last acknowledged commit, and the one of the last that a follower has shown.
const WRITTEN: u64 = 0;
const SHOWN: u64 = 1;
const ROLE: &str = "PIPKIN_FOLLOWING";

fn builder(folder: &Path, seed: u64) -> Builder {
    let segment_size = [4096, 16 * 1024, 64 * 1024][(seed % 3) as usize];
    let path = folder.join("store.pipkin");
    let builder = if Setup::seals(seed) { Db::builder().encryption_key([7; 32]) } else { Db::builder() };
    builder.path(path).mmap(!seed.is_multiple_of(5)).segment_size(segment_size).replay_debt_max(200_000)
}

/// Not a test of its own: the child that is killed, when the environment says so.
#[test]
fn child() {
    let Some((folder, seed)) = victim::told() else { return };
    match std::env::var(ROLE).as_deref() {
        Ok("follower") => follow(&folder, seed, None).unwrap(),
        _ => write(&folder, seed),
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn value(commit: u64) -> Vec<u8> {
    let mut value = vec![commit as u8; 8 + (commit * 37 % 300) as usize];
    value[..8].copy_from_slice(&commit.to_le_bytes());
    value
}

/// Writes for ever: commits over all keys in one namespace, now and then a clear with the commit that follows it, records that expire, and
/// maintenance beside it. Opens the store again after a while.
fn write(folder: &Path, seed: u64) {
    let mut note = Note::open(folder, WRITTEN).unwrap();
    let mut rng = derive(seed, std::process::id().into());
    loop {
        let db = builder(folder, seed).background(seed.is_multiple_of(2)).open().unwrap();
        let all = db.namespace("all").unwrap();
        let log = db.events("log").unwrap();
        let mut number = all.get(key(0)).unwrap().map_or(0, |value| u64::from_le_bytes(*value.first_chunk().unwrap()));
        number = number.max(note.read().unwrap());
        victim::is_at_work(folder).unwrap();
        for turn in 0..400 {
            number += 1;
            let mut batch = db.batch();
            for at in 0..KEYS {
                batch = batch.insert_in(&all, key(at), value(number));
            }
            let event = NewEvent::new("Written", value(number)).tag(format!("turn {}", number % 3));
            batch.append(&log, "s", Expected::Any, [event]).commit().unwrap();
            note.write(number).unwrap();
            db.insert_with_ttl(format!("short {}", number % 50), value(number), Duration::from_millis(3)).unwrap();
            match rng.below(60) {
                0 => drop(db.compact().unwrap()),
                1 => db.checkpoint().unwrap(),
                2 => drop(db.flush().unwrap()),
                3 => db.namespace("cleared").and_then(|space| space.insert("a", "b").and_then(|()| space.clear())).unwrap(),
                4 => drop(log.keep_last("s", EVENTS_KEPT).unwrap()),
                _ => {}
            }
            if turn % 50 == 49 {
                std::thread::sleep(Duration::from_micros(rng.below(2000)));
            }
        }
        db.close().unwrap();
    }
}

/// What a follower shows: the number of the newest commit that it has, whole.
fn shown(db: &Db, way: u64) -> Result<u64, String> {
    let words = |error: Error| format!("{error} ({error:?})");
    let Some(all) = db.find_namespace("all") else { return Ok(0) };
    let mut values = Vec::new();
    match way % 3 {
        0 => {
            for at in 0..KEYS {
                values.extend(all.get(key(at)).map_err(words)?);
            }
        }
        1 => {
            for record in all.iter() {
                values.push(record.map_err(words)?.1);
            }
        }
        _ => {
            let snapshot = db.snapshot();
            let Some(all) = snapshot.namespace("all").map_err(words)? else { return Ok(0) };
            for at in 0..KEYS {
                match all.get(key(at)) {
                    Ok(value) => values.extend(value),
                    // The writer has used the space again: that is said.
                    Err(Error::SnapshotTooOld) => return Err(String::new()),
                    Err(error) => return Err(words(error)),
                }
            }
        }
    }
    let Some(first) = values.first() else { return Ok(0) };
    let number = u64::from_le_bytes(*first.first_chunk().unwrap());
    let right = value(number);
    if values.len() as u64 != KEYS || values.iter().any(|value| *value != right) {
        let numbers: Vec<u64> =
            values.iter().map(|value| value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))).collect();
        return Err(format!("half a commit, way {}: {numbers:?}", way % 3));
    }
    if way % 3 < 2 {
        newest_events(db, way, number)?
    }
    Ok(number)
}

/// The events of the newest commits, one each, whichever way they are read.
fn newest_events(db: &Db, way: u64, number: u64) -> Result<(), String> {
    let words = |error: Error| format!("{error} ({error:?})");
    let log = db.events("log").map_err(words)?;
    let tag = format!("turn {}", number % 3);
    let (reader, step) = match way % 4 {
        0 => (log.tagged(tag), 3),
        1 => (log.of_type("Written"), 1),
        2 => (log.all(), 1),
        _ => (log.stream("s"), 1),
    };
    let mut expected = number;
    for event in reader.backwards(true).limit(EVENTS_KEPT / 4).iter().map_err(words)? {
        let event = event.map_err(words)?;
        if event.payload() != value(expected) {
            return Err(format!("way {way}: event {} instead of that of commit {expected}", event.number()));
        }
        expected = expected.saturating_sub(step);
    }
    if expected == number { Err(format!("way {way}: no event of commit {number}")) } else { Ok(()) }
}

/// Follows for ever, or once: never less than was acknowledged before the refresh, never less than was shown before.
fn follow(folder: &Path, seed: u64, turns: Option<u64>) -> Result<(), String> {
    let words = |error: Error| format!("{error} ({error:?})");
    let mut written = Note::open(folder, WRITTEN).map_err(|error| error.to_string())?;
    let mut note = Note::open(folder, SHOWN).map_err(|error| error.to_string())?;
    let mut best = note.read().map_err(|error| error.to_string())?;
    let mut least = written.read().map_err(|error| error.to_string())?;
    let db = loop {
        match builder(folder, seed).ordered(seed.is_multiple_of(3)).follow(true).open() {
            Ok(db) => break db,
            // The writer has not made it yet.
            Err(Error::NotFound { .. } | Error::NotAStore { .. }) if least == 0 => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(format!("open: {}", words(error))),
        }
    };
    victim::is_at_work(folder).map_err(|error| error.to_string())?;
    let (mut turn, mut position) = (0, 0);
    while turns.is_none_or(|turns| turn < turns) {
        // With the walks the store must not move in between: each is a moment of its own only while nothing refreshes.
        let before = db.stats().map_err(words)?.refreshes;
        let number = shown(&db, turn);
        let is_one_state = db.stats().map_err(words)?.refreshes == before;
        match number {
            Ok(number) if number < best || number < least => {
                return Err(format!("turn {turn}: showed {number} after {best}, with {least} acknowledged"));
            }
            Ok(number) => {
                best = number;
                note.write(best).map_err(|error| error.to_string())?;
            }
            Err(what) if is_one_state && !what.is_empty() => return Err(format!("turn {turn}: {what}")),
            Err(_) => {}
        }
        let now = db.position().map_err(words)?;
        let lsn = u64::from_le_bytes(*now.to_bytes().first_chunk().unwrap());
        if lsn < position {
            return Err(format!("turn {turn}: the position fell from {position} to {lsn}"));
        }
        position = lsn;
        turn += 1;
        if turn.is_multiple_of(16) {
            std::thread::sleep(Duration::from_millis(turn / 16 % 8));
        }
        least = written.read().map_err(|error| error.to_string())?;
        match db.refresh() {
            Ok(_) => {}
            // The writer is faster than the whole store can be read: said, and not shown.
            Err(Error::Overtaken) => least = 0,
            Err(error) => return Err(format!("turn {turn}: refresh: {}", words(error))),
        }
    }
    Ok(())
}

fn start(folder: &Path, seed: u64, role: &str) -> Result<Child, String> {
    let child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("PIPKIN_KILL_FOLDER", folder)
        .env("PIPKIN_KILL_SEED", seed.to_string())
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join(role)).map_err(|error| error.to_string())?)
        .spawn();
    child.map_err(|error| format!("the {role} did not start: {error}"))
}

fn kill(child: &mut Child, folder: &Path, role: &str) -> Result<(), String> {
    if let Ok(Some(status)) = child.try_wait() {
        let words = std::fs::read_to_string(folder.join(role)).unwrap_or_default();
        return Err(format!("the {role} ended by itself ({status}): {words}"));
    }
    child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| format!("kill: {error}"))
}

/// A writer and a follower, of which now one and now the other is killed and started again.
fn lives(folder: &Path, seed: u64, quota: &Quota) -> Result<(), String> {
    let mut rng: Rng = derive(seed, 7);
    let roles = ["writer", "follower"];
    let mut children: Vec<Child> = roles.iter().map(|role| start(folder, seed, role)).collect::<Result<_, _>>()?;
    for _ in 0..KILLS_PER_STORE {
        std::thread::sleep(Duration::from_micros(5_000 + rng.below(120_000)));
        let at = usize::from(rng.chance(1, 2));
        let other = 1 - at;
        if let Ok(Some(status)) = children[other].try_wait() {
            let words = std::fs::read_to_string(folder.join(roles[other])).unwrap_or_default();
            return Err(format!("the {} ended by itself ({status}): {words}", roles[other]));
        }
        kill(&mut children[at], folder, roles[at])?;
        children[at] = start(folder, seed, roles[at])?;
        quota.add(1);
    }
    // Both must get to work after the last kill.
    std::thread::sleep(Duration::from_millis(200));
    let ends: Vec<Result<(), String>> = children.iter_mut().zip(roles).map(|(child, role)| kill(child, folder, role)).collect();
    ends.into_iter().collect::<Result<(), String>>()?;
    follow(folder, seed, Some(3)).map_err(|what| format!("at the end: {what}"))
}

fn one_store(seed: u64, quota: &Quota) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (a kill's moment varies: may take several runs)"), what);
    let folder = tempfile::tempdir_in(victim::place(seed)).map_err(|error| fail(error.to_string()))?;
    lives(folder.path(), seed, quota)
        .map_err(|what| fail(format!("{what}\n  the store was kept in {}", victim::keep(folder.path(), seed).display())))
}

#[test]
fn a_follower_shows_whole_commits_and_never_less_than_before() {
    let quota = Quota::new("killed_following", KILLS_LEAST);
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("killed_following", one_store(env_u64("PIPKIN_SEED", 0), &Quota::new("killed_following", 1)));
    }
    let stores = env_u64("PIPKIN_KILLED_FOLLOWING", KILLS_LEAST).div_ceil(KILLS_PER_STORE);
    let outcome = for_each(1..=stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one_store(seed, &quota)
    });
    unwrap("killed_following", outcome);
    quota.finish(format_args!("{stores} stores"));
}
