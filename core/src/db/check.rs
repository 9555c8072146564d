//! What a transaction has read, and whether it has changed since: others have written it, or its time has passed.

use crate::clock::StoreClock;
use crate::conflict::Conflict;
use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::index::KeyHash;
use crate::planted::{Bug, dawdle, is};
use crate::recent::{Failed, Recent, Written};
use crate::sorted::FewHashes;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Bound;

/// A place between two keys: before a key, or, if true, right after it.
type Cut = (Vec<u8>, bool);

/// A range of keys that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadRange {
    namespace: u32,
    start: Cut,
    /// `None`: after every key.
    end: Option<Cut>,
}

impl ReadRange {
    pub(super) fn new(namespace: u32, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Self {
        let start = match start {
            Bound::Included(key) => (key.to_vec(), false),
            Bound::Excluded(key) => (key.to_vec(), true),
            Bound::Unbounded => (Vec::new(), false),
        };
        let end = match end {
            Bound::Included(key) => Some((key.to_vec(), true)),
            Bound::Excluded(key) => Some((key.to_vec(), false)),
            Bound::Unbounded => None,
        };
        Self { namespace, start, end }
    }

    fn begins_at_most(&self, namespace: u32, key: &[u8]) -> bool {
        (self.namespace, self.start.0.as_slice(), self.start.1) <= (namespace, key, false)
    }

    fn holds(&self, namespace: u32, key: &[u8]) -> bool {
        let is_before_end = self.end.as_ref().is_none_or(|(end, is_after)| (key, false) < (end.as_slice(), *is_after));
        is_before_end && self.namespace == namespace && self.begins_at_most(namespace, key)
    }

    /// True when `next`, which does not begin earlier, begins before the end of this range.
    fn meets(&self, next: &Self) -> bool {
        self.namespace == next.namespace && self.end.as_ref().is_none_or(|end| next.start <= *end)
    }
}

/// Hashes of the keys that a transaction has read.
type Keys = FewHashes<16>;

/// Hashes of the records of the namespaces in which a transaction has read.
type NamesRead = FewHashes<2>;

/// What a transaction has read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    keys: Keys,
    names: NamesRead,
    ranges: Vec<Option<ReadRange>>,
    /// The earliest expiry of the records that it has read.
    expiry: Option<u64>,
}

impl ReadSet {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.names.is_empty() && self.ranges.is_empty()
    }

    pub(super) fn key(&mut self, hash: KeyHash) {
        self.keys.insert(hash.bits());
    }

    pub(super) fn name(&mut self, hash: KeyHash) {
        self.names.insert(hash.bits());
    }

    /// A record with this expiry was read, alive.
    pub(super) fn expires(&mut self, expiry: u64) {
        self.expiry = Some(self.expiry.map_or(expiry, |earliest| earliest.min(expiry)));
    }

    /// Adds a range; returns its place.
    pub(super) fn range(&mut self, range: ReadRange) -> usize {
        self.ranges.push(Some(range));
        self.ranges.len() - 1
    }

    /// All of a namespace was read.
    pub(super) fn whole(&mut self, namespace: u32) {
        let all = ReadRange::new(namespace, Bound::Unbounded, Bound::Unbounded);
        if !self.ranges.iter().flatten().any(|range| *range == all) {
            self.range(all);
        }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let hashes = self.keys.memory_bytes() + self.names.memory_bytes();
        let ranges = self.ranges.iter().flatten();
        let bounds: usize = ranges.map(|range| range.start.0.len() + range.end.as_ref().map_or(0, |end| end.0.len())).sum();
        hashes + self.ranges.capacity() * size_of::<Option<ReadRange>>() + bounds
    }

    /// Replaces the range at a place by the two that were read of it.
    #[cfg(feature = "ordered")]
    pub(super) fn narrow(&mut self, place: usize, front: Option<ReadRange>, back: Option<ReadRange>) {
        if let Some(range) = self.ranges.get_mut(place) {
            *range = front;
            self.ranges.extend(back.map(Some));
        }
    }
}

/// The check of a transaction at its commit.
pub(super) struct Check<'a> {
    recent: &'a Recent,
    clock: &'a StoreClock,
    expiry: Option<u64>,
    keys: Keys,
    names: NamesRead,
    /// Sorted, and none meets another.
    ranges: Vec<ReadRange>,
    /// Number of the first write that it has not been checked against.
    from: Cell<u64>,
}

impl<'a> Check<'a> {
    /// The check of what was read in a snapshot against the writes from number `from` on.
    pub(super) fn new(recent: &'a Recent, clock: &'a StoreClock, read: ReadSet, from: u64) -> Self {
        let mut ranges: Vec<ReadRange> = read.ranges.into_iter().flatten().collect();
        ranges.sort_unstable_by(|one, other| (one.namespace, &one.start).cmp(&(other.namespace, &other.start)));
        ranges.dedup_by(|next, range| {
            let meets = range.meets(next);
            if meets && range.end.is_some() && next.end.as_ref().is_none_or(|end| Some(end) > range.end.as_ref()) {
                range.end = next.end.take();
            }
            meets
        });
        Self { recent, clock, expiry: read.expiry, keys: read.keys, names: read.names, ranges, from: Cell::new(from) }
    }

    /// Checks against most of what was written so far. Needs no lock, so it is done before any is taken, and again before the last one.
    pub(super) fn ahead(&self) -> Result<()> {
        let Self { recent, keys, names, ranges, from, .. } = self;
        let mut number = from.get();
        let checked = recent.check_full(&mut number, &mut |written| unchanged(keys, names, ranges, written));
        from.set(number);
        answer(checked)
    }

    /// Checks against all the rest, with the tail of the log locked, and by the time: a moment that begins later has a later one.
    pub(super) fn finally(&self) -> Result<()> {
        if is(Bug::TransactionCheckedEarly) {
            return Ok(());
        }
        self.rest()
    }

    fn rest(&self) -> Result<()> {
        let Self { recent, keys, names, ranges, from, .. } = self;
        answer(recent.check_rest(from.get(), &mut |written| unchanged(keys, names, ranges, written)))?;
        if self.expiry.is_some_and(|expiry| expiry <= self.clock.now()) {
            return Err(Error::Conflict(Conflict::Expired));
        }
        Ok(())
    }

    /// The expiry that a conflict tells of: it stays past, whatever the host's clock does.
    pub(super) fn expired(&self, error: &Error) -> Option<u64> {
        self.expiry.filter(|_| matches!(error, Error::Conflict(Conflict::Expired)))
    }

    /// Only for a planted bug: checks for the last time without the lock.
    pub(super) fn too_early(&self) -> Result<()> {
        if !is(Bug::TransactionCheckedEarly) {
            return Ok(());
        }
        self.rest()?;
        dawdle();
        Ok(())
    }
}

fn answer(checked: Result<(), Failed<Conflict>>) -> Result<()> {
    checked.map_err(|failed| match failed {
        Failed::Forgotten => Error::Conflict(Conflict::TooManyWrites),
        Failed::Found(conflict) => Error::Conflict(conflict),
    })
}

/// Says how a write changes what was read.
fn unchanged(keys: &Keys, names: &NamesRead, ranges: &[ReadRange], written: Written<'_>) -> Result<(), Conflict> {
    let Written { hash, namespace, key } = written;
    if is(Bug::TransactionUnchecked) {
        return Ok(());
    }
    if namespace == NAMESPACE_OF_NAMES {
        let is_read = names.contains(hash.bits()) && !is(Bug::TransactionForgetsClear);
        return if is_read { Err(Conflict::Namespace) } else { Ok(()) };
    }
    if keys.contains(hash.bits()) {
        return Err(Conflict::Key);
    }
    // Of ranges that do not meet, only the last that begins before the key can hold it.
    let after = ranges.partition_point(|range| range.begins_at_most(namespace, key));
    let last = after.checked_sub(1).and_then(|last| ranges.get(last));
    if last.is_some_and(|range| range.holds(namespace, key)) && !is(Bug::TransactionForgetsRanges) {
        return Err(Conflict::Range);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::HostClock;

    fn bound(bound: Bound<&[u8]>) -> Bound<&[u8]> {
        bound
    }

    /// Every pair of bounds over a few keys, two ranges at a time, in two namespaces: the merged ranges hold what one of them holds.
    #[test]
    fn merged_ranges_hold_what_the_single_ones_hold() {
        let keys: [&[u8]; 5] = [b"", b"a", b"a\0", b"b", b"bb"];
        let mut bounds = alloc::vec![Bound::Unbounded];
        bounds.extend(keys.iter().flat_map(|&key| [Bound::Included(key), Bound::Excluded(key)]));
        let contains = |(start, end): (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]| {
            (match bound(start) {
                Bound::Included(start) => start <= key,
                Bound::Excluded(start) => start < key,
                Bound::Unbounded => true,
            }) && (match bound(end) {
                Bound::Included(end) => key <= end,
                Bound::Excluded(end) => key < end,
                Bound::Unbounded => true,
            })
        };
        let (recent, clock) = (Recent::default(), StoreClock::new(HostClock::default(), 0, false));
        let pairs: Vec<_> = bounds.iter().flat_map(|&start| bounds.iter().map(move |&end| (start, end))).collect();
        for &one in &pairs {
            for &other in &pairs {
                for namespace in [3, 4] {
                    let mut read = ReadSet::default();
                    read.range(ReadRange::new(3, one.0, one.1));
                    read.range(ReadRange::new(namespace, other.0, other.1));
                    let check = Check::new(&recent, &clock, read, 0);
                    for key in keys {
                        let hash = KeyHash::new(1, 3, key);
                        let found = unchanged(&check.keys, &check.names, &check.ranges, Written { hash, namespace: 3, key });
                        let expected = contains(one, key) || namespace == 3 && contains(other, key);
                        assert_eq!(found.is_err(), expected, "{one:?} {other:?} {key:?} {namespace}");
                    }
                }
            }
        }
    }
}
