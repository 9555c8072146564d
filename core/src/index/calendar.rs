//! Which records of a shard expire, and about when: buckets of slots, the nearer the time the narrower.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990): time is counted in ticks, and an entry lies in the bucket of the highest pair of
//! bits in which its tick differs from that of the last look. It takes the eight bytes of its slot. It moves to narrower buckets as its
//! time comes nearer, a dozen times at most for a month, and the frame tells its expiry then.

use super::slot::Slot;
use alloc::vec::Vec;

/// Bits of a millisecond's time below a tick: a quarter of a second.
const TICK_BITS: u32 = 8;
/// A list of entries grows by one of so many parts, ...
const GROWTH_PARTS: usize = 16;
/// ... or by this many entries.
const GROWTH_LEAST: usize = 4;
/// Entries whose slots may have changed since are looked at when they are more than this part of all, ...
const STALE_PARTS: usize = 6;
/// ... and more than this many.
const STALE_LEAST: usize = 32;
/// Of a calendar with so many entries stale ones are dropped whenever the records are counted.
const TIDIED_MAX: usize = 1024;

/// Entries of one range of ticks.
#[derive(Debug, Default)]
struct Bucket {
    /// Its place among the buckets: later ones have higher numbers.
    number: u32,
    slots: Vec<Slot>,
}

/// The records of a shard that expire.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    /// Tick of the last look: every entry before it is in the first bucket.
    tick: u64,
    /// In the order of their numbers.
    buckets: Vec<Bucket>,
    len: usize,
    /// Slots of the shard that changed since stale entries were dropped.
    lost: usize,
}

/// The bucket of a tick, seen from another.
fn number_of(tick: u64, from: u64) -> u32 {
    if tick <= from {
        return 0;
    }
    let level = (tick ^ from).ilog2() / 2;
    1 + level * 3 + (tick >> (2 * level) & 3) as u32 - 1
}

/// The first tick of a bucket, seen from `from`.
fn first_tick(number: u32, from: u64) -> u64 {
    let Some(number) = number.checked_sub(1) else { return 0 };
    let (level, digit) = (number / 3, u64::from(number % 3 + 1));
    (from >> (2 * level) & !3 | digit) << (2 * level)
}

impl Calendar {
    /// One that is first looked at about now.
    pub(super) fn begun_at(now: u64) -> Self {
        Self { tick: now >> TICK_BITS, ..Self::default() }
    }

    /// Its entries by the earliest time at which they may expire, as far as their buckets tell.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, &[Slot])> {
        self.buckets.iter().map(|bucket| (first_tick(bucket.number, self.tick) << TICK_BITS, &bucket.slots[..]))
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, slot: Slot, expiry: u64) {
        let number = number_of(expiry >> TICK_BITS, self.tick);
        let place = match self.buckets.binary_search_by_key(&number, |bucket| bucket.number) {
            Ok(place) => place,
            Err(place) => {
                self.buckets.insert(place, Bucket { number, slots: Vec::new() });
                place
            }
        };
        let Some(Bucket { slots, .. }) = self.buckets.get_mut(place) else { return };
        if slots.len() == slots.capacity() {
            slots.reserve_exact((slots.len() / GROWTH_PARTS).max(GROWTH_LEAST));
        }
        slots.push(slot);
        self.len += 1;
    }

    /// Takes all entries out that may expire up to `now`; the caller puts back those that do not.
    pub(super) fn take_due(&mut self, now: u64) -> Vec<Slot> {
        let (from, to) = (self.tick, now >> TICK_BITS);
        let is_due = |bucket: &Bucket| first_tick(bucket.number, from) <= to.max(from);
        let due = self.buckets.iter().take_while(|bucket| is_due(bucket)).count();
        self.tick = from.max(to);
        let mut slots = Vec::new();
        for bucket in self.buckets.drain(..due) {
            if slots.is_empty() { slots = bucket.slots } else { slots.extend_from_slice(&bucket.slots) }
        }
        self.len -= slots.len();
        // An entry may be there twice: written again, or its slot came again.
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// True if an entry may expire up to `now`.
    pub(super) fn may_be_due(&self, now: u64) -> bool {
        self.buckets.first().is_some_and(|bucket| first_tick(bucket.number, self.tick) <= (now >> TICK_BITS).max(self.tick))
    }

    /// A slot of the shard was changed. True if so many were that stale entries should be dropped.
    #[inline]
    pub(super) fn lost_one(&mut self) -> bool {
        self.lost += 1;
        self.lost > STALE_LEAST && self.lost * STALE_PARTS > self.len
    }

    /// Drops the entries whose slots the shard no longer has.
    pub(super) fn drop_stale(&mut self, has: impl Fn(Slot) -> bool) {
        self.lost = 0;
        self.len = 0;
        for bucket in &mut self.buckets {
            bucket.slots.sort_unstable();
            bucket.slots.dedup();
            bucket.slots.retain(|&slot| has(slot));
            let spare = bucket.slots.len() / GROWTH_PARTS + GROWTH_LEAST;
            bucket.slots.shrink_to(bucket.slots.len() + spare);
            self.len += bucket.slots.len();
        }
        self.buckets.retain(|bucket| !bucket.slots.is_empty());
    }

    /// True if there may be stale entries, and dropping them takes little time.
    pub(super) const fn may_be_tidied(&self) -> bool {
        self.lost > 0 && self.len <= TIDIED_MAX
    }

    /// Number of entries, stale ones included.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        let slots: usize = self.buckets.iter().map(|bucket| bucket.slots.capacity()).sum();
        (size_of::<Self>() + self.buckets.capacity() * size_of::<Bucket>() + slots * size_of::<Slot>()) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]

    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of safe code")]
    fn every_entry_is_taken_when_it_is_due_and_rarely_before() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let (mut calendar, mut expiries) = (Calendar::default(), BTreeMap::new());
        let (mut now, mut moves, mut expired) = (1_700_000_000_000_u64, 0, 0);
        for number in 0..20_000_u64 {
            let within = 1 << next(34);
            let expiry = now + next(within);
            let slot = Slot::new(number % 1000, 16_384 + number * 64);
            calendar.add(slot, expiry);
            expiries.insert(slot.bits(), expiry);
            if number % 7 == 0 {
                let step = 1 << next(26);
                now += next(step);
                for slot in calendar.take_due(now) {
                    match expiries.get(&slot.bits()) {
                        Some(&expiry) if expiry > now => calendar.add(slot, expiry),
                        Some(_) => drop(expiries.remove(&slot.bits())),
                        None => unreachable!("taken twice"),
                    }
                    moves += 1;
                }
                assert!(expiries.values().all(|&expiry| expiry > now), "an expired entry was left at {now}");
                expired = number as usize + 1 - expiries.len();
            }
            assert_eq!(calendar.len(), expiries.len());
        }
        assert!(expired > 10_000 && moves < 12 * 20_000, "{expired} expired after {moves} moves");
    }

    #[test]
    fn entries_that_move_to_a_later_calendar_are_not_taken_before_they_may_expire() {
        let now = 1_700_000_000_000_u64;
        let mut calendar = Calendar::begun_at(now);
        let expiry = |number: u64| now + (1 << (number % 34)) + number * 977;
        (0..500).for_each(|number| calendar.add(Slot::new(number, 16_384 + number * 64), expiry(number)));
        for later in [0, 1_000, 3_600_000, 1 << 32] {
            let mut moved = Calendar::begun_at(now + later);
            for (from, slot) in calendar.entries().flat_map(|(from, slots)| slots.iter().map(move |&slot| (from, slot))) {
                assert!(from <= expiry(slot.tag()), "an entry from {from} on that expires at {}", expiry(slot.tag()));
                moved.add(slot, from);
            }
            let due = moved.take_due(now + later);
            let expired = |number: u64| expiry(number) <= now + later;
            assert!((0..500).filter(|&number| expired(number)).all(|number| due.iter().any(|slot| slot.tag() == number)));
            let early = due.iter().filter(|slot| !expired(slot.tag())).count();
            assert!(early < 250, "{early} of 500 are looked at before they expire");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of safe code")]
    fn entries_take_at_most_twelve_bytes_of_records_that_are_refreshed_a_thousand_times() {
        const RECORDS: u64 = 4_000;
        let mut calendar = Calendar::default();
        let mut slots: Vec<Slot> = (0..RECORDS).map(|key| Slot::new(key, 16_384 + key * 64)).collect();
        slots.iter().enumerate().for_each(|(key, &slot)| calendar.add(slot, 1_000_000 + key as u64 * 977));
        let mut most = calendar.bytes();
        for round in 1..=1_000 {
            for key in 0..RECORDS {
                let slot = Slot::new(key, 16_384 + (round * RECORDS + key) * 64);
                slots[key as usize] = slot;
                calendar.add(slot, 1_000_000 + key * 977 + round * 60_000);
                if calendar.lost_one() {
                    calendar.drop_stale(|slot| slots[slot.tag() as usize] == slot);
                }
            }
            most = most.max(calendar.bytes());
        }
        assert!(most <= RECORDS * 12, "{most} bytes for {RECORDS} records");
    }

    #[test]
    fn stale_entries_are_dropped_once_they_may_be_more_than_32_and_a_sixth() {
        let slot = |number: u64| Slot::new(number, 16_384 + number * 64);
        for (entries, first) in [(0, 33), (197, 33), (198, 34), (240, 41)] {
            let mut calendar = Calendar::default();
            (0..entries).for_each(|number| calendar.add(slot(number), 1_000_000));
            assert_eq!((1..100).find(|_| calendar.lost_one()), Some(first), "{entries} entries");
            calendar.drop_stale(|slot| slot.tag() % 2 == 0);
            assert_eq!(calendar.len() as u64, entries.div_ceil(2));
            assert!(!calendar.may_be_tidied() && !calendar.lost_one(), "counted from the start");
        }
    }

    #[test]
    fn only_a_short_calendar_that_has_lost_something_is_tidied() {
        let mut calendar = Calendar::default();
        (0..1024).for_each(|number| calendar.add(Slot::new(number, 16_384), 1_000_000));
        assert!(!calendar.may_be_tidied());
        calendar.lost_one();
        assert!(calendar.may_be_tidied());
        calendar.add(Slot::new(1024, 16_384), 1_000_000);
        assert!(!calendar.may_be_tidied());
    }

    #[test]
    fn an_entry_may_be_due_from_the_tick_of_its_time_on() {
        let (slot, tick) = (Slot::new(7, 16_384), 1 << TICK_BITS);
        let mut calendar = Calendar::begun_at(100 * tick);
        assert!(!calendar.may_be_due(u64::MAX));
        calendar.add(slot, 101 * tick + 5);
        assert_eq!(
            [100 * tick, 101 * tick - 1, 101 * tick, 102 * tick].map(|now| calendar.may_be_due(now)),
            [false, false, true, true]
        );
        assert_eq!(calendar.take_due(101 * tick - 1), []);
        assert_eq!((calendar.take_due(101 * tick), calendar.len()), (alloc::vec![slot], 0));
        // One that is put back before its time is looked at again at once, also at an earlier time.
        calendar.add(slot, 101 * tick + 5);
        calendar.add(slot, 101 * tick + 5);
        assert!(calendar.may_be_due(0));
        assert_eq!((calendar.take_due(0), calendar.len()), (alloc::vec![slot], 0));
    }

    #[test]
    fn a_calendar_takes_the_bytes_of_its_buckets_and_of_the_room_in_them() {
        let mut calendar = Calendar::default();
        let bytes = |buckets: usize, slots: usize| {
            (size_of::<Calendar>() + buckets * size_of::<Bucket>() + slots * size_of::<Slot>()) as u64
        };
        assert_eq!((calendar.bytes(), calendar.len()), (bytes(0, 0), 0));
        // A bucket grows by four slots at a time, or by a sixteenth.
        for (number, room) in [(1, 4), (4, 4), (5, 8), (64, 64), (65, 68), (80, 80), (81, 85)] {
            while calendar.len() < number {
                calendar.add(Slot::new(7, 16_384), 1_000_000);
            }
            assert_eq!(calendar.bytes(), bytes(calendar.buckets.capacity(), room), "{number} entries");
        }
        calendar.add(Slot::new(7, 16_384), 1 << 40);
        assert_eq!((calendar.buckets.len(), calendar.bytes()), (2, bytes(calendar.buckets.capacity(), 89)));
    }
}
