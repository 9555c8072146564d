//! Two processes: one writes, compacts and is killed now and then, the other reads its changes, for which nothing is kept. Every commit is handed
//! out whole, once and in order, or the reader is told that it is gone, and from where on it can go on.

use super::{Checked, words};
use crate::drive::Setup;
use crate::parallel::{Failure, Outcome, for_each};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::victim;
use crate::witness::Note;
use pipkin::{Builder, Change, Changes, Commit, Db, Error, Position};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a store is written in the first and in the second half of its life.
const HALF: Duration = Duration::from_millis(700);
/// Keys of a commit, and commits until the same keys come again.
const KEYS: u64 = 4;
const TURNS: u64 = 8;
/// What the names of its folders begin with.
const FOLDERS: &str = "pipkin-behind-compaction-";
/// The note of the last acknowledged commit.
const WRITTEN: u64 = 0;

/// What the readers were told.
#[derive(Debug, Default)]
pub struct Told {
    /// Commits that were heard.
    pub commits: AtomicU64,
    /// How often they were told that commits are gone.
    pub compacted: AtomicU64,
    /// Of these, how often the reader has missed no commit.
    pub in_vain: AtomicU64,
}

fn builder(folder: &Path, seed: u64) -> Builder {
    let segment_size = match seed % 3 {
        0 => 4096,
        1 => 16 * 1024,
        _ => 64 * 1024,
    };
    let path = folder.join("store.pipkin");
    let builder = if Setup::seals(seed) { Db::builder().encryption_key([7; 32]) } else { Db::builder() };
    builder.path(path).mmap(!seed.is_multiple_of(5)).segment_size(segment_size).replay_debt_max(100_000)
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

/// True in a folder where a child of this suite is at work.
pub fn is_home(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDERS))
}

/// The process that writes, until it is killed or told to end.
pub fn child(folder: &Path, seed: u64) {
    if let Err(what) = write(folder, seed) {
        eprintln!("{what}");
        std::process::exit(1);
    }
}

fn write(folder: &Path, seed: u64) -> Checked {
    let db = builder(folder, seed).background(seed.is_multiple_of(2)).open().map_err(words)?;
    let mut note = Note::open(folder, WRITTEN).map_err(|error| error.to_string())?;
    let mut rng = derive(seed, std::process::id().into());
    let stored = db.get("number").map_err(words)?.and_then(|value| value.first_chunk().copied()).map_or(0, u64::from_le_bytes);
    victim::is_at_work(folder).map_err(|error| error.to_string())?;
    for number in stored + 1.. {
        let batch = edits(number).into_iter().fold(db.batch(), |batch, (key, value)| match value {
            Some(value) => batch.insert(key, value),
            None => batch.remove(key),
        });
        batch.commit().map_err(words)?;
        note.write(number).map_err(|error| error.to_string())?;
        match rng.below(40) {
            0 => drop(db.compact().map_err(words)?),
            1 => db.checkpoint().map_err(words)?,
            2..5 => drop(db.flush().map_err(words)?),
            5..9 => drop(db.compact_step().map_err(words)?),
            9..15 => std::thread::sleep(Duration::from_micros(rng.below(3000))),
            _ => {}
        }
        if number.is_multiple_of(16) && folder.join("end").exists() {
            break;
        }
    }
    db.close().map_err(words)
}

/// The number of a commit; an error if it is not whole.
fn number_of(commit: &Commit) -> Checked<u64> {
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
    fn begin(db: &'a Db, is_early: bool, told: &'a Told) -> Checked<Self> {
        let (changes, next) = Self::state(db, is_early)?;
        let rebuilds = db.stats().map_err(words)?.rebuilds;
        Ok(Self { db, changes, next: Some(next), position: None, is_early, rebuilds, told })
    }

    /// The present state, which is that behind one commit, and the changes from there on.
    fn state(db: &Db, is_early: bool) -> Checked<(Changes, u64)> {
        'again: loop {
            let (snapshot, changes) = match db.changes().appended(is_early).with_state() {
                Err(Error::Overtaken) => continue,
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
    fn look(&mut self, note: &mut Note) -> Checked {
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

    fn hear(&mut self, commit: &Commit) -> Checked {
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
    fn go_on(&mut self, oldest: Position, note: &mut Note) -> Checked {
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

    fn anew(&mut self) -> Checked<u64> {
        let (changes, next) = Self::state(self.db, self.is_early)?;
        (self.changes, self.next) = (changes, Some(next));
        Ok(next)
    }
}

/// Reads on until the writer has ended, then to the end.
fn read(db: &Db, folder: &Path, is_early: bool, told: &Told, over: &AtomicBool, mut rng: Rng) -> Checked {
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
fn life(folder: &Path, seed: u64, told: &Told) -> Checked {
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
        read.into_iter().chain([worked]).collect::<Checked>()
    })
}

/// Writes and reads so many stores, several at a time.
pub fn run(stores: u64, quota: &Quota, told: &Told) -> Outcome {
    for_each(1..=stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one(seed, quota, told)
    })
}

/// One store.
pub fn one(seed: u64, quota: &Quota, told: &Told) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (processes: may take several runs)"), what);
    let folder = new_folder(seed).map_err(|error| fail(error.to_string()))?;
    let lived = life(&folder, seed, told);
    let _ = std::fs::remove_dir_all(&folder);
    lived.map_err(fail)?;
    quota.add(1);
    Ok(())
}

fn new_folder(seed: u64) -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = victim::place(seed).join(format!("{FOLDERS}{}-{seed}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
