//! The commits of a life.

use super::lives::Life;
use super::model::{KEYS, SPACES, apply};
use crate::suite::{Checked, words};
use pipkin::{Change, Db};

impl Life {
    /// One commit, unless it changes nothing.
    pub(super) fn write(&mut self, db: &Db) -> Checked {
        let space = SPACES[self.rng.below(3) as usize];
        let mut changes: Vec<Change> = Vec::new();
        match self.rng.below(16) {
            0 if self.state.contains_key(space) => {
                if !self.state[space].is_empty() {
                    changes.push(Change::Clear { namespace: space.into() });
                }
                let namespace = if space.is_empty() { db.default_namespace() } else { db.namespace(space).map_err(words)? };
                namespace.clear().map_err(words)?;
            }
            1 if !space.is_empty() && self.state.contains_key(space) => {
                changes.push(Change::Drop { namespace: space.into() });
                db.drop_namespace(space).map_err(words)?;
            }
            _ if !self.state.contains_key(space) => {
                changes.push(Change::Clear { namespace: space.into() });
                db.namespace(space).map_err(words)?;
            }
            _ => {
                let namespace = if space.is_empty() { db.default_namespace() } else { db.namespace(space).map_err(words)? };
                let mut batch = db.batch();
                let first = self.rng.below(KEYS);
                for number in 0..1 + self.rng.below(4) {
                    let key = vec![b'k', ((first + number) % KEYS) as u8];
                    if self.rng.below(4) == 0 {
                        batch = batch.remove_in(&namespace, key.clone());
                        if self.state[space].contains_key(&key) {
                            changes.push(Change::Remove { namespace: space.into(), key });
                        }
                    } else {
                        let long = self.rng.below(40) == 0;
                        let mut value = vec![0; if long { 6000 } else { 8 + self.rng.below(200) as usize }];
                        self.rng.fill(&mut value);
                        batch = batch.insert_in(&namespace, key.clone(), value.clone());
                        changes.push(Change::Put { namespace: space.into(), key, value, expires_at: None });
                    }
                }
                batch.commit().map_err(words)?;
            }
        }
        changes.iter().for_each(|change| apply(&mut self.state, change));
        if !changes.is_empty() {
            self.commits.0.push(changes);
        }
        Ok(())
    }
}
