//! Compressed values in a sealed store: only where that was asked for, never in plain in the file, and with lengths that show little.
#![cfg(all(feature = "encrypt", feature = "compress", feature = "testing", feature = "salvage", feature = "ordered"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::compression::{Model, check, write};
use crate::sealed_bytes::{bytes, frames, headers};
use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Cipher, Compression, Db, Error, SalvageOptions, verify_storage};
use std::collections::{BTreeMap, BTreeSet};

const KEY: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];
const EXTENT: u32 = 64 * 1024;
/// The first segments are as short as this.
const EXTENT_MIN: usize = 4096;

fn sealed(cipher: Cipher) -> Builder {
    Db::builder().encryption_key(KEY).cipher(cipher).segment_size(EXTENT).ordered(true).background(false)
}

fn open(builder: Builder, file: &MemoryStorage) -> Db {
    builder.open_storage(Box::new(file.clone())).unwrap()
}

/// Fails if what all values have in common, and the dictionary for that reason, stands anywhere in the file.
fn search(file: &MemoryStorage, what: &str) {
    let bytes = bytes(file);
    for text in [&b"feature"[..], b"api.Interface", b"version_added", b"standard_track", b"doc-0"] {
        assert!(!bytes.windows(text.len()).any(|window| window == text), "{what}: {:?}", String::from_utf8_lossy(text));
    }
}

/// Lengths of the frames in the file whose values are compressed, and what their fields say: codec, dictionary and plain length.
fn compressed_frames(file: &MemoryStorage) -> (BTreeSet<usize>, BTreeMap<[u8; 3], usize>) {
    let bytes = bytes(file);
    let (mut lens, mut fields) = (BTreeSet::new(), BTreeMap::new());
    for (start, ..) in headers(&bytes, EXTENT_MIN) {
        for (at, len) in frames(&bytes, start).1 {
            let is_compressed = bytes[at + 4] & 0x40 != 0 && bytes[at + 5] & 0x04 != 0;
            if !is_compressed {
                continue;
            }
            assert_eq!(bytes[at + 5], 0x04, "no other property in this test");
            // Behind the length of the key, of one byte, and that of the value.
            let value_len_bytes = if bytes[at + 7] < 0x80 { 1 } else { 2 };
            lens.insert(len);
            *fields.entry(bytes[at + 7 + value_len_bytes..][..3].try_into().unwrap()).or_default() += 1;
        }
    }
    (lens, fields)
}

#[test]
fn a_sealed_store_compresses_only_where_that_was_asked_for() {
    let file = MemoryStorage::new();
    let refused = sealed(Cipher::ChaCha20Poly1305).compression(Compression::OnWrite).open_storage(Box::new(file.clone()));
    assert!(matches!(refused, Err(Error::InvalidArgument(what)) if what.contains("compress_sealed")));
    let db = open(sealed(Cipher::ChaCha20Poly1305), &file);
    for compression in [Compression::OnCompaction, Compression::OnWrite] {
        assert!(matches!(db.set_compression(Some(compression)), Err(Error::InvalidArgument(_))));
    }
    db.set_compression(Some(Compression::Off)).unwrap();
    db.set_compression(None).unwrap();
    assert!(!db.is_compressed());
    db.close().unwrap();

    let mut model = Model::new();
    let db = open(sealed(Cipher::ChaCha20Poly1305).compress_sealed(true), &file);
    db.set_compression(Some(Compression::OnWrite)).unwrap();
    assert!(db.is_compressed());
    write(&db, &mut model, 0..1000, 0);
    // Only compaction trains dictionaries.
    db.compact().unwrap();
    write(&db, &mut model, 1000..1500, 0);
    let compressed = db.compression_stats().unwrap().records;
    assert!(compressed > 1400, "{compressed}");
    db.close().unwrap();

    // Without the word everything is read, and what is written stays plain, through compaction, too.
    let db = open(sealed(Cipher::ChaCha20Poly1305), &file);
    assert_eq!(db.compression(), Compression::Off);
    check(&db, &db, &model);
    let before = db.compression_stats().unwrap().records;
    write(&db, &mut model, 1500..2500, 0);
    db.compact().unwrap();
    assert!(db.compression_stats().unwrap().records <= before);
    check(&db, &db, &model);
    db.close().unwrap();
    let db = open(sealed(Cipher::ChaCha20Poly1305).compress_sealed(true), &file);
    assert_eq!(db.compression(), Compression::OnWrite);
}

#[test]
fn compaction_compresses_with_a_sealed_dictionary_and_every_read_decodes() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let [file, plain] = [MemoryStorage::new(), MemoryStorage::new()];
        let asked = || sealed(cipher).compress_sealed(true).compression(Compression::OnCompaction);
        let (db, other) = (open(asked(), &file), open(sealed(cipher), &plain));
        let (mut model, mut same) = (Model::new(), Model::new());
        write(&db, &mut model, 0..4000, 0);
        write(&other, &mut same, 0..4000, 0);
        search(&file, "written");
        for db in [&db, &other] {
            db.compact().unwrap();
        }
        let (after, before) = (db.stats().unwrap().live_bytes, other.stats().unwrap().live_bytes);
        assert!(after * 7 < before * 4, "{before} {after}");
        assert!(db.compact().unwrap().bytes_copied < 1000, "nothing is left to do");
        check(&db, &db, &model);
        search(&file, "compacted");
        let stats = db.compression_stats().unwrap();
        let plain_bytes: usize = model.values().map(Vec::len).sum();
        assert!(stats.records > 3800 && stats.plain_bytes * 100 > plain_bytes as u64 * 95, "{stats:?} {plain_bytes}");
        db.close().unwrap();

        // 4000 values of 181 to 187 bytes that come out between 40 and 60 have a few lengths, and nothing says how long they were.
        let (lens, fields) = compressed_frames(&file);
        assert!(lens.len() <= 3, "{lens:?}");
        assert_eq!(fields.keys().collect::<Vec<_>>(), [&[3, 1, 0]], "codec, dictionary, plain length");

        let report = verify_storage(&file).unwrap();
        assert!(report.is_ok() && report.unauthenticated && report.compressed > 3800, "{report:?}");
        let db = open(asked(), &file);
        let report = db.verify().unwrap();
        assert!(report.is_ok() && !report.unauthenticated && report.compressed > 3800, "{report:?}");
        write(&db, &mut model, 3000..3300, 4);
        check(&db, &db, &model);

        // A rotation seals what is compressed, and its dictionary, under the new key.
        assert!(db.rotate_encryption_key(NEW).unwrap().is_finished);
        check(&db, &db, &model);
        db.compact().unwrap();
        check(&db, &db, &model);
        db.checkpoint().unwrap();
        search(&file, "rotated");
        db.close().unwrap();

        let target = Db::builder().ordered(true).in_memory().unwrap();
        let report = asked().encryption_key(NEW).salvage(&file, &target, SalvageOptions::default(), &mut |_, _| ()).unwrap();
        assert!(report.damage.is_empty() && report.undecoded == 0, "{report:?}");
        check(&target, &target, &model);
    }
}

#[test]
fn a_changed_bit_of_a_dictionary_or_a_value_is_an_error_and_never_another_value() {
    let file = MemoryStorage::new();
    let asked = || sealed(Cipher::ChaCha20Poly1305).compress_sealed(true).compression(Compression::OnCompaction);
    let db = open(asked(), &file);
    let mut model = Model::new();
    write(&db, &mut model, 0..600, 0);
    db.compact().unwrap();
    db.close().unwrap();
    let whole = bytes(&file);
    let all: Vec<(usize, usize)> =
        headers(&whole, EXTENT_MIN).into_iter().flat_map(|(start, ..)| frames(&whole, start).1).collect();
    let longest = all.iter().map(|&(_, len)| len).max().unwrap();
    let dictionaries: Vec<_> = all.iter().copied().filter(|&(_, len)| len == longest).collect();
    assert!(longest > 1000 && dictionaries.len() == 2, "{dictionaries:?}");
    let values: Vec<_> = all.iter().copied().filter(|&(at, _)| whole[at + 4] & 0x40 != 0 && whole[at + 5] & 0x04 != 0).collect();
    let refused = |places: &[(usize, usize)]| {
        let mut changed = whole.clone();
        places.iter().for_each(|&(at, len)| changed[at + len - 20] ^= 1);
        // Damage and whole bytes that are not authentic are told apart by the checksum.
        let db = open(asked(), &MemoryStorage::from_vec(changed));
        let mut refused = 0;
        for (key, value) in &model {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                Err(Error::Corrupt { .. } | Error::Forged { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        refused
    };
    // One copy of the dictionary is enough; without both no value that names it is shown.
    assert_eq!(dictionaries.iter().map(|&place| refused(&[place])).sum::<usize>(), 0);
    assert!(refused(&dictionaries) > 500);
    assert!(values.len() > 500);
    for places in values.chunks(values.len() / 8) {
        assert!((places.len() / 2..=places.len()).contains(&refused(places)), "{}", places.len());
    }
}

#[test]
fn a_follower_with_the_key_reads_what_the_writer_has_compressed_since() {
    let file = MemoryStorage::new();
    let asked = || sealed(Cipher::ChaCha20Poly1305).compress_sealed(true).compression(Compression::OnWrite);
    let db = open(asked(), &file);
    let mut model = Model::new();
    write(&db, &mut model, 0..500, 0);
    db.flush().unwrap();
    let follower = open(sealed(Cipher::ChaCha20Poly1305).follow(true), &file);
    for round in 1..4 {
        db.compact().unwrap();
        write(&db, &mut model, round * 500..(round + 1) * 500, round);
        db.flush().unwrap();
        follower.refresh().unwrap();
        assert!(follower.is_compressed());
        for (key, value) in &model {
            assert_eq!(follower.get(key).unwrap().as_ref(), Some(value), "round {round}");
        }
    }
    assert!(db.compression_stats().unwrap().records > 1000);
}

/// A plain store that compresses is sealed: what is compressed shows nothing of its length any more, whether values may stay compressed or not.
#[test]
fn compressed_values_of_a_plain_store_are_padded_or_plain_once_it_is_sealed() {
    for is_allowed in [false, true] {
        let file = MemoryStorage::new();
        let plain = || Db::builder().segment_size(EXTENT).ordered(true).background(false);
        let db = open(plain().compression(Compression::OnCompaction), &file);
        let mut model = Model::new();
        write(&db, &mut model, 0..2500, 0);
        db.compact().unwrap();
        write(&db, &mut model, 2400..2600, 1);
        assert!(db.compression_stats().unwrap().records > 2000);
        assert!(matches!(db.enable_encryption(KEY), Err(Error::InvalidArgument(what)) if what.contains("compress_sealed")));
        db.close().unwrap();
        let allowed = || plain().compress_sealed(true).compression(Compression::OnCompaction);
        let db = open(if is_allowed { allowed() } else { plain() }, &file);
        let report = db.enable_encryption(KEY).unwrap();
        assert!(report.is_finished, "{report:?}");
        check(&db, &db, &model);
        assert_eq!(db.compression_stats().unwrap().records > 2000, is_allowed, "{:?}", db.compression_stats());
        search(&file, "sealed");
        db.close().unwrap();
        search(&file, "closed");
        assert!(verify_storage(&file).unwrap().is_ok());
        let (_, fields) = compressed_frames(&file);
        assert!(fields.keys().all(|field| field[0] == 3 && field[2] == 0), "{fields:?}");
        assert_eq!(fields.is_empty(), !is_allowed);
        let db = open(sealed(Cipher::Aes256Gcm).compress_sealed(is_allowed), &file);
        check(&db, &db, &model);
    }
}

/// A sealed store that compresses becomes plain: what is compressed stays so, with its dictionaries, as plain stores have it.
#[test]
fn compressed_values_of_a_sealed_store_lose_their_padding_once_it_is_plain() {
    let file = MemoryStorage::new();
    let allowed = || sealed(Cipher::Aes256Gcm).compress_sealed(true).compression(Compression::OnWrite);
    let db = open(allowed(), &file);
    let mut model = Model::new();
    write(&db, &mut model, 0..2500, 0);
    db.compact().unwrap();
    write(&db, &mut model, 2400..2600, 1);
    let before = db.compression_stats().unwrap();
    assert!(before.records > 2000 && before.dictionaries > 0, "{before:?}");
    std::thread::scope(|scope| {
        // Values that are compressed beside it are written as the log is by then.
        let beside = scope.spawn(|| {
            for round in 0..400_u32 {
                db.insert([b"beside ".as_slice(), &[(round % 50) as u8]].concat(), vec![b'v'; 2000]).unwrap();
            }
        });
        let report = db.disable_encryption().unwrap();
        beside.join().unwrap();
        assert!(report.is_finished || db.finish_key_rotation(|_| {}).unwrap().is_finished, "{report:?}");
    });
    (0..50_u8).for_each(|number| _ = model.insert([b"beside ".as_slice(), &[number]].concat(), vec![b'v'; 2000]));
    check(&db, &db, &model);
    let after = db.compression_stats().unwrap();
    assert!(after.records >= before.records && after.dictionaries >= before.dictionaries, "{after:?}");
    db.close().unwrap();
    assert!(verify_storage(&file).unwrap().is_ok());
    let (_, fields) = compressed_frames(&file);
    assert!(!fields.is_empty() && fields.keys().all(|field| field[0] == 1), "{fields:?}");
    let db = open(Db::builder().ordered(true).compression(Compression::OnCompaction).background(false), &file);
    check(&db, &db, &model);
    db.compact().unwrap();
    check(&db, &db, &model);
}
