//! The commits of a life.

use super::lives::Life;
use super::model::{KEYS, SPACES, apply, key_of, lives};
use crate::suite::{Checked, words};
use pipkin::{Change, Clock, Db, Namespace, Ttl};
use std::time::Duration;

/// How long records live that expire, in milliseconds.
const LIFE_MS: u64 = 1000;

impl Life {
    /// One commit, unless it changes nothing.
    pub(super) fn write(&mut self, db: &Db) -> Checked {
        let space = SPACES[self.rng.below(3) as usize];
        let changes = if self.state.contains_key(space) {
            let namespace = if space.is_empty() { db.default_namespace() } else { db.namespace(space).map_err(words)? };
            match self.rng.below(20) {
                0 => self.clear(&namespace)?,
                1 if !space.is_empty() => {
                    db.drop_namespace(space).map_err(words)?;
                    vec![Change::Drop { namespace: space.into() }]
                }
                2 => self.end_group(&namespace)?,
                3 => {
                    // No commit: it changes no record.
                    let ttl = (self.rng.below(2) == 0).then_some(Duration::from_millis(LIFE_MS * 2));
                    namespace.set_default_ttl(ttl).map_err(words)?;
                    Vec::new()
                }
                _ => self.batch(db, &namespace)?,
            }
        } else {
            db.namespace(space).map_err(words)?;
            vec![Change::Clear { namespace: space.into() }]
        };
        changes.iter().for_each(|change| apply(&mut self.state, change));
        if !changes.is_empty() {
            self.commits.0.push(changes);
        }
        Ok(())
    }

    /// How many of a namespace's records with this first byte live, and how many have expired: whether those are still known is up to sweeps.
    fn count(&self, space: &str, first: &[u8]) -> (usize, usize) {
        let records = || self.state[space].iter().filter(|(key, _)| key.starts_with(first));
        let living = records().filter(|(_, record)| lives(record, self.clock.now_ms())).count();
        (living, records().count() - living)
    }

    fn clear(&mut self, namespace: &Namespace) -> Checked<Vec<Change>> {
        let space = namespace.name();
        if matches!(self.count(space, b""), (0, 1..)) {
            return Ok(Vec::new());
        }
        namespace.clear().map_err(words)?;
        let is_change = !self.state[space].is_empty();
        Ok(if is_change { vec![Change::Clear { namespace: space.into() }] } else { Vec::new() })
    }

    fn end_group(&mut self, namespace: &Namespace) -> Checked<Vec<Change>> {
        let (space, group) = (namespace.name(), if self.rng.below(2) == 0 { b"a" } else { b"b" });
        let (living, expired) = self.count(space, group);
        if expired > 0 {
            return Ok(Vec::new());
        }
        let removed = namespace.delete_group(group).map_err(words)?;
        if removed != living as u64 {
            return Err(format!("a group of {living} records had {removed} when it ended"));
        }
        let keys = self.state[space].keys().filter(|key| key.starts_with(group));
        Ok(keys.map(|key| Change::Remove { namespace: space.into(), key: key.clone() }).collect())
    }

    fn batch(&mut self, db: &Db, namespace: &Namespace) -> Checked<Vec<Change>> {
        let space = namespace.name();
        let now = self.clock.now_ms();
        let default_ms = namespace.default_ttl().map(|ttl| ttl.as_millis() as u64);
        let short = namespace.with_ttl(Ttl::After(Duration::from_millis(LIFE_MS)));
        let mut changes: Vec<Change> = Vec::new();
        let mut batch = db.batch();
        let first = self.rng.below(KEYS);
        for number in 0..1 + self.rng.below(4) {
            let key = key_of((first + number) % KEYS);
            let known = self.state[space].get(&key);
            if self.rng.below(4) == 0 {
                if known.is_some_and(|record| !lives(record, now)) {
                    continue;
                }
                batch = batch.remove_in(namespace, key.clone());
                if known.is_some() {
                    changes.push(Change::Remove { namespace: space.into(), key });
                }
            } else {
                let long = self.rng.below(40) == 0;
                let mut value = vec![0; if long { 6000 } else { 8 + self.rng.below(200) as usize }];
                self.rng.fill(&mut value);
                let is_short = self.rng.below(5) == 0;
                batch = batch.insert_in(if is_short { &short } else { namespace }, key.clone(), value.clone());
                let expires_at = if is_short { Some(now + LIFE_MS) } else { default_ms.map(|ms| now + ms) };
                changes.push(Change::Put { namespace: space.into(), key, value, expires_at });
            }
        }
        batch.commit().map_err(words)?;
        Ok(changes)
    }

    /// Time goes on: records expire, and may be swept.
    pub(super) fn wait(&mut self, db: &Db) -> Checked {
        self.clock.advance(Duration::from_millis(1 + self.rng.below(LIFE_MS)));
        if self.rng.below(3) == 0 {
            db.sweep_expired().map_err(words)?;
        }
        Ok(())
    }
}
