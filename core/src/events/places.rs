//! Where events are: anchors, each a number and a file offset from which on the event is found. One anchor serves all events that follow within
//! [`STRIDE`] bytes of the same segment, so events that stand close together need a fraction of a byte each.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

/// An event begins at most so many bytes behind its anchor's offset. That takes 0.8 bytes of memory for each event of 150 bytes;
/// twice as many bytes take half of that, and a single event 1.5 times as long (`compare --sets events`, row of single events).
pub(super) const STRIDE: u64 = 2048;
/// An event that was put so many bytes behind the one before has an anchor of its own, so that a walk does not pass all the records in between. Compaction
/// brings the events of such a log together, and then they share anchors. Reading 5,000 events with ten records between two takes 0.62 ms, and 1.9 to 3.2
/// where they share anchors at once (`compare --sets events-mixed`).
const GAP: u64 = 256;
/// The offset of events that are gone.
pub(super) const GONE: u64 = 0;
/// Events whose anchors are kept together: 2^12.
const CHUNK_BITS: u32 = 12;
/// Bits of an offset in an anchor; above it is the number within its chunk.
const OFFSET_BITS: u32 = crate::limits::OFFSET_BITS;

/// The anchors of the events of 2^12 numbers in a row.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Number within the chunk and offset, in rising order.
    anchors: Vec<u64>,
    /// The highest number within the chunk.
    last: u64,
    /// Changed since the index snapshot.
    pub(super) is_changed: bool,
}

/// Anchors in a line of the processor's cache.
const NEARBY: usize = 8;

/// Events whose anchors are looked at together with one that has an anchor of its own.
const AHEAD: usize = 4;

/// Events that share an anchor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) anchor: u64,
    /// The last number that has this anchor.
    pub(super) last: u64,
    /// Where the event has an anchor of its own: that of an event some way behind it, which a walk will come to; else [`GONE`].
    pub(super) ahead: u64,
}

impl Chunk {
    /// How many anchors there are up to that of the event `own`. Anchors of events that are about as long as each other are spread evenly: so one is looked
    /// at where it would be then, and others in widening distances from it, which takes fewer lines of the processor's cache than halving all.
    fn up_to(&self, own: u64) -> usize {
        let anchors = &self.anchors[..];
        let is_up_to = |place: usize| anchors.get(place).is_some_and(|one| within(*one) <= own);
        let guess = (own.min(self.last) * anchors.len() as u64 / (self.last + 1)) as usize;
        let (mut low, mut high, mut step) = (guess, guess + 1, NEARBY);
        while low > 0 && !is_up_to(low) {
            (high, low) = (low, low.saturating_sub(step));
            step *= 4;
        }
        while is_up_to(high) {
            (low, high) = (high, high + step);
            step *= 4;
        }
        low + anchors.get(low..high.min(anchors.len())).unwrap_or_default().partition_point(|one| within(*one) <= own)
    }
}

/// The way from an anchor to an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) anchor: u64,
    /// Events in between.
    pub(super) count: u64,
    /// Bytes that each takes, about.
    pub(super) bytes: u64,
}

/// The anchors of all events.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By the upper bits of the numbers. In a file that was made by hand these may be anything.
    chunks: BTreeMap<usize, Chunk>,
    /// Where the event ends that was put last.
    behind: u64,
}

/// Number and chunk of an event.
const fn split(number: u64) -> (usize, u64) {
    ((number >> CHUNK_BITS) as usize, number & ((1 << CHUNK_BITS) - 1))
}

const fn anchor(within: u64, offset: u64) -> u64 {
    within << OFFSET_BITS | offset
}

const fn within(anchor: u64) -> u64 {
    anchor >> OFFSET_BITS
}

const fn offset(anchor: u64) -> u64 {
    anchor & ((1 << OFFSET_BITS) - 1)
}

impl Places {
    /// The file offset from which on the event is found, within [`STRIDE`] bytes; `None` if there is no such event. Offset 0 is that of events
    /// that are gone.
    pub(super) fn anchor_of(&self, number: u64) -> Option<u64> {
        let (chunk, own) = split(number);
        let chunk = self.chunks.get(&chunk)?;
        let place = chunk.up_to(own).checked_sub(1)?;
        chunk.anchors.get(place).map(|one| offset(*one)).filter(|&at| at != GONE)
    }

    /// True when of this event nothing is left, not even a stub.
    pub(super) fn is_gone(&self, number: u64) -> bool {
        let (chunk, own) = split(number);
        let Some(chunk) = self.chunks.get(&chunk) else { return false };
        let place = chunk.up_to(own).checked_sub(1);
        place.and_then(|place| chunk.anchors.get(place)).is_some_and(|one| offset(*one) == GONE)
    }

    /// The events that share the anchor of this one; `None` if there is no such event.
    pub(super) fn run_of(&self, number: u64) -> Option<Run> {
        let (index, own) = split(number);
        let chunk = self.chunks.get(&index).filter(|chunk| own <= chunk.last)?;
        let place = chunk.up_to(own);
        let anchor = offset(*chunk.anchors.get(place.checked_sub(1)?)?);
        let last = chunk.anchors.get(place).map_or(chunk.last, |next| within(*next) - 1);
        let ahead = if last == own { chunk.anchors.get(place + AHEAD - 1).map_or(GONE, |one| offset(*one)) } else { GONE };
        (anchor != GONE).then_some(Run { anchor, last: (index as u64) << CHUNK_BITS | last, ahead })
    }

    /// The anchor of an event, how many events stand between, and how many bytes each takes, about.
    pub(super) fn steps_to(&self, number: u64) -> Option<Steps> {
        let (index, own) = split(number);
        let chunk = self.chunks.get(&index)?;
        let (anchors, place) = (&chunk.anchors, chunk.up_to(own));
        let one = *anchors.get(place.checked_sub(1)?)?;
        let anchor = offset(one);
        let events = anchors.get(place).map_or(1, |next| within(*next) - within(one));
        (anchor != GONE).then_some(Steps { anchor, count: own - within(one), bytes: STRIDE / events })
    }

    /// The event `number` is gone.
    pub(super) fn drop_event(&mut self, number: u64) {
        self.put(number, (GONE, 0), |_| true);
    }

    /// The events that are found from an offset in `from..behind` are gone.
    pub(super) fn drop_between(&mut self, from: u64, behind: u64) {
        for chunk in self.chunks.values_mut() {
            for one in &mut chunk.anchors {
                if (from..behind).contains(&offset(*one)) {
                    *one = anchor(within(*one), GONE);
                    chunk.is_changed = true;
                }
            }
        }
    }

    /// The event `number` stands at `at` now, and takes `len` bytes. `is_one_segment` is true if the bytes from an offset to `at` are of one segment.
    pub(super) fn put(&mut self, number: u64, (at, len): (u64, u64), is_one_segment: impl Fn(u64) -> bool) {
        let is_near = at == GONE || at.checked_sub(self.behind).is_some_and(|gap| gap <= GAP);
        self.behind = at + len;
        let (chunk, own) = split(number);
        let chunk = match self.chunks.entry(chunk) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) => {
                self.chunks.values_mut().next_back().into_iter().for_each(|last| last.anchors.shrink_to_fit());
                self.chunks.entry(chunk).or_default()
            }
        };
        chunk.is_changed = true;
        // Most often it is behind all others.
        let is_last = chunk.anchors.last().is_none_or(|one| within(*one) < own);
        let mut place = if is_last { chunk.anchors.len() } else { chunk.anchors.partition_point(|one| within(*one) < own) };
        let known = chunk.anchors.get(place).copied().filter(|one| within(*one) == own);
        if known.is_some() {
            chunk.anchors.remove(place);
        }
        let front = place.checked_sub(1).and_then(|front| chunk.anchors.get(front)).copied();
        let extends = |one: u64| is_near && offset(one) <= at && at - offset(one) <= STRIDE && is_one_segment(offset(one));
        // No segment begins below the stride, so what is gone extends only what is gone.
        const { assert!(crate::limits::DATA_START > STRIDE) };
        // From the anchor on, the event must not be met where it stood before, at most a stride behind its old anchor.
        let old = known.or(front).map(offset).filter(|&old| own <= chunk.last && old != GONE && at != GONE);
        let meets = |one: u64| old.is_some_and(|old| old + STRIDE >= offset(one) && is_one_segment(old));
        if !front.is_some_and(|one| extends(one) && !meets(one)) {
            chunk.anchors.insert(place, anchor(own, at));
            place += 1;
        }
        // The events behind it keep the anchor that they had.
        if let Some(old) = known.or(front).filter(|_| own < chunk.last)
            && chunk.anchors.get(place).is_none_or(|one| within(*one) != own + 1)
        {
            chunk.anchors.insert(place, anchor(own + 1, offset(old)));
        }
        chunk.last = chunk.last.max(own);
    }

    /// The numbers of the chunks that there are, in rising order.
    pub(super) fn chunks(&self) -> Vec<usize> {
        self.chunks.keys().copied().collect()
    }

    /// The lowest number from this one on that an event may have.
    pub(super) fn next_from(&self, number: u64) -> Option<u64> {
        let (first, own) = split(number);
        let fits = |(index, chunk): (&usize, &Chunk)| {
            let within = if *index == first { own } else { 0 };
            (within <= chunk.last).then_some((*index as u64) << CHUNK_BITS | within)
        };
        self.chunks.range(first..).find_map(fits)
    }

    /// The highest number up to this one that an event may have.
    pub(super) fn next_back_from(&self, number: u64) -> Option<u64> {
        let (last, own) = split(number);
        let (index, chunk) = self.chunks.range(..=last).next_back()?;
        let within = if *index == last { own.min(chunk.last) } else { chunk.last };
        Some((*index as u64) << CHUNK_BITS | within)
    }

    /// The anchors of a chunk, and its highest number within.
    pub(super) fn chunk(&self, index: usize) -> Option<(&[u64], u64, bool)> {
        self.chunks.get(&index).map(|chunk| (&chunk.anchors[..], chunk.last, chunk.is_changed))
    }

    pub(super) fn set_changed(&mut self, index: usize, is_changed: bool) {
        self.chunks.get_mut(&index).into_iter().for_each(|chunk| chunk.is_changed = is_changed);
    }

    /// Takes over a chunk as an index snapshot has it.
    pub(super) fn load(&mut self, index: usize, anchors: Vec<u64>, last: u64) {
        self.chunks.insert(index, Chunk { anchors, last, is_changed: false });
    }

    pub(super) fn bytes(&self) -> usize {
        let anchors: usize = self.chunks.values().map(|chunk| chunk.anchors.capacity()).sum();
        anchors * size_of::<u64>() + self.chunks.len() * size_of::<(usize, Chunk)>()
    }
}

/// Number within its chunk and offset of an anchor, and back.
pub(super) const fn parts_of(one: u64) -> (u64, u64) {
    (within(one), offset(one))
}

pub(super) const fn from_parts(within: u64, offset: u64) -> Option<u64> {
    if within < 1 << CHUNK_BITS && offset < 1 << OFFSET_BITS { Some(anchor(within, offset)) } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;
    use alloc::collections::BTreeMap;

    /// Where the events have stood, and whether each is found from its anchor where it stands now: within a stride, in one piece of 2^16 bytes.
    fn check(places: &Places, known: &BTreeMap<u64, Vec<u64>>) {
        for (&number, all) in known {
            let (from, at) = (places.anchor_of(number).unwrap(), *all.last().unwrap());
            assert!(from <= at && at - from <= STRIDE && from >> 16 == at >> 16, "{number} at {at}: from {from}");
            assert!(all.iter().all(|&old| old < from || old >= at), "{number} at {at}: from {from}, and before at {all:?}");
        }
    }

    #[test]
    fn every_event_is_found_from_its_anchor_wherever_it_was_moved() {
        let (mut places, mut known) = (Places::default(), BTreeMap::new());
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut end, mut next) = (1 << 16, 1_u64);
        for _ in 0..3_000 {
            let moved = random(3) == 0 && next > 10;
            let (from, count) = if moved { (1 + random(next - 1), 1 + random(40)) } else { (next, 1 + random(5)) };
            for number in from..from + count {
                if moved && number >= next {
                    break;
                }
                end += 20 + random(400) + if random(20) == 0 { 9_000 } else { 0 };
                places.put(number, (end, 20), |other| other >> 16 == end >> 16);
                known.entry(number).or_insert_with(Vec::new).push(end);
                next = next.max(number + 1);
            }
            if random(100) == 0 {
                check(&places, &known);
            }
        }
        check(&places, &known);
        assert_eq!(places.anchor_of(next + 5000), None);
    }

    #[test]
    fn an_anchor_is_found_however_the_anchors_are_spread() {
        let mut seed = 3_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..400 {
            let mut chunk = Chunk::default();
            let (mut next, jumps) = (random(50), [2, 20, 400][round % 3]);
            while next < 1 << CHUNK_BITS && random(300) > 0 {
                chunk.anchors.push(anchor(next, 20_000 + next));
                chunk.last = next + random(jumps);
                next += 1 + if random(10) == 0 { random(jumps) } else { 0 };
            }
            for own in 0..1 << CHUNK_BITS {
                assert_eq!(chunk.up_to(own), chunk.anchors.partition_point(|one| within(*one) <= own), "{own} of {chunk:?}");
            }
        }
    }

    #[test]
    fn numbers_that_no_event_has_are_passed_over_however_many_they_are() {
        let mut places = Places::default();
        assert_eq!((places.next_from(1), places.next_back_from(1 << 39)), (None, None));
        for number in [7, 5_000, 1 << 39] {
            places.put(number, (20_000 + number % 1000, 1), |_| true);
        }
        let next = |number: u64| places.next_from(number);
        assert_eq!([next(1), next(8), next(5_001), next((1 << 39) + 1)], [Some(1), Some(4096), Some(1 << 39), None]);
        let back = |number: u64| places.next_back_from(number);
        assert_eq!(
            [back(1 << 40), back((1 << 39) - 1), back(4096), back(4095), back(3)],
            [Some(1 << 39), Some(5_000), Some(4096), Some(7), Some(3)]
        );
    }

    #[test]
    fn events_that_are_gone_have_no_anchor_and_those_behind_them_keep_theirs() {
        let mut places = Places::default();
        (1..=100_u64).for_each(|number| places.put(number, (20_000 + number * 10, 10), |_| true));
        for number in 1..=50 {
            places.drop_event(number);
            assert_eq!((places.anchor_of(number), places.anchor_of(number + 1)), (None, Some(20_010)));
            assert!(places.is_gone(number) && !places.is_gone(number + 1));
        }
        assert_eq!(places.chunk(0).unwrap().0.len(), 2);
        places.put(60, (90_000, 10), |_| true);
        assert_eq!(
            (places.anchor_of(59), places.anchor_of(60), places.anchor_of(61)),
            (Some(20_010), Some(90_000), Some(20_010))
        );
    }

    #[test]
    fn events_that_stand_close_together_need_a_fraction_of_a_byte_each() {
        let mut places = Places::default();
        for number in 1..=100_000_u64 {
            places.put(number, (16_384 + number * 200, 200), |_| true);
        }
        assert!(places.bytes() < 110_000, "{}", places.bytes());
        // Moved as a whole, they do so again.
        for number in 1..=100_000_u64 {
            places.put(number, (1_000_000_000 + number * 200, 200), |other| other >= 1_000_000_000);
        }
        let anchors: usize = places.chunks().into_iter().map(|chunk| places.chunk(chunk).unwrap().0.len()).sum();
        assert!(anchors < 10_400, "{anchors}");
    }
}
