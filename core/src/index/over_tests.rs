//! Shards over a base in the file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::base::{Base, BasePlace};
use super::*;
use crate::error::Error;
use crate::frame::encode_u64;
use crate::limits::DATA_START;
use crate::storage::{MemoryStorage, Storage};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Where the slots of a base lie: close to the end of a block.
const AT: u64 = 3 * 4096 - 100;
const WIDTH: usize = 4;

/// The bytes of these slots, in the form of the index snapshot.
pub(super) fn bytes_of(slots: &[Slot]) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::new(), 0);
    for slot in slots {
        encode_u64(slot.tag() - before, |byte| bytes.push(byte));
        bytes.extend_from_slice(&slot.offset().to_le_bytes()[..WIDTH]);
        before = slot.tag();
    }
    bytes
}

/// A base of these slots, which are in order, and the file that has it.
pub(super) fn base_of(slots: &[Slot]) -> (Base, MemoryStorage) {
    let (storage, bytes) = (MemoryStorage::new(), bytes_of(slots));
    storage.write_at(AT, &[&bytes]).unwrap();
    let place = BasePlace { part: AT - 16, salt: 7, slots: AT, width: WIDTH };
    (Base::new(place, &bytes, slots, &Arc::default()).unwrap(), storage)
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Slots with tags that come several times, some of them in two groups.
fn some_slots(count: u64, tags: u64) -> Vec<Slot> {
    let mut state = 5;
    let step = Slot::TAGS / tags;
    let slots: BTreeSet<Slot> = (0..count)
        .map(|number| {
            let tag = if number % 7 == 0 { step } else { random(&mut state, tags) * step };
            Slot::new(tag, DATA_START + number * 8)
        })
        .collect();
    slots.into_iter().collect()
}

#[test]
fn a_base_has_the_slots_that_it_was_made_of() {
    for (count, tags) in if cfg!(miri) { [(1, 1), (64, 3), (300, 90)] } else { [(1, 1), (5_000, 900), (20_000, 1 << 22)] } {
        let slots = some_slots(count, tags);
        let (base, storage) = base_of(&slots);
        assert_eq!((base.len(), base.between(&storage, 0..Slot::TAGS).unwrap()), (slots.len(), slots.clone()));
        let asked = slots.iter().flat_map(|slot| [slot.tag(), (slot.tag() + 1) % Slot::TAGS]);
        for tag in asked.step_by(if cfg!(miri) { 17 } else { 1 }) {
            let mut found = Vec::new();
            let note = |slot: Slot| {
                found.push(slot);
                Ok(None::<()>)
            };
            base.find(&storage, tag, note).unwrap();
            let expected: Vec<Slot> = slots.iter().copied().filter(|slot| slot.tag() == tag).take(1_000_000).collect();
            if count <= 5_000 || tag % 64 == 0 {
                assert_eq!(found, expected, "tag {tag}");
            }
        }
        let range = Slot::TAGS / 3..Slot::TAGS / 2;
        let expected: Vec<Slot> = slots.iter().copied().filter(|slot| range.contains(&slot.tag())).collect();
        assert_eq!(base.between(&storage, range).unwrap(), expected);
    }
}

#[test]
fn no_changed_bit_of_a_base_is_taken_for_a_slot_that_is_not_there() {
    let slots = some_slots(if cfg!(miri) { 70 } else { 700 }, 300);
    let (base, storage) = base_of(&slots);
    let len = bytes_of(&slots).len() as u64;
    for at in (0..len).step_by(if cfg!(miri) { 41 } else { 1 }) {
        let mut byte = [0];
        storage.read_at(AT + at, &mut byte).unwrap();
        storage.write_at(AT + at, &[&[byte[0] ^ 1 << (at % 8)]]).unwrap();
        let mut failed = 0;
        for slot in &slots {
            match base.find(&storage, slot.tag(), |other| Ok((other == *slot).then_some(()))) {
                Ok(found) => assert_eq!(found, Some(()), "byte {at}"),
                Err(Error::IndexDamaged { .. }) => failed += 1,
                Err(error) => unreachable!("{error:?}"),
            }
        }
        assert!(failed > 0, "byte {at}");
        assert!(base.between(&storage, 0..Slot::TAGS).is_err());
        storage.write_at(AT + at, &[&byte]).unwrap();
    }
}

#[test]
fn a_shard_over_a_base_has_what_a_set_has() {
    let pins = Pins::default();
    let rounds = if cfg!(miri) { 300 } else { 60_000 };
    let mut live: BTreeSet<Slot> = some_slots(rounds / 8, 1 << 14).into_iter().collect();
    let slots: Vec<Slot> = live.iter().copied().collect();
    let (base, mut storage) = base_of(&slots);
    let index = Index::default();
    index.keep_in_file();
    let image = ShardImage { slots: slots.clone(), counts: alloc::vec![(0, slots.len() as u64)], expiring: Vec::new() };
    index.lock_shard(3).load_over(&pins, image, base, &slots);
    let (mut state, mut rebased) = (9, 0);
    let hash = |slot: Slot| KeyHash(3 << 56 | slot.tag() << 34);
    for round in 0..rounds {
        let mut shard = index.lock_shard(3);
        let tag = random(&mut state, 1 << 14) * (Slot::TAGS >> 14);
        let new = Slot::new(tag, DATA_START + (1 << 24) + round * 8);
        let old = live.range(Slot::new(tag, 0)..).next().copied().filter(|slot| slot.tag() == tag);
        match (old, random(&mut state, 4)) {
            (Some(old), 0) => {
                assert!(shard.remove(&pins, hash(old), 0, old.offset()));
                live.remove(&old);
            }
            (Some(old), _) => {
                assert!(shard.replace(&pins, hash(old), old.offset(), new.offset()));
                live.remove(&old);
                live.insert(new);
            }
            (None, _) => {
                shard.insert(&pins, hash(new), 0, new.offset());
                live.insert(new);
            }
        }
        assert_eq!((shard.len(), shard.count(0)), (live.len(), live.len() as u64));
        drop(shard);
        if round % (rounds / 12) == 7 {
            let now = live.iter().copied().collect::<Vec<Slot>>();
            assert_eq!(Slot::sort(index.lock_shard(3).slots(&storage).unwrap()), now);
            for &slot in &now {
                assert!(index.points_at(&storage, &pins.pin(), hash(slot), slot.offset()).unwrap());
                let found =
                    index.find_anywhere(&storage, &pins.pin(), hash(slot), |offset| Ok((offset == slot.offset()).then_some(())));
                assert_eq!(found.unwrap(), Some(()));
            }
            if rebased % 2 == 0 {
                // A part that has nearly all of it.
                let part: Vec<Slot> = now.iter().copied().filter(|slot| slot.offset() % 56 != 0).collect();
                let (base, next) = base_of(&part);
                index.lock_shard(3).rebase(&storage, &pins, Some((base, part))).unwrap();
                storage = next;
            }
            rebased += 1;
        }
    }
    assert!(rebased > 10);
    index.lock_shard(3).rebase(&storage, &pins, None).unwrap();
    let nothing = MemoryStorage::new();
    assert_eq!(Slot::sort(index.lock_shard(3).slots(&nothing).unwrap()), live.into_iter().collect::<Vec<Slot>>());
}

/// The base goes with the last table that lies over it.
#[test]
fn the_memory_of_a_replaced_table_is_given_back() {
    let (pins, rot) = (Pins::default(), Arc::default());
    let slots = some_slots(10, 4);
    let bytes = bytes_of(&slots);
    let (_, storage) = base_of(&slots);
    let place = BasePlace { part: AT - 16, salt: 7, slots: AT, width: WIDTH };
    let base = Base::new(place, &bytes, &slots, &rot).unwrap();
    let index = Index::default();
    index.keep_in_file();
    let image = ShardImage { slots: slots.clone(), counts: alloc::vec![(0, 10)], expiring: Vec::new() };
    index.lock_shard(3).load_over(&pins, image, base, &slots);
    assert_eq!((Arc::strong_count(&rot), index.file_bytes()), (2, bytes.len() as u64));
    // The table grows over its base.
    for number in 0..40 {
        index.lock_shard(3).insert(&pins, KeyHash(3 << 56 | number << 40), 0, DATA_START + 4096 + number * 8);
    }
    assert_eq!((Arc::strong_count(&rot), index.len_all()), (2, 50));
    index.lock_shard(3).rebase(&storage, &pins, None).unwrap();
    for _ in 0..3 {
        index.reclaim(&pins);
    }
    assert_eq!((Arc::strong_count(&rot), index.file_bytes(), index.len_all()), (1, 0, 50));
}

#[test]
fn a_base_without_slots_has_none() {
    let (base, storage) = base_of(&[]);
    storage.write_at(AT, &[&[7; 64]]).unwrap();
    assert_eq!((base.len(), base.file_bytes(), base.place_of(7)), (0, 0, AT));
    for tags in [0..Slot::TAGS, 0..1, 5..Slot::TAGS] {
        assert_eq!(base.between(&storage, tags).unwrap(), []);
    }
    for tag in [0, 7, Slot::TAGS - 1] {
        let found = base.find(&storage, tag, |_| Ok(Some(())));
        assert_eq!(found.unwrap(), None);
    }
}

/// The first group ends with its block, after 20 slots of five bytes, and the second one with its 64th slot.
#[test]
fn a_group_is_read_only_where_a_slot_that_is_asked_for_may_be() {
    let slots: Vec<Slot> = (0..100).map(|tag| Slot::new(tag, DATA_START + tag * 8)).collect();
    let (base, storage) = base_of(&slots);
    assert_eq!((base.file_bytes(), base.memory_bytes()), (500, (size_of::<Base>() + 3 * 4 + 3 * 8) as u64));
    // The group before the one that begins with a tag may end with it.
    for (tag, at) in [(0, 0), (1, 0), (19, 0), (20, 0), (21, 100), (84, 100), (85, 420), (Slot::TAGS - 1, 420)] {
        assert_eq!(base.place_of(tag), AT + at, "{tag}");
    }
    storage.write_at(AT + 102, &[&[0x55]]).unwrap();
    for (tags, damaged) in
        [(0..20, false), (0..21, true), (5..19, false), (84..100, true), (85..100, false), (0..Slot::TAGS, true)]
    {
        let expected = slots.iter().copied().filter(|slot| tags.contains(&slot.tag())).collect::<Vec<Slot>>();
        match base.between(&storage, tags.clone()) {
            Err(Error::IndexDamaged { offset }) => assert!(damaged && offset == AT + 100, "{tags:?} {offset}"),
            found => assert!(!damaged && found.unwrap() == expected, "{tags:?}"),
        }
    }
    for (tag, damaged) in [(0, false), (19, false), (20, true), (83, true), (84, true), (85, false), (99, false)] {
        match base.find(&storage, tag, |slot| Ok(Some(slot))) {
            Err(Error::IndexDamaged { offset }) => assert!(damaged && offset == AT + 100, "{tag} {offset}"),
            found => assert!(!damaged && found.unwrap() == Some(slots[tag as usize]), "{tag}"),
        }
    }
}

/// Then the group of a tag is far from where it would be among tags that are spread.
#[test]
fn slots_are_found_also_where_their_tags_are_close_to_each_other() {
    let count = if cfg!(miri) { 200 } else { 6_000 };
    for first in [0, 1 << 21, Slot::TAGS - count] {
        let slots: Vec<Slot> = (first..first + count).map(|tag| Slot::new(tag, DATA_START + tag)).collect();
        let (base, storage) = base_of(&slots);
        for &slot in slots.iter().step_by(7) {
            let mut asked = Vec::new();
            let found = base.find(&storage, slot.tag(), |other| {
                asked.push(other);
                Ok(None::<()>)
            });
            assert_eq!((found.unwrap(), asked), (None, alloc::vec![slot]));
        }
    }
}

/// A shard of an index over a base of these slots.
fn over(slots: &[Slot], pins: &Pins) -> (Index, MemoryStorage) {
    let (base, storage) = base_of(slots);
    let index = Index::default();
    index.keep_in_file();
    let image = ShardImage { slots: slots.to_vec(), counts: alloc::vec![(0, slots.len() as u64)], expiring: Vec::new() };
    index.lock_shard(3).load_over(pins, image, base, slots);
    (index, storage)
}

fn hash_of(tag: u64) -> KeyHash {
    KeyHash(3 << 56 | tag << 34)
}

#[test]
fn masked_slots_take_a_table_that_grows_by_a_half_of_what_they_need() {
    let pins = Pins::default();
    let slots: Vec<Slot> = (0..60).map(|tag| Slot::new(tag << 16, DATA_START + tag * 8)).collect();
    let (index, _) = over(&slots, &pins);
    let mut lines = Vec::new();
    for slot in &slots[..50] {
        let mut shard = index.lock_shard(3);
        assert!(shard.remove(&pins, hash_of(slot.tag()), 0, slot.offset()));
        assert!(!shard.remove(&pins, hash_of(slot.tag()), 0, slot.offset()), "it is gone");
        // The table itself has a line.
        lines.push(shard.newer_bytes() / 64 - 1);
    }
    assert_eq!(lines, [&[1; 7][..], &[3; 14], &[6; 21], &[11; 8]].concat());
    assert_eq!((index.len_all(), index.lock_shard(3).count(0)), (10, 10));
}

/// What is asked of the slots of a tag, and the answer, while `change` is made as the numbered question is asked.
fn asked(count: u64, number: usize, wanted: u64, change: impl Fn(&Index, &Pins)) -> (Vec<u64>, Option<u64>) {
    let pins = Pins::default();
    let slots: Vec<Slot> = (0..count).map(|number| Slot::new(5, DATA_START + number)).collect();
    let (index, storage) = over(&slots, &pins);
    // The last one is masked from the start on.
    assert!(index.lock_shard(3).remove(&pins, hash_of(5), 0, DATA_START + count - 1));
    let mut asked = Vec::new();
    let found = index.find_anywhere(&storage, &pins.pin(), hash_of(5), |offset| {
        asked.push(offset - DATA_START);
        if asked.len() == number {
            change(&index, &pins);
        }
        Ok((offset == DATA_START + wanted).then_some(wanted))
    });
    (asked, found.unwrap())
}

#[test]
fn a_reader_who_meets_masked_slots_looks_again_until_there_are_no_more_of_them() {
    let nothing = |_: &Index, _: &Pins| ();
    assert_eq!(asked(3, 0, 1, nothing), (alloc::vec![0, 1], Some(1)));
    assert_eq!(asked(3, 0, 9, nothing), (alloc::vec![0, 1, 0, 1], None));
    assert_eq!(asked(1, 0, 9, nothing), (Vec::new(), None));
    // Replaced behind the look into the table, and in front of that into the base.
    let replace =
        |index: &Index, pins: &Pins| assert!(index.lock_shard(3).replace(pins, hash_of(5), DATA_START + 1, DATA_START + 9));
    assert_eq!(asked(3, 1, 9, replace), (alloc::vec![0, 9], Some(9)));
    // Removed at the second look: there are more masked slots then, and the third look has as many.
    let remove = |index: &Index, pins: &Pins| assert!(index.lock_shard(3).remove(pins, hash_of(5), 0, DATA_START + 1));
    assert_eq!(asked(3, 3, 9, remove), (alloc::vec![0, 1, 0, 0], None));
    // Without a masked slot one look is enough.
    let pins = Pins::default();
    let (index, storage) = over(&[Slot::new(5, DATA_START), Slot::new(5, DATA_START + 1)], &pins);
    let mut count = 0;
    let found = index.find_anywhere(&storage, &pins.pin(), hash_of(5), |_| {
        count += 1;
        Ok(None::<()>)
    });
    assert_eq!((found.unwrap(), count), (None, 2));
}
