//! The ordered index of a store: from the index snapshot or from the hash index at opening, changed with every record, read in order, and written
//! to the snapshot.

use crate::engine::{Engine, GROUP, Origin};
use crate::error::{Error, Result};
use crate::frame::{Kind, NAMESPACE_OF_NAMES};
use crate::index::{SHARDS, ShardGuard, Slot};
use crate::log::Window;
use crate::ordered::{Change, Choice, Key, Ordered, PART_RECORDS, Part, Piece, Source, head_of};
use crate::planted::{Bug, is};
use crate::snapshot::{self, OrderPart, OrderParts, PartPlace, SnapshotWriter};
use crate::sorted::Set;
use crate::sync::Ordering;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Bound;

/// Keys that are read at the most when a store is opened without parts of the order: reading more takes longer than writing the parts.
const KEYS_READ_AT_OPEN: u64 = 64 * 1024;
/// About the bytes of a part's entry in the directory.
const ENTRY_LEN: u64 = 48;
/// Bytes of an offset in a part, at most.
const OFFSET_LEN: u64 = 6;

/// A part that has been written at another place, and its separator.
pub(crate) struct Moved {
    from: Vec<u8>,
    part: Part,
    to: Part,
}

/// The keys of all records.
struct AllKeys {
    /// Namespace, key and offset.
    keys: Vec<(u32, Key, u64)>,
    /// Shards and slots of the records whose keys cannot be read.
    nameless: Vec<(usize, Slot)>,
}

impl Engine {
    /// Begins the ordered index of the namespaces that are chosen. Called while opening, before the store is in use. True if it comes from the
    /// snapshot.
    pub(crate) fn order(&self, choice: Choice) -> Result<bool> {
        let choice = match self.order_of_snapshot(choice)? {
            None => return Ok(true),
            Some(choice) => choice,
        };
        let AllKeys { keys, nameless } = self.all_keys(&choice, &|shard| self.lock_shard(shard)?.slots(self.medium()))?;
        // Only opening sets it, once, so `set` cannot fail.
        let _ = self.ordered.set(Box::new(Ordered::of(keys, choice)));
        *self.nameless.write() = nameless;
        Ok(false)
    }

    /// Takes the order from the snapshot, and applies to it what the log has behind that. Returns the choice when there is none that can be used.
    fn order_of_snapshot(&self, choice: Choice) -> Result<Option<Choice>> {
        let nothing = Origin::default();
        let Origin { snapshot, retired, namespaces } = self.origin.get().unwrap_or(&nothing);
        // What has been retired since may be used again: an offset there could name another record.
        let is_stale = !retired.is_empty() && !is(Bug::OrderOfRetiredSegments);
        if !snapshot.order.is_whole || is_stale || self.log.follows() || self.doubt.get().is_some() {
            return Ok(Some(choice));
        }
        let is_wanted = |number: &u32| *number != NAMESPACE_OF_NAMES && choice.keeps(*number);
        let is_there = |number: u32| snapshot.order.only.as_ref().is_none_or(|only| only.binary_search(&number).is_ok());
        let has_all = namespaces.iter().map(|number| number as u32).filter(is_wanted).all(is_there);
        if !has_all && !is(Bug::OrderOfOthers) {
            return Ok(Some(choice));
        }
        let wanted = |part: &&OrderPart| namespaces.contains(part.namespace.into()) && choice.keeps(part.namespace);
        let parts = snapshot.order.parts.iter().filter(wanted).map(|part| (Key::new(&part.from), part_of(part))).collect();
        let _ = self.ordered.set(Box::new(Ordered::of_parts(parts, choice)));
        let mut window = Window::new(&*self.log.storage, self.log.storage.len()?);
        for shard in 0..SHARDS {
            let later = self.index.lock_shard(shard).later();
            for &offset in later.iter().filter(|_| !is(Bug::OrderEndsAtSnapshot)) {
                self.order_later(offset, &mut window)?;
            }
        }
        Ok(None)
    }

    /// Applies a record behind the snapshot, which opening has checked.
    fn order_later(&self, offset: u64, window: &mut Window<'_>) -> Result<()> {
        let namespaces = self.origin.get().map(|origin| &origin.namespaces);
        self.with_key_at(offset, window, |header, key| {
            let lives = |living: &Set| living.contains(header.namespace.into());
            match header.kind {
                _ if header.namespace == NAMESPACE_OF_NAMES || !namespaces.is_some_and(lives) => {}
                Kind::Put => self.order_put(header.namespace, key, offset),
                _ => self.order_remove(header.namespace, key),
            }
            Ok(())
        })
    }

    /// The keys of the records at the slots of all shards, of the namespaces that are chosen.
    fn all_keys(&self, choice: &Choice, slots_of: &dyn Fn(usize) -> Result<Vec<Slot>>) -> Result<AllKeys> {
        let (mut keys, mut nameless) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            for slot in slots_of(shard)? {
                match self.owned(shard, slot)? {
                    Some(frame) if frame.header.namespace != NAMESPACE_OF_NAMES && choice.keeps(frame.header.namespace) => {
                        keys.push((frame.header.namespace, Key::new(frame.key()), slot.offset()));
                    }
                    Some(_) => {}
                    None => nameless.push((shard, slot)),
                }
            }
        }
        Ok(AllKeys { keys, nameless })
    }

    /// Builds the ordered index anew from the hash index, while all writers wait: a part of the snapshot, or a key, could not be read.
    #[cold]
    fn order_again(&self, ordered: &Ordered) -> Result<()> {
        let held: Vec<ShardGuard<'_>> = self.lock_all()?;
        if !ordered.may_be_unread() && !ordered.is_incomplete() {
            // Another thread has done it meanwhile.
            return Ok(());
        }
        let slots = |shard| held.get(shard).map_or_else(|| Ok(Vec::new()), |guard: &ShardGuard<'_>| guard.slots(self.medium()));
        let AllKeys { keys, nameless } = self.all_keys(&ordered.choice, &slots)?;
        ordered.adopt(&Ordered::of(keys, Choice::default()));
        *self.nameless.write() = nameless;
        self.orders_lost.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The ordered index, whole.
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`] when the namespace is not in it.
    #[inline]
    pub(crate) fn ordered(&self, namespace: u32) -> Result<&Ordered> {
        let ordered: &Ordered = self.ordered.get().filter(|ordered| ordered.choice.keeps(namespace)).ok_or(Error::NotOrdered)?;
        if ordered.is_incomplete() {
            self.order_again(ordered)?;
        }
        Ok(ordered)
    }

    /// Fails when ranges of a namespace cannot be read; `None` is one that has no records.
    ///
    /// # Errors
    ///
    /// As [`Self::ordered`].
    pub(crate) fn has_order(&self, namespace: Option<u32>) -> Result<()> {
        match namespace {
            Some(number) => self.ordered(number).map(drop),
            None => self.ordered.get().map(drop).ok_or(Error::NotOrdered),
        }
    }

    /// Calls `each` with key and offset of the records from `from` on, in key order, until it returns `false`. The caller holds no shard.
    pub(crate) fn walk_keys(&self, namespace: u32, from: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) -> Result<()> {
        let ordered = self.ordered(namespace)?;
        let Err(stopped) = ordered.walk(namespace, from, self, each) else { return Ok(()) };
        self.order_again(ordered)?;
        let rest = stopped.rest.as_ref().map(|key| &key[..]);
        ordered.walk(namespace, rest, self, stopped.each).map_err(|stopped| stopped.error)
    }

    /// Calls `each` with key and offset of the records up to `to`, the last key first, until it returns `false`. The caller holds no shard.
    pub(crate) fn walk_keys_back(&self, namespace: u32, to: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) -> Result<()> {
        let ordered = self.ordered(namespace)?;
        let Err(stopped) = ordered.walk_back(namespace, to, self, each) else { return Ok(()) };
        self.order_again(ordered)?;
        let rest = stopped.rest.as_ref().map(|key| &key[..]);
        ordered.walk_back(namespace, rest, self, stopped.each).map_err(|stopped| stopped.error)
    }

    /// A namespace gets this number, with these options, instead of the one that it had.
    pub(crate) fn choose_order(&self, old: Option<u32>, number: u32, options: &[u8]) {
        if let Some(ordered) = self.ordered.get()
            && old != Some(number)
        {
            ordered.choice.note(number, options);
        }
    }

    /// Enters a record, before its slot changes: what an unread part names are records that count, so that their space is not reused.
    // Inlined, so that a store without order does not call it with six arguments.
    #[inline(always)]
    pub(crate) fn order_put(&self, namespace: u32, key: &[u8], offset: u64) {
        if let Some(ordered) = self.ordered.get() {
            self.put_into(ordered, namespace, key, offset);
        }
    }

    #[inline(never)]
    fn put_into(&self, ordered: &Ordered, namespace: u32, key: &[u8], offset: u64) {
        if ordered.choice.keeps(namespace) {
            ordered.put(namespace, key, offset, self);
        }
    }

    /// Enters the records of a commit, the last one of each key, before their slots change: in one walk over the order, which copies each of its
    /// blocks once for all keys in it.
    pub(crate) fn order_many<'k>(&self, records: impl Iterator<Item = (u32, Change<'k>)>) {
        let Some(ordered) = self.ordered.get() else { return };
        let kept = records.filter(|(namespace, _)| ordered.choice.keeps(*namespace));
        let mut changes: Vec<(u32, u64, Change<'k>)> = kept.map(|(number, change)| (number, head_of(change.0), change)).collect();
        // A sort that keeps the order of equal ones: of several records of a key, the last one counts.
        changes.sort_by(|(one, a, (key, _)), (other, b, (other_key, _))| (one, a, key).cmp(&(other, b, other_key)));
        for of_namespace in changes.chunk_by(|(one, ..), (other, ..)| one == other) {
            let last = of_namespace.chunk_by(|(.., (a, _)), (.., (b, _))| a == b).filter_map(|same| same.last());
            let changes: Vec<Change<'_>> = last.map(|(.., change)| *change).collect();
            if let Some((namespace, ..)) = of_namespace.first() {
                ordered.change_many(*namespace, &changes, self);
            }
        }
    }

    /// True when compaction has to gather what it moves of a namespace.
    pub(crate) fn gathers_moves(&self, namespace: u32) -> bool {
        self.ordered.get().is_some_and(|ordered| ordered.choice.keeps(namespace))
    }

    /// Makes the moves if many were gathered. The caller holds no shard.
    pub(crate) fn make_many_moves(&self) {
        if self.moves.lock().are_many() {
            self.make_moves();
        }
    }

    /// Makes all moves that were gathered: the order has the places that the hash index has. Waits while another thread does so.
    pub(crate) fn make_moves(&self) {
        let Some(ordered) = self.ordered.get() else { return };
        let mut moves = self.moves.lock();
        if !moves.are_none() {
            ordered.make_moves(&mut moves, self);
        }
    }

    /// True when there is an ordered index.
    pub(crate) fn keeps_order(&self) -> bool {
        self.ordered.get().is_some()
    }

    /// Takes a key out, before its slot goes, as above.
    #[inline]
    pub(crate) fn order_remove(&self, namespace: u32, key: &[u8]) {
        if let Some(ordered) = self.ordered.get() {
            ordered.remove(namespace, key, self);
        }
    }

    /// True when opening would read many keys without parts of the order: the snapshot should have them when the store is closed.
    pub(crate) fn has_much_in_order(&self) -> bool {
        self.ordered.get().is_some() && self.index.len_all().max(self.unread_keys()) > KEYS_READ_AT_OPEN
    }

    /// Keys that no session has read from their parts yet, as opening has found them.
    fn unread_keys(&self) -> u64 {
        let parts = self.origin.get().map(|origin| &origin.snapshot.order.parts);
        parts.into_iter().flatten().map(|part| u64::from(part.records)).sum()
    }

    /// Bytes that the parts of the order take, and those of them that a checkpoint has to write.
    pub(crate) fn order_len(&self) -> (u64, u64) {
        let len = |keys: u64| keys * OFFSET_LEN + (keys / PART_RECORDS as u64 + 1) * ENTRY_LEN;
        self.ordered.get().map_or((0, 0), |ordered| (len(self.index.len_all()), len(ordered.read_keys())))
    }

    /// Writes the order to a snapshot, or what of the one before nobody has read since. With `copies`, that is copied, as the segments that
    /// hold it are about to go. Returns the parts, and those that have moved.
    pub(crate) fn dump_order(
        &self,
        writer: &mut SnapshotWriter<'_>,
        is_whole: bool,
        copies: bool,
    ) -> Result<(OrderParts, Vec<Moved>)> {
        let (mut parts, mut moved) = (Vec::new(), Vec::new());
        let Some(ordered) = self.ordered.get() else { return Ok((OrderParts::default(), moved)) };
        // First: all records of a namespace that is created meanwhile are behind the checkpoint.
        let kept = |numbers: &BTreeSet<u32>| numbers.iter().copied().filter(|&number| ordered.choice.keeps(number)).collect();
        let only = if ordered.choice.keeps_all() { None } else { Some(kept(&self.living.read())) };
        ordered.pieces(&mut |namespace, from, piece| {
            if namespace == NAMESPACE_OF_NAMES {
                return Ok(());
            }
            let (records, place) = match piece {
                Piece::Unread(part) if copies => {
                    let Ok(bytes) = snapshot::read_part(&*self.log.storage, place_of(part)) else {
                        // Whoever reads the order next builds it anew.
                        ordered.is_missing_something();
                        return Ok(());
                    };
                    let place = writer.part(&bytes)?;
                    moved.push(Moved { from: from.to_vec(), part, to: Part { offset: place.offset, salt: place.salt, ..part } });
                    (part.records, place)
                }
                Piece::Unread(part) => (part.records, place_of(part)),
                Piece::Offsets(offsets) if is_whole => (offsets.len() as u32, writer.order(&offsets)?),
                Piece::Offsets(_) => return Ok(()),
            };
            parts.push(OrderPart { namespace, records, from: from.to_vec(), place });
            Ok(())
        })?;
        // What is missing there would be missing in the snapshot, too.
        let has_all = !ordered.is_incomplete() && self.nameless.read().is_empty();
        Ok((OrderParts { parts, is_whole: is_whole && has_all, only }, moved))
    }

    /// From now on, what has moved is read at its new place. Called once that is written, and before the old place is free.
    pub(crate) fn order_has_moved(&self, moved: &[Moved]) {
        if let Some(ordered) = self.ordered.get() {
            let moved = moved.iter().filter(|_| !is(Bug::OrderNotMoved));
            moved.for_each(|one| ordered.relocate(&one.from, one.part, one.to));
        }
    }

    /// Reads all parts that nobody has read: the snapshot that holds them is about to go.
    pub(crate) fn read_order(&self) {
        if let Some(ordered) = self.ordered.get() {
            ordered.read_all(self);
        }
    }
}

impl Source for Engine {
    fn keys(&self, part: Part) -> Result<Vec<(Key, u64)>> {
        let damaged = || Error::corrupt(part.offset, "a part of the order in the index snapshot");
        let bytes = snapshot::read_part(&*self.log.storage, place_of(part))?;
        let offsets = snapshot::decode_order(&bytes).ok_or_else(damaged)?;
        let mut keys = Vec::with_capacity(offsets.len());
        for group in offsets.chunks(GROUP) {
            self.log.will_read(group);
            for (at, &offset) in group.iter().enumerate() {
                let frame = self.log.frame(offset)?;
                if at == 0 {
                    self.log.has_read(frame.header.frame_len());
                }
                // A key that has rotted would stay in the order once the right one is removed, and name space that is used again.
                frame.check()?;
                if frame.header.kind != Kind::Put || frame.header.namespace != part.namespace {
                    return Err(damaged());
                }
                keys.push((Key::new(frame.key()), offset));
            }
        }
        Ok(keys)
    }
}

const fn place_of(part: Part) -> PartPlace {
    PartPlace { offset: part.offset, salt: part.salt }
}

const fn part_of(part: &OrderPart) -> Part {
    Part { namespace: part.namespace, records: part.records, offset: part.place.offset, salt: part.place.salt }
}
