//! Sealed stores against somebody who holds every version of the file and repairs every checksum: each change is an error, and no key meets a
//! nonce twice, whatever copies are written on.

mod disabling;
mod enabling;

use super::two_writers::{self, Host};
use super::{Checked, words};
use crate::forge::bind;
use crate::parallel::{Failure, Outcome, Watch, watched};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use pipkin::frame::crc32c;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::testing::{log_nonces, logged_nonces};
use pipkin::{Db, Error, SnapshotState};
use std::collections::{BTreeMap, HashSet};

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Sessions of the history of forks, kills and files that are set back.
    pub sessions: u64,
    /// Seed of the history.
    pub seed: u64,
}

const KEY: [u8; 32] = [7; 32];
/// Where the only segment of the attacked store begins, and its first frame.
const SEGMENT: usize = 16_384;
const FIRST_FRAME: usize = SEGMENT + 704;
/// The versions of the file that the adversary holds.
const VERSIONS: usize = 12;

type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

/// Attacks a store, then lets copies of one live side by side. Sessions and changes are the trials.
pub fn run(budget: &Budget, trials: &Quota) -> Outcome {
    watched(|watch| {
        let replay = format!("PIPKIN_SEED={}", budget.seed);
        watch.begin(replay.clone());
        let all = || {
            plain_stores_take_no_key()?;
            [false, true].into_iter().try_for_each(|is_shared| attack(is_shared, trials, watch))?;
            on_one_file(budget, trials, watch)?;
            attack_snapshot(trials, watch)?;
            the_key_of_before(trials, watch)?;
            enabling::run(trials, watch)?;
            disabling::run(trials, watch)?;
            side_by_side(budget, trials, watch)
        };
        all().map_err(|what| Failure::new(replay, what))
    })
}

fn open(file: &MemoryStorage) -> pipkin::Result<Db> {
    Db::builder().encryption_key(KEY).segment_size(64 * 1024).background(false).open_storage(Box::new(file.clone()))
}

fn bytes_of(file: &MemoryStorage) -> Checked<Vec<u8>> {
    let mut bytes = vec![0; file.len().map_err(|error| error.to_string())? as usize];
    file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn plain_stores_take_no_key() -> Checked {
    let file = MemoryStorage::new();
    let db = Db::builder().background(false).open_storage(Box::new(file.clone())).map_err(words)?;
    db.close().map_err(words)?;
    match open(&file) {
        Err(Error::NotSealed) => Ok(()),
        other => Err(format!("a key for a plain store: {:?}", other.map(drop))),
    }
}

/// Whoever has the key from before a rotation, and the file as it was then, goes on with it, and puts what that writes behind each moment of the
/// rotation: it fits the log in everything but its key.
fn the_key_of_before(trials: &Quota, watch: &Watch) -> Checked {
    const NEW: [u8; 32] = [8; 32];
    let file = MemoryStorage::new();
    let db = open(&file).map_err(words)?;
    (0..8_u8).try_for_each(|number| db.insert([number], [number; 40])).map_err(words)?;
    db.close().map_err(words)?;
    let before = bytes_of(&file)?;
    let fork = MemoryStorage::from_vec(before.clone());
    let db = open(&fork).map_err(words)?;
    db.insert("forged", "by the key of before").map_err(words)?;
    db.close().map_err(words)?;
    let fork = bytes_of(&fork)?;
    let (mut io, mut pending) = (0, 0);
    loop {
        io += 1;
        watch.tick();
        trials.add(1);
        let crash = CrashStorage::from_image(&CrashImage::from_bytes(&before));
        let db = Db::builder().encryption_key(KEY).segment_size(64 * 1024).background(false);
        let db = db.open_storage(Box::new(crash.clone())).map_err(words)?;
        crash.stop_at(Some(io));
        let rotated = db.rotate_encryption_key(NEW).is_ok_and(|report| report.is_finished);
        let image = crash.freeze().latest_image().to_memory();
        // As a kill leaves it: nothing is written any more.
        drop(db);
        let mut bytes = bytes_of(&image)?;
        bytes.resize(bytes.len().max(fork.len()), 0);
        for (at, byte) in fork.iter().enumerate().skip(SEGMENT).filter(|(at, byte)| before.get(*at) != Some(byte)) {
            bytes[at] = *byte;
        }
        let builder = Db::builder().encryption_key(NEW).read_only(true);
        let found = builder.open_storage(Box::new(MemoryStorage::from_vec(bytes))).and_then(|db| {
            pending += u64::from(db.key_rotation_pending());
            db.get("forged").map(|value| value.is_some())
        });
        match found {
            Ok(true) => {
                return Err(format!(
                    "a record under the key from before a rotation counts, {io} writes and syncs behind its begin"
                ));
            }
            Ok(false) | Err(Error::WrongKey | Error::Corrupt { .. } | Error::RolledBack | Error::NotFound { .. }) => {}
            Err(Error::Forged { .. }) => pending += 1,
            Err(error) => return Err(words(error)),
        }
        if rotated && !crash.is_stopped() {
            break;
        }
    }
    if pending > 0 { Ok(()) } else { Err("no moment of the rotation was met".into()) }
}

/// Everything in the store, read as carelessly as can be, where the host can lock the file or cannot.
fn shown(bytes: Vec<u8>, is_shared: bool) -> pipkin::Result<Shown> {
    let file = FaultStorage::new(MemoryStorage::from_vec(bytes));
    file.set_shared(is_shared);
    // Only who may write looks for others.
    let builder = Db::builder().encryption_key(KEY).read_only(!is_shared).background(false).verify_on_read(false);
    builder.open_storage(Box::new(file))?.iter().collect()
}

/// Two sessions on one file that nobody can lock, under any schedule, create stores at once, overtake each other and write late: no key meets a nonce twice.
fn on_one_file(budget: &Budget, trials: &Quota, watch: &Watch) -> Checked {
    log_nonces();
    for seed in budget.seed..budget.seed + budget.sessions / 10 {
        watch.tick();
        trials.add(1);
        // What it leaves is looked at by the suite that it is of.
        drop(two_writers::run_one(&two_writers::random(seed, &[Host::Sealed, Host::SealedCached])));
    }
    all_differ(budget.sessions / 10)
}

/// Ends the log of nonces: there are more than `least`, and each key meets each once.
fn all_differ(least: u64) -> Checked {
    let used = logged_nonces();
    let different = used.iter().collect::<HashSet<_>>().len();
    if different == used.len() && used.len() as u64 > least {
        return Ok(());
    }
    Err(format!("of {} nonces under their keys, {different} are different", used.len()))
}

fn repair(bytes: &mut [u8], from: usize, to: usize, at: usize, binding: u32) {
    let sum = crc32c(&bytes[from..to]) ^ binding;
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn attack(is_shared: bool, trials: &Quota, watch: &Watch) -> Checked {
    let file = MemoryStorage::new();
    let db = open(&file).map_err(words)?;
    for number in 0..8_u8 {
        db.insert([number], [number; 40]).map_err(words)?;
    }
    db.close().map_err(words)?;
    let good = bytes_of(&file)?;
    let truth = shown(good.clone(), is_shared).map_err(words)?;
    let noticed = |bytes: Vec<u8>, what: String| {
        watch.tick();
        trials.add(1);
        match shown(bytes, is_shared) {
            Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::WrongKey | Error::RolledBack) => Ok(()),
            other => Err(format!("{what} goes unnoticed: {other:?}")),
        }
    };
    // Records: small ones without flags, 4 + 3 + 1 + 40 + 16 bytes.
    let salt = u64::from_le_bytes(good[SEGMENT..SEGMENT + 8].try_into().unwrap_or_default());
    let len = 4 + 3 + 1 + 40 + 16;
    let frames: Vec<usize> = (FIRST_FRAME..=good.len() - len)
        .filter(|&at| {
            good[at + 4..at + 7] == [0x81, 1, 56]
                && good[at..at + 4] == (crc32c(&good[at + 4..at + len]) ^ bind(salt, at as u64)).to_le_bytes()
        })
        .collect();
    if frames.len() != 8 || truth.len() != 8 {
        return Err(format!("{} records stand in the file, and {} are shown", frames.len(), truth.len()));
    }
    for &at in &frames {
        for place in at + 4..at + len {
            for bit in [0, 4, 5, 7] {
                let mut bytes = good.clone();
                bytes[place] ^= 1 << bit;
                repair(&mut bytes, at + 4, at + len, at, bind(salt, at as u64));
                noticed(bytes, format!("bit {bit} of byte {} of a record", place - at))?;
            }
        }
    }
    for slot in [0, 4096] {
        for place in 24..480 {
            let mut bytes = good.clone();
            bytes[slot + place] ^= 1;
            repair(&mut bytes, slot, slot + 508, slot + 508, bind(0, slot as u64));
            noticed(bytes, format!("byte {place} of the superblock at {slot}"))?;
        }
    }
    let id = xxhash_rust::xxh3::xxh3_64_with_seed(&good[32..48], 0);
    for place in 0..152 {
        let mut bytes = good.clone();
        for at in [SEGMENT, SEGMENT + 512] {
            bytes[at + place] ^= 1;
            repair(&mut bytes, at, at + 188, at + 188, bind(id, at as u64));
        }
        noticed(bytes, format!("byte {place} of a segment header"))?;
    }
    Ok(())
}

/// Changes every byte of the index snapshot, and repairs the checksum: the snapshot counts no more, and everything is there.
fn attack_snapshot(trials: &Quota, watch: &Watch) -> Checked {
    let file = MemoryStorage::new();
    let db = open(&file).map_err(words)?;
    db.namespace("the name of a secret").and_then(|space| space.insert("key", "value")).map_err(words)?;
    (0..20_u8).try_for_each(|number| db.insert([number], [number; 40])).map_err(words)?;
    db.checkpoint().map_err(words)?;
    db.close().map_err(words)?;
    let good = bytes_of(&file)?;
    let found = |bytes: Vec<u8>| {
        let builder = Db::builder().encryption_key(KEY).read_only(true);
        let db = builder.open_storage(Box::new(MemoryStorage::from_vec(bytes))).map_err(words)?;
        let shown: Shown = db.iter().collect::<pipkin::Result<_>>().map_err(words)?;
        Ok::<_, String>((db.open_report().snapshot, db.list_namespaces(), shown))
    };
    let (state, names, truth) = found(good.clone())?;
    if state != SnapshotState::Loaded {
        return Err(format!("the snapshot of an untouched store is {state:?}"));
    }
    let (mut chunks, mut bytes_changed) = (0, 0);
    for start in (SEGMENT..good.len() - 704).step_by(4096).filter(|&start| good[start + 16..start + 21] == *b"PSEG\x02") {
        let salt = u64::from_le_bytes(good[start..start + 8].try_into().unwrap_or_default());
        let mut at = start + 704;
        while let Some(len) = chunk_at(&good, at, salt) {
            for place in at + 8..at + 8 + len {
                watch.tick();
                trials.add(1);
                let mut bytes = good.clone();
                bytes[place] ^= 1 << (place % 8);
                repair(&mut bytes, at + 8, at + 8 + len, at + 4, bind(salt, at as u64));
                let changed = found(bytes)?;
                if changed != (SnapshotState::Damaged, names.clone(), truth.clone()) {
                    return Err(format!("byte {place} of the index snapshot: {:?}, {} records", changed.0, changed.2.len()));
                }
                bytes_changed += 1;
            }
            chunks += 1;
            at += 8 + len;
        }
    }
    if chunks > 10 && bytes_changed > 300 { Ok(()) } else { Err(format!("the snapshot has {chunks} parts")) }
}

/// Length of the chunk at `at`, if its checksum fits.
fn chunk_at(bytes: &[u8], at: usize, salt: u64) -> Option<usize> {
    let len = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize;
    let sum = u32::from_le_bytes(*bytes.get(at + 4..)?.first_chunk()?);
    let body = bytes.get(at + 8..)?.get(..len).filter(|body| !body.is_empty())?;
    (crc32c(body) ^ bind(salt, at as u64) == sum).then_some(len)
}

/// Sessions on copies of any earlier state of a store: restored backups, forks, kills.
fn side_by_side(budget: &Budget, trials: &Quota, watch: &Watch) -> Checked {
    log_nonces();
    let mut rng = derive(budget.seed, 0x5ea1);
    let mut versions = vec![(Vec::new(), Shown::new())];
    for _ in 0..budget.sessions {
        watch.tick();
        trials.add(1);
        let (bytes, mut model) = versions[rng.below(versions.len() as u64) as usize].clone();
        let file = MemoryStorage::from_vec(bytes);
        let db = open(&file).map_err(words)?;
        let found: Shown = db.iter().collect::<pipkin::Result<_>>().map_err(words)?;
        if found != model {
            return Err(format!("a copy shows {} records, and {} were written", found.len(), model.len()));
        }
        live(&db, &mut rng, &mut model).map_err(words)?;
        // There and back: another data key, under which positions go on.
        if rng.chance(1, 12) {
            db.disable_encryption().map_err(words)?;
            live(&db, &mut rng, &mut model).map_err(words)?;
            db.enable_encryption(KEY).map_err(words)?;
            live(&db, &mut rng, &mut model).map_err(words)?;
        }
        if versions.len() == VERSIONS {
            versions.swap_remove(rng.below(VERSIONS as u64) as usize);
        }
        // Closed, or as a kill leaves it.
        let mut left = bytes_of(&file)?;
        db.close().map_err(words)?;
        if rng.chance(1, 3) {
            left = bytes_of(&file)?;
        }
        versions.push((left, model));
    }
    anchors(&versions, watch)?;
    all_differ(budget.sessions)
}

/// Of every two versions, the one opens with an anchor of the other only if it goes on from there.
fn anchors(versions: &[(Vec<u8>, Shown)], watch: &Watch) -> Checked {
    for (bytes, _) in versions.iter().filter(|(bytes, _)| !bytes.is_empty()) {
        watch.tick();
        let file = MemoryStorage::from_vec(bytes.clone());
        let db = open(&file).map_err(words)?;
        db.insert("color", "green").map_err(words)?;
        let anchor = db.anchor().map_err(words)?;
        let later = bytes_of(&file)?;
        db.close().map_err(words)?;
        let with = |bytes: &[u8]| {
            let builder = Db::builder().encryption_key(KEY).background(false).not_before(anchor);
            builder.open_storage(Box::new(MemoryStorage::from_vec(bytes.to_vec()))).map(drop)
        };
        with(&later).map_err(words)?;
        with(&bytes_of(&file)?).map_err(words)?;
        if !matches!(with(bytes), Err(Error::OlderThanAnchor)) {
            return Err("an earlier state of the file opens with an anchor that was taken later".into());
        }
    }
    Ok(())
}

fn live(db: &Db, rng: &mut Rng, model: &mut Shown) -> pipkin::Result<()> {
    for _ in 0..rng.below(10) {
        let key = vec![rng.below(9) as u8];
        if rng.chance(1, 5) {
            db.remove(&key)?;
            model.remove(&key);
        } else {
            let most = if rng.chance(1, 20) { 100_000 } else { 800 };
            let len = rng.below(most) as usize;
            let value = vec![rng.below(256) as u8; len];
            db.insert(&key, &value)?;
            model.insert(key, value);
        }
    }
    match rng.below(8) {
        0 => db.compact().map(drop),
        1 => db.checkpoint(),
        2 => db.flush().map(drop),
        // Each index snapshot frees the place of the one before.
        3 => (0..4).try_for_each(|_| db.checkpoint()),
        _ => Ok(()),
    }
}
