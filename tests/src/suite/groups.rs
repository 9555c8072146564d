//! Groups that are deleted: whatever a crash leaves has all of a group or nothing of it, and the store answers like a map before and after,
//! also through a snapshot from before.

pub use super::stores::Budget;
use super::{Checked, stores, words};
use crate::parallel::{Outcome, Watch};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::watched::Watched;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Db, Namespace, Snapshot, Storage};
use std::collections::BTreeMap;
use std::time::Duration;

/// Commits in the life of a store.
const COMMITS: u64 = 40;
/// A crash comes behind one of so many calls of the storage.
const CALLS_BETWEEN: u64 = 3;
/// Names of groups, among them some that begin alike, that are empty in part, and that end in a dot or in the highest byte.
const NAMES: [&[u8]; 10] = [b"a", b"a.b", b"a.bc", b"a..b", b"a.", b".", b"a.b.c", b"\xff", b"\xff.\xff", b"a.b\xff"];

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Records of a group that is deleted beside a compaction, and as many beside it.
const MEMBERS: u64 = 6000;

/// Runs stores until the images are used up.
pub fn run(budget: &Budget, images: &Quota) -> Outcome {
    stores::run(budget, images, one)
}

/// Deletes a group with keys in order at some moment of a compaction, which copies the records of the group from one place to another: all of it is gone.
fn beside_compaction(seed: u64, _: &Quota, watch: &Watch) -> Checked {
    let mut rng = derive(seed, 0xbe51);
    let db = Db::builder().segment_size(1 << 20).background(false).ordered(true).in_memory().map_err(words)?;
    let key = |group: &str, number: u64| format!("{group}.{number}");
    for number in 0..MEMBERS {
        db.insert(key("gone", number), [1; 60]).map_err(words)?;
        db.insert(key("kept", number), [2; 60]).map_err(words)?;
    }
    // Every segment has something to be compacted for.
    for number in (0..MEMBERS).filter(|number| number % 3 == 0) {
        db.remove(key("kept", number)).map_err(words)?;
    }
    watch.tick();
    let wait = Duration::from_micros(rng.below(12_000));
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact().map(drop).map_err(words));
        std::thread::sleep(wait);
        let removed = db.delete_group("gone").map_err(words);
        compaction.join().unwrap_or_else(|_| Err("the compaction has panicked".into()))?;
        match removed? {
            MEMBERS => Ok(()),
            other => Err(format!("{other} records were removed beside a compaction, of {MEMBERS}")),
        }
    })?;
    let in_order = db.range_prefix("gone.").map_err(words)?.count();
    let kept = db.iter().collect::<pipkin::Result<Vec<_>>>().map_err(words)?;
    let left = kept.iter().filter(|(key, _)| key.starts_with(b"gone.")).count();
    if (in_order, left, kept.len() as u64) != (0, 0, MEMBERS - MEMBERS.div_ceil(3)) {
        return Err(format!("{in_order} keys of a deleted group are in order, and {left} records left, of {}", kept.len()));
    }
    Ok(())
}

/// One store that is crashed, and one that is compacted.
pub fn one(seed: u64, images: &Quota, watch: &Watch) -> Outcome {
    stores::one(seed, images, watch, live)?;
    stores::one(seed, images, watch, beside_compaction)
}

/// How the stores of a seed are opened.
#[derive(Clone, Copy)]
struct Setup {
    ordered: bool,
    named: bool,
}

impl Setup {
    fn open(self, storage: impl Storage + 'static) -> Checked<(Db, Namespace)> {
        let builder = Db::builder().segment_size(4096).background(false).ordered(self.ordered);
        let db = builder.open_storage(Box::new(storage)).map_err(words)?;
        let records = if self.named { db.namespace("named").map_err(words)? } else { db.default_namespace() };
        Ok((db, records))
    }
}

fn live(seed: u64, images: &Quota, watch: &Watch) -> Checked {
    let mut rng = derive(seed, 0x6709);
    let setup = Setup { ordered: rng.chance(1, 2), named: rng.chance(1, 2) };
    let watched = Watched::new(CrashStorage::new(), CALLS_BETWEEN);
    let (db, records) = setup.open(watched.clone())?;
    db.flush().map_err(words)?;
    watched.watch(rng.split(), 0);
    // The content behind each commit.
    let mut states = vec![Records::new()];
    let mut before: Option<(Snapshot, Records)> = None;
    for _ in 0..COMMITS {
        let mut next = states.last().cloned().unwrap_or_default();
        let commit = Commit::choose(&mut rng, &mut next);
        watched.begin();
        let old = states.last().map_or(0, Records::len);
        commit.make(&records, old.saturating_sub(next.len()))?;
        watched.end();
        answers_like(&records, &next).map_err(|what| format!("behind {commit:?}: {what}"))?;
        states.push(next);
        if rng.chance(1, 4) {
            db.flush().map_err(words)?;
            watched.flushed();
        }
        match rng.below(12) {
            0 => db.compact().map(drop).map_err(words)?,
            1 => db.checkpoint().map_err(words)?,
            2 => before = Some((db.snapshot(), states.last().cloned().unwrap_or_default())),
            3 => before = None,
            _ => {}
        }
        if let Some((snapshot, content)) = &before {
            shows(snapshot, setup, content).map_err(|what| format!("a snapshot behind {commit:?}: {what}"))?;
        }
    }
    for moment in &watched.stop() {
        watch.tick();
        for (image, least) in moment.images(&mut rng) {
            images.add(1);
            let range = states.get(least..=moment.begun).unwrap_or_default();
            is_one_of(&image, setup, range).map_err(|what| format!("of commits {least}..={}: {what}", moment.begun))?;
        }
    }
    Ok(())
}

#[derive(Debug)]
enum Commit {
    Put(Vec<(Vec<u8>, Vec<u8>)>),
    Delete(Vec<u8>),
}

impl Commit {
    /// Chooses a commit, and makes it in a map.
    fn choose(rng: &mut Rng, records: &mut Records) -> Self {
        let name = choose(rng, &NAMES);
        if rng.chance(1, 3) {
            let prefix = [name, b"."].concat();
            records.retain(|key, _| !key.starts_with(&prefix));
            return Self::Delete(name.to_vec());
        }
        let puts: Vec<_> = (0..rng.below(40))
            .map(|_| {
                let mut key = name.to_vec();
                match rng.below(8) {
                    0 => {}
                    1 => key.push(b'.'),
                    2 => key.extend(*b".\xff"),
                    _ => key.extend(format!(".{}", rng.below(60)).bytes()),
                }
                (key, vec![rng.below(250) as u8; rng.below(300) as usize])
            })
            .collect();
        records.extend(puts.iter().cloned());
        Self::Put(puts)
    }

    fn make(&self, records: &Namespace, removed: usize) -> Checked {
        match self {
            Self::Put(puts) => records.insert_many(puts.iter().map(|(key, value)| (key, value))).map_err(words),
            Self::Delete(name) => match records.delete_group(name).map_err(words)? {
                count if count == removed as u64 => Ok(()),
                count => Err(format!("{count} records were removed, of {removed}")),
            },
        }
    }
}

/// Checks that the records are those of the map, in every way of reading them that groups have.
fn answers_like(records: &Namespace, content: &Records) -> Checked {
    let all: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    if &all != content {
        return Err(format!("{} records instead of {}", all.len(), content.len()));
    }
    for name in NAMES {
        let prefix = [name, b"."].concat();
        let expected = || content.iter().filter(|(key, _)| key.starts_with(&prefix));
        let group: Records = records.group(name).map_err(words)?.collect::<pipkin::Result<_>>().map_err(words)?;
        let (focus, mut keys) = (records.focus(name), Vec::new());
        for key in focus.keys() {
            keys.push(focus.key(key.map_err(words)?).map_err(words)?);
        }
        keys.sort();
        let counted = focus.len().map_err(words)?;
        if !group.iter().eq(expected()) || !keys.iter().eq(expected().map(|(key, _)| key)) || counted != keys.len() as u64 {
            return Err(format!("the group {} has {} records", name.escape_ascii(), group.len()));
        }
    }
    Ok(())
}

/// Checks that a snapshot has this content.
fn shows(snapshot: &Snapshot, setup: Setup, content: &Records) -> Checked {
    let records = if setup.named { snapshot.namespace("named").map_err(words)? } else { Some(snapshot.default_namespace()) };
    let Some(records) = records else { return Err("it has lost the namespace".into()) };
    let walked: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    let ordered = if setup.ordered { records.range(..).and_then(Iterator::collect).map_err(words)? } else { walked.clone() };
    if &walked != content || &ordered != content || records.len().map_err(words)? != content.len() as u64 {
        return Err(format!("{} records, {} in order, instead of {}", walked.len(), ordered.len(), content.len()));
    }
    Ok(())
}

/// Checks that what a crash has left is one of these states.
fn is_one_of(image: &CrashImage, setup: Setup, states: &[Records]) -> Checked {
    let (_db, records) = setup.open(CrashStorage::from_image(image))?;
    let content: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    if !states.contains(&content) {
        return Err(format!("{} records, which is none of {} states", content.len(), states.len()));
    }
    answers_like(&records, &content)
}
