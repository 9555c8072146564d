//! The notes of one shard: slots that the index no longer has, and that a living moment needs.
//!
//! A hash table of 16-byte entries, searched from the place that the tag points at: between 3/5 and 5/6 full, so that a note takes at most
//! 24 bytes while more are added.

use crate::index::Slot;
use crate::sorted::AreHashes;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Set in the end of a note whose record is a copy: then the position of the record does not tell when it was first written.
const IS_COPY: u64 = 1 << 63;
/// Entries of the smallest table.
const LEAST: usize = 8;

/// A record that was replaced or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) slot: Slot,
    /// Log position of the record that ended it, and whether it is a copy.
    end: u64,
}

impl Note {
    const NONE: Self = Self { slot: Slot::from_bits(0), end: 0 };

    /// Log position of the record that replaced or removed this one.
    pub(crate) const fn end(self) -> u64 {
        self.end & !IS_COPY
    }

    const fn is_none(self) -> bool {
        self.slot.bits() == 0
    }
}

/// The notes of one shard.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    table: Vec<Note>,
    used: usize,
    /// By slot, when the records of copies were first written, if that was after the oldest moment at their time.
    begins: HashMap<u64, u64, AreHashes>,
    /// Number of records by namespace at the position of each moment after which the shard has changed.
    counts: Vec<(u64, Vec<(u32, u64)>)>,
}

impl Notes {
    /// Adds a record that `end` ended. `begin` is when it was first written, unless its own position tells.
    pub(crate) fn add(&mut self, slot: Slot, begin: Option<u64>, end: u64) {
        if (self.used + 1) * 6 > self.table.len() * 5 {
            // 22.4 bytes a note right after growing.
            self.rebuild(((self.used + 1) * 7 / 5).max(LEAST), |_| true);
        }
        let is_copy = if begin.is_some() { IS_COPY } else { 0 };
        if let Some(begin) = begin.filter(|&begin| begin > 0) {
            self.begins.insert(slot.bits(), begin);
        }
        self.put(Note { slot, end: end | is_copy });
    }

    fn home(&self, tag: u64) -> usize {
        ((tag * self.table.len() as u64) / Slot::TAGS) as usize
    }

    fn put(&mut self, note: Note) {
        let len = self.table.len();
        let mut at = self.home(note.slot.tag());
        for _ in 0..len {
            match self.table.get_mut(at) {
                Some(place) if place.is_none() => {
                    *place = note;
                    self.used += 1;
                    return;
                }
                _ => at = if at + 1 == len { 0 } else { at + 1 },
            }
        }
    }

    /// Moves the notes for which `kept` is true to a table of `len` entries.
    fn rebuild(&mut self, len: usize, kept: impl Fn(&Note) -> bool) {
        let mut table = Vec::new();
        table.reserve_exact(len);
        table.resize(len, Note::NONE);
        let old = core::mem::replace(&mut self.table, table);
        self.used = 0;
        for note in old.into_iter().filter(|note| !note.is_none() && kept(note)) {
            self.put(note);
        }
    }

    /// The notes with a tag.
    pub(crate) fn with_tag(&self, tag: u64) -> impl Iterator<Item = Note> {
        let home = self.home(tag);
        let (front, back) = self.table.split_at_checked(home).unwrap_or_default();
        back.iter().chain(front).copied().take_while(|note| !note.is_none()).filter(move |note| note.slot.tag() == tag)
    }

    /// All notes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Note> {
        self.table.iter().copied().filter(|note| !note.is_none())
    }

    /// When the record of a note was first written; `lsn` is its own log position.
    pub(crate) fn begin(&self, note: Note, lsn: impl FnOnce(u64) -> u64) -> u64 {
        begin_of(&self.begins, note, lsn)
    }

    /// Drops the notes for which `needed(begin, end)` is false, and calls `dropped` with each.
    pub(crate) fn retain(
        &mut self,
        lsn: impl Fn(u64) -> u64,
        needed: impl Fn(u64, u64) -> bool,
        mut dropped: impl FnMut(Slot),
    ) -> usize {
        let is_kept = |notes: &Self, note: &Note| needed(notes.begin(*note, &lsn), note.end());
        let gone: Vec<Note> = self.all().filter(|note| !is_kept(self, note)).collect();
        if gone.is_empty() {
            return 0;
        }
        gone.iter().for_each(|note| dropped(note.slot));
        let left = self.used - gone.len();
        if left == 0 {
            (self.table, self.used, self.begins) = (Vec::new(), 0, HashMap::default());
            return gone.len();
        }
        let begins = core::mem::take(&mut self.begins);
        self.rebuild((left * 7 / 5).max(LEAST), |note| needed(begin_of(&begins, *note, &lsn), note.end()));
        self.begins = begins;
        for note in &gone {
            self.begins.remove(&note.slot.bits());
        }
        gone.len()
    }

    /// Keeps the number of records by namespace for the moment at this position.
    pub(crate) fn keep_counts(&mut self, position: u64, counts: &[(u32, u64)]) {
        self.counts.push((position, counts.into()));
    }

    /// The number of records of a namespace at the moment of this position; `None` if the shard has not changed since.
    pub(crate) fn count(&self, position: u64, namespace: u32) -> Option<u64> {
        let (_, counts) = self.counts.iter().find(|(other, _)| *other == position)?;
        Some(counts.iter().find(|(number, _)| *number == namespace).map_or(0, |&(_, count)| count))
    }

    /// Drops the counts of all moments but those at these positions.
    pub(crate) fn forget_counts(&mut self, living: &[u64]) {
        self.counts.retain(|(position, _)| living.contains(position));
        if self.counts.is_empty() {
            self.counts = Vec::new();
        }
    }

    /// Number of notes and counts.
    pub(crate) const fn len(&self) -> usize {
        self.used + self.counts.len()
    }

    /// True when nothing is kept.
    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0 && self.counts.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(|(_, counts)| 32 + counts.capacity() * size_of::<(u32, u64)>()).sum();
        self.table.capacity() * size_of::<Note>() + self.begins.capacity() * 17 + counts
    }
}

fn begin_of(begins: &HashMap<u64, u64, AreHashes>, note: Note, lsn: impl FnOnce(u64) -> u64) -> u64 {
    if note.end & IS_COPY == 0 { lsn(note.slot.offset()) } else { begins.get(&note.slot.bits()).copied().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u64) -> Slot {
        Slot::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 42, 20_000 + number)
    }

    #[test]
    fn notes_are_found_until_nobody_needs_them_and_take_at_most_24_bytes() {
        let mut notes = Notes::default();
        for number in 0..10_000_u64 {
            let begin = (number % 10 == 0).then_some(number % 20);
            notes.add(slot(number), begin, number + 1);
            if number > 100 {
                let each = notes.table.capacity() * size_of::<Note>();
                assert!(each as u64 <= 24 * (number + 1), "{number}: {each}");
            }
        }
        let ends = |notes: &Notes, number: u64| notes.with_tag(slot(number).tag()).any(|note| note.end() == number + 1);
        assert!((0..10_000).all(|number| ends(&notes, number)));
        let begin = |notes: &Notes, number: u64| {
            let mut with_tag = notes.with_tag(slot(number).tag()).filter(|note| note.slot == slot(number));
            with_tag.next().map(|note| notes.begin(note, |offset| offset))
        };
        assert_eq!((begin(&notes, 7), begin(&notes, 10), begin(&notes, 20)), (Some(20_007), Some(10), Some(0)));
        let mut dropped = 0;
        assert_eq!(notes.retain(|_| 0, |_, end| end > 5000, |_| dropped += 1), 5000);
        assert_eq!((dropped, notes.used, notes.begins.len()), (5000, 5000, 250));
        assert!((0..10_000).all(|number| ends(&notes, number) == (number >= 5000)));
        // Copies with an origin go, others stay.
        assert_eq!(notes.retain(|_| 0, |begin, _| begin != 10, |_| {}), 250);
        assert_eq!((notes.all().count(), notes.begins.len()), (4750, 0));
        assert_eq!(notes.retain(|_| 0, |_, _| false, |_| {}), 4750);
        assert_eq!(notes.bytes(), 0);
    }
}
