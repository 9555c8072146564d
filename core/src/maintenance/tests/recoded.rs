//! Which values a compaction compresses, and which segments are worth that.

use crate::compress::{Entry, List};
use crate::frame::Codec;
use crate::log::Segment;
use crate::maintenance::compressed::Compressor;
use crate::maintenance::copy;
use crate::storage::{MemoryStorage, Storage};
use crate::store::Listed;
use crate::{Builder, Compression, Db, Namespace};
use alloc::boxed::Box;
use alloc::vec::Vec;

fn builder(compression: Compression) -> Builder {
    Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false).auto_compact_dead_share(1.0).compression(compression)
}

fn store(compression: Compression) -> Db {
    builder(compression).in_memory().unwrap()
}

/// Bytes that do not compress.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// How the value of a key is compressed.
fn codec(db: &Db, key: &str) -> Option<Codec> {
    let engine = &db.store().engine;
    engine.find(&engine.pins.pin(), engine.full_key(0, key.as_bytes())).unwrap().unwrap().meta().codec()
}

/// How a compaction would compress it; `None` if it stays as it is.
fn recoded(db: &Db, key: &str) -> Option<Option<Codec>> {
    recoded_by(&db.store().compressor().unwrap(), db, key)
}

fn recoded_by(compressor: &Compressor, db: &Db, key: &str) -> Option<Option<Codec>> {
    let engine = &db.store().engine;
    let pin = engine.pins.pin();
    let frame = engine.find(&pin, engine.full_key(0, key.as_bytes())).unwrap().unwrap();
    compressor.recode(engine, &frame).map(|recoded| recoded.meta().codec())
}

const fn of_plain(plain_len: u32) -> Codec {
    Codec { codec: 1, dictionary: 0, plain_len }
}

#[test]
fn a_compaction_compresses_values_from_32_bytes_on_if_that_makes_them_shorter() {
    let storage = MemoryStorage::new();
    let db = builder(Compression::OnCompaction).open_storage(Box::new(storage.clone())).unwrap();
    for (key, value) in
        [("31", &[0; 31][..]), ("32", &[0; 32]), ("33", &[0; 33]), ("random", &random(1, 500)), ("damaged", &[0; 90])]
    {
        db.insert(key, value).unwrap();
    }
    let all = ["31", "32", "33", "random"].map(|key| recoded(&db, key));
    assert_eq!(all, [None, Some(Some(of_plain(32))), Some(Some(of_plain(33))), None]);
    assert_eq!(recoded(&db, "damaged"), Some(Some(of_plain(90))));
    let engine = &db.store().engine;
    let end = {
        let pin = engine.pins.pin();
        let frame = engine.find(&pin, engine.full_key(0, b"damaged")).unwrap().unwrap();
        frame.offset + frame.header.frame_len() as u64
    };
    storage.write_at(end - 1, &[&[1]]).unwrap();
    assert_eq!(recoded(&db, "damaged"), None);
    db.set_compression(Some(Compression::Off)).unwrap();
    assert_eq!(recoded(&db, "32"), None);
}

#[test]
fn a_value_that_is_compressed_as_it_should_be_stays_as_it_is() {
    let db = store(Compression::OnWrite);
    db.insert("key", [0; 200]).unwrap();
    assert_eq!((codec(&db, "key"), recoded(&db, "key")), (Some(of_plain(200)), None));
}

#[cfg(feature = "encrypt")]
#[test]
fn a_padded_value_loses_its_padding_when_its_store_becomes_plain_and_not_before() {
    let builder = builder(Compression::OnWrite).encryption_key([7; 32]).compress_sealed(true);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    db.insert("key", [0; 200]).unwrap();
    db.insert("random", random(1, 200)).unwrap();
    let padded = Codec { codec: 3, dictionary: 0, plain_len: 0 };
    assert_eq!((codec(&db, "key"), recoded(&db, "key"), codec(&db, "random")), (Some(padded), None, None));
    assert!(db.disable_encryption().unwrap().is_finished);
    assert_eq!((codec(&db, "key"), recoded(&db, "key"), codec(&db, "random")), (Some(of_plain(200)), None, None));
    assert_eq!(db.get("key").unwrap().unwrap(), [0; 200]);
}

/// A store of small segments.
fn store_of_small_segments() -> Db {
    builder(Compression::OnCompaction).segment_size(4096).in_memory().unwrap()
}

/// A segment of records with these values.
fn segment_of(db: &Db, space: &Namespace, values: &[Vec<u8>]) -> Segment {
    let log = &db.store().engine.log;
    log.seal_active().unwrap();
    for (number, value) in (0_u16..).zip(values) {
        space.insert(number.to_be_bytes(), value).unwrap();
    }
    let number = log.segments().len();
    log.seal_active().unwrap();
    log.segments()[number - 1]
}

fn is_worth_it(db: &Db, segment: &Segment) -> bool {
    db.store().is_worth_compressing(&db.store().compressor().unwrap(), segment)
}

#[test]
fn a_segment_is_worth_a_compression_if_one_of_its_first_values_gains() {
    let db = store_of_small_segments();
    let with_zeros_at = |place: u64| {
        let value = |number: u64| if number == place { alloc::vec![0; 90] } else { random(number + 1, 90) };
        segment_of(&db, &db, &(0..33).map(value).collect::<Vec<_>>())
    };
    for (place, expected) in [(0, true), (31, true), (32, false), (60, false)] {
        let segment = with_zeros_at(place);
        // Asked again, it is not looked through again.
        assert_eq!([is_worth_it(&db, &segment), is_worth_it(&db, &segment)], [expected; 2], "{place}");
    }
    let loose = db.namespace("loose").unwrap();
    loose.set_compression(Some(Compression::Off)).unwrap();
    assert!(!is_worth_it(&db, &segment_of(&db, &loose, &[alloc::vec![0; 3_000]])));
    let segment = segment_of(&db, &db, &[alloc::vec![0; 3_000]]);
    assert!(is_worth_it(&db, &segment));
    db.set_compression(Some(Compression::Off)).unwrap();
    assert!(!is_worth_it(&db, &segment));
}

/// Values of less than 32 bytes are not tried.
#[test]
fn a_segment_is_worth_a_compression_if_an_eighth_of_its_bytes_has_not_been_tried() {
    let db = store_of_small_segments();
    let log = &db.store().engine.log;
    let zeros = |len: u64| alloc::vec![0; len as usize];
    let one = segment_of(&db, &db, &[zeros(400)]);
    let first = one.first_frame(log.geometry);
    let beside_value = log.header(first).unwrap().frame_len() as u64 - 400;
    let eighth = (one.end - first).div_ceil(8) - beside_value;
    for (lens, expected) in [
        (&[eighth][..], true),
        (&[eighth - 1], false),
        (&[eighth - 1, 31], false),
        (&[eighth - 1, 32], true),
        (&[31, eighth], true),
        (&[eighth + 1], true),
    ] {
        let segment = segment_of(&db, &db, &lens.iter().map(|&len| zeros(len)).collect::<Vec<_>>());
        assert_eq!(segment.end - segment.first_frame(log.geometry), one.end - first);
        assert_eq!(is_worth_it(&db, &segment), expected, "{lens:?}");
    }
}

/// Values of a namespace, enough of them to train a dictionary.
fn fill(db: &Db, name: &str) -> Namespace {
    let space = db.namespace(name).unwrap();
    write_documents(&space, name);
    space
}

fn write_documents(space: &Namespace, name: &str) {
    for number in 0..600_u32 {
        let mixed = number.wrapping_mul(0x9e37_79b9);
        let value =
            std::format!(r#"{{"of":"{name}","interface":"method {mixed:x}","version added":{},"status":true}}"#, mixed % 97);
        space.insert(number.to_le_bytes(), value).unwrap();
    }
}

#[test]
fn a_dictionary_goes_when_no_segment_names_it_any_more_unless_it_is_the_newest() {
    let db = store(Compression::OnCompaction);
    let dictionaries = || db.compression_stats().unwrap().dictionaries;
    let compacted = || {
        db.compact().unwrap();
        dictionaries()
    };
    for (count, name) in (1..).zip(["first", "second", "third"]) {
        fill(&db, name);
        assert_eq!(compacted(), count);
    }
    let snapshot = db.snapshot();
    db.drop_namespace("first").unwrap();
    assert_eq!(compacted(), 3, "a snapshot may show values that were made with it");
    drop(snapshot);
    assert_eq!((compacted(), compacted()), (2, 2));
    // Of a namespace that is there its dictionary stays, also where nothing is made with it.
    db.namespace("second").unwrap().clear().unwrap();
    assert_eq!(compacted(), 2);
    db.drop_namespace("second").unwrap();
    assert_eq!(compacted(), 1);
    db.drop_namespace("third").unwrap();
    assert_eq!(compacted(), 1, "its number is not given out again");
    fill(&db, "fourth");
    assert_eq!((compacted(), compacted()), (1, 1));
    let listed = db.store().listed().unwrap();
    let numbers: Vec<u32> = listed.list.entries.iter().map(|entry| entry.number).collect();
    assert_eq!((numbers, listed.list.next), (Vec::from([4]), 5));
}

/// How values are compressed while these dictionaries count.
fn compressor_with(db: &Db, listed: &Listed) -> Compressor {
    Compressor::new(&db.store().names.read().compressed(), listed)
}

#[test]
fn a_value_is_compressed_again_for_a_newer_dictionary_and_not_without_the_one_that_it_names() {
    let db = store(Compression::OnWrite);
    write_documents(&db, "default");
    let document = r#"{"of":"default","interface":"method 1234567","version added":12,"status":true}"#.repeat(3);
    db.insert("before", &document).unwrap();
    let pending = db.store().begin_training().unwrap().unwrap();
    db.store().finish_training(pending, false).unwrap();
    db.insert("behind", &document).unwrap();
    db.insert("zeros", [0; 200]).unwrap();
    let number_of = |key| codec(&db, key).unwrap().dictionary;
    assert_eq!(["before", "behind", "zeros"].map(number_of), [0, 1, 1]);
    let newest = Codec { codec: 1, dictionary: 1, plain_len: document.len() as u32 };
    assert_eq!(["before", "behind", "zeros"].map(|key| recoded(&db, key)), [Some(Some(newest)), None, None]);
    // Without its checksum the value of zeros would be shorter.
    let without = compressor_with(&db, &Listed::default());
    assert_eq!(["before", "behind", "zeros"].map(|key| recoded_by(&without, &db, key)), [None; 3]);
}

#[cfg(feature = "encrypt")]
#[test]
fn a_value_that_shows_its_length_is_padded_or_plain_once_its_store_is_sealed() {
    let padded = Codec { codec: 3, dictionary: 0, plain_len: 0 };
    for (is_allowed, expected) in [(false, None), (true, Some(padded))] {
        let storage = MemoryStorage::new();
        let db = builder(Compression::OnWrite).open_storage(Box::new(storage.clone())).unwrap();
        db.insert("key", [0; 200]).unwrap();
        db.insert("random", random(1, 200)).unwrap();
        assert_eq!((codec(&db, "key"), codec(&db, "random")), (Some(of_plain(200)), None));
        db.close().unwrap();
        let compression = if is_allowed { Compression::OnWrite } else { Compression::Off };
        let db = builder(compression).compress_sealed(is_allowed).open_storage(Box::new(storage)).unwrap();
        assert!(db.enable_encryption([7; 32]).unwrap().is_finished);
        assert_eq!((codec(&db, "key"), recoded(&db, "key"), codec(&db, "random")), (expected, None, None));
        assert_eq!(db.get("key").unwrap().unwrap(), [0; 200]);
    }
}

#[test]
fn nothing_is_compressed_where_no_namespace_wants_it() {
    let db = store(Compression::OnCompaction);
    db.insert("key", [0; 200]).unwrap();
    let engine = &db.store().engine;
    let pin = engine.pins.pin();
    let key = engine.full_key(0, b"key");
    let records = [(key.hash, engine.find(&pin, key).unwrap().unwrap())];
    let (some, none) = (db.store().compressor().unwrap(), Compressor::default());
    assert!(!some.is_none() && none.is_none());
    assert_eq!((copy::recoded(engine, &some, &records).len(), copy::recoded(engine, &none, &records).len()), (1, 0));
}

#[test]
fn what_a_compaction_has_copied_since_the_last_training_is_not_tried_again() {
    let db = store_of_small_segments();
    db.set_compression(Some(Compression::Off)).unwrap();
    let old = segment_of(&db, &db, &[alloc::vec![0; 1_000]]);
    assert_eq!(db.store().compact_one(&old, &mut |_| {}).unwrap().records_copied, 1);
    let log = &db.store().engine.log;
    let active = log.segments_and_active().1.unwrap();
    log.seal_active().unwrap();
    db.set_compression(None).unwrap();
    let copied = log.segments().into_iter().find(|segment| segment.base == active).unwrap();
    let first = copied.first_frame(log.geometry);
    assert!(log.header(first).unwrap().copied);
    let name = db.store().names.read().compressed()[0].0.name.clone();
    for (changes, since, expected) in [(1, log.lsn(first), false), (2, log.lsn(first) + 1, true), (3, log.lsn(first) - 1, false)]
    {
        let list = List { changes, next: 1, entries: [Entry { number: 0, since, name: name.clone() }].into() };
        let listed = db.store().set_listed(list, false).unwrap();
        assert_eq!(db.store().is_worth_compressing(&compressor_with(&db, &listed), &copied), expected, "{changes}");
    }
}
