//! The life of one store with a consumer: sessions of writes, reads, compactions, each of which ends in its own way.

use super::answers::{COMPACTED, has_state, is_a_suffix, is_refused, is_unknown, living, short};
use super::beside::Beside;
use super::model::{Commits, State, is_same};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::testing::TestClock;
use pipkin::{Builder, Changes, Clock, Commit, Consumer, Db, Error, Position};
use std::collections::HashMap;

/// The consumer.
const NAME: &str = "mirror";
/// Positions of lost commits that are asked for again and again.
const LOST_MAX: usize = 20;

/// One store, its commits, and what was read of them.
pub(super) struct Life {
    pub(super) rng: Rng,
    /// When another process looks.
    looks: Rng,
    pub(super) clock: TestClock,
    segment: u32,
    /// Bytes that are kept for the consumer; a small number where it is to fall behind.
    retain: u64,
    pub(super) commits: Commits,
    pub(super) state: State,
    /// How many commits are before a position that was handed out.
    places: HashMap<Position, usize>,
    /// Positions of commits that a power cut has taken.
    lost: Vec<Position>,
    /// So many commits have to survive: they were flushed, or handed out as durable.
    durable: usize,
    /// The consumer has heard so many; its cursor stands behind so many.
    heard: usize,
    acknowledged: usize,
    /// What the cursor may at least have been before a crash.
    acknowledged_durable: usize,
}

/// How a session ends.
enum End {
    Closed,
    Killed,
    Cut,
}

/// A session: an open store and those who read it.
struct Session {
    db: Db,
    consumer: Consumer,
    /// A reader without a name, and how many commits are before what it gets next.
    watcher: Option<(Changes, usize)>,
    beside: Option<Beside>,
}

impl Life {
    pub(super) fn new(mut rng: Rng, looks: Rng) -> Self {
        let segment = 4096 << rng.below(2);
        let retain = if rng.below(3) == 0 { 4 * u64::from(segment) } else { 1 << 30 };
        let commits = Commits::default();
        let state = commits.state(0);
        Self {
            rng,
            looks,
            clock: TestClock::new(1_000_000),
            segment,
            retain,
            commits,
            state,
            places: HashMap::from([(Position::START, 0)]),
            lost: Vec::new(),
            durable: 0,
            heard: 0,
            acknowledged: 0,
            acknowledged_durable: 0,
        }
    }

    fn builder(&self) -> Builder {
        Db::builder().segment_size(self.segment).background(false).clock(self.clock.clone())
    }

    fn open(&self, storage: impl pipkin::Storage + 'static) -> Checked<Db> {
        self.builder().open_storage(Box::new(storage)).map_err(words)
    }

    /// Runs sessions on one file; returns what the last one left.
    pub(super) fn run(&mut self, sessions: u64, steps: u64) -> Checked<Vec<u8>> {
        let mut image = CrashImage::from_bytes(&[]);
        for number in 0..sessions {
            let storage = CrashStorage::from_image(&image);
            let mut session = self.begin(self.open(storage.clone())?)?;
            for _ in 0..steps {
                self.step(&mut session)?;
                if self.looks.below(6) == 0 {
                    self.look_beside(&mut session, &storage)?;
                }
            }
            image = self.end(session, &storage)?;
            self.settle(&image).map_err(|what| format!("after session {number}: {what}"))?;
        }
        Ok(image.to_vec())
    }

    fn begin(&mut self, db: Db) -> Checked<Session> {
        self.places.entry(db.position().map_err(words)?).or_insert(self.commits.0.len());
        // A session that writes before anybody asks: those commits have no position of their own.
        for _ in 0..if self.rng.below(4) == 0 { 3 } else { 0 } {
            self.write(&db)?;
        }
        let is_new = db.consumers().map_err(words)?.is_empty();
        let consumer = match db.consumer(NAME).retain(self.retain).start() {
            Err(Error::Compacted { .. }) => self.begin_again(&db)?,
            consumer => consumer.map_err(words)?,
        };
        if is_new {
            self.began_at(self.commits.0.len());
        }
        self.places.entry(consumer.position()).or_insert(self.heard);
        Ok(Session { db, consumer, watcher: None, beside: None })
    }

    /// The consumer has fallen behind: it goes on with the present state.
    fn begin_again(&mut self, db: &Db) -> Checked<Consumer> {
        if !db.consumers().map_err(words)?.iter().any(|known| known.is_too_far_behind) {
            return Err(format!("a consumer that is not too far behind is told so: {:?}", db.consumers()));
        }
        let (state, consumer) = db.consumer(NAME).retain(self.retain).with_state().map_err(words)?;
        let found: Vec<_> = state.iter().collect::<pipkin::Result<_>>().map_err(words)?;
        if found.into_iter().collect::<std::collections::BTreeMap<_, _>>() != living(&self.state, self.clock.now_ms())[""] {
            return Err("the state that a consumer begins with is not the present one".into());
        }
        self.began_at(self.commits.0.len());
        self.places.insert(consumer.position(), self.heard);
        Ok(consumer)
    }

    /// The consumer was registered behind so many commits, durably.
    fn began_at(&mut self, count: usize) {
        (self.heard, self.acknowledged, self.acknowledged_durable, self.durable) = (count, count, count, count);
    }

    fn step(&mut self, session: &mut Session) -> Checked {
        match self.rng.below(25) {
            0..=11 => self.write(&session.db),
            12 => {
                session.db.flush().map_err(words)?;
                self.durable = self.commits.0.len();
                self.acknowledged_durable = self.acknowledged;
                Ok(())
            }
            13 => session.db.compact().map(drop).map_err(words),
            14 => session.db.compact_step().map(drop).map_err(words),
            15 => session.db.checkpoint().map_err(words),
            16..=18 => self.consume(session),
            19..=20 => self.watch(session),
            21 => self.back_up(&session.db),
            22 => self.read_again(&session.db),
            23 => self.wait(&session.db),
            _ => self.lost.iter().try_for_each(|&position| is_refused(&session.db, position)),
        }
    }

    /// Compares a commit that was handed out with the one that has to come next.
    fn compare(&mut self, commit: &Commit, next: usize) -> Checked {
        let expected = self.commits.0.get(next).ok_or("a commit that nobody has made")?;
        if !is_same(commit.changes(), expected) {
            return Err(format!("commit {next} is {:?}, and {:?} was handed out", short(expected), short(commit.changes())));
        }
        let place = *self.places.entry(commit.position()).or_insert(next + 1);
        if place > next + 1 { Err(format!("commit {next} has the position of commit {}", place - 1)) } else { Ok(()) }
    }

    fn consume(&mut self, session: &mut Session) -> Checked {
        for _ in 0..self.rng.below(40) {
            match session.consumer.try_next() {
                Ok(None) => break,
                Ok(Some(commit)) => {
                    self.compare(&commit, self.heard)?;
                    self.heard += 1;
                    self.durable = self.durable.max(self.heard);
                    if self.rng.below(4) == 0 {
                        session.consumer.ack(commit.position()).map_err(words)?;
                        self.acknowledged = self.acknowledged.max(self.places[&commit.position()]);
                    }
                }
                Err(Error::Compacted { oldest }) => {
                    self.is_a_suffix(&session.db, oldest)?;
                    session.consumer = self.begin_again(&session.db)?;
                }
                Err(error) => return Err(words(error)),
            }
        }
        Ok(())
    }

    /// A reader without a name hears commits before they are durable, and is dropped now and again.
    fn watch(&mut self, session: &mut Session) -> Checked {
        if session.watcher.is_none() {
            let start = session.db.changes().appended(true).start().map_err(words)?;
            session.watcher = Some((start, self.commits.0.len()));
            return Ok(());
        }
        let Some((watcher, next)) = &mut session.watcher else { return Ok(()) };
        for commit in watcher.drain().map_err(words)? {
            self.compare(&commit, *next)?;
            *next += 1;
        }
        if *next != self.commits.0.len() {
            return Err(format!("a watcher heard of {next} commits of {}", self.commits.0.len()));
        }
        if self.rng.below(3) == 0 {
            session.watcher = None;
        }
        Ok(())
    }

    /// Another process reads what has changed, and begins again now and then.
    fn look_beside(&mut self, session: &mut Session, storage: &CrashStorage) -> Checked {
        let goes_on = match &mut session.beside {
            Some(beside) => beside.look(&self.commits)?,
            None => false,
        };
        if !goes_on || self.looks.below(8) == 0 {
            session.beside = Some(Beside::begin(self.builder(), storage.clone(), &self.commits, &mut self.looks)?);
        }
        Ok(())
    }

    /// From any position that was handed out comes what is behind it, or the answer that it is gone.
    fn read_again(&mut self, db: &Db) -> Checked {
        let count = self.places.len() as u64;
        let Some((&position, _)) = self.places.iter().nth(self.rng.below(count) as usize) else { return Ok(()) };
        match self.is_a_suffix(db, position) {
            Err(what) if what == COMPACTED && self.places[&position] <= self.acknowledged => Ok(()),
            Err(what) if what == COMPACTED && self.retain < 1 << 30 => Ok(()),
            result => result,
        }
    }

    fn is_a_suffix(&self, db: &Db, position: Position) -> Checked {
        is_a_suffix(db, position, self.places.get(&position).copied(), &self.commits.0)
    }

    fn back_up(&self, db: &Db) -> Checked {
        let target = MemoryStorage::new();
        db.backup_to_storage(&target).map_err(words)?;
        has_state(&self.open(target)?, &self.state, self.clock.now_ms()).map_err(|what| format!("in a backup, {what}"))
    }

    fn end(&mut self, session: Session, storage: &CrashStorage) -> Checked<CrashImage> {
        let end = match self.rng.below(3) {
            0 => End::Closed,
            1 => End::Killed,
            _ => End::Cut,
        };
        let Session { db, consumer, watcher, beside } = session;
        drop((consumer, watcher, beside));
        let image = match end {
            End::Closed => {
                db.close().map_err(words)?;
                self.durable = self.commits.0.len();
                self.acknowledged_durable = self.acknowledged;
                return Ok(storage.latest_image());
            }
            End::Killed => {
                self.durable = self.commits.0.len();
                self.acknowledged_durable = self.acknowledged;
                storage.latest_image()
            }
            End::Cut => storage.random_image(&mut self.rng),
        };
        storage.stop();
        drop(db);
        Ok(image)
    }

    /// Opens what a session has left, and finds how many commits it has.
    fn settle(&mut self, image: &CrashImage) -> Checked {
        let db = self.open(image.to_memory())?;
        let cursor = db.consumers().map_err(words)?.first().map(|known| known.cursor).ok_or("the consumer is gone")?;
        let first = *self.places.get(&cursor).ok_or_else(|| format!("the cursor is at {cursor:?}"))?;
        if !(self.acknowledged_durable..=self.acknowledged).contains(&first) {
            return Err(format!("the cursor is at {first}, not in {}..={}", self.acknowledged_durable, self.acknowledged));
        }
        let read = db.changes().from(cursor).appended(true).start().and_then(|mut changes| changes.drain());
        let (found, heard) = match read {
            Ok(heard) => (first + heard.len(), heard),
            Err(Error::Compacted { .. }) if self.retain < 1 << 30 => (self.which(&db)?, Vec::new()),
            Err(error) => return Err(words(error)),
        };
        if !(self.durable..=self.commits.0.len()).contains(&found) {
            return Err(format!("{found} commits are there, not {}..={}", self.durable, self.commits.0.len()));
        }
        for (number, commit) in (first..).zip(&heard) {
            if !is_same(commit.changes(), &self.commits.0[number]) {
                return Err(format!("commit {number} comes as {:?}", short(commit.changes())));
            }
        }
        self.commits.0.truncate(found);
        self.state = self.commits.state(found);
        has_state(&db, &self.state, self.clock.now_ms())?;
        let lost: Vec<Position> =
            self.places.iter().filter(|(_, place)| **place > found).map(|(position, _)| *position).collect();
        lost.iter().try_for_each(|&position| is_unknown(&db, position))?;
        self.lost.extend(lost);
        self.lost.drain(..self.lost.len().saturating_sub(LOST_MAX));
        self.places.retain(|_, place| *place <= found);
        (self.heard, self.acknowledged, self.acknowledged_durable, self.durable) = (first, first, first, found);
        self.lost.iter().try_for_each(|&position| is_refused(&db, position))
    }

    /// How many commits lead to what a store holds, of a store that has no longer all of them.
    fn which(&self, db: &Db) -> Checked<usize> {
        let fits = |count: &usize| has_state(db, &self.commits.state(*count), self.clock.now_ms()).is_ok();
        (self.durable..=self.commits.0.len()).rev().find(fits).ok_or_else(|| "no prefix of the commits is there".into())
    }
}
