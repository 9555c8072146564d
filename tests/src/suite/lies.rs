//! Files in which every checksum fits, and that say something wrong: a snapshot that does not show what the log holds, a header that an
//! earlier life of its place has left, headers inside of values. `verify` is content with nothing that gives wrong answers, `salvage` leaves
//! nothing out without a word, and what a value says counts nowhere.

use crate::drive::Fault;
use crate::forge::{HEADER_LEN, forge_bit, log_headers, moved_header, sign, snapshot_chunks};
use crate::parallel::{Failure, Outcome, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive, index};
use pipkin::limits::DATA_START;
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, verify_storage};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(storage: &MemoryStorage) -> Result<Db, Error> {
    let builder = Db::builder().segment_size(4096).replay_debt_max(u64::MAX).background(false).entropy([9; 32]);
    builder.auto_compact_dead_share(2.0).open_storage(Box::new(storage.clone()))
}

/// A closed store with a snapshot, a tail behind it and dead records, and what its file was on the way.
struct Base {
    earlier: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    model: Model,
}

fn build(seed: u64) -> Result<Base, Fault> {
    let mut rng = derive(seed, 0x11e5);
    let storage = MemoryStorage::new();
    let db = open(&storage)?;
    let (mut model, mut earlier) = (Model::new(), Vec::new());
    for round in 0..6_u32 {
        for _ in 0..120 {
            let (key, len) = (vec![rng.below(150) as u8], rng.below(60) as usize);
            if rng.chance(1, 8) {
                db.remove(&key)?;
                model.remove(&key);
            } else {
                let value = vec![round as u8; len];
                db.insert(&key, &value)?;
                model.insert(key, value);
            }
        }
        if round < 5 {
            db.compact()?;
        } else {
            db.checkpoint()?;
        }
        earlier.push(storage.to_vec());
    }
    for number in 0..3_u8 {
        db.insert([number], b"behind")?;
        model.insert(vec![number], b"behind".to_vec());
    }
    db.close()?;
    Ok(Base { earlier, bytes: storage.to_vec(), model })
}

/// True when the store gives what it should: an error is no wrong answer.
fn is_right(bytes: &[u8], model: &Model) -> Result<bool, Fault> {
    let storage = MemoryStorage::from_vec(bytes.to_vec());
    let db = match open(&storage) {
        Ok(db) => db,
        Err(Error::Corrupt { .. } | Error::NotAStore { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    for key in 0..=255_u8 {
        match db.get([key]) {
            Ok(found) if found.as_ref() == model.get(&[key][..]) => {}
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// A snapshot with a bit of it changed, signed anew.
fn snapshot(base: &Base, rng: &mut Rng) -> Result<(), Fault> {
    let mut bytes = base.bytes.clone();
    let chunk = choose(rng, &snapshot_chunks(&bytes));
    forge_bit(&mut bytes, chunk, rng.below(1 << 20) as usize);
    content(&bytes, &base.model)
}

fn content(bytes: &[u8], model: &Model) -> Result<(), Fault> {
    let report = verify_storage(&MemoryStorage::from_vec(bytes.to_vec()))?;
    if report.is_ok() && !is_right(bytes, model)? {
        return Fault::wrong("verify is content with a store that gives wrong answers, or none");
    }
    Ok(())
}

/// A header of an earlier life, as a lost write leaves it.
fn header(base: &Base, rng: &mut Rng) -> Result<(), Fault> {
    let older = &base.earlier[index(rng, base.earlier.len())];
    let at = choose(rng, &log_headers(older));
    let mut bytes = base.bytes.clone();
    if at + HEADER_LEN > bytes.len() || bytes[at..at + 8] == older[at..at + 8] {
        return Ok(());
    }
    bytes[at..at + HEADER_LEN].copy_from_slice(&older[at..at + HEADER_LEN]);
    let was_used = {
        let mut without = base.bytes.clone();
        without[at..at + HEADER_LEN].fill(0);
        !verify_storage(&MemoryStorage::from_vec(without))?.is_ok()
    };
    let storage = MemoryStorage::from_vec(bytes.clone());
    if was_used && verify_storage(&storage)?.is_ok() {
        return Fault::wrong(format!("verify takes the header of an earlier life at {at}"));
    }
    let target = Db::builder().background(false).in_memory()?;
    let report = pipkin::salvage(&storage, &target, &mut |_, _| {})?;
    let found: Model = target.iter().collect::<Result<_, _>>()?;
    if found != base.model && report.damage.is_empty() {
        return Fault::wrong(format!("salvage leaves records out without a word, header at {at}"));
    }
    content(&bytes, &base.model)
}

/// A value that is longer than a segment, and carries headers and records that check.
fn value(rng: &mut Rng) -> Result<(), Fault> {
    const LEN: usize = 20_000;
    let write = |value: &[u8]| -> Result<(Db, MemoryStorage), Error> {
        let storage = MemoryStorage::new();
        let db = open(&storage)?;
        db.insert("a", "1")?;
        db.flush()?;
        db.insert("large", value)?;
        Ok((db, storage))
    };
    // Where it will be, and under which header: the entropy is the same each time.
    let (db, storage) = write(&[1; LEN])?;
    let bytes = storage.to_vec();
    drop(db);
    let Some(at) = bytes.windows(64).position(|window| window == [1; 64]) else { return Fault::wrong("no value") };
    let Some(&run) = log_headers(&bytes).iter().rfind(|&&header| header < at) else { return Fault::wrong("no header") };
    let word = |at: usize| bytes[at..at + 8].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut value = vec![1; LEN];
    for inside in (DATA_START as usize..at + LEN - HEADER_LEN - 64).step_by(4096).filter(|&start| start > at) {
        let follows_run = rng.chance(1, 2);
        let changes = [
            (0, 77),
            (8, if rng.chance(1, 2) { (1 << 62) - 4096 } else { word(run + 8) + 50_000 }),
            (24, 1),
            (32, if follows_run { word(run + 8) } else { word(run + 32) }),
            (40, if follows_run { word(run) } else { word(run + 40) }),
            (48, if follows_run { (at + LEN) as u64 } else { word(run + 48) }),
            (56, if rng.chance(1, 2) { 1 << 61 } else { 0 }),
            (72, if rng.chance(1, 2) { 1 << 61 } else { 9 }),
        ];
        let header = moved_header(&bytes, run, &changes, inside);
        let mut frame = [&[0; 4][..], &[1, 4, 1], b"evil", b"x"].concat();
        sign(&mut frame, 77, (inside + HEADER_LEN) as u64);
        value[inside - at..][..HEADER_LEN].copy_from_slice(&header);
        value[inside - at + HEADER_LEN..][..frame.len()].copy_from_slice(&frame);
    }
    let (db, storage) = write(&value)?;
    let mut bytes = storage.to_vec();
    let how = rng.below(5);
    match how {
        0 => {}
        1 => bytes[at + LEN - 10] ^= 1,
        2 => {
            db.close()?;
            bytes = storage.to_vec();
        }
        3 => {
            db.checkpoint()?;
            db.insert("b", "2")?;
            bytes = storage.to_vec();
        }
        _ => {
            db.remove("large")?;
            db.compact()?;
            db.insert("b", "2")?;
            bytes = storage.to_vec();
        }
    }
    let storage = MemoryStorage::from_vec(bytes);
    for _ in 0..2 {
        let db = open(&storage).map_err(|error| Fault::from(error).at(format!("opening behind {how}")))?;
        if db.get("evil")?.is_some() || db.get("a")?.is_none() || db.get("large")?.is_none() != (how == 1 || how == 4) {
            return Fault::wrong(format!("what a value says counts, {how}"));
        }
        db.insert("c", "3").map_err(|error| Fault::from(error).at(format!("writing behind {how}")))?;
        if !db.verify()?.is_ok() {
            return Fault::wrong(format!("a value passes for damage, {how}"));
        }
        db.close()?;
    }
    let target = Db::builder().background(false).in_memory()?;
    let report = pipkin::salvage(&storage, &target, &mut |_, _| {})?;
    if target.get("evil")?.is_some() || !report.damage.is_empty() {
        return Fault::wrong(format!("salvage takes what a value says, {how}: {:?}", report.damage));
    }
    Ok(())
}

/// Tells `lies` lies.
pub fn run(lies: u64, quota: &Quota) -> Outcome {
    let build = |seed| build(seed).unwrap_or_else(|fault| panic!("base store {seed}: {fault}"));
    let bases: Vec<Base> = (0..4).map(build).collect();
    for base in &bases {
        let fault = content(&base.bytes, &base.model).err().map(|fault| fault.to_string());
        let is_ok = verify_storage(&MemoryStorage::from_vec(base.bytes.clone())).is_ok_and(|report| report.is_ok());
        assert!(fault.is_none() && is_ok, "the healthy store: {fault:?}");
    }
    for_each(0..lies, |seed, watch| {
        let replay = format!("PIPKIN_LIES={}", seed + 1);
        watch.begin(replay.clone());
        quota.add(1);
        let mut rng = derive(seed, 0x1195);
        let base = &bases[index(&mut rng, bases.len())];
        let mut lie = || match seed % 3 {
            0 => snapshot(base, &mut rng),
            1 => header(base, &mut rng),
            _ => value(&mut rng),
        };
        let outcome = guard(&mut lie).unwrap_or_else(Fault::wrong);
        outcome.map_err(|fault| Failure::new(replay, fault))
    })
}
