//! Two processes: one writes, compacts and is killed now and then, the other reads its changes, for which nothing is kept. Every commit is handed
//! out whole, once and in order, or the reader is told that it is gone, and from where on it can go on.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::{Builder, Change, Changes, Commit, Db, Error, Position};
use pipkin_tests::parallel::{Failure, Outcome, for_each, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::rng::{Rng, derive};
use pipkin_tests::victim;
use pipkin_tests::witness::Note;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Stores of the normal run.
const STORES: u64 = 30;
/// How long a store is written in the first and in the second half of its life.
const HALF: Duration = Duration::from_millis(700);
/// Keys of a commit, and commits until the same keys come again.
const KEYS: u64 = 4;
const TURNS: u64 = 8;
/// The note of the last acknowledged commit.
const WRITTEN: u64 = 0;

/// What the readers were told.
#[derive(Default)]
struct Told {
    commits: AtomicU64,
    compacted: AtomicU64,
    /// Of these, how often the reader has missed no commit.
    in_vain: AtomicU64,
}

fn builder(folder: &Path, seed: u64) -> Builder {
    let segment_size = [4096, 16 * 1024, 64 * 1024][(seed % 3) as usize];
    let path = folder.join("store.pipkin");
    Db::builder().path(path).mmap(!seed.is_multiple_of(5)).segment_size(segment_size).replay_debt_max(100_000)
}

fn words(error: Error) -> String {
    format!("{error} ({error:?})")
}

/// What commit `number` puts (`Some`) and removes.
fn edits(number: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut value = number.to_le_bytes().to_vec();
    let mut edits = vec![(b"number".to_vec(), Some(value.clone()))];
    value.resize(8 + (number * 37 % 300) as usize, number as u8);
    for at in 0..KEYS {
        let is_removed = at == 3 && number.is_multiple_of(7);
        edits.push((format!("{}/{at}", number % TURNS).into_bytes(), (!is_removed).then(|| value.clone())));
    }
    edits
}

/// Not a test of its own: the process that writes, when the environment says so.
#[test]
fn child() {
    let Some((folder, seed)) = victim::told() else { return };
    let db = builder(&folder, seed).background(seed.is_multiple_of(2)).open().unwrap();
    let mut note = Note::open(&folder, WRITTEN).unwrap();
    let mut rng = derive(seed, std::process::id().into());
    let stored = db.get("number").unwrap().map_or(0, |value| u64::from_le_bytes(*value.first_chunk().unwrap()));
    victim::is_at_work(&folder).unwrap();
    for number in stored + 1.. {
        let batch = edits(number).into_iter().fold(db.batch(), |batch, (key, value)| match value {
            Some(value) => batch.insert(key, value),
            None => batch.remove(key),
        });
        batch.commit().unwrap();
        note.write(number).unwrap();
        match rng.below(40) {
            0 => drop(db.compact().unwrap()),
            1 => db.checkpoint().unwrap(),
            2..5 => drop(db.flush().unwrap()),
            5..9 => drop(db.compact_step().unwrap()),
            9..15 => std::thread::sleep(Duration::from_micros(rng.below(3000))),
            _ => {}
        }
        if number.is_multiple_of(16) && folder.join("end").exists() {
            break;
        }
    }
    db.close().unwrap();
}

/// The number of a commit; an error if it is not whole.
fn number_of(commit: &Commit) -> Result<u64, String> {
    let edit = |change: &Change| match change {
        Change::Put { key, value, .. } => Some((key.clone(), Some(value.clone()))),
        Change::Remove { key, .. } => Some((key.clone(), None)),
        _ => None,
    };
    let mut found: Vec<_> = commit.changes().iter().filter_map(edit).collect();
    let number = found.iter().find(|(key, _)| key == b"number").and_then(|(_, value)| value.as_ref()?.first_chunk().copied());
    let number = number.map(u64::from_le_bytes).ok_or_else(|| format!("no commit of the writer's: {commit:?}"))?;
    let mut whole = edits(number);
    // A removal of what is not there is no change.
    if !number.is_multiple_of(7) || found.len() == whole.len() {
        whole.sort();
    } else {
        whole.retain(|(_, value)| value.is_some());
        whole.sort();
    }
    found.sort();
    if found == whole { Ok(number) } else { Err(format!("commit {number} is not whole: {commit:?}")) }
}

/// A reader of changes in this process.
struct Reader<'a> {
    db: &'a Db,
    changes: Changes,
    /// The commit that comes next, once it is known.
    next: Option<u64>,
    position: Option<Position>,
    is_early: bool,
    rebuilds: u64,
    told: &'a Told,
}

fn log_position(position: Position) -> u64 {
    u64::from_le_bytes(*position.to_bytes().first_chunk().unwrap())
}

impl<'a> Reader<'a> {
    fn begin(db: &'a Db, is_early: bool, told: &'a Told) -> Result<Self, String> {
        let (changes, next) = Self::state(db, is_early)?;
        let rebuilds = db.stats().map_err(words)?.rebuilds;
        Ok(Self { db, changes, next: Some(next), position: None, is_early, rebuilds, told })
    }

    /// The present state, which is that behind one commit, and the changes from there on.
    fn state(db: &Db, is_early: bool) -> Result<(Changes, u64), String> {
        'again: loop {
            // What it shows by now may be gone, too.
            match db.refresh() {
                Ok(_) | Err(Error::Overtaken) => {}
                Err(error) => return Err(format!("refresh: {}", words(error))),
            }
            let (snapshot, changes) = match db.changes().appended(is_early).with_state() {
                Err(Error::Overtaken | Error::Compacted { .. }) => continue,
                started => started.map_err(words)?,
            };
            let mut found = Vec::new();
            for record in snapshot.iter() {
                match record {
                    Ok(record) => found.push(record),
                    // The writer has used the space again.
                    Err(Error::SnapshotTooOld) => continue 'again,
                    Err(error) => return Err(words(error)),
                }
            }
            let number = found.iter().find(|(key, _)| key == b"number").and_then(|(_, value)| value.first_chunk().copied());
            let last = number.map_or(0, u64::from_le_bytes);
            let mut state = std::collections::BTreeMap::new();
            for (key, value) in (last.saturating_sub(TURNS) + 1..=last).flat_map(edits) {
                state.insert(key, value);
            }
            found.sort();
            let state: Vec<_> = state.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            if found != state {
                return Err(format!("the state behind commit {last} is another: {} records, not {}", found.len(), state.len()));
            }
            return Ok((changes, last + 1));
        }
    }

    /// Hears what there is now.
    fn look(&mut self, note: &mut Note) -> Result<(), String> {
        loop {
            match self.changes.try_next() {
                Ok(Some(commit)) => self.hear(&commit)?,
                Ok(None) => {
                    self.rebuilds = self.db.stats().map_err(words)?.rebuilds;
                    return Ok(());
                }
                Err(Error::Overtaken) => {}
                Err(Error::Compacted { oldest }) => self.go_on(oldest, note)?,
                Err(error) => return Err(format!("before commit {:?}: {}", self.next, words(error))),
            }
        }
    }

    fn hear(&mut self, commit: &Commit) -> Result<(), String> {
        let number = number_of(commit)?;
        if self.next.is_some_and(|next| next != number) {
            return Err(format!("commit {number} came in place of {:?}, and nothing was said", self.next));
        }
        let place = log_position(commit.position());
        if self.position.is_some_and(|before| log_position(before) >= place) {
            return Err(format!("the position of commit {number} is not behind that of the one before"));
        }
        self.told.commits.fetch_add(1, Ordering::Relaxed);
        self.next = Some(number + 1);
        self.position = Some(commit.position());
        Ok(())
    }

    /// Told that something is gone: goes on at the oldest position, or with the present state where that is gone, too.
    fn go_on(&mut self, oldest: Position, note: &mut Note) -> Result<(), String> {
        self.told.compacted.fetch_add(1, Ordering::Relaxed);
        let missed = self.next.unwrap_or_default();
        let acknowledged = note.read().map_err(|error| error.to_string())?;
        let rebuilds = self.db.stats().map_err(words)?.rebuilds;
        if missed > acknowledged && rebuilds == self.rebuilds {
            return Err(format!("told that commits are gone, with all {acknowledged} heard"));
        }
        self.rebuilds = rebuilds;
        let next = match self.db.changes().appended(self.is_early).from(oldest).start() {
            Ok(mut changes) => match changes.try_next() {
                Ok(Some(commit)) => {
                    self.next = None;
                    self.hear(&commit)?;
                    self.changes = changes;
                    self.next.unwrap_or_default() - 1
                }
                Ok(None) | Err(Error::Compacted { .. } | Error::Overtaken) => self.anew()?,
                Err(error) => return Err(format!("from the oldest position: {}", words(error))),
            },
            Err(Error::Compacted { .. } | Error::Overtaken) => self.anew()?,
            Err(error) => return Err(format!("from the oldest position: {}", words(error))),
        };
        if next < missed {
            return Err(format!("told that commits are gone before {missed}, and {next} came again"));
        }
        self.told.in_vain.fetch_add(u64::from(next == missed), Ordering::Relaxed);
        Ok(())
    }

    fn anew(&mut self) -> Result<u64, String> {
        let (changes, next) = Self::state(self.db, self.is_early)?;
        (self.changes, self.next) = (changes, Some(next));
        Ok(next)
    }
}

/// Reads on until the writer has ended, then to the end.
fn read(db: &Db, folder: &Path, is_early: bool, told: &Told, over: &AtomicBool, mut rng: Rng) -> Result<(), String> {
    let mut note = Note::open(folder, WRITTEN).map_err(|error| error.to_string())?;
    let mut reader = Reader::begin(db, is_early, told)?;
    loop {
        let is_over = over.load(Ordering::Acquire);
        reader.look(&mut note)?;
        if is_over {
            break;
        }
        // One reads on at once; the other sleeps until the log behind it has gone.
        std::thread::sleep(Duration::from_millis(if is_early { 1 } else { rng.below(120) }));
    }
    let acknowledged = note.read().map_err(|error| error.to_string())?;
    match reader.next {
        Some(next) if next > acknowledged => Ok(()),
        next => Err(format!("at the end {acknowledged} commits were acknowledged, and the next one to hear is {next:?}")),
    }
}

/// Writes the store in another process, and reads it here.
fn life(folder: &Path, seed: u64, told: &Told) -> Result<(), String> {
    let mut writer = victim::Running::start(folder, seed)?;
    let follow = || builder(folder, seed).follow(true).open().map_err(words);
    let (one, other) = (follow()?, follow()?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let readers = [(&one, true), (if seed.is_multiple_of(3) { &one } else { &other }, false)]
            .map(|(db, is_early)| scope.spawn(move || read(db, folder, is_early, told, over, derive(seed, is_early.into()))));
        let mut work = || {
            std::thread::sleep(HALF);
            if seed.is_multiple_of(2) {
                writer.kill()?;
                writer = victim::Running::start(folder, seed)?;
            }
            std::thread::sleep(HALF);
            std::fs::write(folder.join("end"), b"").map_err(|error| error.to_string())?;
            writer.end()
        };
        let worked = work();
        over.store(true, Ordering::Release);
        let read = readers.map(|reader| reader.join().unwrap_or_else(|_| Err("a reader panicked".to_owned())));
        read.into_iter().chain([worked]).collect::<Result<(), String>>()
    })
}

fn one_store(seed: u64, quota: &Quota, told: &Told) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (processes: may take several runs)"), what);
    let folder = tempfile::tempdir_in(victim::place(seed)).map_err(|error| fail(error.to_string()))?;
    life(folder.path(), seed, told).map_err(fail)?;
    quota.add(1);
    Ok(())
}

#[test]
fn a_reader_in_another_process_hears_every_commit_or_is_told_what_is_gone() {
    let told = Told::default();
    if std::env::var("PIPKIN_SEED").is_ok() {
        let quota = Quota::new("behind_compaction", 1);
        return unwrap("behind_compaction", one_store(env_u64("PIPKIN_SEED", 0), &quota, &told));
    }
    let stores = env_u64("PIPKIN_BEHIND_COMPACTION", STORES);
    let quota = Quota::new("behind_compaction", stores);
    let outcome = for_each(1..=stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one_store(seed, &quota, &told)
    });
    unwrap("behind_compaction", outcome);
    let [commits, compacted, in_vain] =
        [&told.commits, &told.compacted, &told.in_vain].map(|count| count.load(Ordering::Relaxed));
    assert!(commits > 100 * stores && compacted > in_vain, "{commits} commits heard, {compacted} times gone, {in_vain} in vain");
    quota.finish(format_args!("{commits} commits heard, {compacted} times told of a gap, {in_vain} times where none was"));
}
