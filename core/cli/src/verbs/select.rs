//! Which records `scan` and `export` read, and in which order.

use crate::args::FormArgs;
use crate::bytes::KeyBounds;
use crate::exit::{Failure, Outcome};
use crate::store::Store;
use clap::Args;
use pipkin::{Error, Range, SnapshotNamespace};
use std::ffi::OsString;
use std::ops::RangeBounds;

/// The selection, as arguments.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// Only keys that begin with these bytes; every key is read, unless the namespace is kept in order
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Only keys of this group: those that begin with its name and a dot
    #[arg(long, value_name = "NAME", conflicts_with = "prefix")]
    group: Option<OsString>,
    /// Only keys in this range: a..b, a..=b, a.. or ..b; the border is the first two dots, so give keys that contain two with --hex
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["prefix", "group"])]
    range: Option<OsString>,
    /// Order by key, as unsigned bytes; holds all chosen keys in memory, unless the namespace is kept in order
    #[arg(long)]
    sort: bool,
    /// The last keys first; orders as --sort does
    #[arg(long)]
    reverse: bool,
    /// Stop after this many records
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
}

/// The selection, parsed.
#[derive(Default)]
pub(crate) struct Selection {
    prefix: Vec<u8>,
    range: Option<KeyBounds>,
    sort: bool,
    reverse: bool,
    limit: Option<u64>,
}

impl SelectArgs {
    pub(crate) fn selection(&self, form: FormArgs) -> Outcome<Selection> {
        let mut prefix = Vec::new();
        if let Some(begin) = self.prefix.as_deref().or(self.group.as_deref()) {
            prefix = form.form().parse_argument(begin)?;
        }
        if self.group.is_some() {
            if prefix.is_empty() {
                return Err(Failure::usage("a group needs a name"));
            }
            prefix.push(b'.');
        }
        let range = self.range.as_deref().map(|range| form.form().parse_range(range)).transpose()?;
        Ok(Selection { prefix, range, sort: self.sort || self.reverse, reverse: self.reverse, limit: self.limit })
    }
}

impl Selection {
    /// All records, ordered by key.
    pub(crate) fn all_sorted() -> Self {
        Self { sort: true, ..Self::default() }
    }

    /// The number of selected records, if it is known beforehand.
    pub(crate) fn total(&self, store: &Store) -> Option<u64> {
        if !self.prefix.is_empty() || self.range.is_some() {
            return None;
        }
        let len = store.records().len();
        Some(len.ok()?.min(self.limit.unwrap_or(u64::MAX)))
    }

    /// Passes every selected key to `each`.
    pub(crate) fn keys(&self, store: &Store, mut each: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        let records = store.moment()?;
        if let Some(range) = self.in_order(store, &records)? {
            return self.walk(store, range, |key, _| each(key));
        }
        if self.sort {
            return self.sorted_keys(store, &records)?.iter().try_for_each(|key| each(key));
        }
        let chosen = records.keys().filter(|key| self.chooses_key(key));
        for key in chosen.take(self.take()) {
            each(&key.map_err(|error| store.failure(&error))?)?;
        }
        Ok(())
    }

    /// What to show while the first record is awaited; may be empty.
    pub(crate) fn first_step(&self) -> &'static str {
        if self.sort { "(ordering the keys)" } else { "" }
    }

    /// Passes every selected record to `each`, with its expiry in milliseconds since 1970.
    pub(crate) fn records(&self, store: &Store, each: impl FnMut(&[u8], &[u8], Option<u64>) -> Outcome<()>) -> Outcome<()> {
        self.records_of(store, &store.moment()?, each)
    }

    /// The same of any namespace at a moment.
    pub(crate) fn records_of(
        &self,
        store: &Store,
        records: &SnapshotNamespace,
        mut each: impl FnMut(&[u8], &[u8], Option<u64>) -> Outcome<()>,
    ) -> Outcome<()> {
        // A second look-up of each record, but only where some expire.
        let some_expire = store.db().stats().map_err(|error| store.failure(&error))?.expiring > 0;
        let expiry = |key: &[u8]| {
            if some_expire { records.expires_at(key).map_err(|error| store.failure(&error)) } else { Ok(None) }
        };
        if let Some(range) = self.in_order(store, records)? {
            return self.walk(store, range, |key, value| each(key, value, expiry(key)?));
        }
        if self.sort {
            for key in self.sorted_keys(store, records)? {
                let value = records.get_zerocopy(&key);
                // Always present: keys and values are of one moment.
                if let Some(value) = value.map_err(|error| store.failure(&error))? {
                    each(&key, &value, expiry(&key)?)?;
                }
            }
            return Ok(());
        }
        let chosen = records.iter().filter(|record| match record {
            Ok((key, _)) => self.chooses(key),
            Err(_) => true,
        });
        for record in chosen.take(self.take()) {
            let (key, value) = record.map_err(|error| store.failure(&error))?;
            each(&key, &value, expiry(&key)?)?;
        }
        Ok(())
    }

    /// The chosen records in the order of their keys, if that is of use and the namespace is kept in it.
    fn in_order<'a>(&self, store: &Store, records: &'a SnapshotNamespace) -> Outcome<Option<Range<'a>>> {
        let range = match &self.range {
            Some((start, end)) => records.range((start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))),
            None if self.sort || !self.prefix.is_empty() => records.range_prefix(&self.prefix),
            None => return Ok(None),
        };
        match range {
            Err(Error::NotOrdered) => Ok(None),
            range => range.map(Some).map_err(|error| store.failure(&error)),
        }
    }

    fn walk(&self, store: &Store, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8]) -> Outcome<()>) -> Outcome<()> {
        let mut each = |record: pipkin::Result<(Vec<u8>, Vec<u8>)>| {
            let (key, value) = record.map_err(|error| store.failure(&error))?;
            each(&key, &value)
        };
        if self.reverse {
            range.rev().take(self.take()).try_for_each(&mut each)
        } else {
            range.take(self.take()).try_for_each(&mut each)
        }
    }

    fn sorted_keys(&self, store: &Store, records: &SnapshotNamespace) -> Outcome<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        for key in records.keys().filter(|key| self.chooses_key(key)) {
            keys.push(key.map_err(|error| store.failure(&error))?);
        }
        keys.sort_unstable();
        if self.reverse {
            keys.reverse();
        }
        keys.truncate(self.take());
        Ok(keys)
    }

    /// Errors are selected, too, so that they are reported.
    fn chooses_key(&self, key: &pipkin::Result<Vec<u8>>) -> bool {
        key.as_ref().map_or(true, |key| self.chooses(key))
    }

    fn chooses(&self, key: &[u8]) -> bool {
        let is_in = |(start, end): &KeyBounds| {
            let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
            RangeBounds::<[u8]>::contains(&bounds, key)
        };
        key.starts_with(&self.prefix) && self.range.as_ref().is_none_or(is_in)
    }

    fn take(&self) -> usize {
        self.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
    }
}
