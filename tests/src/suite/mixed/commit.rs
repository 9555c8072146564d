//! One commit, in the store and in the model.

use super::model::State;
use super::{LOGS, SPACES};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Condition, Db, Error, Expected, Namespace, NewEvent, Subscription, Ttl};
use std::collections::BTreeMap;
use std::time::Duration;

/// Subscriptions with a cursor, by their logs.
pub(super) type Cursors = BTreeMap<&'static str, Subscription>;

const KINDS: [&str; 2] = ["Made", "Moved"];
const TAGS: [&str; 3] = ["red", "green", "blue"];

fn space(db: &Db, name: &str) -> Checked<Namespace> {
    if name.is_empty() { Ok(db.default_namespace()) } else { db.namespace(name).map_err(words) }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("{}.{}", rng.below(6), rng.below(20)).into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => Vec::new(),
        1 => (0..rng.below(700)).map(|_| rng.below(256) as u8).collect(),
        _ => format!(r#"{{"sensor":"thermometer","number":{},"status":{{"works":true,"battery":"full"}}}}"#, rng.below(10_000))
            .into(),
    }
}

/// A life, and when it ends.
fn life(rng: &mut Rng, now: u64) -> (Ttl, Option<u64>) {
    if rng.chance(2, 3) {
        return (Ttl::Never, None);
    }
    let ms = 1 + rng.below(60_000);
    (Ttl::After(Duration::from_millis(ms)), Some(now + ms))
}

/// An event that is to be appended: its type, its tags, its payload.
struct Draft {
    kind: &'static str,
    tags: Vec<&'static str>,
    payload: Vec<u8>,
}

impl Draft {
    fn new(rng: &mut Rng) -> Self {
        let tags = (0..rng.below(4)).map(|_| TAGS[rng.below(3) as usize]).collect();
        Self { kind: KINDS[rng.below(2) as usize], tags, payload: value(rng) }
    }

    fn event(&self) -> NewEvent<'static> {
        let event = NewEvent::new(self.kind, self.payload.clone());
        self.tags.iter().fold(event, |event, tag| event.tag(*tag))
    }

    fn append_to(&self, state: &mut State, log: &'static str, stream: &str) {
        state.append(log, stream, (self.kind, &self.tags, &self.payload));
    }
}

fn drafts(rng: &mut Rng) -> Vec<Draft> {
    (0..1 + rng.below(4)).map(|_| Draft::new(rng)).collect()
}

fn stream(rng: &mut Rng) -> String {
    format!("s{}", rng.below(5))
}

/// Makes a commit.
pub(super) fn commit(rng: &mut Rng, db: &Db, state: &mut State, cursors: &mut Cursors, now: u64) -> Checked {
    let (name, log) = (SPACES[rng.below(3) as usize], LOGS[rng.below(2) as usize]);
    match rng.below(16) {
        0 | 1 => {
            let (key, value, (ttl, until)) = (key(rng), value(rng), life(rng, now));
            space(db, name)?.insert_with_ttl(&key, &value, ttl).map_err(words)?;
            state.put(name, &key, &value, until);
        }
        2 => {
            let puts: Vec<_> = (0..rng.below(40)).map(|_| (key(rng), value(rng))).collect();
            space(db, name)?.insert_many(puts.iter().map(|(key, value)| (key, value))).map_err(words)?;
            puts.iter().for_each(|(key, value)| state.put(name, key, value, None));
        }
        3 => {
            let key = key(rng);
            let removed = space(db, name)?.remove(&key).map_err(words)?;
            if removed != state.get(name, &key, now).is_some() {
                return Err(format!("removing {} says {removed}", key.escape_ascii()));
            }
            state.remove(name, &key);
        }
        4 => {
            let group = rng.below(6).to_string();
            let removed = space(db, name)?.delete_group(&group).map_err(words)?;
            let prefix = format!("{group}.");
            let known = state.shown(name, now).keys().filter(|key| key.starts_with(prefix.as_bytes())).count() as u64;
            if removed != known {
                return Err(format!("{removed} of a group are removed instead of {known}"));
            }
            state.spaces.entry(name).or_default().retain(|key, _| !key.starts_with(prefix.as_bytes()));
        }
        5 if rng.chance(1, 3) => {
            match name {
                "" => db.clear().map_err(words)?,
                _ => drop(db.drop_namespace(name).map_err(words)?),
            }
            state.spaces.remove(name);
        }
        5..8 => batch(rng, db, state, (name, log), now)?,
        8 | 9 => transaction(rng, db, state, (name, log), now)?,
        10 => {
            let (stream, drafts) = (stream(rng), drafts(rng));
            let events = db.events(log).map_err(words)?;
            let version = state.logs.get(log).and_then(|log| log.versions.get(&stream)).copied().unwrap_or(0);
            let new = || drafts.iter().map(Draft::event);
            if !matches!(events.append(&stream, Expected::Version(version + 1), new()), Err(Error::AppendRefused { .. })) {
                return Err(format!("{stream} is not at version {version}"));
            }
            let got = events.append(&stream, Expected::Version(version), new()).map_err(words)?;
            drafts.iter().for_each(|draft| draft.append_to(state, log, &stream));
            if (got.last_number, got.version) != (state.last, version + drafts.len() as u64) {
                return Err(format!("an append has got {got:?}"));
            }
        }
        11 => condition(rng, db, state, log)?,
        12 => {
            let stream = stream(rng);
            let version = state.logs.get(log).and_then(|log| log.versions.get(&stream)).copied().unwrap_or(0);
            let before = version.saturating_sub(rng.below(4)).min(version + 1);
            let events = db.events(log).map_err(words)?;
            match rng.below(3) {
                0 => drop(events.delete_stream(&stream).map_err(words)?),
                _ => drop(events.truncate(&stream, before + 1).map_err(words)?),
            }
            let left =
                db.events(log).map_err(words)?.stream(stream.clone()).iter().map_err(words)?.next().transpose().map_err(words)?;
            state.truncate(log, &stream, left.map_or(u64::MAX, |event| event.version()));
        }
        _ => acknowledge(rng, db, state, cursors, (name, log))?,
    }
    Ok(())
}

/// Records of two namespaces and events in one batch.
fn batch(rng: &mut Rng, db: &Db, state: &mut State, (name, log): (&'static str, &'static str), now: u64) -> Checked {
    let (other, events) = (space(db, name)?, db.events(log).map_err(words)?);
    let mut batch = db.batch();
    for _ in 0..rng.below(12) {
        let (key, value, (ttl, until)) = (key(rng), value(rng), life(rng, now));
        match rng.below(4) {
            0 => {
                batch = batch.remove(key.clone());
                state.remove("", &key);
            }
            1 => {
                batch = batch.remove_in(&other, key.clone());
                state.remove(name, &key);
            }
            2 => {
                batch = batch.insert_with_ttl(key.clone(), value.clone(), ttl);
                state.put("", &key, &value, until);
            }
            _ => {
                batch = batch.insert_in_with_ttl(&other, key.clone(), value.clone(), ttl);
                state.put(name, &key, &value, until);
            }
        }
    }
    for _ in 0..rng.below(3) {
        let (stream, drafts) = (stream(rng), drafts(rng));
        batch = batch.append(&events, stream.clone(), Expected::Any, drafts.iter().map(Draft::event).collect::<Vec<_>>());
        drafts.iter().for_each(|draft| draft.append_to(state, log, &stream));
    }
    batch.commit().map_err(words)
}

/// Reads that decide, in two namespaces, a part that is taken back, and events.
fn transaction(rng: &mut Rng, db: &Db, state: &mut State, (name, log): (&'static str, &'static str), now: u64) -> Checked {
    let (other, events) = (space(db, name)?, db.events(log).map_err(words)?);
    let mut tx = db.begin().map_err(words)?;
    for _ in 0..rng.below(8) {
        let (from, key) = (key(rng), key(rng));
        let read = tx.get(&from).map_err(words)?;
        if read.as_deref() != state.get("", &from, now) {
            return Err(format!("a transaction reads another value of {}", from.escape_ascii()));
        }
        let value = [read.unwrap_or_default(), b"+".to_vec()].concat();
        let (ttl, until) = life(rng, now);
        tx.insert_in_with_ttl(&other, &key, &value, ttl).map_err(words)?;
        state.put(name, &key, &value, until);
    }
    let savepoint = tx.savepoint();
    tx.insert(key(rng), "taken back").map_err(words)?;
    tx.append(&events, "s0", Expected::Any, [NewEvent::new("Made", "taken back")]).map_err(words)?;
    tx.rollback_to(&savepoint).map_err(words)?;
    if rng.chance(1, 2) {
        let (stream, drafts) = (stream(rng), drafts(rng));
        tx.append(&events, stream.clone(), Expected::Any, drafts.iter().map(Draft::event)).map_err(words)?;
        drafts.iter().for_each(|draft| draft.append_to(state, log, &stream));
    }
    if rng.chance(1, 4) {
        return tx.commit_durably().map(drop).map_err(words);
    }
    tx.commit().map_err(words)
}

/// An append under a condition that may not hold.
fn condition(rng: &mut Rng, db: &Db, state: &mut State, log: &'static str) -> Checked {
    let events = db.events(log).map_err(words)?;
    let (kind, tag, after) =
        (KINDS[rng.below(2) as usize], TAGS[rng.below(3) as usize], state.last.saturating_sub(rng.below(12)));
    let there = state.logs.get(log).is_some_and(|log| {
        let matches = |tags: &[String], own: &str| own == kind && tags.iter().any(|own| own == tag);
        log.events.iter().any(|event| event.number > after && matches(&event.tags, &event.kind))
    });
    let (stream, draft) = (stream(rng), Draft::new(rng));
    match events.append_if(&Condition::new([kind], [tag]).after(after), &stream, [draft.event()]) {
        Ok(_) if there => Err("an append under a condition that does not hold".into()),
        Ok(_) => {
            draft.append_to(state, log, &stream);
            Ok(())
        }
        Err(Error::AppendRefused { .. }) => Ok(()),
        Err(error) => Err(words(error)),
    }
}

/// Takes a cursor, or acknowledges what it hands out, in a commit with a record.
fn acknowledge(
    rng: &mut Rng,
    db: &Db,
    state: &mut State,
    cursors: &mut Cursors,
    (name, log): (&'static str, &'static str),
) -> Checked {
    let events = db.events(log).map_err(words)?;
    let Some(cursor) = cursors.get_mut(log) else {
        cursors.insert(log, events.all().cursor("c").map_err(words)?);
        state.logs.entry(log).or_default().cursors.entry("c".into()).or_default();
        return Ok(());
    };
    db.flush().map_err(words)?;
    let mut last = None;
    for _ in 0..1 + rng.below(5) {
        let Some(event) = cursor.try_next().map_err(words)? else { break };
        last = Some(event.number());
    }
    let known = state.logs.entry(log).or_default();
    let Some(last) = last else { return Ok(()) };
    if !known.events.iter().any(|event| event.number == last) {
        return Err(format!("a cursor hands out event {last}, which is not there"));
    }
    let (other, key) = (space(db, name)?, key(rng));
    let mut tx = db.begin().map_err(words)?;
    tx.insert_in(&other, &key, last.to_string()).map_err(words)?;
    tx.ack(cursor, last).map_err(words)?;
    tx.commit().map_err(words)?;
    state.logs.entry(log).or_default().cursors.insert("c".into(), last);
    state.put(name, &key, last.to_string().as_bytes(), None);
    Ok(())
}
