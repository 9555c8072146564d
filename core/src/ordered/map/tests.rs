#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::*;
use crate::ordered::part::{NoParts, PART_RECORDS, Part, Piece};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

fn listed(map: &Map, from: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
    let mut seen = Vec::new();
    let each = &mut |key: &[u8], offset| {
        seen.push((key.to_vec(), offset));
        true
    };
    map.walk(from, &NoParts, each).unwrap();
    seen
}

fn listed_back(map: &Map, to: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
    let mut seen = Vec::new();
    let each = &mut |key: &[u8], offset| {
        seen.push((key.to_vec(), offset));
        true
    };
    map.walk_back(to, &NoParts, each).unwrap();
    seen.reverse();
    seen
}

/// Keys of many lengths, some of them alike for longer than a head.
fn key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key: Vec<u8> = hash.to_be_bytes().into_iter().take((hash % 9) as usize).collect();
    key.extend(alloc::format!("shared prefix {number}").bytes().take((hash >> 8) as usize % 40));
    key
}

#[test]
fn a_map_is_what_a_b_tree_is() {
    let map = Map::new();
    let mut model = BTreeMap::new();
    let rounds = if cfg!(miri) { 400 } else { 20_000 };
    for round in 0..rounds {
        let key = key(round * 7919 % 1_000);
        // More and more removals: leaves are split, then become empty and are removed.
        if round * 7 % rounds < round / 2 {
            model.remove(&key);
            map.remove(&key, &NoParts).unwrap();
        } else {
            model.insert(key.clone(), round);
            map.put(&key, round, &NoParts).unwrap();
        }
    }
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(listed(&map, Bound::Unbounded), all);
    assert_eq!(listed_back(&map, Bound::Unbounded), all);
    for number in 0..if cfg!(miri) { 20 } else { 1_000 } {
        let key = key(number);
        for from in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
            let expected: Vec<_> = model.range::<[u8], _>((from, Bound::Unbounded)).map(|(key, at)| (key.clone(), *at)).collect();
            assert_eq!(listed(&map, from), expected, "from {from:?}");
            let to = from;
            let expected: Vec<_> = model.range::<[u8], _>((Bound::Unbounded, to)).map(|(key, at)| (key.clone(), *at)).collect();
            assert_eq!(listed_back(&map, to), expected, "to {to:?}");
        }
    }
    let keys: Vec<(&[u8], u64)> = all.iter().map(|(key, offset)| (&key[..], *offset)).collect();
    assert_eq!(listed(&Map::of(&keys), Bound::Unbounded), all);
    for (key, _) in &all {
        map.remove(key, &NoParts).unwrap();
    }
    assert_eq!((listed(&map, Bound::Unbounded), map.leaves.len()), (Vec::new(), 1));
}

/// Of any size, from a single key to more than several leaves take, and so large that a leaf takes few of them.
#[test]
fn many_changes_at_once_are_what_they_are_one_by_one() {
    let map = Map::new();
    let mut model = BTreeMap::new();
    let mut next = 1_u64;
    for round in 0..if cfg!(miri) { 20 } else { 600 } {
        let count = [1, 3, 40, 64, 65, 129, 700][round % 7] >> (usize::from(cfg!(miri)) * 3);
        let mut changes = BTreeMap::new();
        for _ in 0..count {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut key = key((next >> 33) % 3_000);
            if round % 5 == 4 {
                key.resize(key.len() + (next >> 40) as usize % 1_500, b'.');
            }
            // From rounds that mostly add to rounds that mostly remove.
            let removes = (next >> 20) % 600 < round as u64;
            changes.insert(key, (!removes).then_some(next >> 20));
        }
        for (key, offset) in &changes {
            match offset {
                Some(offset) => drop(model.insert(key.clone(), *offset)),
                None => drop(model.remove(key)),
            }
        }
        let changes: Vec<Change<'_>> = changes.iter().map(|(key, offset)| (&key[..], *offset)).collect();
        map.change_many(&changes, &NoParts).unwrap();
        if round % 20 == 19 {
            let all: Vec<_> = model.clone().into_iter().collect();
            assert_eq!(listed(&map, Bound::Unbounded), all);
            assert_eq!(listed_back(&map, Bound::Unbounded), all);
        }
    }
    let gone: Vec<Change<'_>> = model.keys().map(|key| (&key[..], None)).collect();
    map.change_many(&gone, &NoParts).unwrap();
    assert_eq!((listed(&map, Bound::Unbounded), map.leaves.len()), (Vec::new(), 1));
    // In rising order blocks stay full.
    let keys: Vec<_> = (0..640_u64).map(u64::to_be_bytes).collect();
    let rising: Vec<Change<'_>> = keys.iter().map(|key| (&key[..], Some(1))).collect();
    map.change_many(&rising, &NoParts).unwrap();
    assert_eq!((listed(&map, Bound::Unbounded).len(), map.leaves.len()), (640, 10));
}

/// How many keys each leaf has.
fn keys_of_leaves(map: &Map) -> Vec<usize> {
    let guard = epoch::pin();
    let keys = |entry: Entry<'_, '_, Key, Leaf>| match entry.value().content(&guard) {
        Content::Keys(block) => block.len(),
        Content::Unread(_) => 0,
    };
    map.leaves.iter(&guard).map(keys).collect()
}

/// A leaf takes 4 KiB of keys at once, or one that is longer: what is made of it has room in two leaves.
#[test]
fn long_keys_that_are_changed_at_once_come_into_leaves_as_a_few_at_a_time_would() {
    for (len, expected) in
        [(1_000, &[4, 4, 4, 4, 5][..]), (1_024, &[2, 3, 4, 4, 4, 4]), (1_025, &[3, 3, 3, 3, 3, 3, 3]), (5_000, &[1; 21])]
    {
        let map = Map::new();
        map.put(b"\xff", 0, &NoParts).unwrap();
        let keys: Vec<Vec<u8>> =
            (0..20_u64).map(|number| [&number.to_be_bytes()[..], &alloc::vec![7; len - 8]].concat()).collect();
        let changes: Vec<Change<'_>> = keys.iter().map(|key| (&key[..], Some(1))).collect();
        map.change_many(&changes, &NoParts).unwrap();
        assert_eq!(keys_of_leaves(&map), expected, "keys of {len} bytes");
        assert_eq!(listed(&map, Bound::Unbounded).len(), 21);
    }
}

#[test]
fn a_prefix_goes_with_all_its_keys_and_no_others() {
    for prefix in [&b""[..], b"s", b"shared prefix 1", b"\xff", b"shared prefix 999", b"nobody's", b"shared prefix"] {
        let map = Map::new();
        let mut model = BTreeMap::new();
        for number in 0..if cfg!(miri) { 100 } else { 2_000 } {
            for key in [key(number), [&[0xff; 3][..], &number.to_be_bytes()].concat()] {
                map.put(&key, number, &NoParts).unwrap();
                model.insert(key, number);
            }
        }
        map.remove_prefix(prefix, &NoParts).unwrap();
        model.retain(|key, _| !key.starts_with(prefix));
        let rest: Vec<_> = model.into_iter().collect();
        assert_eq!(listed(&map, Bound::Unbounded), rest, "{prefix:?}");
        assert_eq!(listed_back(&map, Bound::Unbounded), rest, "{prefix:?}");
        assert!(!prefix.is_empty() || map.leaves.len() == 1);
        map.put(b"shared prefix 1 again", 7, &NoParts).unwrap();
        assert_eq!(listed(&map, Bound::Unbounded).len(), rest.len() + 1);
    }
}

#[test]
fn rising_keys_leave_full_blocks_and_long_keys_few_in_each() {
    let map = Map::new();
    for number in 0..1_000_u64 {
        map.put(&number.to_be_bytes(), number, &NoParts).unwrap();
    }
    assert_eq!(map.leaves.len(), 1_000_usize.div_ceil(64));
    let long = Map::new();
    for number in 0..20_u64 {
        long.put(&[&number.to_be_bytes()[..], &[7; 3_000]].concat(), number, &NoParts).unwrap();
    }
    assert_eq!((long.leaves.len(), listed(&long, Bound::Unbounded).len()), (20, 20));
}

/// Blocks that are filled at once have room for a third more.
#[test]
fn a_map_of_given_keys_has_blocks_of_three_quarters() {
    let leaves = |keys: Vec<Vec<u8>>| {
        let pairs: Vec<(&[u8], u64)> = keys.iter().zip(0..).map(|(key, offset)| (&key[..], offset)).collect();
        let map = Map::of(&pairs);
        assert_eq!(listed(&map, Bound::Unbounded).len(), keys.len());
        map.leaves.len()
    };
    assert_eq!(leaves((0..1_000_u64).map(|number| number.to_be_bytes().to_vec()).collect()), 1_000_usize.div_ceil(48));
    let long = |number: u64| [&number.to_be_bytes()[..], &[7; 1_000]].concat();
    assert_eq!(leaves((0..20).map(long).collect()), 20_usize.div_ceil(3));
    let longest = |number: u64| [&number.to_be_bytes()[..], &[7; 5_000]].concat();
    assert_eq!(leaves((0..20).map(longest).collect()), 20);
}

/// Every walk sees keys that exist throughout it exactly once and in order, whatever other threads do to adjacent keys.
#[test]
fn walks_miss_nothing_while_leaves_are_cut_and_taken_away() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let map = Map::new();
    let (keys, rounds) = if cfg!(miri) { (300_u64, 2) } else { (3_000, 200) };
    // Only in the first half: the leaves of the second half become empty again and again.
    let stay = || (0..keys / 2).step_by(10);
    for number in stay() {
        map.put(&number.to_be_bytes(), number, &NoParts).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 1..3 {
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                for _ in 0..rounds {
                    for number in (writer..keys).step_by(10) {
                        map.put(&number.to_be_bytes(), number, &NoParts).unwrap();
                    }
                    for number in (writer..keys).step_by(10) {
                        map.remove(&number.to_be_bytes(), &NoParts).unwrap();
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        while !done.load(Ordering::Relaxed) {
            for seen in [listed(&map, Bound::Unbounded), listed_back(&map, Bound::Unbounded)] {
                assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
                let stayed: Vec<_> = seen.iter().map(|(_, number)| *number).filter(|number| number % 10 == 0).collect();
                assert_eq!(stayed, stay().collect::<Vec<_>>());
            }
        }
    });
}
/// Each new key is the first of its leaf, and for long the first of all.
#[test]
fn keys_that_come_from_the_last_to_the_first_are_all_in_their_places() {
    let (map, rising) = (Map::new(), Map::new());
    let keys: Vec<(Vec<u8>, u64)> = (0..3_000_u64).map(|number| (number.to_be_bytes().to_vec(), number)).collect();
    for (key, offset) in keys.iter().rev() {
        map.put(key, *offset, &NoParts).unwrap();
    }
    for (key, offset) in &keys {
        rising.put(key, *offset, &NoParts).unwrap();
    }
    for map in [&map, &rising] {
        assert!(listed(map, Bound::Unbounded) == keys && listed_back(map, Bound::Unbounded) == keys);
    }
    let leaves = |map: &Map| map.leaves.iter(&epoch::pin()).count();
    // Those that rise leave full leaves, the others halves.
    assert!(leaves(&map) < leaves(&rising) * 2 + 2, "{} leaves, {} of rising keys", leaves(&map), leaves(&rising));
}

#[test]
fn a_walk_from_an_end_stops_at_its_first_key() {
    let map = Map::new();
    for number in [3_u8, 5, 7] {
        map.put(&[number], number.into(), &NoParts).unwrap();
    }
    let offsets = |seen: Vec<(Vec<u8>, u64)>| seen.into_iter().map(|(_, offset)| offset).collect::<Vec<_>>();
    for (bound, forward, back) in [
        (Bound::Included(&[5][..]), &[5_u64, 7][..], &[3_u64, 5][..]),
        (Bound::Excluded(&[5]), &[7], &[3]),
        (Bound::Included(&[4]), &[5, 7], &[3]),
        (Bound::Excluded(&[8]), &[], &[3, 5, 7]),
        (Bound::Included(&[2]), &[3, 5, 7], &[]),
    ] {
        assert_eq!((offsets(listed(&map, bound)), offsets(listed_back(&map, bound))), (forward.to_vec(), back.to_vec()));
    }
}

/// Parts of a map, with their keys.
struct Stored {
    parts: Vec<(Key, Part)>,
    keys: BTreeMap<u64, Vec<(Key, u64)>>,
    /// How many parts were read.
    reads: std::sync::atomic::AtomicU64,
    /// The part that cannot be read.
    lost: Option<u64>,
}

impl Source for Stored {
    fn keys(&self, part: Part) -> Result<Vec<(Key, u64)>> {
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let found = self.keys.get(&part.offset).filter(|_| self.lost != Some(part.offset));
        found.cloned().ok_or_else(|| crate::error::Error::corrupt(part.offset, "a lost part"))
    }
}

/// What a map of these keys is as parts.
fn stored(all: &[(Vec<u8>, u64)]) -> Stored {
    let map = Map::new();
    all.iter().for_each(|(key, offset)| map.put(key, *offset, &NoParts).unwrap());
    let key_of: BTreeMap<u64, &[u8]> = all.iter().map(|(key, offset)| (*offset, &key[..])).collect();
    let (mut parts, mut keys) = (Vec::new(), BTreeMap::new());
    let each = &mut |from: &[u8], piece: Piece| {
        let Piece::Offsets(offsets) = piece else { unreachable!("everything is read") };
        let place = parts.len() as u64;
        parts.push((Key::new(from), Part { namespace: 0, records: offsets.len() as u32, offset: place, salt: 7 }));
        keys.insert(place, offsets.iter().map(|offset| (Key::new(key_of[offset]), *offset)).collect());
        Ok(())
    };
    map.pieces(each).unwrap();
    Stored { parts, keys, reads: 0.into(), lost: None }
}

fn numbered(count: u64) -> Vec<(Vec<u8>, u64)> {
    let mut all: Vec<(Vec<u8>, u64)> = (0..count).map(|number| (key(number), number)).collect();
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

#[test]
fn a_map_of_parts_is_the_map_that_they_were_made_of_and_reads_only_what_is_needed() {
    let all = numbered(if cfg!(miri) { 1_500 } else { 20_000 });
    let stored = stored(&all);
    assert!(stored.parts.len() > all.len() / (PART_RECORDS + 100) && stored.parts[0].0 == Key::new(&[]));
    let reads = || stored.reads.load(std::sync::atomic::Ordering::Relaxed);
    let map = Map::of_parts(stored.parts.iter().cloned());
    assert_eq!((map.read_keys(), reads()), (0, 0));
    for at in (0..all.len()).step_by(all.len() / 3) {
        let (mut rising, mut falling) = (Vec::new(), Vec::new());
        map.walk(Bound::Included(&all[at].0), &stored, |key, offset| {
            rising.push((key.to_vec(), offset));
            rising.len() < 10
        })
        .unwrap();
        map.walk_back(Bound::Included(&all[at].0), &stored, |key, offset| {
            falling.push((key.to_vec(), offset));
            falling.len() < 10
        })
        .unwrap();
        falling.reverse();
        assert_eq!(rising, all[at..all.len().min(at + 10)]);
        assert_eq!(falling, all[(at + 1).saturating_sub(10)..=at]);
    }
    assert!(reads() <= 8, "{} parts were read", reads());
    // What nobody has read stays a part, in its place.
    let (mut unread, mut offsets) = (0, Vec::new());
    map.pieces(&mut |from, piece| {
        match piece {
            Piece::Unread(part) => {
                assert!(stored.parts.contains(&(Key::new(from), part)));
                unread += 1;
                offsets.extend(stored.keys[&part.offset].iter().map(|(_, offset)| *offset));
            }
            Piece::Offsets(some) => offsets.extend(some),
        }
        Ok(())
    })
    .unwrap();
    assert!(unread > 0 || cfg!(miri));
    assert_eq!(offsets, all.iter().map(|(_, offset)| *offset).collect::<Vec<_>>());
    map.read_all(&stored).unwrap();
    assert_eq!((map.read_keys(), reads()), (all.len() as u64, stored.parts.len() as u64));
    assert_eq!(listed(&map, Bound::Unbounded), all);
    assert_eq!(listed_back(&map, Bound::Unbounded), all);
}

#[test]
fn changes_of_a_map_of_parts_are_those_of_a_b_tree() {
    let all = numbered(if cfg!(miri) { 1_100 } else { 6_000 });
    let stored = stored(&all);
    let map = Map::of_parts(stored.parts.iter().cloned());
    let mut model: BTreeMap<Vec<u8>, u64> = all.iter().cloned().collect();
    for number in 0..if cfg!(miri) { 50 } else { 2_000 } {
        let key = key(number * 7919 % 9_000);
        if number % 3 == 0 {
            map.remove(&key, &stored).unwrap();
            model.remove(&key);
        } else {
            map.put(&key, number + 1_000_000, &stored).unwrap();
            model.insert(key, number + 1_000_000);
        }
    }
    map.remove_prefix(b"shared prefix 1", &stored).unwrap();
    model.retain(|key, _| !key.starts_with(b"shared prefix 1"));
    map.read_all(&stored).unwrap();
    let rest: Vec<_> = model.into_iter().collect();
    assert_eq!(listed(&map, Bound::Unbounded), rest);
    assert_eq!(listed_back(&map, Bound::Unbounded), rest);
}

#[test]
fn a_part_that_cannot_be_read_or_names_other_records_stops_a_walk_in_front_of_it() {
    let all = numbered(if cfg!(miri) { 3_000 } else { 6_000 });
    let mut stored = stored(&all);
    let second = stored.keys[&0].len();
    let walked = |stored: &Stored| {
        let map = Map::of_parts(stored.parts.iter().cloned());
        let mut seen = 0;
        let stopped = map.walk(Bound::Unbounded, stored, |_, _| {
            seen += 1;
            true
        });
        let rest = stopped.map_err(|stopped| stopped.rest).unwrap_err();
        (seen, rest, map.put(&all[second].0, 1, stored).is_err(), map.put(&all[0].0, 1, stored).is_err())
    };
    let expected = (second, Bound::Excluded(all[second - 1].0.clone()), true, false);
    stored.lost = Some(1);
    assert_eq!(walked(&stored), expected);
    stored.lost = None;
    let right = stored.keys[&1].clone();
    let mut swapped = right.clone();
    swapped.swap(3, 4);
    let mut too_low = right.clone();
    too_low[0].0 = Key::new(&all[second - 1].0);
    let mut too_high = right.clone();
    too_high.last_mut().unwrap().0 = Key::new(&all.last().unwrap().0);
    for wrong in [swapped, too_low, too_high, right[1..].to_vec()] {
        stored.keys.insert(1, wrong);
        assert_eq!(walked(&stored), expected);
    }
}

/// Whoever comes first reads a part, and nobody misses a key or meets one twice meanwhile.
#[test]
fn walks_and_writers_read_parts_beside_each_other() {
    for round in 0..if cfg!(miri) { 1 } else { 30 } {
        let all = numbered(if cfg!(miri) { 1_500 } else { 8_000 });
        let stored = stored(&all);
        let map = Map::of_parts(stored.parts.iter().cloned());
        let of = |seen: &[(Vec<u8>, u64)]| seen.iter().filter(|(_, offset)| *offset < 1 << 40).count();
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (map, stored) = (&map, &stored);
                scope.spawn(move || {
                    for number in 0..200_u64 {
                        let key = [&(number * 31 + round).to_be_bytes()[7..], b"/new/", &writer.to_be_bytes()].concat();
                        map.put(&key, 1 << 40, stored).unwrap();
                        map.remove(&key, stored).unwrap();
                    }
                });
            }
            for back in [false, true] {
                let (map, stored, all) = (&map, &stored, &all);
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    let each = |key: &[u8], offset| {
                        seen.push((key.to_vec(), offset));
                        true
                    };
                    if back {
                        map.walk_back(Bound::Unbounded, stored, each).unwrap();
                        seen.reverse();
                    } else {
                        map.walk(Bound::Unbounded, stored, each).unwrap();
                    }
                    assert!(seen.is_sorted_by(|one, other| one.0 < other.0));
                    assert_eq!(of(&seen), all.len());
                });
            }
        });
        assert_eq!(listed(&map, Bound::Unbounded), all);
    }
}

/// A writer has put the second half of a leaf into another one, where it has changed already, and the first one still has all keys.
#[test]
fn a_walk_takes_the_keys_behind_the_cut_of_a_leaf_from_the_new_leaf() {
    let map = Map::new();
    for number in 1..=4_u8 {
        map.put(&[number], number.into(), &NoParts).unwrap();
    }
    let guard = epoch::pin();
    let block = |keys: &[(&'static [u8], u64)]| Content::Keys(Block::of(keys.iter().copied()));
    map.begun.fetch_add(1, Ordering::Release);
    map.add(Key::new(&[3]), Leaf::new(block(&[(&[3], 30), (&[3, 5], 35)])), &guard);
    let expected = [(&[1][..], 1), (&[2], 2), (&[3], 30), (&[3, 5], 35)].map(|(key, offset)| (key.to_vec(), offset));
    let seen = || [listed(&map, Bound::Unbounded), listed_back(&map, Bound::Unbounded)];
    assert_eq!(seen(), [expected.to_vec(), expected.to_vec()], "while the leaf is cut");
    assert_eq!(listed(&map, Bound::Included(&[3])), expected[2..]);
    map.leaves.get(&Key::new(&[]), &guard).unwrap().value().lock().replace(block(&[(&[1], 1), (&[2], 2)]), &guard);
    map.done.fetch_add(1, Ordering::Release);
    assert_eq!(seen(), [expected.to_vec(), expected.to_vec()], "afterwards");
}
