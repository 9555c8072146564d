//! What was written since the oldest living transaction began: its commit checks what it has read against that. Without a living
//! transaction nothing is remembered, and an append pays for one question.
//!
//! Writes have numbers in the order of the log. They stand in blocks of equal length; a full block never changes, so a commit checks those
//! without holding anything up, and only the last few with the tail of the log locked.

use crate::index::KeyHash;
use crate::limits::RECENT_BYTES_MAX;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Writes in a block.
const BLOCK: usize = 64;

/// Bytes of keys for which an empty block keeps its memory.
const KEYS_KEPT: usize = 4096;

/// A record that was appended: a put or a tombstone, no copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) namespace: u32,
    /// Empty in a store without the ordered index: nobody reads a range of keys there.
    pub(crate) key: &'a [u8],
}

#[derive(Debug)]
struct Entry {
    hash: KeyHash,
    namespace: u32,
    /// End of its key in [`Block::keys`]; it begins where that of the entry before ends.
    key_end: u32,
}

#[derive(Debug, Default)]
struct Block {
    entries: Vec<Entry>,
    keys: Vec<u8>,
}

impl Block {
    /// Empties it. Keeps its memory for the next transaction, unless long keys have made it large.
    fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
        self.keys.shrink_to(KEYS_KEPT);
    }

    fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.keys.len()
    }

    /// Hands the writes from index `from` on to `each`, up to its first error.
    fn check<E>(&self, from: usize, each: &mut dyn FnMut(Written<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut begin = from.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |entry| entry.key_end as usize);
        for Entry { hash, namespace, key_end } in self.entries.iter().skip(from) {
            let end = *key_end as usize;
            let key = self.keys.get(begin..end).unwrap_or_default();
            begin = end;
            each(Written { hash: *hash, namespace: *namespace, key })?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Writes {
    /// Seed of the hashes.
    seed: u64,
    keeps_keys: bool,
    /// For each living transaction the number of the first write after it began, in order.
    living: Vec<u64>,
    /// Number of the first write that is remembered.
    first: u64,
    full: VecDeque<Arc<Block>>,
    /// The block that takes the next write.
    open: Block,
    /// Bytes of the full blocks.
    bytes: usize,
}

impl Writes {
    /// Number of the first write in the open block.
    fn open_from(&self) -> u64 {
        self.first + (self.full.len() * BLOCK) as u64
    }

    fn next(&self) -> u64 {
        self.open_from() + self.open.entries.len() as u64
    }

    fn push(&mut self, namespace: u32, key: &[u8]) {
        let hash = KeyHash::new(self.seed, namespace, key);
        if self.keeps_keys {
            self.open.keys.extend_from_slice(key);
        }
        self.open.entries.push(Entry { hash, namespace, key_end: self.open.keys.len() as u32 });
        if self.open.entries.len() == BLOCK {
            let block = core::mem::take(&mut self.open);
            self.bytes += block.bytes();
            self.full.push_back(Arc::new(block));
            while self.bytes > RECENT_BYTES_MAX {
                self.forget_block();
            }
        }
    }

    fn forget_block(&mut self) {
        if let Some(block) = self.full.pop_front() {
            self.bytes -= block.bytes();
            self.first += BLOCK as u64;
        }
    }

    /// Forgets what is before the oldest living transaction.
    fn forget(&mut self) {
        match self.living.first() {
            Some(&oldest) => {
                while self.first + BLOCK as u64 <= oldest && !self.full.is_empty() {
                    self.forget_block();
                }
            }
            None => {
                self.first = self.next();
                self.full = VecDeque::new();
                self.open.clear();
                self.bytes = 0;
            }
        }
    }
}

/// The writes that living transactions have to be checked against.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    any: AtomicBool,
    /// [`Writes::open_from`], to be read without the lock.
    open_from: AtomicU64,
    /// Locked with the tail of the log held, too; nothing else is locked under it.
    writes: Mutex<Writes>,
}

/// Why a check did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed<E> {
    /// More was written than is remembered.
    Forgotten,
    Found(E),
}

impl Recent {
    /// True when a transaction lives: the only question of an append without one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// A transaction begins; the caller holds the tail of the log. Returns the number of the next write.
    pub(crate) fn begin(&self, seed: u64, keeps_keys: bool) -> u64 {
        let mut writes = self.writes.lock();
        (writes.seed, writes.keeps_keys) = (seed, keeps_keys);
        let next = writes.next();
        writes.living.push(next);
        self.any.store(true, Ordering::Relaxed);
        next
    }

    /// The transaction for which [`Self::begin`] has returned this number ends.
    pub(crate) fn end(&self, from: u64) {
        let mut writes = self.writes.lock();
        if let Ok(place) = writes.living.binary_search(&from) {
            writes.living.remove(place);
        }
        writes.forget();
        self.open_from.store(writes.open_from(), Ordering::Relaxed);
        self.any.store(!writes.living.is_empty(), Ordering::Relaxed);
    }

    /// Remembers a record that is appended; the caller holds the tail of the log.
    #[cold]
    pub(crate) fn note(&self, namespace: u32, key: &[u8]) {
        let mut writes = self.writes.lock();
        // The last transaction may have ended since the append asked.
        if !writes.living.is_empty() {
            writes.push(namespace, key);
            self.open_from.store(writes.open_from(), Ordering::Relaxed);
        }
    }

    /// Hands the writes from number `from` on to `each`, as far as they are in full blocks, and moves `from` on. Holds no lock meanwhile.
    pub(crate) fn check_full<E>(
        &self,
        from: &mut u64,
        each: &mut dyn FnMut(Written<'_>) -> Result<(), E>,
    ) -> Result<(), Failed<E>> {
        if *from >= self.open_from.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (blocks, skipped) = {
            let writes = self.writes.lock();
            let after = from.checked_sub(writes.first).ok_or(Failed::Forgotten)? as usize;
            (writes.full.iter().skip(after / BLOCK).cloned().collect::<Vec<_>>(), after % BLOCK)
        };
        for (index, block) in blocks.iter().enumerate() {
            let skipped = if index == 0 { skipped } else { 0 };
            block.check(skipped, each).map_err(Failed::Found)?;
            *from += (BLOCK - skipped) as u64;
        }
        Ok(())
    }

    /// Hands all writes from number `from` on to `each`. The caller holds the tail of the log, so that these are all there are.
    pub(crate) fn check_rest<E>(
        &self,
        mut from: u64,
        each: &mut dyn FnMut(Written<'_>) -> Result<(), E>,
    ) -> Result<(), Failed<E>> {
        let mut writes = self.writes.lock();
        if from < writes.open_from() {
            drop(writes);
            self.check_full(&mut from, each)?;
            writes = self.writes.lock();
        }
        let after = from.checked_sub(writes.open_from()).ok_or(Failed::Forgotten)? as usize;
        writes.open.check(after, each).map_err(Failed::Found)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let writes = self.writes.lock();
        writes.bytes + writes.open.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of the keys that were written from `from` on.
    fn since(recent: &Recent, from: u64) -> Result<Vec<u32>, Failed<()>> {
        let (mut keys, mut also) = (Vec::new(), Vec::new());
        let number = |written: Written<'_>| written.key.first_chunk().copied().map_or(0, u32::from_le_bytes);
        recent.check_rest(from, &mut |written| {
            keys.push(number(written));
            Ok(())
        })?;
        let mut rest = from;
        let mut each = |written: Written<'_>| {
            also.push(number(written));
            Ok(())
        };
        recent.check_full(&mut rest, &mut each)?;
        recent.check_rest(rest, &mut each)?;
        assert_eq!(keys, also);
        Ok(keys)
    }

    fn write(recent: &Recent, number: u32, len: usize) {
        let mut key = number.to_le_bytes().to_vec();
        key.resize(len, 0);
        recent.note(number % 3, &key);
    }

    /// `serializable` found it under load: sixteen bytes were kept until the next transaction ended.
    #[test]
    fn a_write_that_asked_before_the_last_transaction_ended_is_not_remembered() {
        let recent = Recent::default();
        let from = recent.begin(1, true);
        write(&recent, 1, 4);
        recent.end(from);
        write(&recent, 2, 4);
        assert_eq!((recent.bytes(), recent.any()), (0, false));
        let from = recent.begin(1, true);
        write(&recent, 3, 4);
        assert_eq!(since(&recent, from), Ok(vec![3]));
    }

    #[test]
    fn each_transaction_is_checked_against_all_writes_since_it_began() {
        let recent = Recent::default();
        assert!(!recent.any());
        let mut living = Vec::new();
        for number in 0..500_u32 {
            if number % 70 == 0 {
                living.push((number, recent.begin(7, true)));
            }
            write(&recent, number, 4 + number as usize % 5);
        }
        for &(began, from) in &living {
            assert_eq!(since(&recent, from), Ok((began..500).collect()));
        }
        // The oldest ends, then the newest, then all.
        let all = recent.bytes();
        recent.end(living.remove(0).1);
        assert!(recent.bytes() < all && recent.any());
        living.pop().into_iter().for_each(|(_, from)| recent.end(from));
        for &(began, from) in &living {
            assert_eq!(since(&recent, from), Ok((began..500).collect()));
        }
        living.drain(..).for_each(|(_, from)| recent.end(from));
        assert_eq!((recent.any(), recent.bytes()), (false, 0));
        // Numbers go on.
        let from = recent.begin(7, true);
        write(&recent, 1000, 4);
        assert_eq!((from, since(&recent, from)), (500, Ok(alloc::vec![1000])));
    }

    #[test]
    fn what_was_forgotten_is_said() {
        let recent = Recent::default();
        let from = recent.begin(7, true);
        let count = (2 * RECENT_BYTES_MAX / 60_000) as u32;
        for number in 0..count {
            write(&recent, number, 60_000);
        }
        assert!(recent.bytes() <= RECENT_BYTES_MAX + BLOCK * 61_000);
        let later = recent.begin(7, true);
        write(&recent, count, 4);
        assert_eq!((since(&recent, from), since(&recent, later)), (Err(Failed::Forgotten), Ok(alloc::vec![count])));
    }

    #[test]
    fn a_check_ends_at_what_it_finds() {
        let recent = Recent::default();
        let from = recent.begin(7, true);
        (0..200).for_each(|number| write(&recent, number, 4));
        let mut seen = 0;
        let found = recent.check_rest(from, &mut |written| {
            seen += 1;
            if written.key == 150_u32.to_le_bytes() { Err(seen) } else { Ok(()) }
        });
        assert_eq!(found, Err(Failed::Found(151)));
    }
}
