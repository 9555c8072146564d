#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::limits::DATA_START;
use crate::storage::MemoryStorage;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Slots that are in memory are read from no storage.
fn nothing() -> MemoryStorage {
    MemoryStorage::new()
}

fn hash(key: u64) -> KeyHash {
    KeyHash::new(1, 0, &key.to_le_bytes())
}

fn offset_of(index: &Index, pins: &Pins, key: u64, expected: Option<u64>) -> Option<u64> {
    index.find(&pins.pin(), hash(key), |offset| Ok((Some(offset) == expected).then_some(offset))).unwrap()
}

#[test]
fn the_index_agrees_with_a_map_through_growth_replacement_and_removal() {
    let (index, pins) = (Index::default(), Pins::default());
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let mut random = 42u64;
    let rounds = if cfg!(miri) { 400 } else { 200_000 };
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (random >> 33) % (rounds / 4);
        let offset = DATA_START + round * 8;
        let mut shard = index.lock(hash(key));
        match (model.get(&key).copied(), random & 3) {
            (Some(old), 0) => {
                assert!(shard.remove(&pins, hash(key), 0, old));
                model.remove(&key);
            }
            (Some(old), _) => {
                assert!(shard.replace(&pins, hash(key), old, offset));
                model.insert(key, offset);
            }
            (None, _) => {
                shard.insert(&pins, hash(key), 0, offset);
                model.insert(key, offset);
            }
        }
    }
    assert_eq!(index.len(0), model.len() as u64);
    for key in 0..rounds / 4 {
        assert_eq!(offset_of(&index, &pins, key, model.get(&key).copied()), model.get(&key).copied());
    }
}

#[test]
fn a_key_never_takes_more_than_sixteen_bytes() {
    if cfg!(miri) {
        return;
    }
    let (index, pins) = (Index::default(), Pins::default());
    for key in 0..400_000u64 {
        index.lock(hash(key)).insert(&pins, hash(key), 0, DATA_START + key);
        if key > 100_000 && key % 1_000 == 0 {
            let bytes = index.bytes() as f64 / key as f64;
            assert!(bytes < 16.0, "{bytes} bytes a key at {key} keys");
        }
    }
}

#[test]
fn an_image_loads_into_the_same_index() {
    let (index, pins) = (Index::default(), Pins::default());
    let keys = if cfg!(miri) { 600 } else { 20_000 };
    for key in 0..keys {
        index.lock(hash(key)).insert(&pins, hash(key), (key % 3) as u32, DATA_START + key);
    }
    let copy = Index::default();
    for shard in 0..SHARDS {
        let image = index.lock_shard(shard).image(&nothing()).unwrap();
        copy.lock_shard(shard).load(&pins, image);
    }
    for namespace in 0..4 {
        assert_eq!(copy.len(namespace), index.len(namespace));
    }
    for key in 0..keys {
        let offset = Some(DATA_START + key);
        assert_eq!(offset_of(&copy, &pins, key, offset), offset);
    }
}

#[test]
fn ranges_of_tags_have_every_slot_once() {
    let (index, pins) = (Index::default(), Pins::default());
    let keys = if cfg!(miri) { 300 } else { 30_000 };
    // One shard, full to the brim and with gaps: slots are pushed past their lines, round the end too.
    let of_one_shard = (0..).map(hash).filter(|hash| hash.shard() == 7).zip(DATA_START..).take(keys);
    let mut shard = index.lock_shard(7);
    for (hash, offset) in of_one_shard {
        shard.insert(&pins, hash, 0, offset);
        if offset % 5 == 0 {
            assert!(shard.remove(&pins, hash, 0, offset));
        }
    }
    let all = Slot::sort(shard.slots(&nothing()).unwrap());
    assert_eq!(all.len(), keys - keys / 5 - usize::from(!keys.is_multiple_of(5)));
    // Eight thousand ranges take miri three minutes, and go through the same code as a hundred.
    let narrow = if cfg!(miri) { 1 << 15 } else { 1 << 9 };
    for width in [narrow, 1 << 16, Slot::TAGS - 1, Slot::TAGS] {
        let ranges = (0..Slot::TAGS).step_by(width as usize).map(|from| from..(from + width).min(Slot::TAGS));
        let pieces: Vec<Vec<Slot>> =
            ranges.clone().map(|tags| Slot::sort(shard.slots_between(&nothing(), tags).unwrap())).collect();
        assert!(ranges.zip(&pieces).all(|(tags, piece)| piece.iter().all(|slot| tags.contains(&slot.tag()))));
        assert_eq!(pieces.concat(), all);
    }
    let behind = Slot::TAGS + 3;
    assert!([5..5, behind..Slot::TAGS].into_iter().all(|none| shard.slots_between(&nothing(), none).unwrap().is_empty()));
}

#[test]
fn readers_see_every_key_while_its_table_is_replaced_under_them() {
    let (index, pins) = (Index::default(), Pins::default());
    let (settled, rounds) = if cfg!(miri) { (50, 200) } else { (2_000, 50_000) };
    for key in 0..settled {
        index.lock(hash(key)).insert(&pins, hash(key), 0, DATA_START + key);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in settled..settled + rounds {
                index.lock(hash(key)).insert(&pins, hash(key), 0, DATA_START + key);
            }
        });
        for key in (0..settled).cycle().take(rounds as usize) {
            let offset = Some(DATA_START + key);
            assert_eq!(offset_of(&index, &pins, key, offset), offset);
        }
    });
}

#[test]
fn a_shard_takes_the_bytes_of_its_tables_the_replaced_one_included() {
    let (index, pins) = (Index::default(), Pins::default());
    let empty = index.bytes();
    let of_one_shard = (0..).map(hash).filter(|hash| hash.shard() == 3).zip(DATA_START..).take(15);
    let mut sizes = Vec::new();
    for (hash, offset) in of_one_shard {
        index.lock_shard(3).insert(&pins, hash, 0, offset);
        sizes.push(index.bytes() - empty);
    }
    // Two lines of 64 bytes; of their 16 slots 14 may be used. Then five lines, and the two until the next growth.
    assert_eq!(sizes, [[128; 14].as_slice(), &[5 * 64 + 128]].concat());
}

#[test]
fn the_first_slot_is_the_only_one_of_nearly_every_key() {
    let (index, pins) = (Index::default(), Pins::default());
    for key in 0..100 {
        index.lock(hash(key)).insert(&pins, hash(key), 0, DATA_START + key);
    }
    for key in 0..200 {
        assert_eq!(index.first_slot(&pins.pin(), hash(key)), (key < 100).then_some(DATA_START + key));
    }
}

#[test]
fn hashes_share_slots_if_shard_and_tag_are_the_same() {
    let base = KeyHash(0x1234_5678_9abc_def0);
    let differs = |bit: u32| !base.has_slot_of(KeyHash(base.0 ^ 1 << bit));
    for bit in 0..64 {
        assert_eq!(differs(bit), bit >= 64 - 8 - slot::TAG_BITS, "bit {bit}");
        let other = KeyHash(base.0 ^ 1 << bit);
        assert_eq!(other.fits(base.shard(), base.slot(DATA_START)), !differs(bit), "bit {bit}");
    }
}

/// What a dump has: nothing, this many added and removed slots, or the whole.
#[derive(Debug, PartialEq, Eq)]
enum Has {
    Nothing,
    Changes(usize, usize),
    Whole(usize),
}

#[cfg_attr(miri, ignore = "a hundred thousand hashes, and nothing for miri that the others do not reach")]
#[test]
fn a_dump_has_only_the_changes_while_they_are_few() {
    let pins = Pins::default();
    let index = Index::default();
    let hashes: Vec<KeyHash> = (0..).map(hash).filter(|hash| hash.shard() == 9).take(400).collect();
    for (&hash, offset) in hashes.iter().zip(DATA_START..) {
        index.lock_shard(9).insert(&pins, hash, 0, offset);
    }
    let dump = |since: Option<u64>, is_written: bool| {
        let mut shard = index.lock_shard(9);
        let is_new = |offset: u64| since.is_some_and(|since| offset >= since);
        let has = match shard.dump(&nothing(), since.is_some().then_some(&is_new as &dyn Fn(u64) -> bool)).unwrap() {
            Dump::Unchanged => Has::Nothing,
            Dump::Changes(changes) => Has::Changes(changes.added.len(), changes.removed.len()),
            Dump::Whole(image) => Has::Whole(image.slots.len()),
        };
        assert!(shard.is_dumped());
        drop(shard);
        index.end_dump(is_written);
        assert!(!index.lock_shard(9).is_dumped());
        has
    };
    let never = Some(u64::MAX);
    let new = |number: u64| DATA_START + 100_000 + number;
    let replace = |from: u64, count: u64, base: u64| {
        for (number, &hash) in (0..count).zip(&hashes) {
            assert!(index.lock_shard(9).replace(&pins, hash, from + number, base + number));
        }
    };
    assert_eq!(dump(never, true), Has::Whole(400), "no snapshot has it");
    assert_eq!(dump(never, true), Has::Nothing);
    assert_eq!(dump(None, true), Has::Whole(400), "asked for");
    assert_eq!(dump(never, false), Has::Nothing);
    assert_eq!(dump(never, true), Has::Whole(400), "the one before was not written");
    replace(DATA_START, 100, new(0));
    assert_eq!(dump(Some(new(0)), true), Has::Changes(100, 100));
    replace(new(0), 100, new(1000));
    assert_eq!(dump(Some(new(1000)), true), Has::Changes(100, 100));
    replace(new(1000), 100, new(2000));
    assert!(index.lock_shard(9).remove(&pins, hashes[399], 0, DATA_START + 399));
    assert_eq!(dump(Some(new(2000)), true), Has::Whole(399), "201 changes are more than half of 399");
    // 64 and a quarter of the records are remembered.
    for (count, base, has) in [(163, 3000, Has::Changes(0, 163)), (164, 4000, Has::Whole(399))] {
        let before: Vec<u64> = index.lock_shard(9).slots(&nothing()).unwrap().into_iter().map(Slot::offset).collect();
        for (number, &hash) in (0..count).zip(&hashes) {
            let mut shard = index.lock_shard(9);
            let old = shard.find(hash, |offset| Ok(before.contains(&offset).then_some(offset))).unwrap().unwrap();
            assert!(shard.replace(&pins, hash, old, new(base + number)));
        }
        assert_eq!(dump(never, true), has);
    }
    let another = (1 << 32..).map(hash).find(|hash| hash.shard() == 9).unwrap();
    index.lock_shard(9).insert(&pins, another, 0, new(9000));
    assert_ne!(dump(Some(new(9000)), true), Has::Nothing, "an added record is a change");
}

#[test]
fn a_slot_may_expire_if_the_calendar_has_it_or_does_not_know_all() {
    let (index, slots) = (Index::default(), [3, 4].map(|tag| Slot::new(tag, DATA_START + tag)));
    let mut shard = index.lock_shard(5);
    let may_expire = |shard: &ShardGuard<'_>| slots.map(|slot| shard.may_expire(slot));
    assert_eq!((may_expire(&shard), shard.knows_expiring(), shard.has_expiring()), ([true; 2], false, false));
    shard.set_knows_expiring();
    assert_eq!((may_expire(&shard), shard.knows_expiring(), shard.has_expiring()), ([false; 2], true, false));
    shard.expires(slots[0], 1_000_000);
    assert_eq!((may_expire(&shard), shard.knows_expiring(), shard.has_expiring()), ([true, false], true, true));
    // The mark of a dump is another one.
    assert!(!shard.is_dumped());
    shard.forget_expiring();
    assert_eq!((may_expire(&shard), shard.knows_expiring(), shard.has_expiring()), ([true; 2], false, false));
}

#[test]
fn a_shard_hands_out_what_is_due_and_counts_what_it_still_has() {
    let (index, pins) = (Index::default(), Pins::default());
    let hashes: Vec<KeyHash> = (0..).map(hash).filter(|hash| hash.shard() == 5).take(3).collect();
    let slot = |number: usize| hashes[number].slot(DATA_START + number as u64);
    let mut shard = index.lock_shard(5);
    shard.begin_calendar(1_000_000);
    assert_eq!((shard.count_expiring(), shard.take_due(u64::MAX >> 16)), (0, Vec::new()));
    for (number, expiry) in [1_100_000, 1_200_000, 1_300_000].into_iter().enumerate() {
        shard.insert(&pins, hashes[number], 0, DATA_START + number as u64);
        shard.expires(slot(number), expiry);
    }
    assert_eq!(shard.count_expiring(), 3);
    // What is replaced leaves its entry behind until the records are counted.
    assert!(shard.replace(&pins, hashes[2], DATA_START + 2, DATA_START + 100));
    assert_eq!((shard.count_expiring(), shard.may_have(slot(2)), shard.may_have(slot(1))), (2, false, true));
    assert_eq!(shard.take_due(1_000_000), []);
    let due = shard.take_due(1_100_000);
    assert!(due.contains(&slot(0)) && due.is_sorted());
    assert_eq!(shard.take_due(1_300_000).len() + due.len(), 2);
    assert_eq!(shard.count_expiring(), 0);
}

#[cfg(feature = "async")]
#[test]
fn a_shard_is_free_while_nobody_holds_it() {
    let index = Index::default();
    let [one, other] = [1, 2].map(|shard| (0..).map(hash).find(|hash| hash.shard() == shard).unwrap());
    assert!(index.is_free(one) && index.is_free(other));
    let held = index.lock(one);
    assert!(!index.is_free(one) && index.is_free(other));
    drop(held);
    assert!(index.is_free(one));
}

#[test]
fn a_shard_publishes_from_the_commit_of_its_holder_to_his_end() {
    let index = Index::default();
    let [one, other] = [1, 2].map(|shard| (0..).map(hash).find(|hash| hash.shard() == shard).unwrap());
    let held = index.lock(one);
    assert!(!index.is_publishing(one) && !held.is_publishing());
    held.will_publish();
    assert!(index.is_publishing(one) && held.is_publishing() && !index.is_publishing(other));
    drop(held);
    assert!(!index.is_publishing(one));
}

#[test]
fn a_shard_is_unclear_while_it_is_parked_or_in_doubt() {
    let (index, pins) = (Index::default(), Pins::default());
    let [one, other] = [1, 2].map(|shard| (0..).map(hash).find(|hash| hash.shard() == shard).unwrap());
    let said = |hash: KeyHash| [index.is_unclear(hash), index.is_parked(hash), index.is_parked_at(hash.shard())];
    assert!(index.is_empty_at(1) && index.is_empty_at(SHARDS) && !index.is_parked_at(SHARDS));
    index.lock(one).park();
    assert_eq!((said(one), said(other), index.is_empty_at(1)), ([true; 3], [false; 3], false));
    // What cannot be built is parked as before, and has no part of it.
    let failed = index.lock(one).unpark(&pins, |shard, _| {
        shard.insert(&pins, one, 0, DATA_START);
        Err(crate::error::Error::Closed)
    });
    assert!(failed.is_err() && index.lock(one).is_parked());
    assert_eq!((said(one), index.len_all()), ([true; 3], 0));
    let built = index.lock(one).unpark(&pins, |shard, _| {
        shard.insert(&pins, one, 0, DATA_START);
        Ok(())
    });
    assert!(built.is_ok() && !index.lock(one).is_parked());
    assert_eq!((said(one), index.is_empty_at(1), index.len_all()), ([false; 3], false, 1));
    index.doubt_all();
    assert_eq!((said(one), said(other)), ([true; 3], [true; 3]));
}

/// Replaced tables are freed once no reader from before is left.
#[test]
fn replaced_tables_wait_for_their_readers() {
    let (index, pins) = (Index::default(), Pins::default());
    let hashes: Vec<KeyHash> = (0..).map(hash).filter(|hash| hash.shard() == 3).take(15).collect();
    let empty = index.bytes();
    let reader = pins.pin();
    for (&hash, offset) in hashes.iter().zip(DATA_START..) {
        index.lock_shard(3).insert(&pins, hash, 0, offset);
    }
    let with_old = 5 * 64 + 128;
    for _ in 0..5 {
        index.reclaim(&pins);
        assert_eq!(index.bytes() - empty, with_old);
    }
    drop(reader);
    (0..2).for_each(|_| index.reclaim(&pins));
    assert_eq!(index.bytes() - empty, 5 * 64);
}

#[test]
fn a_slot_that_is_empty_or_dead_is_none_of_the_tag_that_is_zero() {
    let (index, pins) = (Index::default(), Pins::default());
    let [zero, one] = [0, 1].map(|tag: u64| KeyHash(7 << 56 | tag << (56 - slot::TAG_BITS)));
    let first = |hash: KeyHash| index.first_slot(&pins.pin(), hash);
    index.lock(one).insert(&pins, one, 0, DATA_START);
    assert_eq!((first(zero), first(one)), (None, Some(DATA_START)), "beside empty slots");
    // The line is full from here on: what is removed from it is dead.
    (1..8).for_each(|number| index.lock(one).insert(&pins, one, 0, DATA_START + number));
    for number in [0, 3] {
        assert!(index.lock(one).remove(&pins, one, 0, DATA_START + number));
    }
    assert_eq!((first(zero), first(one)), (None, Some(DATA_START + 1)), "beside dead slots");
    index.lock(zero).insert(&pins, zero, 0, DATA_START + 100);
    assert_eq!((first(zero), first(one)), (Some(DATA_START + 100), Some(DATA_START + 1)));
    assert!(index.lock(zero).remove(&pins, zero, 0, DATA_START + 100));
    assert_eq!(first(zero), None);
}

#[test]
fn a_table_has_the_lines_that_its_records_need_at_its_load() {
    use super::shard::{is_full, lines_after_growth, lines_for};
    assert_eq!(
        [(6, 8), (7, 8), (8, 8), (13, 16), (14, 16)].map(|(used, slots)| is_full(used, slots)),
        [false, true, true, false, true]
    );
    assert_eq!([0, 1, 4, 5, 14, 15, 700].map(lines_after_growth), [1, 2, 2, 3, 4, 5, 151]);
    assert_eq!([0, 1, 6, 7, 12, 13, 600].map(lines_for), [1, 2, 2, 3, 3, 4, 101]);
    let (index, pins) = (Index::default(), Pins::default());
    let empty = index.bytes();
    let slots = (0..13).map(|tag| Slot::new(tag, DATA_START + tag)).collect();
    index.lock_shard(3).load(&pins, ShardImage { slots, counts: alloc::vec![(0, 13)], expiring: Vec::new() });
    assert_eq!((index.bytes() - empty, index.len_all()), (4 * 64, 13));
}

#[test]
fn a_copy_is_sorted_and_names_each_slot_that_has_changed_once() {
    let slots = |tags: &[u64]| tags.iter().map(|&tag| Slot::new(tag, DATA_START)).collect::<Vec<Slot>>();
    let expiring = |tags: &[u64]| alloc::vec![Expiring { from: 5, slots: slots(tags) }];
    let mut image = ShardImage { slots: slots(&[3, 1, 2]), counts: Vec::new(), expiring: expiring(&[9, 8]) };
    image.sort();
    assert_eq!((image.slots, image.expiring), (slots(&[1, 2, 3]), expiring(&[8, 9])));
    let (added, removed) = (slots(&[2, 1, 2]), slots(&[9, 8, 9, 8]));
    let mut changes = ShardChanges { added, removed, counts: Vec::new(), expiring: expiring(&[2, 1]) };
    changes.sort();
    assert_eq!((changes.added, changes.removed, changes.expiring), (slots(&[1, 2]), slots(&[8, 9]), expiring(&[1, 2])));
}

#[test]
fn a_dump_of_changes_has_the_new_records_that_expire_and_all_counts() {
    let (index, pins) = (Index::default(), Pins::default());
    let hashes: Vec<KeyHash> = (0..).map(hash).filter(|hash| hash.shard() == 9).take(21).collect();
    let slot = |number: usize| hashes[number].slot(DATA_START + number as u64);
    let mut shard = index.lock_shard(9);
    for (number, &hash) in hashes[..20].iter().enumerate() {
        shard.insert(&pins, hash, 0, DATA_START + number as u64);
    }
    shard.expires(slot(3), 1_000_000);
    shard.expires(slot(4), 2_000_000);
    let expiring = |all: &[Expiring]| Slot::sort(all.iter().flat_map(|one| one.slots.clone()).collect());
    let is_new = |offset: u64| offset >= DATA_START + 20;
    match shard.dump(&nothing(), Some(&is_new)).unwrap() {
        Dump::Whole(image) => {
            assert_eq!(
                (expiring(&image.expiring), image.counts),
                (Slot::sort(Vec::from([slot(3), slot(4)])), Vec::from([(0, 20)]))
            );
        }
        other => panic!("{other:?}"),
    }
    shard.end_dump(true);
    shard.insert(&pins, hashes[20], 7, DATA_START + 20);
    shard.expires(slot(20), 1_500_000);
    match shard.dump(&nothing(), Some(&is_new)).unwrap() {
        Dump::Changes(changes) => {
            assert_eq!((&changes.added[..], &changes.removed[..]), (&[slot(20)][..], &[][..]));
            assert_eq!((expiring(&changes.expiring), changes.counts), (Vec::from([slot(20)]), Vec::from([(0, 20), (7, 1)])));
            assert!(changes.expiring.iter().all(|one| one.from <= 1_500_000));
        }
        other => panic!("{other:?}"),
    }
}
