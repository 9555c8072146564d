//! Many writers and readers at once, under compaction: each reader hears every commit of each writer once, in the writer's order, and whole.

use crate::parallel::Team;
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Change, Changes, Commit, Db, Position};
use std::sync::atomic::{AtomicUsize, Ordering};

const WRITERS: u8 = 3;
/// Commits of each.
const COMMITS: u32 = 150;
/// Keys of each.
const KEYS: u8 = 6;

/// A store, and how its threads are doing.
struct Crowd {
    db: Db,
    writing: AtomicUsize,
    team: Team,
}

impl Crowd {
    fn write(&self, writer: u8, mut rng: Rng) -> Checked {
        for number in 0..COMMITS {
            if self.team.is_over() {
                break;
            }
            let count = 1 + rng.below(u64::from(KEYS)) as u8;
            let mut batch = self.db.batch();
            for key in 0..count {
                let mut value = [&number.to_le_bytes()[..], &[count]].concat();
                value.resize(5 + rng.below(120) as usize, 0);
                batch = batch.insert([writer, key], value);
            }
            batch.commit().map_err(words)?;
            if rng.below(8) == 0 {
                self.db.flush().map_err(words)?;
            }
        }
        self.writing.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn maintain(&self, mut rng: Rng) -> Checked {
        while !self.team.is_over() {
            match rng.below(4) {
                0 => drop(self.db.compact().map_err(words)?),
                1 => self.db.checkpoint().map_err(words)?,
                2 => drop(self.db.flush().map_err(words)?),
                _ => drop(self.db.compact_step().map_err(words)?),
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Compares a commit with the next one of its writer, and with what the store says then.
    fn compare(&self, commit: &Commit, next: &mut [u32]) -> Checked {
        let mut seen = None;
        for change in commit.changes() {
            let Change::Put { key, value, .. } = change else { return Err(format!("{change:?}")) };
            let number = |value: &[u8]| u32::from_le_bytes(value[..4].try_into().unwrap_or_default());
            let this = (key[0], number(value), value[4]);
            if *seen.get_or_insert(this) != this {
                return Err(format!("a commit of two: {seen:?} and {this:?}"));
            }
            let now = self.db.get(key).map_err(words)?;
            if now.as_deref().is_none_or(|now| number(now) < this.1) {
                return Err(format!("commit {} of writer {} was told before it could be read", this.1, this.0));
            }
        }
        let Some((writer, number, count)) = seen else { return Err("an empty commit".into()) };
        let expected = &mut next[usize::from(writer)];
        if number != *expected || commit.changes().len() != usize::from(count) {
            return Err(format!(
                "commit {number} of writer {writer} with {} of {count} changes, and not {expected}",
                commit.changes().len()
            ));
        }
        *expected += 1;
        Ok(())
    }

    /// Reads to the end, and begins again at its position now and again.
    fn read(&self, mut changes: Changes, appended: bool, mut rng: Rng) -> Checked {
        let mut next = [0; WRITERS as usize];
        loop {
            let is_last = self.writing.load(Ordering::SeqCst) == 0;
            if is_last {
                self.db.flush().map_err(words)?;
            }
            while let Some(commit) = changes.try_next().map_err(words)? {
                self.compare(&commit, &mut next)?;
                if rng.below(40) == 0 {
                    // While the old one still holds what follows.
                    changes = begin(&self.db, commit.position(), appended)?;
                }
            }
            if is_last || self.team.is_over() {
                return self.is_all(&next);
            }
            std::thread::yield_now();
        }
    }

    fn consume(&self, mut rng: Rng) -> Checked {
        let start = || self.db.consumer("crowd").start().map_err(words);
        let (mut consumer, mut next) = (start()?, [0; WRITERS as usize]);
        loop {
            let is_last = self.writing.load(Ordering::SeqCst) == 0;
            if is_last {
                self.db.flush().map_err(words)?;
            }
            while let Some(commit) = consumer.try_next().map_err(words)? {
                self.compare(&commit, &mut next)?;
                consumer.ack(commit.position()).map_err(words)?;
                if rng.below(40) == 0 {
                    consumer = start()?;
                }
            }
            if is_last || self.team.is_over() {
                return self.is_all(&next);
            }
            std::thread::yield_now();
        }
    }

    fn is_all(&self, next: &[u32]) -> Checked {
        if self.team.is_over() || next.iter().all(|&next| next == COMMITS) {
            Ok(())
        } else {
            Err(format!("only {next:?} commits of {COMMITS} came"))
        }
    }
}

fn begin(db: &Db, position: Position, appended: bool) -> Checked<Changes> {
    db.changes().from(position).appended(appended).start().map_err(words)
}

pub(super) fn run(seed: u64) -> Checked {
    let storage = MemoryStorage::new();
    let db = Db::builder().segment_size(4096 << (seed % 3)).background(false).open_storage(Box::new(storage)).map_err(words)?;
    let start = db.position().map_err(words)?;
    drop(db.consumer("crowd").start().map_err(words)?);
    // Before anybody writes: what the consumer has acknowledged, compaction may free.
    let readers = [(10, false), (11, true)].map(|(number, appended)| (number, appended, begin(&db, start, appended)));
    let crowd = Crowd { db, writing: AtomicUsize::new(WRITERS.into()), team: Team::default() };
    std::thread::scope(|scope| {
        let crowd = &crowd;
        let mut ending: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || crowd.team.run(|| crowd.write(writer, derive(seed, writer.into())))))
            .collect();
        for (number, appended, reader) in readers {
            ending.push(scope.spawn(move || crowd.team.run(|| crowd.read(reader?, appended, derive(seed, number)))));
        }
        ending.push(scope.spawn(move || crowd.team.run(|| crowd.consume(derive(seed, 12)))));
        scope.spawn(move || crowd.team.run(|| crowd.maintain(derive(seed, 20))));
        ending.into_iter().for_each(|thread| drop(thread.join()));
        crowd.team.end();
    });
    crowd.team.outcome()
}
