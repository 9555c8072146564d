//! The target `sealed_store`: bytes as changes to a sealed store by somebody without its key, who repairs checksums and holds several files.

use super::CHANGES_MOST;
use crate::forge::sign_all;
use crate::rng::{Rng, Script, choose, derive, index};
use crate::suite::hostile::mutate_once;
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::CrashStorage;
use pipkin::{Builder, Cipher, Compression, Db, Error, Expected, NewEvent, SalvageOptions, verify_storage};
use std::collections::{BTreeMap, BTreeSet};

const KEY: [u8; 32] = [7; 32];
/// Keys that the stores have had.
const KEYS: u64 = 20;

/// A sealed file, and what it may show.
#[derive(Debug)]
pub struct SealedBase {
    bytes: Vec<u8>,
    /// Every value that a key ever had.
    written: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    events: BTreeSet<Vec<u8>>,
}

fn sealed() -> Builder {
    Db::builder().encryption_key(KEY).compress_sealed(true).segment_size(4096).background(false)
}

/// Small sealed stores to start from: of both ciphers, closed and killed, compacted, rotated, with compressed values and with events.
///
/// # Panics
///
/// When the engine cannot even write them.
pub fn sealed_bases() -> Vec<SealedBase> {
    (0..6).map(|seed| base(seed).unwrap_or_else(|error| panic!("sealed store {seed}: {error}"))).collect()
}

fn base(seed: u64) -> pipkin::Result<SealedBase> {
    let mut rng = derive(seed, 0x5ea1);
    let file = CrashStorage::new();
    let cipher = if seed.is_multiple_of(2) { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
    let compression = if seed < 3 { Compression::Off } else { Compression::OnWrite };
    let open = || sealed().cipher(cipher).compression(compression).open_storage(Box::new(file.clone()));
    let (mut written, mut events) = (BTreeMap::<_, BTreeSet<_>>::new(), BTreeSet::new());
    let mut db = open()?;
    for number in 0..120 {
        match rng.below(12) {
            0 => db.remove(key(&mut rng)).map(drop)?,
            1 => {
                let event = format!("event {number}").into_bytes();
                db.events("log")?.append("stream", Expected::Any, [NewEvent::new("happened", event.clone())])?;
                events.insert(event);
            }
            2 if number % 3 == 0 => db.compact().map(drop)?,
            3 => db.checkpoint()?,
            4 => {
                db.close()?;
                db = open()?;
            }
            _ => {
                let (key, value) = (key(&mut rng), format!("value {number} ").repeat(1 + rng.below(12) as usize).into_bytes());
                db.insert(&key, &value)?;
                written.entry(key).or_default().insert(value);
            }
        }
    }
    if seed == 4 {
        // The same key for another data key.
        db.rotate_encryption_key(KEY)?;
        db.insert("key 0", "behind the rotation")?;
        written.entry(b"key 0".to_vec()).or_default().insert(b"behind the rotation".to_vec());
    }
    db.flush()?;
    if seed.is_multiple_of(3) {
        db.close()?;
    }
    Ok(SealedBase { bytes: file.latest_image().to_vec(), written, events })
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key {}", rng.below(KEYS)).into_bytes()
}

/// Opens one of `bases`, changed, with its key: it answers with an error, or with what its key has sealed. True if it opened.
pub fn sealed_store(bytes: &[u8], bases: &[SealedBase]) -> bool {
    let mut script = Script::new(bytes);
    let (base, other) = (index(&mut script, bases.len()), index(&mut script, bases.len()));
    let (base, other) = (&bases[base], &bases[other]);
    // Checksums are repaired at once, in the end, or not at all.
    let repairs = choose(&mut script, &[0, 1, 2]);
    let mut store = base.bytes.clone();
    for _ in 0..CHANGES_MOST {
        if script.is_empty() {
            break;
        }
        mutate_once(&mut store, &other.bytes, &mut script);
        if repairs == 2 {
            store = sign_all(&store).0;
        }
    }
    if repairs == 1 {
        store = sign_all(&store).0;
    }
    check(&store, [base, other]).unwrap_or_else(|what| panic!("repairs: {repairs}: {what}"))
}

/// A file may be put together from two that have the same key: then it may show what either has.
fn check(store: &[u8], bases: [&SealedBase; 2]) -> Result<bool, String> {
    // Without the key nothing panics, whatever it finds.
    drop(verify_storage(&MemoryStorage::from_vec(store.to_vec())));
    let target = Db::builder().background(false).in_memory().map_err(|error| error.to_string())?;
    let file = MemoryStorage::from_vec(store.to_vec());
    if sealed().salvage(&file, &target, SalvageOptions::default(), &mut |_, _| ()).is_ok() {
        shows(&target, bases).map_err(|what| format!("salvage: {what}"))?;
    }
    let db = match sealed().open_storage(Box::new(file)) {
        Ok(db) => db,
        Err(Error::NotSealed) => return Err("the file passes for a plain one".into()),
        Err(_) => return Ok(false),
    };
    shows(&db, bases)?;
    drop(db.verify());
    // What was opened can be written, or says why not.
    if db.insert("key 0", "written after all").is_ok()
        && !matches!(db.get("key 0"), Ok(Some(value)) if value == b"written after all")
    {
        return Err("what was written cannot be read".into());
    }
    drop(db.compact());
    Ok(true)
}

/// Fails if the store shows a record or an event that was never written.
fn shows(db: &Db, bases: [&SealedBase; 2]) -> Result<(), String> {
    let check = |key: &[u8], value: &[u8]| {
        let was_there = bases.iter().any(|base| base.written.get(key).is_some_and(|values| values.contains(value)));
        if was_there { Ok(()) } else { Err(format!("{} has {:?}", key.escape_ascii(), String::from_utf8_lossy(value))) }
    };
    for key in bases.iter().flat_map(|base| base.written.keys()) {
        if let Ok(Some(value)) = db.get(key) {
            check(key, &value)?;
        }
    }
    for (key, value) in db.iter().flatten() {
        check(&key, &value)?;
    }
    if !db.list_events().iter().any(|name| name == "log") {
        return Ok(());
    }
    let Ok(events) = db.events("log").and_then(|log| log.all().iter()) else { return Ok(()) };
    for event in events.flatten() {
        if !bases.iter().any(|base| base.events.contains(event.payload())) {
            return Err(format!("event {:?}", event.payload().escape_ascii().to_string()));
        }
    }
    Ok(())
}
