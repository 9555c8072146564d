//! The file mapped into memory.
//!
//! There are two maps: one for reads, slices of which are handed out, and one for bursts of small writes, which stays private to this
//! module. The kernel keeps both coherent with the file. On a full disk a write through a map would raise a signal, so only reserved
//! space is written that way.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;

#[cfg(unix)]
pub(super) use unix::Map;
#[cfg(windows)]
pub(super) use windows::Map;

/// A range of a map as a slice; `None` if the map is shorter.
///
/// # Safety
///
/// The range lies inside the file. While the slice lives nobody writes to the range or shortens the file into it, and the map is not
/// dropped (it may be moved: the slice does not borrow it).
unsafe fn slice<'a>(map: &MmapRaw, offset: u64, len: usize) -> Option<&'a [u8]> {
    let start = usize::try_from(offset).ok()?;
    if start.checked_add(len)? > map.len() {
        return None;
    }
    // SAFETY: the map is at least that long.
    let first = unsafe { map.as_ptr().add(start) };
    // SAFETY: mapped for reading and inside the file; it stays mapped and unchanged for `'a`, as the caller promises.
    Some(unsafe { core::slice::from_raw_parts(first, len) })
}

#[cfg(unix)]
mod unix {
    use super::{File, MmapOptions, MmapRaw, slice};
    use crate::sync::{AtomicPtr, AtomicU64, Ordering};
    use core::ptr;
    use memmap2::UncheckedAdvice;
    use std::sync::{Arc, OnceLock};

    /// Lengths of the address space to map: a file that grows inside one is not mapped again. Pages past the end of the file are only
    /// addresses; the kernel backs them once the file has grown over them. LMDB has long relied on that. The first one leaves room for
    /// tens of thousands of stores in a process, which has 128 TiB of addresses.
    const MAP_LENS: [u64; 5] = [1 << 30, 1 << 34, 1 << 38, 1 << 40, 1 << 42];

    /// Length in bytes of the pieces of the map for stores. When stores move to another piece, the pages of the previous one are unmapped.
    /// A sync has to write-protect every mapped page that was stored to and to notify all processors of each page; unmapping notifies
    /// them once for the whole piece.
    const PIECE: u64 = 256 * 1024;

    #[derive(Debug)]
    pub(in super::super) struct Map {
        reads: Maps,
        /// Made by the first store.
        stores: Maps,
        /// The piece that was stored to last.
        piece: AtomicU64,
    }

    /// Maps of one file, one of each length that it has needed. Slices point into any of them, so they stay as long as this.
    #[derive(Debug)]
    struct Maps {
        /// By length. `None` where the system has refused one: it is not asked again. They never move: `longest`
        /// points at one. Not in a `Box`: that must be the only way to what is in it, and moves with `Map`.
        by_len: Arc<[OnceLock<Option<MmapRaw>>; MAP_LENS.len()]>,
        /// One of them that is long enough for nearly every range, or null. Every read begins here: a look-up by length takes 13 instructions
        /// more, which is 1.5 % of a get.
        longest: AtomicPtr<MmapRaw>,
        writable: bool,
    }

    impl Maps {
        fn new(writable: bool) -> Self {
            Self {
                by_len: Arc::new([const { OnceLock::new() }; MAP_LENS.len()]),
                longest: AtomicPtr::new(ptr::null_mut()),
                writable,
            }
        }

        /// A map that reaches to `end`.
        fn reaching(&self, file: &File, end: u64) -> Option<&MmapRaw> {
            self.longest(end).or_else(|| self.make(file, end))
        }

        /// The longest map, if it reaches to `end`.
        #[inline]
        fn longest(&self, end: u64) -> Option<&MmapRaw> {
            // SAFETY: null, or one of `by_len`, which is set once and lives as long as `self`; nobody has it exclusively.
            let longest = unsafe { self.longest.load(Ordering::Acquire).as_ref() };
            longest.filter(|map| end <= map.len() as u64)
        }

        #[cold]
        fn make(&self, file: &File, end: u64) -> Option<&MmapRaw> {
            let (place, len) = MAP_LENS.into_iter().enumerate().find(|&(_, len)| end <= len)?;
            let made = self.by_len.get(place)?.get_or_init(|| map(file, len, self.writable)).as_ref();
            // Of two threads, the slower one may leave a shorter map here: then the next long range comes by again.
            let longest = self.by_len.iter().rev().find_map(|map| map.get()?.as_ref());
            self.longest.store(longest.map_or(ptr::null_mut(), |map| ptr::from_ref(map).cast_mut()), Ordering::Release);
            made
        }
    }

    fn map(file: &File, len: u64, writable: bool) -> Option<MmapRaw> {
        // A 32-bit address space is too small to spend on a map, and OpenBSD does not keep maps coherent with writes.
        if cfg!(not(target_pointer_width = "64")) || cfg!(target_os = "openbsd") {
            return None;
        }
        let options = MmapOptions::new().len(len as usize).clone();
        if writable {
            return options.map_raw(file).ok();
        }
        let map = options.map_raw_read_only(file).ok()?;
        // With this advice a record that is not in memory costs one page, not the system's read-ahead: up to megabytes, which would
        // evict other pages. Sequential readers announce their reads with `will_read`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = map.advise(memmap2::Advice::Random);
        Some(map)
    }

    impl Map {
        pub(in super::super) fn new(file: &File, len: u64) -> Self {
            let reads = Maps::new(false);
            let _ = reads.reaching(file, len);
            Self { reads, stores: Maps::new(true), piece: AtomicU64::new(0) }
        }

        pub(in super::super) fn is_usable(&self) -> bool {
            self.reads.by_len.iter().any(|map| matches!(map.get(), Some(Some(_))))
        }

        /// Where a range is mapped, whether the file reaches there or not.
        #[cfg(all(feature = "io-uring", target_os = "linux"))]
        pub(in super::super) fn address(&self, file: &File, offset: u64, len: u64) -> Option<*const u8> {
            let map = self.reads.reaching(file, offset.checked_add(len)?)?;
            Some(map.as_ptr().wrapping_add(usize::try_from(offset).ok()?))
        }

        /// # Safety
        ///
        /// As [`Storage::store`](crate::Storage::store), and the range lies inside the file.
        pub(in super::super) unsafe fn store(&self, file: &File, offset: u64, parts: &[&[u8]]) -> bool {
            let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
            let end = offset.saturating_add(len);
            let Some(map) = self.stores.reaching(file, end) else { return false };
            let piece = offset / PIECE;
            let left = self.piece.load(Ordering::Relaxed);
            if left != piece && self.piece.swap(piece, Ordering::Relaxed) == left {
                // SAFETY: the map is shared with the file, so what was stored there stays; nobody holds a reference into this map.
                let advised =
                    unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, (left * PIECE) as usize, PIECE as usize) };
                // If this fails, the pages stay mapped, which only makes the next sync slower.
                let _ = advised;
                #[cfg(target_os = "linux")]
                let _ = map.advise_range(memmap2::Advice::PopulateWrite, (piece * PIECE) as usize, PIECE as usize);
            }
            let mut at = offset as usize;
            for part in parts {
                // SAFETY: the map is at least that long.
                let place = unsafe { map.as_mut_ptr().add(at) };
                // SAFETY: the bytes are mapped for writing, inside the file and reserved, and nobody else touches them, as the
                // caller promises; the source is not part of this map, since no slice of this map is ever handed out.
                unsafe { place.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
                at += part.len();
            }
            true
        }

        /// # Safety
        ///
        /// As [`Storage::view`](crate::Storage::view), and the range lies inside the file.
        #[inline]
        pub(in super::super) unsafe fn view(&self, file: &File, _file_len: u64, offset: u64, len: usize) -> Option<&[u8]> {
            match self.reads.longest(offset.checked_add(len as u64)?) {
                // SAFETY: the caller's promise is handed on; the map lives as long as the borrow of `self`.
                Some(map) => unsafe { slice(map, offset, len) },
                // SAFETY: the same promise.
                None => unsafe { self.view_of_another(file, offset, len) },
            }
        }

        /// # Safety
        ///
        /// As [`Self::view`].
        #[cold]
        #[inline(never)]
        unsafe fn view_of_another(&self, file: &File, offset: u64, len: usize) -> Option<&[u8]> {
            let map = self.reads.make(file, offset.checked_add(len as u64)?)?;
            // SAFETY: the caller's promise is handed on; the map lives as long as the borrow of `self`.
            unsafe { slice(map, offset, len) }
        }
    }

    #[cfg(all(test, target_pointer_width = "64", not(miri), not(shuttle)))]
    mod tests {
        use super::*;

        /// The file has holes: only the pages that are written take blocks.
        #[test]
        fn a_file_that_grows_out_of_its_map_is_mapped_again_and_what_was_lent_stays() -> std::io::Result<()> {
            let file = tempfile::tempfile()?;
            let mapped = MAP_LENS[0];
            file.set_len(4096)?;
            let map = Map::new(&file, 4096);
            // SAFETY: inside the file, and written before anything is lent.
            assert!(unsafe { map.store(&file, 100, &[b"early"]) });
            // SAFETY: inside the file, and not written again.
            let early = unsafe { map.view(&file, 4096, 100, 5) };
            file.set_len(mapped + 4096)?;
            // SAFETY: inside the file, and written before anything is lent.
            assert!(unsafe { map.store(&file, mapped - 2, &[b"across ", b"the border"]) });
            // SAFETY: inside the file, and not written again.
            let across = unsafe { map.view(&file, mapped + 4096, mapped - 2, 17) };
            assert_eq!((early, across), (Some(&b"early"[..]), Some(&b"across the border"[..])));
            // SAFETY: the map reaches there, the file does not matter: nothing is read.
            assert!(unsafe { map.view(&file, u64::MAX, 1 << 42, 1) }.is_none(), "no map is so long");
            Ok(())
        }
    }
}

#[cfg(windows)]
mod windows {
    use super::{File, MmapOptions, MmapRaw, slice};
    use crate::sync::RwLock;

    /// On Windows a map cannot reach past the end of the file, so it is made again when the file has grown by a quarter and at least by
    /// this many bytes.
    const GROWTH_MIN: u64 = 1024 * 1024;

    /// All maps made so far, the longest last. Views may point into any of them, so none is dropped before the storage is; together they
    /// take at most five times the file's length, of address space, not of memory.
    #[derive(Debug)]
    pub(in super::super) struct Map(RwLock<Vec<MmapRaw>>);

    impl Map {
        /// Always false: on Windows a map does not grow with its file.
        ///
        /// # Safety
        ///
        /// None is needed.
        pub(in super::super) unsafe fn store(&self, _file: &File, _offset: u64, _parts: &[&[u8]]) -> bool {
            false
        }

        pub(in super::super) fn new(file: &File, len: u64) -> Self {
            Self(RwLock::new(make(file, len).into_iter().collect()))
        }

        pub(in super::super) fn is_usable(&self) -> bool {
            cfg!(target_pointer_width = "64")
        }

        /// # Safety
        ///
        /// As [`Storage::view`](crate::Storage::view), and the range lies inside the file.
        pub(in super::super) unsafe fn view(&self, file: &File, file_len: u64, offset: u64, len: usize) -> Option<&[u8]> {
            {
                let maps = self.0.read();
                let newest = maps.last().filter(|map| offset + len as u64 <= map.len() as u64);
                if let Some(map) = newest {
                    // SAFETY: the caller's promise is handed on; a map leaves the list only when `self` is dropped.
                    return unsafe { slice(map, offset, len) };
                }
            }
            let mut maps = self.0.write();
            let mapped = maps.last().map_or(0, |map| map.len() as u64);
            // Another thread may have made a longer map meanwhile.
            let is_due = mapped == 0 || file_len.saturating_sub(mapped) >= GROWTH_MIN.max(mapped / 4);
            if is_due && let Some(map) = make(file, file_len) {
                maps.push(map);
            }
            // SAFETY: as above.
            unsafe { slice(maps.last()?, offset, len) }
        }
    }

    fn make(file: &File, len: u64) -> Option<MmapRaw> {
        if cfg!(not(target_pointer_width = "64")) || len == 0 {
            return None;
        }
        MmapOptions::new().len(usize::try_from(len).ok()?).map_raw_read_only(file).ok()
    }
}
