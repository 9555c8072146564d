//! Who gets a dictionary, from which samples, and which ones are worth it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::compress::{Entry, List};
use crate::{Compression, Db, Namespace};
use alloc::string::String;

fn store(segment_size: u32) -> Db {
    let builder = Db::builder().segment_size(segment_size).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    builder.compression(Compression::OnCompaction).in_memory().unwrap()
}

fn document(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    std::format!(r#"{{"kind":"document","interface":"method {mixed:x}","version added":{},"status":true}}"#, mixed % 97)
        .into_bytes()
}

fn write_documents(space: &Namespace, count: u32) {
    (0..count).for_each(|number| space.insert(number.to_le_bytes(), document(number)).unwrap());
}

fn samples_of(values: Vec<Vec<u8>>) -> Samples {
    Samples { bytes: values.iter().map(Vec::len).sum(), values }
}

fn documents(count: u32) -> Samples {
    samples_of((0..count).map(document).collect())
}

#[test]
fn samples_are_full_with_as_many_bytes_or_as_many_values_as_are_taken() {
    let is_full = |bytes, count| Samples { values: alloc::vec![Vec::new(); count], bytes }.is_full();
    assert!(!is_full(SAMPLES_BYTES - 1, SAMPLES - 1));
    assert!(is_full(SAMPLES_BYTES, 1) && is_full(SAMPLES_BYTES + 1, 1));
    assert!(is_full(1, SAMPLES) && is_full(1, SAMPLES + 1));
}

/// Bytes of the plain values by which a dictionary is judged, and of these without it and with it.
fn judged(samples: &Samples, dictionary: &[u8]) -> (u64, u64, u64) {
    let dictionary = Dictionary::new(u32::MAX, dictionary.to_vec());
    let (mut plain, mut before, mut after) = (0, 0, 0);
    for value in samples.values.iter().skip(3).step_by(4) {
        let stored = |dictionary| compress(value, dictionary, Lengths::Shown).map_or(value.len(), |stored| stored.value.len());
        plain += value.len() as u64;
        before += stored(None) as u64;
        after += stored(Some(&dictionary)) as u64;
    }
    (plain, before, after)
}

#[test]
fn a_dictionary_is_worth_it_if_it_saves_four_times_its_length_in_all_values() {
    let samples = documents(200);
    let trained = |all: u64| dictionary_of(&samples, (None, Lengths::Shown), all, 7);
    let best = trained(u64::MAX);
    assert!(!best.is_empty() && best.len() <= samples.bytes / 8, "{} of {}", best.len(), samples.bytes);
    let (plain, before, after) = judged(&samples, &best);
    let least = (4 * best.len() as u64 * plain).div_ceil(before - after);
    assert_eq!([trained(least), trained(least - 1), trained(0)], [best.clone(), Vec::new(), Vec::new()]);
    // The same one again saves nothing.
    let old = Dictionary::new(1, best);
    assert!(dictionary_of(&samples, (Some(&old), Lengths::Shown), u64::MAX, 7).is_empty());
}

#[test]
fn a_dictionary_is_made_of_4_kib_of_samples_or_more() {
    let trained = |bytes: usize| dictionary_of(&Samples { bytes, ..documents(100) }, (None, Lengths::Shown), u64::MAX, 7).len();
    assert_eq!(trained(4095), 0);
    assert!((1..=512).contains(&trained(4096)));
}

#[test]
fn samples_are_values_of_their_namespace_from_32_bytes_on_and_of_long_ones_the_beginning() {
    let db = store(64 * 1024);
    let [one, other] = ["one", "other"].map(|name| db.namespace(name).unwrap());
    for len in [0, 31, 32, 33, 4096, 4097, 9000] {
        one.insert([len as u8, (len >> 8) as u8], alloc::vec![7; len]).unwrap();
    }
    other.insert("key", [8; 50]).unwrap();
    one.insert("removed", [9; 50]).unwrap();
    one.remove("removed").unwrap();
    let number = db.store().names.read().get("one").unwrap().number().unwrap();
    let found = sample(&db.store().engine, [number].into_iter()).unwrap();
    let samples = &found[&number];
    let mut lens: Vec<usize> = samples.values.iter().map(Vec::len).collect();
    lens.sort_unstable();
    assert_eq!((found.len(), lens), (1, Vec::from([32, 33, 4096, 4096, 4096])));
    assert_eq!(samples.bytes, 32 + 33 + 3 * 4096);
    assert!(samples.values.iter().flatten().all(|&byte| byte == 7));
}

/// The namespaces that get a dictionary, and whether it is one.
fn trained(db: &Db, listed: &Listed) -> Vec<(String, bool)> {
    let all = db.store().train(listed).unwrap();
    all.into_iter().map(|trained| (trained.name.name.clone(), !trained.dictionary.is_empty())).collect()
}

#[test]
fn nothing_is_trained_early_or_where_the_list_of_dictionaries_is_lost() {
    let db = store(64 * 1024);
    write_documents(&db.namespace("space").unwrap(), 300);
    let store = db.store();
    let (log, next_try) = (&store.engine.log, &store.dictionaries.next_try);
    let listed = store.listed().unwrap();
    let one = Vec::from([(String::from("space"), true)]);
    assert_eq!(trained(&db, &listed), one);
    assert_eq!(next_try.load(Ordering::Relaxed), log.end() + 32 * 1024);
    assert_eq!(trained(&db, &listed), Vec::new());
    next_try.store(log.end() + 1, Ordering::Relaxed);
    assert_eq!(trained(&db, &listed), Vec::new());
    next_try.store(log.end(), Ordering::Relaxed);
    let lost = store.set_listed(List::default(), true).unwrap();
    assert_eq!(trained(&db, &lost), Vec::new());
    assert_eq!(next_try.load(Ordering::Relaxed), log.end());
    assert_eq!(trained(&db, &listed), one);
}

#[test]
fn a_namespace_gets_another_dictionary_after_four_times_as_much_log_as_lives_and_eight_segments() {
    for (segment_size, rounds) in [(4096, 6), (64 * 1024, 60)] {
        let db = store(segment_size);
        (0..rounds).for_each(|_| write_documents(&db, 100));
        let store = db.store();
        let later = (4 * store.engine.log.usage().live).max(8 * u64::from(segment_size));
        assert_eq!(later == 8 * u64::from(segment_size), segment_size > 4096);
        let latest = store.engine.log.end() - later;
        let name = store.names.read().compressed()[0].0.name.clone();
        let due = |since: &[u64]| {
            let entries = since.iter().map(|&since| Entry { number: 0, since, name: name.clone() }).collect();
            let listed = store.set_listed(List { changes: 1, next: 1, entries }, false).unwrap();
            store.due(&listed).len()
        };
        assert_eq!([due(&[]), due(&[latest]), due(&[latest + 1]), due(&[u64::MAX])], [1, 1, 0, 0]);
        // Sixteen in all.
        assert_eq!([due(&[0; 15]), due(&[0; 16])], [1, 0]);
    }
}
