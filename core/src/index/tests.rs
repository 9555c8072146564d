#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::*;
use crate::limits::DATA_START;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

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
                assert!(shard.remove(hash(key), 0, old));
                model.remove(&key);
            }
            (Some(old), _) => {
                assert!(shard.replace(hash(key), old, offset));
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
        let image = index.lock_shard(shard).image();
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
            assert!(shard.remove(hash, 0, offset));
        }
    }
    let all = Slot::sort(shard.slots());
    assert_eq!(all.len(), keys - keys / 5 - usize::from(!keys.is_multiple_of(5)));
    for width in [1 << 9, 1 << 15, Slot::TAGS - 1, Slot::TAGS] {
        let ranges = (0..Slot::TAGS).step_by(width as usize).map(|from| from..(from + width).min(Slot::TAGS));
        let pieces: Vec<Vec<Slot>> = ranges.clone().map(|tags| Slot::sort(shard.slots_between(tags))).collect();
        assert!(ranges.zip(&pieces).all(|(tags, piece)| piece.iter().all(|slot| tags.contains(&slot.tag()))));
        assert_eq!(pieces.concat(), all);
    }
    let behind = Slot::TAGS + 3;
    assert!([5..5, behind..Slot::TAGS].into_iter().all(|none| shard.slots_between(none).is_empty()));
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
