//! Sealed stores: who has the key reads and writes them like any other, and who has not reads nothing and changes nothing unnoticed.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "ordered", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, stride};
use crate::sealed_bytes::{bytes, frame_len, frames, repair_header, repair_superblock, sum_again};
use pipkin::storage::MemoryStorage;
use pipkin::storage::random::Rng;
use pipkin::testing::{log_nonces, logged_nonces};
use pipkin::{Builder, Change, Cipher, Db, Error, Namespace, Ttl, verify_storage};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const KEY: [u8; 32] = [7; 32];
const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

fn sealed() -> Builder {
    Db::builder().encryption_key(KEY).segment_size(4096)
}

fn open(file: &MemoryStorage) -> pipkin::Result<Db> {
    sealed().open_storage(Box::new(file.clone()))
}

fn all(space: &Namespace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    space.iter().map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

#[test]
fn a_sealed_store_answers_like_a_map_through_sessions_compactions_and_kills() {
    for (seed, cipher) in (0..8).zip(CIPHERS.into_iter().cycle()) {
        let (file, mut rng) = (MemoryStorage::new(), Rng::new(seed));
        let mut map = BTreeMap::new();
        for session in 0..12 {
            let db = sealed().cipher(cipher).verify_on_read(session % 2 == 0).open_storage(Box::new(file.clone())).unwrap();
            let users = db.namespace("users").unwrap();
            assert_eq!(all(&users), map, "seed {seed}, session {session}");
            for _ in 0..60 {
                let (key, len) = (format!("key {}", rng.below(30)).into_bytes(), [3, 150, 5000, 70_000][rng.below(4) as usize]);
                match rng.below(5) {
                    0 => {
                        users.remove(&key).unwrap();
                        map.remove(&key);
                    }
                    _ => {
                        let value = vec![rng.below(256) as u8; len];
                        users.insert(&key, &value).unwrap();
                        map.insert(key, value);
                    }
                }
            }
            match session % 4 {
                0 => db.clone().close().unwrap(),
                1 => {
                    db.compact().unwrap();
                    assert_eq!(all(&users), map);
                    assert!(db.verify().unwrap().is_ok());
                }
                2 => db.checkpoint().unwrap(),
                _ => db.flush().map(drop).unwrap(),
            }
            drop(users);
            if session % 4 > 1 {
                killed(db);
            }
        }
        let report = verify_storage(&file).unwrap();
        assert!(report.is_ok() && report.unauthenticated, "{report:?}");
    }
}

#[test]
fn every_capability_works_in_a_sealed_store() {
    let file = MemoryStorage::new();
    let clock = pipkin::testing::TestClock::new(1_000_000);
    let begin = || sealed().ordered(true).clock(clock.clone()).open_storage(Box::new(file.clone())).unwrap();
    let db = begin();
    db.insert_with_ttl("code", "1234", Duration::from_secs(60)).unwrap();
    db.insert_with_ttl("logo", "...", Ttl::Never).unwrap();
    let users = db.namespace("users").unwrap();
    db.transaction(|tx| {
        tx.insert("a", "1")?;
        tx.insert("b", "2")
    })
    .unwrap();
    users.insert("ada", "Ada").unwrap();
    let before = db.snapshot();
    db.insert("a", "3").unwrap();
    assert_eq!(before.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let log = db.events("orders").unwrap();
    for number in 0..100_u32 {
        log.append("cart", pipkin::Expected::Any, [pipkin::NewEvent::new("added", number.to_le_bytes())]).unwrap();
    }
    assert_eq!(log.stream("cart").iter().unwrap().count(), 100);
    assert_eq!(db.range("a".."c").unwrap().count(), 2);
    drop(before);
    db.compact().unwrap();
    clock.advance(Duration::from_secs(61));
    assert_eq!(db.get("code").unwrap(), None);
    db.close().unwrap();
    drop((users, log));
    let db = begin();
    assert_eq!(db.get("code").unwrap(), None);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.namespace("users").unwrap().get("ada").unwrap().as_deref(), Some(&b"Ada"[..]));
    let log = db.events("orders").unwrap();
    let versions: Vec<u64> = log.stream("cart").iter().unwrap().map(|event| event.unwrap().version()).collect();
    assert_eq!(versions, (1..=100).collect::<Vec<_>>());
    let mut changes = db.changes().start().unwrap();
    db.insert("heard", "of").unwrap();
    db.flush().unwrap();
    let commits = changes.drain().unwrap();
    assert!(matches!(commits.last().unwrap().changes(), [Change::Put { key, .. }] if key == b"heard"), "{commits:?}");
}

#[test]
fn the_key_decides_before_anything_is_read_or_changed() {
    let file = MemoryStorage::new();
    open(&file).unwrap().close().unwrap();
    let before = bytes(&file);
    let with = |builder: Builder| builder.open_storage(Box::new(file.clone())).map(drop);
    assert!(matches!(with(Db::builder()), Err(Error::KeyNeeded)));
    assert!(matches!(with(Db::builder().read_only(true)), Err(Error::KeyNeeded)));
    assert!(matches!(with(Db::builder().encryption_key([8; 32])), Err(Error::WrongKey)));
    assert!(matches!(with(Db::builder().encryption_passphrase(KEY)), Err(Error::WrongKey)));
    let target = Db::open_in_memory().unwrap();
    assert!(matches!(pipkin::salvage(&file, &target, &mut |_, _| ()), Err(Error::KeyNeeded)));
    assert_eq!(bytes(&file), before);

    let plain = MemoryStorage::new();
    Db::builder().open_storage(Box::new(plain.clone())).unwrap().close().unwrap();
    let before = bytes(&plain);
    assert!(matches!(open(&plain), Err(Error::NotSealed)));
    assert_eq!(bytes(&plain), before);
}

#[test]
fn a_passphrase_opens_the_store_that_it_sealed() {
    let file = MemoryStorage::new();
    let with = |passphrase: &str| Db::builder().encryption_passphrase(passphrase).open_storage(Box::new(file.clone()));
    with("correct horse").unwrap().insert("color", "green").unwrap();
    assert!(matches!(with("battery staple"), Err(Error::WrongKey)));
    assert_eq!(with("correct horse").unwrap().get("color").unwrap().as_deref(), Some(&b"green"[..]));
}

/// A store with a little of everything that a sealed store has, closed.
fn small() -> MemoryStorage {
    let file = MemoryStorage::new();
    for session in 0..3_u8 {
        let db = open(&file).unwrap();
        let secrets = db.namespace("the name of a secret").unwrap();
        for number in 0..4_u8 {
            secrets
                .insert(
                    [b"the key of a secret ".as_slice(), &[number]].concat(),
                    [b"the value of a secret ".as_slice(), &[session]].concat(),
                )
                .unwrap();
        }
        if session == 1 {
            secrets.remove([b"the key of a secret ".as_slice(), &[0]].concat()).unwrap();
            secrets.insert("large", vec![session; 700]).unwrap();
            db.checkpoint().unwrap();
            db.compact().unwrap();
        }
        db.close().unwrap();
    }
    file
}

/// What the store shows, or the error of opening it or of reading any of it.
fn shown(file: &MemoryStorage, verify: bool) -> pipkin::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let db = sealed().read_only(true).verify_on_read(verify).open_storage(Box::new(file.clone()))?;
    // Of a record of a closed store that is damaged, only its key is unknown: whoever asks for that is told.
    match (db.open_report().unsure_at, db.find_namespace("the name of a secret")) {
        (Some(_), None) => Err(db.get("any").map(|value| panic!("{value:?} for a key that may be the damaged one")).unwrap_err()),
        (_, space) => space.unwrap().iter().collect(),
    }
}

#[test]
fn no_byte_of_the_file_tells_a_key_a_value_or_a_name() {
    let file = small();
    let backup = MemoryStorage::new();
    let db = open(&file).unwrap();
    db.backup_to_storage(&backup).unwrap();
    drop(db);
    for file in [&file, &backup] {
        let bytes = bytes(file);
        for text in [&b"secret"[..], b"large", &[1; 16], &KEY] {
            assert!(!bytes.windows(text.len()).any(|window| window == text), "{text:?}");
        }
    }
    assert_eq!(shown(&file, true).unwrap(), shown(&backup, true).unwrap());
    assert!(verify_storage(&backup).unwrap().is_ok());
    // Without the crate's keys the copy is as closed as the original.
    assert!(matches!(Db::builder().open_storage(Box::new(backup)), Err(Error::KeyNeeded)));
}

#[test]
fn every_flipped_bit_is_an_error_or_changes_nothing() {
    let file = small();
    let (truth, bytes) = (shown(&file, true).unwrap(), bytes(&file));
    let mut noticed = 0;
    // In turn each bit of a byte.
    for place in (0..bytes.len()).step_by(stride(3)) {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        match shown(&MemoryStorage::from_vec(changed), place % 2 == 0) {
            Ok(shown) => assert_eq!(shown, truth, "byte {place}"),
            Err(
                Error::Corrupt { .. }
                | Error::Forged { .. }
                | Error::WrongKey
                | Error::NewerVersion { .. }
                | Error::NotAStore { .. }
                | Error::KeyNeeded
                | Error::NotSealed,
            ) => noticed += 1,
            Err(error) => panic!("byte {place}: {error:?}"),
        }
    }
    assert!(noticed > 300, "{noticed} of {}", bytes.len());
}

/// A store of one session: the segment at 16384 with eight records of one length.
fn one_session() -> Vec<u8> {
    let file = MemoryStorage::new();
    let db = sealed().segment_size(64 * 1024).open_storage(Box::new(file.clone())).unwrap();
    let space = db.namespace("the name of a secret").unwrap();
    (0..8_u8).for_each(|number| space.insert([number], [number; 40]).unwrap());
    db.close().unwrap();
    bytes(&file)
}

#[test]
fn who_repairs_every_checksum_is_found_out() {
    let good = one_session();
    let (salt, all) = frames(&good, 16_384);
    let truth = shown(&MemoryStorage::from_vec(good.clone()), true).unwrap();
    assert!(truth.len() == 8 && all.len() > 8);
    let forged = |bytes: Vec<u8>, what: &str| match shown(&MemoryStorage::from_vec(bytes), false) {
        Err(Error::Forged { .. }) => {}
        other => panic!("{what}: {other:?}"),
    };
    for &(at, len) in &all {
        // Every byte behind the checksum: lengths and heads lead elsewhere, which must not be taken for the truth either.
        for place in at + 4..at + len {
            for bit in [0, 4, 5] {
                let mut bytes = good.clone();
                bytes[place] ^= 1 << bit;
                let len = frame_len(&bytes, at).unwrap_or(len).min(bytes.len() - at);
                sum_again(&mut bytes, salt, at, len);
                let found = shown(&MemoryStorage::from_vec(bytes), false);
                assert!(matches!(found, Err(Error::Forged { .. } | Error::Corrupt { .. })), "byte {place}, bit {bit}: {found:?}");
            }
        }
    }
    // Two frames of one length change places, one is written over another, and a pad takes the place of one.
    let same: Vec<(usize, usize)> = all.iter().copied().filter(|(_, len)| *len == all[all.len() - 2].1).collect();
    let [(first, len), (second, _), ..] = same[..] else { panic!("{same:?}") };
    let mut swapped = good.clone();
    swapped[first..first + len].copy_from_slice(&good[second..second + len]);
    sum_again(&mut swapped, salt, first, len);
    forged(swapped.clone(), "one over another");
    swapped[second..second + len].copy_from_slice(&good[first..first + len]);
    sum_again(&mut swapped, salt, second, len);
    forged(swapped, "swapped");
    let mut padded = good.clone();
    padded[first + 4..first + len].fill(0);
    padded[first + 4..first + 7].copy_from_slice(&[0x86, 0, (len - 7) as u8]);
    sum_again(&mut padded, salt, first, len);
    forged(padded, "a pad");
    // A plain record in a sealed segment.
    let mut plain = good.clone();
    plain[first + 4..first + len].fill(0);
    plain[first + 4..first + 7].copy_from_slice(&[1, 1, (len - 8) as u8]);
    sum_again(&mut plain, salt, first, len);
    forged(plain, "a plain record");
}

#[test]
fn every_field_of_the_superblocks_and_headers_is_tagged() {
    let good = one_session();
    for place in (8..480).filter(|place| !(8..24).contains(place)) {
        let mut bytes = good.clone();
        for slot in [0, 4096] {
            bytes[slot + place] ^= 1;
            repair_superblock(&mut bytes, slot);
        }
        let found = shown(&MemoryStorage::from_vec(bytes), true);
        let is_error = matches!(found, Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::WrongKey));
        assert!(is_error, "byte {place} of the superblocks: {found:?}");
    }
    for place in 0..152 {
        let mut bytes = good.clone();
        bytes[16_384 + place] ^= 1;
        bytes[16_384 + 512 + place] ^= 1;
        repair_header(&mut bytes, 16_384);
        let found = shown(&MemoryStorage::from_vec(bytes), true);
        assert!(matches!(found, Err(Error::Forged { .. } | Error::Corrupt { .. })), "byte {place} of the header: {found:?}");
    }
}

#[test]
fn history_is_neither_cut_nor_mixed() {
    let file = MemoryStorage::new();
    let session = |file: &MemoryStorage, number: u8| {
        let db = open(file).unwrap();
        let space = db.namespace("the name of a secret").unwrap();
        space.insert([number], [number; 100]).unwrap();
        space
    };
    let mut versions = Vec::new();
    for number in 0..4 {
        let space = session(&file, number);
        drop(space);
        if number % 2 == 0 {
            open(&file).unwrap().close().unwrap();
        }
        versions.push(bytes(&file));
    }
    let newest = versions.last().unwrap().clone();
    let truths: Vec<_> = versions.iter().map(|version| shown(&MemoryStorage::from_vec(version.clone()), true).unwrap()).collect();
    // A fork: what two sessions wrote behind the same state must not be mixed.
    let fork = MemoryStorage::from_vec(versions[1].clone());
    drop(session(&fork, 77));
    let fork = bytes(&fork);
    let mut others: Vec<Vec<u8>> = versions.clone();
    others.push(fork);
    let mut refused = 0;
    for other in &others {
        let len = newest.len().max(other.len());
        let (mut one, mut two) = (newest.clone(), other.clone());
        one.resize(len, 0);
        two.resize(len, 0);
        // Each 4 KiB of the one file in the other one, with the front and without.
        for block in 0..len / 4096 {
            let range = block * 4096..(block + 1) * 4096;
            for (base, patch) in [(&one, &two), (&two, &one)] {
                let mut mixed = base.clone();
                mixed[range.clone()].copy_from_slice(&patch[range.clone()]);
                match shown(&MemoryStorage::from_vec(mixed), true) {
                    Ok(found) => {
                        assert!(truths.contains(&found) || found.keys().all(|key| *key == [77] || key[0] < 2), "{found:?}")
                    }
                    Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::RolledBack) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    assert!(refused > 4, "{refused}");
    // The front of a closed store before records that were written later.
    let mut set_back = newest;
    set_back[..16_384].copy_from_slice(&versions[2][..16_384]);
    assert!(matches!(shown(&MemoryStorage::from_vec(set_back), true), Err(Error::RolledBack)));
}

#[test]
fn no_key_meets_a_nonce_twice_in_forks_kills_and_set_back_files() {
    log_nonces();
    let mut rng = Rng::new(1);
    let mut versions = vec![MemoryStorage::new()];
    for _ in 0..300 {
        let from = versions[rng.below(versions.len() as u64) as usize].clone();
        let copy = MemoryStorage::from_vec(bytes(&from));
        let db = open(&copy).unwrap();
        for _ in 0..rng.below(12) {
            db.insert([rng.below(9) as u8], vec![7; rng.below(3000) as usize]).unwrap();
        }
        match rng.below(4) {
            0 => db.clone().close().unwrap(),
            1 => drop(db.compact().unwrap()),
            2 => db.checkpoint().unwrap(),
            _ => {}
        }
        killed(db);
        if versions.len() == 12 {
            versions.swap_remove(rng.below(12) as usize);
        }
        versions.push(copy);
    }
    let used = logged_nonces();
    let different: HashSet<_> = used.iter().collect();
    assert!(used.len() > 2000 && different.len() == used.len(), "{} of {}", different.len(), used.len());
}
