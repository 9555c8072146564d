//! All that several writers have left in a store, in every way of reading that shows more than one key.

use crate::drive::space::for_each_in_order;
use crate::witness::{KEYS, LONG_MS, Model, SPACES, Spaces, key_of, name_of, value_of};
use pipkin::{Result as Found, Snapshot};
use std::collections::BTreeMap;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Walked = Vec<(Vec<u8>, Vec<u8>)>;

fn words(error: pipkin::Error) -> String {
    format!("{error} ({error:?})")
}

/// What should be there.
#[derive(Debug)]
pub struct Whole<'a> {
    /// Of each writer, what its own keys hold.
    pub models: &'a [Model],
    /// Records of the default namespace that are no writer's own.
    pub shared: Records,
}

impl Whole<'_> {
    /// Compares the store with it, and once more after the store's clock, if it is a test's, is set to a time at which everything has expired
    /// that does. Returns how many records that took away.
    pub fn compare(&self, spaces: &Spaces) -> Result<usize, String> {
        let late = spaces.is_late();
        let before = spaces.db.snapshot();
        self.compare_now(spaces)?;
        self.compare_snapshot(&before, late)?;
        let Some(clock) = spaces.clock.as_ref().filter(|_| !late) else { return Ok(0) };
        clock.set(LONG_MS);
        self.compare_now(spaces).map_err(|what| format!("once all has expired: {what}"))?;
        self.compare_snapshot(&spaces.db.snapshot(), true).map_err(|what| format!("once all has expired: {what}"))?;
        // It is of a moment at which they lived.
        self.compare_snapshot(&before, late).map_err(|what| format!("from before all expired: {what}"))?;
        Ok((0..SPACES).map(|space| self.records(space, false).len() - self.records(space, true).len()).sum())
    }

    /// Compares what the reader that was written from the specification alone finds in the bytes of a store.
    pub fn compare_by_reader(&self, file: &[u8], now: u64) -> Result<(), String> {
        let contents = pipkin_reader::read_at(file, now).map_err(|refusal| format!("pipkin-reader: {refusal}"))?;
        for space in 0..SPACES {
            let name = name_of(space);
            let of_space = contents.records.iter().filter(|((owner, _), _)| *owner == name);
            let found = of_space.map(|((_, key), record)| (key.clone(), record.value.clone())).collect();
            self.same("pipkin-reader", space, now >= LONG_MS, found)?;
        }
        Ok(())
    }

    fn records(&self, space: u64, late: bool) -> Records {
        let mut all = if space == 0 { self.shared.clone() } else { Records::new() };
        for (writer, model) in (0..).zip(self.models) {
            let held = (0..KEYS).filter_map(|key| Some((key, model.get(space, key, late)?.0)));
            all.extend(held.map(|(key, number)| (key_of(writer, key), value_of(writer, (space, key), number))));
        }
        all
    }

    fn compare_now(&self, spaces: &Spaces) -> Result<(), String> {
        let late = spaces.is_late();
        for (number, space) in (0..).zip(&spaces.all) {
            self.same("iter", number, late, space.iter().collect::<Found<_>>().map_err(words)?)?;
            let mut ordered = Walked::new();
            if for_each_in_order(space, |key, value| ordered.push((key.to_vec(), value.to_vec()))).map_err(words)? {
                self.same("range", number, late, ordered)?;
            }
            self.same_len("len", number, late, space.len().map_err(words)?)?;
        }
        Ok(())
    }

    fn compare_snapshot(&self, snapshot: &Snapshot, late: bool) -> Result<(), String> {
        for number in 0..SPACES {
            let space = match number {
                0 => snapshot.default_namespace(),
                _ => snapshot.namespace(&name_of(number)).map_err(words)?.ok_or("a snapshot lacks a namespace")?,
            };
            self.same("iter of a snapshot", number, late, space.iter().collect::<Found<_>>().map_err(words)?)?;
            self.same_len("len of a snapshot", number, late, space.len().map_err(words)?)?;
        }
        Ok(())
    }

    fn same(&self, way: &str, space: u64, late: bool, mut found: Walked) -> Result<(), String> {
        found.sort_unstable();
        let right: Walked = self.records(space, late).into_iter().collect();
        if found == right {
            return Ok(());
        }
        let without = |these: &Walked, others: &Walked| {
            let only = these.iter().filter(|record| others.binary_search(record).is_err());
            only.map(|(key, _)| String::from_utf8_lossy(key).into_owned()).take(4).collect::<Vec<_>>()
        };
        let (wrong, missing) = (without(&found, &right), without(&right, &found));
        let (count, should) = (found.len(), right.len());
        Err(format!("{way} of space {space} gives {count} records, should give {should}: wrong {wrong:?}, missing {missing:?}"))
    }

    fn same_len(&self, way: &str, space: u64, late: bool, found: u64) -> Result<(), String> {
        let right = self.records(space, late).len() as u64;
        if found == right { Ok(()) } else { Err(format!("{way} of space {space} is {found}, should be {right}")) }
    }
}
