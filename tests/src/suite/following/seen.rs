//! What a follower shows, and what it may show.

use super::appended::{Records, add_events};
use pipkin::Db;

/// The namespace of records that expire at once. They are walked, and are no part of a state.
pub(super) const SHORT: &str = "short";

/// Those of a new store.
static NONE: Records = Records::new();

/// The states of the store after each commit, oldest first.
#[derive(Default)]
pub(super) struct History {
    states: Vec<Records>,
    /// So many commits have been acknowledged; of the one after them nothing is known.
    pub(super) acknowledged: usize,
}

impl History {
    /// The state after a commit that is about to be made.
    pub(super) fn expect(&mut self, state: Records) {
        self.states.push(state);
    }

    /// The newest state.
    pub(super) fn last(&self) -> Records {
        self.states.last().cloned().unwrap_or_default()
    }

    fn at(&self, commits: usize) -> Option<&Records> {
        if commits == 0 { Some(&NONE) } else { self.states.get(commits - 1) }
    }
}

/// All records of a store, in every way of walking it, which must agree.
pub(super) fn records(db: &Db, walk: u64) -> pipkin::Result<Records> {
    let (mut records, before) = (Records::new(), db.stats()?.refreshes);
    let spaces = std::iter::once(Some(db.default_namespace()));
    let spaces = spaces.chain(db.list_namespaces().into_iter().map(|name| db.find_namespace(&name)));
    for space in spaces.flatten() {
        let name = space.name().to_string();
        let mut add = |key: &[u8], value: &[u8]| {
            if name != SHORT {
                records.insert((name.clone(), key.to_vec()), value.to_vec());
            }
        };
        let mut count = 0;
        match walk % 3 {
            0 => {
                for record in space.iter() {
                    let (key, value) = record?;
                    count += 1;
                    add(&key, &value);
                }
            }
            1 => {
                let mut next = Some(pipkin::Cursor::default());
                while let Some(from) = next {
                    let mut page = 0;
                    next = space.page(from, |key, value| {
                        (page, count) = (page + 1, count + 1);
                        add(key, value);
                        page < 5
                    })?;
                }
            }
            _ => {
                let mut last: Option<Vec<u8>> = None;
                for record in space.range(..)? {
                    let (key, value) = record?;
                    assert!(last.as_ref().is_none_or(|last| *last < key), "a range out of order");
                    last = Some(key.clone());
                    count += 1;
                    add(&key, &value);
                }
            }
        }
        let len = space.len()?;
        assert!(
            count == len || name == SHORT || db.stats()?.refreshes != before,
            "`{name}`: a walk of {count} records, a length of {len}"
        );
    }
    add_events(db, walk, &mut records)?;
    Ok(records)
}

/// One follower, and what it has shown so far.
pub(super) struct Seen {
    pub(super) db: Db,
    /// It has shown the state after so many commits.
    commits: usize,
    lsn: u64,
    pub(super) looks: u64,
}

impl Seen {
    pub(super) fn new(db: Db) -> Self {
        Self { db, commits: 0, lsn: 0, looks: 0 }
    }

    /// Refreshes and looks. With `may_lag`, the writer works at the same time, or the follower did not refresh.
    pub(super) fn look(&mut self, history: &History, refresh: bool) -> Result<(), String> {
        let words = |error: pipkin::Error| format!("{error} ({error:?})");
        if refresh {
            self.db.refresh().map_err(words)?;
        }
        self.looks += 1;
        let lsn = position(&self.db)?;
        let refreshes = || self.db.stats().map(|stats| stats.refreshes).map_err(words);
        let before = refreshes()?;
        let shown = records(&self.db, self.looks).map_err(words)?;
        if refreshes()? != before {
            // It has met reused space, and has refreshed in the middle of the walk.
            return if refresh { Err("a look right after a refresh has refreshed again".into()) } else { Ok(()) };
        }
        if lsn < self.lsn {
            return Err(format!("the position fell from {} to {lsn}", self.lsn));
        }
        self.lsn = lsn;
        let least = if refresh { history.acknowledged.max(self.commits) } else { self.commits };
        let fits = (least..=history.acknowledged + 1).find(|&commits| history.at(commits) == Some(&shown));
        let Some(commits) = fits else {
            let (acknowledged, next) = (history.acknowledged, history.acknowledged + 1);
            return Err(format!(
                "look {}: no state from commit {least} to {next}, but {:?}: {} records; {}; {}",
                self.looks,
                (0..least).rev().find(|&commits| history.at(commits) == Some(&shown)),
                shown.len(),
                differences(&shown, history, acknowledged),
                differences(&shown, history, next),
            ));
        };
        self.commits = commits;
        for ((space, key), value) in shown.iter().filter(|((space, _), _)| !space.starts_with('\0')).take(20) {
            let space = if space.is_empty() { Some(self.db.default_namespace()) } else { self.db.find_namespace(space) };
            let found = space.map(|space| space.get(key)).transpose().map_err(words)?.flatten();
            if refresh && found.as_ref() != Some(value) {
                return Err(format!("look {}: a walk and `get` do not agree on {key:?}", self.looks));
            }
        }
        Ok(())
    }
}

/// What differs from the state after so many commits.
fn differences(shown: &Records, history: &History, commits: usize) -> String {
    let Some(right) = history.at(commits) else { return format!("no commit {commits}") };
    let other = shown.iter().filter(|(key, value)| right.get(*key).is_some_and(|right| right != *value));
    let other: Vec<_> = other.map(|(key, _)| key).collect();
    let more: Vec<_> = shown.keys().filter(|key| !right.contains_key(*key)).collect();
    let missing: Vec<_> = right.keys().filter(|key| !shown.contains_key(*key)).collect();
    format!("commit {commits} has {} records: other values {other:?}, too many {more:?}, missing {missing:?}", right.len())
}

/// The log position that a follower shows.
pub(super) fn position(db: &Db) -> Result<u64, String> {
    let position = db.position().map_err(|error| error.to_string())?;
    Ok(position.to_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}
