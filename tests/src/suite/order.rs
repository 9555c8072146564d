//! Keys in order out of the index snapshot: whatever a crash leaves, ranges show the records that the store has, also after it went on from there
//! with most of the order unread.

pub use super::stores::Budget;
use super::{Checked, stores, words};
use crate::parallel::{Outcome, Watch};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::watched::Watched;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Db, IndexMemory, Namespace, Storage};
use std::collections::BTreeMap;

/// Commits in the life of a store, behind the load.
const COMMITS: u64 = 24;
/// A crash comes behind one of so many calls of the storage.
const CALLS_BETWEEN: u64 = 8;
/// Records that a store begins with: a few parts of the order.
const LOADED: u64 = 3000;

/// Records of a namespace beside it, which is kept in order in some sessions only.
const BESIDE: u64 = 300;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// An open store.
struct Open {
    db: Db,
    records: Namespace,
    beside: Namespace,
}

/// Runs stores until the images are used up.
pub fn run(budget: &Budget, images: &Quota) -> Outcome {
    stores::run(budget, images, one)
}

/// One store.
pub fn one(seed: u64, images: &Quota, watch: &Watch) -> Outcome {
    stores::one(seed, images, watch, live)
}

/// The namespace in order is the default one, as all are that do not say otherwise, or one that says so itself.
fn open(storage: impl Storage + 'static, says_so: bool) -> Checked<Open> {
    let builder = Db::builder().segment_size(32 * 1024).background(false).ordered(!says_so).auto_compact_dead_share(2.0);
    let builder = builder.index_memory(if says_so { IndexMemory::InFile { newer_max: 4000 } } else { IndexMemory::Resident });
    let db = builder.open_storage(Box::new(storage)).map_err(words)?;
    let records = if says_so { db.namespace("records").map_err(words)? } else { db.default_namespace() };
    let beside = db.namespace("beside").map_err(words)?;
    Ok(Open { db, records, beside })
}

/// Of one of 16 groups.
fn key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:x}.{hash:x}", hash >> 60).into_bytes()
}

fn live(seed: u64, images: &Quota, watch: &Watch) -> Checked {
    let mut rng = derive(seed, 0x0d3e);
    let watched = Watched::new(CrashStorage::new(), CALLS_BETWEEN);
    let says_so = seed % 3 == 1;
    let Open { mut db, mut records, mut beside } = open(watched.clone(), says_so)?;
    if says_so {
        records.set_ordered(Some(true)).map_err(words)?;
        db.close().map_err(words)?;
        Open { db, records, beside } = open(watched.clone(), says_so)?;
    }
    beside.insert_many((0..BESIDE).map(|number| (key(number), b"b"))).map_err(words)?;
    let loaded: Records = (0..LOADED).map(|number| (key(number), vec![0; rng.below(40) as usize])).collect();
    records.insert_many(&loaded).map_err(words)?;
    db.checkpoint().map_err(words)?;
    watched.watch(rng.split(), 0);
    // The content behind each commit.
    let mut states = vec![loaded];
    for _ in 0..COMMITS {
        let mut next = states.last().cloned().unwrap_or_default();
        watched.begin();
        change(&records, &mut next, &mut rng)?;
        watched.end();
        states.push(next);
        let present = states.last().ok_or("no state")?;
        if rng.chance(1, 3) {
            db.flush().map_err(words)?;
            watched.flushed();
        }
        match rng.below(8) {
            0 => db.compact().map(drop).map_err(words)?,
            1 => db.checkpoint().map_err(words)?,
            2 | 3 => {
                if rng.chance(1, 2) {
                    beside.set_ordered(Some(rng.chance(1, 2))).map_err(words)?;
                }
                drop((records, beside));
                db.close().map_err(words)?;
                watched.flushed();
                Open { db, records, beside } = open(watched.clone(), says_so)?;
                stands_beside(&beside)?;
            }
            4 => looks_like(&records, present, &mut rng)?,
            5 => is_like(&records, present)?,
            // Without a checkpoint behind them: what is written next may use the space of what they have retired.
            6 => steps(&db)?,
            _ => {}
        }
    }
    for moment in &watched.stop() {
        watch.tick();
        for (image, least) in moment.images(&mut rng) {
            images.add(1);
            let range = states.get(least..=moment.begun).unwrap_or_default();
            goes_on(&image, says_so, range, &mut rng).map_err(|what| format!("of commits {least}..={}: {what}", moment.begun))?;
        }
    }
    Ok(())
}

/// Some steps of compaction.
fn steps(db: &Db) -> Checked {
    (0..4).try_for_each(|_| db.compact_step().map(drop)).map_err(words)
}

/// Makes a commit, and makes it in a map.
fn change(records: &Namespace, content: &mut Records, rng: &mut Rng) -> Checked {
    match rng.below(8) {
        0 => {
            let group = format!("{:x}", rng.below(16));
            content.retain(|key, _| !key.starts_with(format!("{group}.").as_bytes()));
            records.delete_group(&group).map(drop).map_err(words)
        }
        1 | 2 => {
            let gone = key(rng.below(LOADED * 2));
            content.remove(&gone);
            records.remove(&gone).map(drop).map_err(words)
        }
        one => {
            let count = if one == 3 { 400 } else { 1 + rng.below(20) };
            let puts: Vec<_> =
                (0..count).map(|_| (key(rng.below(LOADED * 2)), vec![rng.below(250) as u8; rng.below(80) as usize])).collect();
            content.extend(puts.iter().cloned());
            records.insert_many(puts).map_err(words)
        }
    }
}

/// Checks short ranges, which read few keys of the order.
fn looks_like(records: &Namespace, content: &Records, rng: &mut Rng) -> Checked {
    for _ in 0..2 {
        let from = key(rng.below(LOADED * 2));
        let found: Vec<_> =
            records.range(from.clone()..).map_err(words)?.take(5).collect::<pipkin::Result<_>>().map_err(words)?;
        if !found.iter().map(|(key, value)| (key, value)).eq(content.range(from.clone()..).take(5)) {
            return Err(format!("a range from {} shows other records", from.escape_ascii()));
        }
    }
    Ok(())
}

/// Checks all ranges at once: of everything, from both ends.
fn is_like(records: &Namespace, content: &Records) -> Checked {
    let rising: Vec<_> = records.range(..).map_err(words)?.collect::<pipkin::Result<_>>().map_err(words)?;
    let falling: Vec<_> = records.range(..).map_err(words)?.rev().collect::<pipkin::Result<_>>().map_err(words)?;
    let is_same = rising.iter().map(|(key, value)| (key, value)).eq(content) && falling.iter().rev().eq(&rising);
    if is_same { Ok(()) } else { Err(format!("{} records in order instead of {}", rising.len(), content.len())) }
}

/// Checks the namespace beside, which nobody has changed since it was loaded.
fn stands_beside(beside: &Namespace) -> Checked {
    match beside.range(..).map(Iterator::count) {
        Err(pipkin::Error::NotOrdered) if !beside.is_ordered() => Ok(()),
        Ok(count) if beside.is_ordered() && count as u64 == BESIDE => Ok(()),
        other => Err(format!("beside there are {other:?} in order")),
    }
}

/// Checks that what a crash has left is one of these states, and stays so over what a store does next.
fn goes_on(image: &CrashImage, says_so: bool, states: &[Records], rng: &mut Rng) -> Checked {
    let Open { db, records, beside } = open(CrashStorage::from_image(image), says_so)?;
    stands_beside(&beside)?;
    let mut content: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    if !states.contains(&content) {
        return Err(format!("{} records, which is none of {} states", content.len(), states.len()));
    }
    for _ in 0..rng.below(4) {
        match rng.below(4) {
            0 => db.compact().map(drop).map_err(words)?,
            1 => db.checkpoint().map_err(words)?,
            2 => looks_like(&records, &content, rng)?,
            _ => change(&records, &mut content, rng)?,
        }
    }
    is_like(&records, &content)?;
    if db.stats().map_err(words)?.orders_rebuilt > 0 {
        return Err("a part of the order could not be read, though nothing is damaged".to_owned());
    }
    Ok(())
}
