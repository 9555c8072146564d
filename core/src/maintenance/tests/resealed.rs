//! How much longer than plain records their sealed copies may be.

use crate::log::Segment;
use crate::maintenance::resealed;
use crate::maintenance::sift::whole;
use crate::scan::{Found, scan};
use crate::storage::{MemoryStorage, Storage};
use crate::{Compression, Db};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes by which the sealed copy of a record with a short value is longer: a tag, and what its length may take more.
const SEALING: u64 = 16 + 4;

/// A store that was sealed and could not give up its plain segment, whose last record is damaged. Of each record in front of that one: its length, and that
/// of its value.
fn sealed_beside_plain(values: &[Vec<u8>]) -> (Db, Segment, Vec<(u64, u64)>) {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(16 * 1024).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let builder = builder.compression(Compression::OnWrite).compress_sealed(true);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    let engine = &db.store().engine;
    let mut lens = Vec::new();
    let mut write = |key: usize, value: &[u8]| {
        db.insert(key.to_be_bytes(), value).unwrap();
        let pin = engine.pins.pin();
        let frame = engine.find(&pin, engine.full_key(0, &key.to_be_bytes())).unwrap().unwrap();
        lens.push((frame.header.frame_len() as u64, frame.header.value_len() as u64));
        frame.offset + frame.header.frame_len() as u64
    };
    values.iter().enumerate().for_each(|(key, value)| _ = write(key, value));
    let end = write(values.len(), b"damaged");
    lens.pop();
    let segment = engine.log.segments()[0];
    storage.write_at(end - 1, &[&[0]]).unwrap();
    let report = db.enable_encryption([7; 32]).unwrap();
    assert_eq!((report.segments_left, report.is_finished), (1, false));
    let plain = *engine.log.segments().iter().find(|plain| plain.base == segment.base).unwrap();
    assert!(resealed::is_plain(engine, &plain));
    (db, plain, lens)
}

/// The number of records that can be read, those of the store itself included.
fn records(db: &Db, segment: &Segment) -> u64 {
    let (engine, mut count) = (&db.store().engine, 0);
    scan(&*engine.log.storage, whole(engine, segment), &mut |found| {
        count += u64::from(matches!(found, Found::Frame { header, .. } if !header.kind.is_control()));
        Ok(())
    })
    .unwrap();
    count
}

/// Bytes that do not compress.
fn random(len: usize) -> Vec<u8> {
    let mut state = 9_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn the_copy_of_each_plain_record_is_longer_by_its_tag_and_by_what_decompression_adds() {
    let (db, plain, lens) = sealed_beside_plain(&[random(0), random(100), alloc::vec![0; 200]]);
    let (engine, compressed) = (&db.store().engine, lens[2]);
    assert_eq!((lens[0].1, lens[1].1), (0, 100));
    assert!(compressed.1 < 50, "{lens:?}");
    let growth = SEALING + 200 - compressed.1;
    let others = records(&db, &plain) - 1;
    assert!(others >= 2);
    assert_eq!(resealed::growth(engine, &plain).unwrap(), others * SEALING + growth);
    assert_eq!(resealed::longest(engine, &plain).unwrap(), compressed.0 + growth);
    let sealed = engine.log.segments().pop().unwrap();
    assert!(!resealed::is_plain(engine, &sealed));
    assert_eq!(resealed::growth(engine, &sealed).unwrap(), 0);
}

#[test]
fn the_longest_copy_is_that_of_the_longest_plain_value() {
    let (db, plain, lens) = sealed_beside_plain(&[alloc::vec![0; 200], random(300), random(250)]);
    assert_eq!(resealed::longest(&db.store().engine, &plain).unwrap(), lens[1].0 + SEALING);
}
