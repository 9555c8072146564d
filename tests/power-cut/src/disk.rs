//! The device: its content, the record of what was done to it, and what a power cut may leave of that.
//!
//! A device keeps what it is told only once a flush has completed. Until then it may have written any of it, in any order, and a sector of
//! 512 bytes is all that it writes whole. So a cut leaves, of each sector, the content that the last flush covered or any that was written
//! since.

use pipkin_tests::rng::{Rng, index};
use std::ops::Range;
use std::sync::Arc;

pub(crate) const SECTOR: u64 = 512;
const PAGE: u64 = 4096;

/// How many threads of the workload are told apart, the one that checks included.
pub(crate) const HANDS: usize = 4;

/// The content of a disk. What is all zeros takes no memory; copies share what is alike.
#[derive(Clone, Default)]
pub(crate) struct Image {
    pages: Vec<Option<Arc<[u8; PAGE as usize]>>>,
}

impl Image {
    /// A disk of zeros; `len` is a multiple of 4 KiB.
    pub(crate) fn new(len: u64) -> Image {
        Image { pages: vec![None; (len / PAGE) as usize] }
    }

    pub(crate) fn len(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Bytes behind the end are left as they are.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        for (page, inside, piece) in pieces(offset, out.len()) {
            match self.pages.get(page) {
                Some(Some(bytes)) => out[piece].copy_from_slice(&bytes[inside]),
                Some(None) => out[piece].fill(0),
                None => {}
            }
        }
    }

    /// Bytes behind the end go nowhere.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for (page, inside, piece) in pieces(offset, data.len()) {
            let Some(bytes) = self.pages.get_mut(page) else { return };
            let data = &data[piece];
            if bytes.is_some() || data.iter().any(|byte| *byte != 0) {
                let bytes = bytes.get_or_insert_with(|| Arc::new([0; PAGE as usize]));
                Arc::make_mut(bytes)[inside].copy_from_slice(data);
            }
        }
    }

    pub(crate) fn zero(&mut self, offset: u64, len: u64) {
        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        for (page, inside, _) in pieces(offset, len as usize) {
            match self.pages.get_mut(page) {
                Some(bytes) if inside.len() == PAGE as usize => *bytes = None,
                Some(Some(bytes)) => Arc::make_mut(bytes)[inside.clone()].copy_from_slice(&ZEROS[inside]),
                _ => {}
            }
        }
    }

    /// As a sparse file, for somebody to look at.
    pub(crate) fn save(&self, path: &std::path::Path) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(path)?;
        file.set_len(self.len())?;
        for (number, page) in self.pages.iter().enumerate() {
            if let Some(bytes) = page {
                file.write_all_at(&bytes[..], number as u64 * PAGE)?;
            }
        }
        Ok(())
    }
}

/// The pages of a stretch: number of the page, bytes inside of it, bytes of the stretch.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let end = offset + len as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |page| {
        let (from, to) = ((page * PAGE).max(offset), ((page + 1) * PAGE).min(end));
        let inside = (from - page * PAGE) as usize..(to - page * PAGE) as usize;
        (page as usize, inside, (from - offset) as usize..(to - offset) as usize)
    })
}

/// What a program was told survives a power cut: of each thread, how many of its operations in this life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    pub(crate) life: u64,
    pub(crate) done: [u64; HANDS],
}

impl Acked {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        std::iter::once(self.life).chain(self.done).flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Acked> {
        let mut numbers = bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut acked = Acked { life: numbers.next()?, done: [0; HANDS] };
        for done in &mut acked.done {
            *done = numbers.next()?;
        }
        Some(acked)
    }
}

/// One thing that happened to the device, or beside it.
#[derive(Clone)]
pub(crate) enum Entry {
    Write {
        offset: u64,
        data: Arc<[u8]>,
    },
    Zero {
        offset: u64,
        len: u64,
    },
    /// A flush that is done: all in front of it is on the medium.
    Sync,
    Acked(Acked),
}

/// What a life of the device began with, and all that was done to it, in order.
#[derive(Clone, Default)]
pub(crate) struct Record {
    start: Image,
    /// The content with every write in it: what a reader sees.
    pub(crate) disk: Image,
    entries: Vec<Entry>,
}

/// How a cut treats what no flush had covered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// All of it is gone.
    Everything,
    /// All of it is there.
    Nothing,
    /// One write of so many is gone.
    Writes(u64),
    /// One write of so many is gone, and of the others one in so many is torn: each of its sectors is there or not.
    Sectors(u64, u64),
    /// Only the newest few are in doubt.
    Newest,
}

/// What became of the writes that no flush had covered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) kept: u64,
    pub(crate) dropped: u64,
    pub(crate) torn: u64,
}

impl Record {
    pub(crate) fn new(start: Image) -> Record {
        Record { disk: start.clone(), start, entries: Vec::new() }
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        apply(&mut self.disk, &entry);
        self.entries.push(entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn writes(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Write { .. } | Entry::Zero { .. })).count()
    }

    pub(crate) fn syncs(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Sync)).count()
    }

    /// What was acknowledged before the moment `at`.
    pub(crate) fn acked(&self, life: u64, at: usize) -> Acked {
        let mut acked = Acked { life, ..Acked::default() };
        for entry in &self.entries[..at] {
            match entry {
                Entry::Acked(more) if more.life == life => {
                    acked.done.iter_mut().zip(more.done).for_each(|(done, more)| *done = (*done).max(more));
                }
                _ => {}
            }
        }
        acked
    }

    /// A moment at which the power may go. Half of them are those of several with the most at stake.
    pub(crate) fn moment(&self, rng: &mut Rng) -> usize {
        let candidates = if rng.chance(1, 2) { 1 } else { 12 };
        let moments = (0..candidates).map(|_| self.any_moment(rng));
        moments.max_by_key(|&at| self.in_doubt(at)).unwrap_or_default()
    }

    /// Anywhere, right behind an acknowledgement, or when a flush is still on its way.
    fn any_moment(&self, rng: &mut Rng) -> usize {
        let of = |wanted: fn(&Entry) -> bool| (0..self.len()).filter(|number| wanted(&self.entries[*number])).collect::<Vec<_>>();
        let (places, behind) = match rng.below(10) {
            0..=3 => return index(rng, self.len() + 1),
            4..=6 => (of(|entry| matches!(entry, Entry::Acked(_))), 1),
            _ => (of(|entry| matches!(entry, Entry::Sync)), 0),
        };
        if places.is_empty() { index(rng, self.len() + 1) } else { places[index(rng, places.len())] + behind }
    }

    /// Writes before `at` that no flush has covered by then.
    fn in_doubt(&self, at: usize) -> usize {
        let unsynced = self.entries[..at].iter().rev().take_while(|entry| !matches!(entry, Entry::Sync));
        unsynced.filter(|entry| !matches!(entry, Entry::Acked(_))).count()
    }

    /// The moment behind the last acknowledgement, and one so long before it that something acknowledged in between would be missed by
    /// whoever falls back to it: what was on the medium of a device that forgot its flushes.
    pub(crate) fn forgetful_moments(&self, life: u64) -> Option<(usize, usize)> {
        let last = self.entries.iter().rposition(|entry| matches!(entry, Entry::Acked(acked) if acked.life == life))?;
        let syncs: Vec<usize> = (0..last).filter(|number| matches!(self.entries[*number], Entry::Sync)).collect();
        let early = *syncs.get(syncs.len() / 2)? + 1;
        (self.acked(life, early) != self.acked(life, last + 1)).then_some((early, last + 1))
    }

    /// What a cut at `at` may leave. `whole` are stretches that the device writes in one piece.
    pub(crate) fn cut(&self, at: usize, loss: Loss, whole: &[Range<u64>], rng: &mut Rng) -> (Image, Fate) {
        let entries = &self.entries[..at];
        let synced = entries.iter().rposition(|entry| matches!(entry, Entry::Sync)).map_or(0, |sync| sync + 1);
        let mut image = self.start.clone();
        entries[..synced].iter().for_each(|entry| apply(&mut image, entry));
        let mut fate = Fate::default();
        let newest = entries.len().saturating_sub(1 + rng.below(6) as usize);
        for (number, entry) in (synced..).zip(&entries[synced..]) {
            if matches!(entry, Entry::Sync | Entry::Acked(_)) {
                continue;
            }
            let (dropped, torn) = match loss {
                Loss::Everything => (true, false),
                Loss::Nothing => (false, false),
                Loss::Writes(of) => (rng.chance(1, of), false),
                Loss::Sectors(of, torn) => (rng.chance(1, of), rng.chance(1, torn)),
                Loss::Newest if number < newest => (false, false),
                Loss::Newest => (rng.chance(1, 2), rng.chance(1, 2)),
            };
            match (dropped, torn) {
                (true, _) => fate.dropped += 1,
                (false, true) => {
                    tear(&mut image, entry, whole, rng);
                    fate.torn += 1;
                }
                (false, false) => {
                    apply(&mut image, entry);
                    fate.kept += 1;
                }
            }
        }
        (image, fate)
    }
}

fn apply(image: &mut Image, entry: &Entry) {
    match entry {
        Entry::Write { offset, data } => image.write(*offset, data),
        Entry::Zero { offset, len } => image.zero(*offset, *len),
        Entry::Sync | Entry::Acked(_) => {}
    }
}

/// Applies some of a write's sectors.
fn tear(image: &mut Image, entry: &Entry, whole: &[Range<u64>], rng: &mut Rng) {
    let (offset, len) = match entry {
        Entry::Write { offset, data } => (*offset, data.len() as u64),
        Entry::Zero { offset, len } => (*offset, *len),
        Entry::Sync | Entry::Acked(_) => return,
    };
    let share = 1 + rng.below(9);
    let mut at = offset;
    while at < offset + len {
        let piece = whole.iter().find(|range| range.contains(&at)).map_or((at / SECTOR + 1) * SECTOR, |range| range.end);
        let end = piece.min(offset + len);
        if rng.chance(share, 10) {
            match entry {
                Entry::Write { data, .. } => image.write(at, &data[(at - offset) as usize..(end - offset) as usize]),
                _ => image.zero(at, end - at),
            }
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8, len: usize) -> Entry {
        Entry::Write { offset, data: vec![byte; len].into() }
    }

    fn bytes(image: &Image) -> Vec<u8> {
        let mut out = vec![0; image.len() as usize];
        image.read(0, &mut out);
        out
    }

    #[test]
    fn what_a_flush_covered_survives_every_cut_and_what_came_later_may_not() {
        let mut record = Record::new(Image::new(4 * PAGE));
        [write(0, 1, 9000), Entry::Sync, write(4096, 2, 4096)].into_iter().for_each(|entry| record.add(entry));
        let mut states = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let (image, _) = record.cut(3, Loss::Sectors(4, 2), &[], &mut Rng::new(seed));
            let found = bytes(&image);
            assert!(found[..4096].iter().chain(&found[8192..9000]).all(|byte| *byte == 1));
            let sectors: Vec<u8> = found[4096..8192].chunks(512).map(|sector| sector[0]).collect();
            assert!(
                found[4096..8192].chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])),
                "sectors are whole"
            );
            assert!(sectors.iter().all(|byte| [1, 2].contains(byte)));
            states.insert(sectors);
        }
        assert!(states.contains(&vec![1; 8]) && states.contains(&vec![2; 8]) && states.len() > 5, "{states:?}");
    }

    #[test]
    fn a_later_write_may_be_there_without_an_earlier_one() {
        let mut record = Record::new(Image::new(PAGE));
        [write(0, 1, 512), write(1024, 2, 512)].into_iter().for_each(|entry| record.add(entry));
        let reordered = (0..50).any(|seed| {
            let found = bytes(&record.cut(2, Loss::Writes(2), &[], &mut Rng::new(seed)).0);
            found[0] == 0 && found[1024] == 2
        });
        assert!(reordered);
    }

    #[test]
    fn a_stretch_that_the_device_writes_whole_is_not_torn() {
        let mut record = Record::new(Image::new(2 * PAGE));
        record.add(write(0, 1, 8192));
        let whole = [0..0, 4096..8192];
        for seed in 0..50 {
            let found = bytes(&record.cut(1, Loss::Sectors(9, 1), &whole, &mut Rng::new(seed)).0);
            assert!(found[4096..].iter().all(|byte| *byte == found[4096]));
        }
    }

    #[test]
    fn zeroed_pages_are_zeros_and_acknowledgements_come_back_as_they_were_written() {
        let mut image = Image::new(2 * PAGE);
        image.write(100, &[7; 8000]);
        image.zero(50, 5000);
        let found = bytes(&image);
        assert!(found[..5050].iter().all(|byte| *byte == 0) && found[5050..8100].iter().all(|byte| *byte == 7));
        let acked = Acked { life: 3, done: [1, 2, 3, 4] };
        assert_eq!(Acked::from_bytes(&acked.to_bytes()), Some(acked));
        let mut record = Record::new(image);
        record.add(Entry::Acked(acked));
        record.add(Entry::Acked(Acked { life: 3, done: [5, 0, 0, 0] }));
        assert_eq!(record.acked(3, 2).done, [5, 2, 3, 4]);
        assert_eq!(record.acked(3, 1).done, acked.done);
    }
}
