#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::storage::{MemoryStorage, StorageError, as_its_file};
use crate::sync::Mutex;

#[test]
fn every_range_is_what_the_file_has_there_and_a_range_past_its_end_is_damage() {
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let storage = MemoryStorage::from_vec(content.clone());
    let mut window = Window::new(&storage, 150_000);
    for (offset, len) in
        [(0, 10), (5, 100), (60_000, 10_000), (65_530, 6), (65_530, 7), (64_000, 65_536), (63_999, 3), (149_990, 10)]
    {
        assert_eq!(window.bytes(offset as u64, len).unwrap(), &content[offset..offset + len], "{offset}");
    }
    for (offset, len) in [(149_990, 20), (199_990, 10)] {
        assert_eq!(window.bytes(offset as u64, len).unwrap(), &content[offset..offset + len], "past the limit");
    }
    assert!(matches!(window.bytes(199_991, 10), Err(Error::Corrupt { offset: 199_991, .. })));
    assert!(matches!(window.header(200_000), Err(Error::Corrupt { offset: 200_000, .. })));
    assert_eq!(window.bytes(199_990, 10).unwrap(), &content[199_990..], "after a failure");
}

/// A file, mapped or not, that notes what it is asked for.
struct Noting {
    file: MemoryStorage,
    bytes: Vec<u8>,
    is_mapped: bool,
    calls: Mutex<Vec<(Call, u64, usize)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Told,
    Read,
    View,
}

impl Noting {
    fn new(len: usize, is_mapped: bool) -> Self {
        let bytes = alloc::vec![0; len];
        Self { file: MemoryStorage::from_vec(bytes.clone()), bytes, is_mapped, calls: Mutex::new(Vec::new()) }
    }

    fn note(&self, call: Call, offset: u64, len: usize) {
        self.calls.lock().push((call, offset, len));
    }

    /// The calls of a kind since the last time.
    fn noted(&self, kind: Call) -> Vec<(u64, usize)> {
        let calls = core::mem::take(&mut *self.calls.lock());
        calls.into_iter().filter(|&(call, ..)| call == kind).map(|(_, offset, len)| (offset, len)).collect()
    }
}

impl Storage for Noting {
    as_its_file!(len, set_len, write_at, sync);

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.note(Call::Read, offset, out.len());
        self.file.read_at(offset, out)
    }
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.note(Call::View, offset, len);
        self.bytes.get(offset as usize..offset as usize + len).filter(|_| self.is_mapped)
    }
    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        offsets.iter().for_each(|&offset| self.note(Call::Told, offset, len));
        true
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn what_comes_next_is_announced_once_and_up_to_the_limit() {
    let file = Noting::new(6 << 20, true);
    let limit = 5 * MIB;
    let told = |window: &mut Window<'_>, offset: u64| {
        window.bytes(offset, 10).unwrap();
        file.noted(Call::Told)
    };
    let mut window = Window::new(&file, limit);
    assert_eq!(told(&mut window, 0), [(0, 2 << 20)]);
    assert_eq!(told(&mut window, MIB), [], "a piece is announced behind this");
    assert_eq!(told(&mut window, MIB + 1), [(2 * MIB, (1 << 20) + 1)]);
    assert_eq!(told(&mut window, 4 * MIB), [(4 * MIB, 1 << 20)], "not what was passed over");
    assert_eq!(told(&mut window, limit - 10), []);
    for (offset, expected) in [(limit - 1, [(limit - 1, 1)].as_slice()), (limit, &[]), (limit + 1, &[])] {
        assert_eq!(told(&mut Window::new(&file, limit), offset), expected, "at {offset}");
    }
}

#[test]
fn without_a_map_so_much_is_read_ahead_that_the_next_ranges_are_there() {
    let file = Noting::new(200_000, false);
    let mut window = Window::new(&file, 150_000);
    let mut reads = |offset: u64, len: usize| {
        assert_eq!(window.bytes(offset, len).unwrap().len(), len);
        file.noted(Call::Read)
    };
    assert_eq!(reads(100, 10), [(100, 65_536)]);
    assert_eq!((reads(100, 65_536), reads(65_635, 1)), ([].into(), [].into()));
    assert_eq!(reads(65_635, 2), [(65_635, 65_536)], "its last byte was not there");
    assert_eq!(reads(65_634, 1), [(65_634, 65_536)], "nor was its first one");
    assert_eq!(reads(140_000, 10), [(140_000, 10_000)], "up to the limit");
    assert_eq!(reads(149_995, 10), [(149_995, 10)]);
    assert_eq!(reads(0, 70_000), [(0, 70_000)]);
}

#[test]
fn a_view_is_used_until_too_little_of_it_is_left() {
    let file = Noting::new(20_000, true);
    let mut window = Window::new(&file, 20_000);
    let mut ahead = |offset: u64, most: usize, least: usize| {
        let len = window.bytes_ahead(offset, most, least).unwrap().len();
        (len, file.noted(Call::View))
    };
    assert_eq!(ahead(0, 10_000, 10), (10_000, [(0, 10_000)].into()));
    assert_eq!(ahead(10_000 - 4096, 10_000, 10), (4096, [].into()));
    assert_eq!(ahead(10_000 - 4095, 10_000, 10), (10_000, [(10_000 - 4095, 10_000)].into()));
    assert_eq!(ahead(15_905 - 100, 100, 10), (100, [].into()));
    assert_eq!(ahead(15_905 - 99, 100, 10), (100, [(15_905 - 99, 100)].into()));
    // In front of it, and past the end of the file, where the least is.
    assert_eq!(ahead(15_800, 100, 10), (100, [(15_800, 100)].into()));
    assert_eq!(ahead(19_950, 100, 10), (10, [(19_950, 100), (19_950, 10)].into()));
    assert_eq!(window.bytes(15_890, 10).unwrap().len(), 10);
    assert_eq!(file.noted(Call::View), [], "the last view has it");
    assert_eq!(window.bytes(15_890, 11).unwrap().len(), 11);
    assert_eq!(file.noted(Call::View), [(15_890, 11)]);
}
