//! What a session does to a store and to the model alike.

use super::answers::{agrees, is_refused, logs, short, state_of};
use super::model::{Happened, LOGS, Model, Query, STREAMS, State, since, version};
use crate::rng::{Choices, Scripted, choose};
use crate::suite::{Checked, words};
use crate::watched::Watched;
use pipkin::{Appended, Db, Error, Events, Expected, FailedCheck, Storage, Subscription};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a step ends early.
#[derive(Debug)]
pub(super) enum Stop {
    Wrong(String),
    Engine(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl Stop {
    /// What is wrong, where no call may fail.
    pub(super) fn words(self) -> String {
        match self {
            Self::Wrong(what) => what,
            Self::Engine(error) => words(error),
        }
    }
}

pub(super) type Step<T = ()> = Result<T, Stop>;

/// How the stores of a life are used.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) segment: u32,
    /// With index snapshots.
    pub(super) checkpoints: bool,
    /// With sessions that are closed and opened again.
    pub(super) reopens: bool,
    /// What the projection wants of the first log.
    pub(super) wanted: Query,
    /// Every opening has entropy of its own, the same in every run.
    pub(super) opens: Arc<AtomicU64>,
}

impl Setup {
    pub(super) fn choose(rng: &mut impl Choices) -> Self {
        let wanted = if rng.chance(1, 2) { Query::choose(rng) } else { Query::all() };
        Self {
            segment: 4096 << rng.below(5),
            checkpoints: rng.chance(2, 3),
            reopens: true,
            wanted,
            opens: opens(rng.below(1 << 40)),
        }
    }

    pub(super) fn open(&self, storage: impl Storage + 'static) -> pipkin::Result<Db> {
        let builder = Db::builder().segment_size(self.segment).background(false).entropy(next(&self.opens));
        builder.open_storage(Box::new(storage))
    }
}

/// Begins the entropies of a million openings.
pub(super) fn opens(seed: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(seed << 20))
}

/// The entropy of the next opening.
pub(super) fn next(opens: &AtomicU64) -> [u8; 32] {
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&opens.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    entropy
}

/// A subscription, and the number of the last event that it has handed out.
pub(super) struct Follower {
    pub(super) subscription: Subscription,
    pub(super) passed: u64,
}

/// An open store beside its model.
pub(super) struct Player {
    pub(super) rng: Scripted,
    pub(super) model: Model,
    /// Commits that have begun and not come back: the states behind them. Their events are in the model.
    pub(super) doubt: Vec<State>,
    pub(super) db: Db,
    pub(super) logs: [Events; 2],
    pub(super) watched: Watched,
    pub(super) projector: Option<Follower>,
    pub(super) watcher: Option<Follower>,
    pub(super) setup: Setup,
}

impl Player {
    pub(super) fn new(db: Db, watched: Watched, model: Model, setup: &Setup, rng: impl Into<Scripted>) -> pipkin::Result<Self> {
        let (logs, rng) = (logs(&db)?, rng.into());
        let setup = setup.clone();
        Ok(Self { rng, model, doubt: Vec::new(), db, logs, watched, projector: None, watcher: None, setup })
    }

    pub(super) fn step(&mut self) -> Step {
        match self.rng.below(60) {
            0..=13 => self.append(),
            14..=15 => self.refused(),
            16..=18 => self.append_if(),
            19 => self.repeated(),
            20..=25 => self.together(),
            26..=32 => self.put(),
            33..=36 => self.project(),
            37 => self.take(),
            38..=39 => self.watch(false),
            40..=42 => self.flush(),
            43..=44 => Ok(self.db.compact().map(drop)?),
            45..=46 => Ok(self.db.compact_step().map(drop)?),
            47 => self.reopen(),
            48..=49 if self.setup.checkpoints => Ok(self.db.checkpoint()?),
            50..=53 => self.remove_of_stream(),
            54 => self.remove_before(),
            55 => self.set_retention(),
            56 => self.retain(),
            _ => self.check(),
        }?;
        self.observe()
    }

    /// Many small events: more than the index takes together.
    pub(super) fn append_many(&mut self, count: u64) -> Step {
        let mut left = count;
        while left > 0 {
            let (log, stream, now) = (self.rng.below(2) as usize, choose(&mut self.rng, &STREAMS), left.min(150));
            self.append_to(log, stream, now, true)?;
            left -= now;
        }
        Ok(())
    }

    /// Makes a commit in the store and in the model.
    pub(super) fn commit<T>(
        &mut self,
        events: Vec<Happened>,
        change: impl FnOnce(&mut State),
        run: impl FnOnce(&Self) -> pipkin::Result<T>,
    ) -> Step<T> {
        let mut next = self.model.now().clone();
        next.events += events.len();
        self.model.happened.extend(events);
        change(&mut next);
        self.model.settle(&mut next);
        self.commits(vec![next], run)
    }

    /// Makes commits that lead to these states.
    pub(super) fn commits<T>(&mut self, states: Vec<State>, run: impl FnOnce(&Self) -> pipkin::Result<T>) -> Step<T> {
        let count = states.len();
        self.doubt = states;
        self.watched.begin_some(count);
        let value = run(self)?;
        self.resolve(count);
        self.watched.end_some(count);
        self.observe()?;
        Ok(value)
    }

    /// So many of the commits in doubt were made, and the others not.
    pub(super) fn resolve(&mut self, made: usize) {
        self.model.states.extend(std::mem::take(&mut self.doubt).into_iter().take(made));
        self.model.happened.truncate(self.model.now().events);
    }

    /// Whatever a log need not keep may have been removed meanwhile. From here on it is gone.
    pub(super) fn observe(&mut self) -> Step {
        if self.model.now().keeps_all() {
            return Ok(());
        }
        let found = state_of(&self.db)?;
        self.watched.begin();
        self.saw(found)?;
        self.watched.end();
        Ok(())
    }

    /// The store holds what was found: the newest state, of which nothing is missing but what may go.
    pub(super) fn saw(&mut self, found: State) -> Checked {
        let now = self.model.now();
        if !self.model.is_in(&found, now) {
            return Err(format!("it holds {}, and should {}", short(&found), short(now)));
        }
        let next = State { gone: found.gone, ..now.clone() };
        self.model.states.push(next);
        Ok(())
    }

    pub(super) fn next_number(&self) -> u64 {
        self.model.now().events as u64 + 1
    }

    fn place(&mut self) -> (usize, &'static str) {
        (self.rng.below(2) as usize, choose(&mut self.rng, &STREAMS))
    }

    pub(super) fn append(&mut self) -> Step {
        let (log, stream) = self.place();
        let long = self.rng.chance(1, 25);
        let count = if long { 66 + self.rng.below(90) } else { 1 + self.rng.below(3) };
        self.append_to(log, stream, count, long)
    }

    fn append_to(&mut self, log: usize, stream: &'static str, count: u64, small: bool) -> Step {
        let events: Vec<_> = (0..count).map(|_| Happened::choose(&mut self.rng, log, stream, small)).collect();
        if self.is_empty(log, stream) && self.rng.chance(1, 2) {
            return self.begin_anew(stream, events);
        }
        let (version, first) = (self.model.version(log, stream), self.next_number());
        let existing = if version == 0 { Expected::NoStream } else { Expected::Exists };
        let expected = choose(&mut self.rng, &[Expected::Any, Expected::Version(version), Expected::Version(version), existing]);
        let new: Vec<_> = events.iter().map(Happened::new_event).collect();
        let got = self.commit(events, |_| (), |player| player.logs[log].append(stream, expected, new))?;
        is_placed(got, first, (version, count), false)
    }

    /// No event of the stream is left.
    fn is_empty(&self, log: usize, stream: &str) -> bool {
        self.model.there(self.model.now(), |event| event.log == log && event.stream == stream).is_empty()
    }

    /// Events for a stream of which none is left. It begins with version 1 again.
    fn begin_anew(&mut self, stream: &'static str, mut events: Vec<Happened>) -> Step {
        let (log, first, count) = (events[0].log, self.next_number(), events.len() as u64);
        events[0].is_anew = true;
        let new: Vec<_> = events.iter().map(Happened::new_event).collect();
        let choice = self.rng.below(3);
        let got = self.commit(
            events,
            |_| (),
            |player| {
                let to = &player.logs[log];
                match choice {
                    0 => player.db.batch().append(to, stream, Expected::Anew, new).commit().map(|()| None),
                    1 => player.db.transaction(|tx| tx.append(to, stream, Expected::Anew, new.iter().cloned())).map(|()| None),
                    _ => to.append(stream, Expected::Anew, new).map(Some),
                }
            },
        )?;
        got.map_or(Ok(()), |got| is_placed(got, first, (0, count), false))
    }

    /// An append that expects what is not so, also beside a record.
    pub(super) fn refused(&mut self) -> Step {
        let (log, stream) = self.place();
        let version = self.model.version(log, stream);
        let more = Expected::Version(version + 1 + self.rng.below(3));
        let wrong = match version {
            0 => choose(&mut self.rng, &[Expected::Exists, more]),
            _ if self.model.now().keeps_all() && !self.is_empty(log, stream) && self.rng.chance(1, 4) => Expected::Anew,
            _ => choose(&mut self.rng, &[Expected::NoStream, more, Expected::Version(version - 1)]),
        };
        let event = [Happened::choose(&mut self.rng, log, stream, true).new_event()];
        let (db, to) = (&self.db, &self.logs[log]);
        let answer = match self.rng.below(3) {
            0 => to.append(stream, wrong, event).map(drop),
            1 => db.batch().insert("refused", "1").append(to, stream, wrong, event).commit().map(drop),
            _ => db.transaction(|tx| {
                tx.insert("refused", "1")?;
                tx.append(to, stream, wrong, event.clone())
            }),
        };
        match answer {
            Ok(()) => {
                Err(Stop::Wrong(format!("{stream} is at version {version}, and an append that expects {wrong} is accepted")))
            }
            Err(error @ Error::AppendRefused { .. }) => Ok(is_refused(&self.model.happened, log, &error)?),
            Err(error) => Err(error.into()),
        }
    }

    fn append_if(&mut self) -> Step {
        let (log, stream) = self.place();
        let (query, last) = (Query::choose(&mut self.rng), self.next_number() - 1);
        let gone = self.model.now().gone.last().copied().filter(|_| self.rng.chance(1, 3));
        // Now and then what an event has had that was removed.
        let (query, after) = match gone {
            Some(number) => (Query::of(&self.model.happened[number as usize - 1]), number - 1),
            None => (query, last.saturating_sub(self.rng.below(8))),
        };
        let found = self.model.there(self.model.now(), |event| event.log == log && query.matches(event));
        let found: Vec<u64> = found.into_iter().filter(|&number| number > after).collect();
        let event = Happened::choose(&mut self.rng, log, stream, false);
        let (condition, new) = (query.condition().after(after), [event.new_event()]);
        if found.is_empty() {
            let version = self.model.version(log, stream);
            let got = self.commit(vec![event], |_| (), |player| player.logs[log].append_if(&condition, stream, new))?;
            return is_placed(got, last + 1, (version, 1), false);
        }
        match self.logs[log].append_if(&condition, stream, new) {
            Err(Error::AppendRefused { failed }) => match failed[..] {
                [FailedCheck::Condition { index: 0, number }] if found.contains(&number) => Ok(()),
                _ => Err(Stop::Wrong(format!("{found:?} match {query:?} behind {after}, and the append fails with {failed:?}"))),
            },
            Err(error) => Err(error.into()),
            Ok(_) => Err(Stop::Wrong(format!("{found:?} match {query:?} behind {after}, and the append is accepted"))),
        }
    }

    /// Events that are there already are appended again, as by a caller who got no answer.
    fn repeated(&mut self) -> Step {
        let (log, stream) = self.place();
        let own = since(&self.model.happened, log, stream);
        let from = self.rng.below(own.len() as u64 + 1) as usize;
        let now = self.model.now();
        let events = |number: &&u64| self.model.happened[**number as usize - 1].id.is_some() && !now.is_gone(**number);
        let again: Vec<u64> = own[from..].iter().take_while(events).take(1 + self.rng.below(3) as usize).copied().collect();
        let (Some(&first), Some(&last)) = (again.first(), again.last()) else { return Ok(()) };
        let new: Vec<_> = again.iter().map(|&number| self.model.happened[number as usize - 1].new_event()).collect();
        let got = self.logs[log].append(stream, Expected::Version(from as u64), new)?;
        let version = (from + again.len()) as u64;
        if (got.first_number, got.last_number, got.version, got.repeated) != (first, last, version, true) {
            return Err(Stop::Wrong(format!("events {first} to {last}, which are at {version}, are appended again as {got:?}")));
        }
        Ok(())
    }

    /// Records and events of one commit, for one stream or two.
    fn together(&mut self) -> Step {
        let (mut events, mut appends) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.rng.below(2) {
            let (log, stream) = self.place();
            let version = self.model.version(log, stream) + version(&events, log, stream);
            let own: Vec<_> = (0..1 + self.rng.below(3)).map(|_| Happened::choose(&mut self.rng, log, stream, false)).collect();
            appends.push((log, stream, version, own.iter().map(Happened::new_event).collect::<Vec<_>>()));
            events.extend(own);
        }
        let puts: Vec<_> = (0..self.rng.below(4)).map(|_| record(&mut self.rng)).collect();
        let is_batch = self.rng.chance(1, 2);
        let change = |state: &mut State| state.records.extend(puts.iter().cloned());
        self.commit(events, change, |player| {
            if is_batch {
                let batch = puts.iter().fold(player.db.batch(), |batch, (key, value)| batch.insert(key.clone(), value.clone()));
                let appended = appends.iter().fold(batch, |batch, (log, stream, version, new)| {
                    batch.append(&player.logs[*log], *stream, Expected::Version(*version), new.clone())
                });
                return appended.commit().map(drop);
            }
            player.db.transaction(|tx| {
                for (key, value) in &puts {
                    tx.get(key)?;
                    tx.insert(key, value)?;
                }
                let mut each = appends.iter();
                each.try_for_each(|(log, stream, version, new)| {
                    tx.append(&player.logs[*log], *stream, Expected::Version(*version), new.iter().cloned())
                })
            })
        })
    }

    fn put(&mut self) -> Step {
        let (key, value) = record(&mut self.rng);
        if self.rng.chance(1, 4) {
            let remove = |state: &mut State| drop(state.records.remove(&key));
            return self.commit(Vec::new(), remove, |player| player.db.remove(&key).map(drop));
        }
        let insert = |state: &mut State| drop(state.records.insert(key.clone(), value.clone()));
        self.commit(Vec::new(), insert, |player| player.db.insert(&key, &value))
    }

    pub(super) fn flush(&mut self) -> Step {
        self.db.flush()?;
        self.watched.flushed();
        if self.watcher.is_some() { self.watch(true) } else { Ok(()) }
    }

    fn reopen(&mut self) -> Step {
        if !self.setup.reopens || !self.setup.checkpoints {
            return Ok(());
        }
        (self.projector, self.watcher) = (None, None);
        self.db.clone().close()?;
        self.watched.flushed();
        self.db = self.setup.open(self.watched.clone())?;
        self.logs = logs(&self.db)?;
        Ok(())
    }

    pub(super) fn check(&mut self) -> Step {
        Ok(self.agrees()?)
    }

    pub(super) fn agrees(&mut self) -> Checked {
        agrees(&self.db, &self.model, self.model.now(), &mut self.rng)
    }
}

fn record(rng: &mut impl Choices) -> (Vec<u8>, Vec<u8>) {
    let key = format!("key {}", rng.below(12)).into_bytes();
    (key, vec![rng.below(256) as u8; rng.below(300) as usize])
}

/// Checks where an append says that it went, behind `version` of its stream.
fn is_placed(got: Appended, first: u64, (version, count): (u64, u64), repeated: bool) -> Step {
    let right = (first, first + count - 1, version + count, repeated);
    if (got.first_number, got.last_number, got.version, got.repeated) == right {
        return Ok(());
    }
    Err(Stop::Wrong(format!("{count} events behind version {version} are appended as {got:?} instead of {right:?}")))
}

/// The logs are named as they were.
pub(super) fn has_logs(db: &Db) -> Checked {
    let mut expected = LOGS.map(String::from).to_vec();
    expected.sort();
    if db.list_events() == expected { Ok(()) } else { Err(format!("the logs are {:?}", db.list_events())) }
}
