//! Compressed values: whatever a crash, a compaction, a retrained dictionary or a flipped bit leaves, every way of reading shows the values of a
//! prefix of the commits, or says that they are damaged.

pub use super::stores::Budget;
use super::{Checked, stores, words};
use crate::counting::peak;
use crate::forge::{placeholder, put_frame};
use crate::parallel::{Failure, Outcome, Watch};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::watched::Watched;
use pipkin::frame::{Optional, build};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Builder, Change, Changes, Compression, Db, Error, Namespace, SalvageOptions, Snapshot, Storage, salvage};
use std::collections::BTreeMap;

/// Commits in the life of a store.
const COMMITS: u64 = 70;
/// A crash comes behind one of so many calls of the storage.
const CALLS_BETWEEN: u64 = 6;
/// From this commit on the values are of another kind, so that another dictionary is better.
const TURN: u64 = 30;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs stores until the images are used up.
pub fn run(budget: &Budget, images: &Quota) -> Outcome {
    stores::run(budget, images, one)
}

/// One store.
pub fn one(seed: u64, images: &Quota, watch: &Watch) -> Outcome {
    stores::one(seed, images, watch, live)
}

/// How the stores of a seed are opened.
#[derive(Clone, Copy)]
struct Setup {
    ordered: bool,
    named: bool,
    segment: u32,
    sealed: bool,
}

/// The key of the sealed ones.
const KEY: [u8; 32] = [7; 32];

impl Setup {
    fn open(self, rng: &mut Rng, storage: impl Storage + 'static) -> Checked<(Db, Namespace)> {
        let compression = match rng.below(6) {
            0 => Compression::Off,
            1 | 2 => Compression::OnWrite,
            _ => Compression::OnCompaction,
        };
        let builder =
            self.unlocking().segment_size(self.segment).background(false).ordered(self.ordered).compression(compression);
        let db = builder.open_storage(Box::new(storage)).map_err(words)?;
        let records = if self.named { db.namespace("named").map_err(words)? } else { db.default_namespace() };
        Ok((db, records))
    }

    fn unlocking(self) -> Builder {
        if self.sealed { Db::builder().encryption_key(KEY).compress_sealed(true) } else { Db::builder() }
    }

    fn of(self, snapshot: &Snapshot) -> Checked<pipkin::SnapshotNamespace> {
        match self.named {
            true => snapshot.namespace("named").map_err(words)?.ok_or_else(|| "the namespace is lost".into()),
            false => Ok(snapshot.default_namespace()),
        }
    }
}

/// What watches the store from inside, and what it has to show.
#[derive(Default)]
struct Watchers {
    snapshot: Option<(Snapshot, Records)>,
    changes: Option<(Changes, Records)>,
}

fn live(seed: u64, images: &Quota, watch: &Watch) -> Checked {
    let mut rng = derive(seed, 0x1c4);
    let sealed = seed.is_multiple_of(3);
    let setup = Setup { ordered: rng.chance(1, 2), named: rng.chance(1, 2), segment: 4096 << rng.below(3), sealed };
    let watched = Watched::new(CrashStorage::new(), CALLS_BETWEEN);
    let (mut db, mut records) = setup.open(&mut rng, watched.clone())?;
    db.flush().map_err(words)?;
    watched.watch(rng.split(), 0);
    // The content behind each commit.
    let mut states = vec![Records::new()];
    let mut watchers = Watchers::default();
    for number in 0..COMMITS {
        let mut next = states.last().cloned().unwrap_or_default();
        watched.begin();
        commit(&mut rng, &records, &mut next, number >= TURN)?;
        watched.end();
        states.push(next);
        let now = states.last().cloned().unwrap_or_default();
        match rng.below(24) {
            0..6 => db.compact().map(drop).map_err(words)?,
            6 => while db.compact_step().map_err(words)?.is_some() {},
            7 => db.checkpoint().map_err(words)?,
            8 => watchers.snapshot = Some((db.snapshot(), now)),
            9 => watchers.snapshot = None,
            10 => watchers.changes = Some((db.changes().appended(true).start().map_err(words)?, now)),
            11 => {
                watchers = Watchers::default();
                drop(records);
                db.close().map_err(words)?;
                (db, records) = setup.open(&mut rng, watched.clone())?;
                watched.durable(states.len() - 1);
            }
            12 => {
                db.flush().map_err(words)?;
                watched.flushed();
            }
            _ => {}
        }
        let now = states.last().cloned().unwrap_or_default();
        let behind = |what: String| format!("behind commit {number}: {what}");
        answers_like(&mut rng, &records, &now).map_err(behind)?;
        watchers.agree(setup, &now).map_err(behind)?;
    }
    drop((watchers, records));
    drop(db);
    for moment in &watched.stop() {
        watch.tick();
        for (image, least) in moment.images(&mut rng) {
            images.add(1);
            let range = states.get(least..=moment.begun).unwrap_or_default();
            is_one_of(&image, setup, &mut rng, range).map_err(|what| format!("of commits {least}..={}: {what}", moment.begun))?;
        }
        if let Some(image) = moment.rotten(&mut rng) {
            images.add(1);
            shows_nothing_else(&image, setup, &mut rng, states.get(..=moment.begun).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// A value; those of one kind have much in common.
fn value(rng: &mut Rng, is_late: bool) -> Vec<u8> {
    let (number, word) = (rng.below(100_000), ["red", "green", "blue", "yellow"][rng.below(4) as usize]);
    match rng.below(16) {
        0 => (0..rng.below(300)).map(|_| rng.below(256) as u8).collect(),
        1 => vec![rng.below(256) as u8; rng.below(3000) as usize],
        2 => Vec::new(),
        _ if is_late => format!(
            "<order id='{number}'><customer>somebody of the town of {word}</customer><state>delivered, unpaid</state></order>"
        )
        .into(),
        _ => {
            format!(r#"{{"sensor":"thermometer","number":{number},"color":"{word}","status":{{"works":true,"battery":"full"}}}}"#)
                .into()
        }
    }
}

/// Makes a commit, and makes it in a map.
fn commit(rng: &mut Rng, space: &Namespace, records: &mut Records, is_late: bool) -> Checked {
    let key = |rng: &mut Rng| format!("key-{}", rng.below(150)).into_bytes();
    match rng.below(8) {
        0 => {
            let keys: Vec<_> = (0..rng.below(8)).map(|_| key(rng)).collect();
            space.remove_many(&keys).map_err(words)?;
            keys.iter().for_each(|key| drop(records.remove(key)));
        }
        1 => {
            let (key, value) = (key(rng), value(rng, is_late));
            let swapped = space.swap(&key, &value).map_err(words)?;
            if swapped != records.insert(key, value) {
                return Err(format!("a swap has returned {swapped:?}"));
            }
        }
        2 => {
            let key = key(rng);
            let grown = |old: Option<&[u8]>| Some([old.unwrap_or_default(), b" and more"].concat());
            space.update(&key, grown).map_err(words)?;
            let old = records.get(&key).cloned();
            records.insert(key, grown(old.as_deref()).unwrap_or_default());
        }
        3 => {
            let (key, value) = (key(rng), value(rng, is_late));
            space.insert(&key, &value).map_err(words)?;
            records.insert(key, value);
        }
        _ => {
            let puts: Vec<_> = (0..rng.below(60)).map(|_| (key(rng), value(rng, is_late))).collect();
            space.insert_many(puts.iter().map(|(key, value)| (key, value))).map_err(words)?;
            records.extend(puts);
        }
    }
    Ok(())
}

/// Checks that the records are those of the map, in several ways of reading them.
fn answers_like(rng: &mut Rng, records: &Namespace, content: &Records) -> Checked {
    let all: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    if &all != content {
        return Err(format!("{} records instead of {}", all.len(), content.len()));
    }
    let many = records.get_many(content.keys()).map_err(words)?;
    if !many.iter().map(Option::as_ref).eq(content.values().map(Some)) {
        return Err("get_many shows other values".into());
    }
    let mut paged = Records::new();
    let mut cursor = Some(pipkin::Cursor::default());
    while let Some(from) = cursor {
        let full = paged.len() + 20;
        let each = |key: &[u8], value: &[u8]| {
            paged.insert(key.to_vec(), value.to_vec());
            paged.len() < full
        };
        cursor = records.page(from, each).map_err(words)?;
    }
    if &paged != content {
        return Err("the pages show other values".into());
    }
    for (key, value) in content.iter().filter(|_| rng.chance(1, 10)) {
        let found = records.get_zerocopy(key).map_err(words)?.map(pipkin::Value::into_vec);
        if found.as_ref() != Some(value) || !records.compare_and_swap(key, Some(value), Some(value)).map_err(words)? {
            return Err(format!("{} has another value", key.escape_ascii()));
        }
    }
    Ok(())
}

impl Watchers {
    fn agree(&mut self, setup: Setup, now: &Records) -> Checked {
        if let Some((snapshot, content)) = &self.snapshot {
            let records = setup.of(snapshot)?;
            let walked: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
            let many = records.get_many(content.keys()).map_err(words)?;
            if &walked != content || !many.iter().map(Option::as_ref).eq(content.values().map(Some)) {
                return Err("a snapshot shows other values".into());
            }
        }
        let Some((changes, told)) = &mut self.changes else { return Ok(()) };
        for commit in changes.drain().map_err(words)? {
            for change in commit.changes() {
                match change {
                    Change::Put { key, value, .. } => drop(told.insert(key.clone(), value.clone())),
                    Change::Remove { key, .. } => drop(told.remove(key)),
                    other => return Err(format!("a reader of changes hears of {other:?}")),
                }
            }
        }
        if told != now { Err("a reader of changes has heard something else".into()) } else { Ok(()) }
    }
}

/// Checks that what a crash has left is one of these states, also once it is compacted, and in a salvaged copy.
fn is_one_of(image: &CrashImage, setup: Setup, rng: &mut Rng, states: &[Records]) -> Checked {
    let (db, records) = setup.open(rng, CrashStorage::from_image(image))?;
    let content: Records = records.iter().collect::<pipkin::Result<_>>().map_err(words)?;
    if !states.contains(&content) {
        return Err(format!("{} records, which is none of {} states", content.len(), states.len()));
    }
    let report = db.verify().map_err(words)?;
    if !report.is_ok() {
        return Err(format!("{:?}", report.damage));
    }
    answers_like(rng, &records, &content)?;
    if rng.chance(1, 4) {
        db.compact().map_err(words)?;
        answers_like(rng, &records, &content).map_err(|what| format!("compacted: {what}"))?;
    }
    if rng.chance(1, 8) {
        let (target, _) = Setup { sealed: false, ..setup }.open(rng, MemoryStorage::new())?;
        let source = CrashStorage::from_image(image);
        let report = setup.unlocking().salvage(&source, &target, SalvageOptions::default(), &mut |_, _| ()).map_err(words)?;
        let records = if setup.named { target.namespace("named").map_err(words)? } else { target.default_namespace() };
        // Behind a torn end it takes what it finds.
        let is_torn = !report.damage.is_empty() || report.unfinished > 0;
        if report.undecoded > 0 || !is_torn && !states.iter().any(|state| is_like(&records, state)) {
            return Err(format!("salvage has left something else: {report:?}"));
        }
    }
    Ok(())
}

fn is_like(records: &Namespace, content: &Records) -> bool {
    records.iter().collect::<pipkin::Result<Records>>().is_ok_and(|all| &all == content)
}

/// Checks that a store with a flipped bit shows no value that a key never had: it answers with an error instead.
fn shows_nothing_else(image: &CrashImage, setup: Setup, rng: &mut Rng, states: &[Records]) -> Checked {
    let Ok((_db, records)) = setup.open(rng, CrashStorage::from_image(image)) else { return Ok(()) };
    for number in 0..150 {
        let key = format!("key-{number}").into_bytes();
        match records.get(&key) {
            Ok(None) | Err(Error::Corrupt { .. } | Error::Forged { .. }) => {}
            Ok(Some(value)) if states.iter().any(|state| state.get(&key) == Some(&value)) => {}
            Ok(Some(_)) => return Err(format!("with a flipped bit key-{number} has a value that it never had")),
            Err(error) => return Err(format!("with a flipped bit: {error}")),
        }
    }
    Ok(())
}

/// Compressed values that lie: each is an error of its own, before anything is allocated for what it says, and costs no other record.
pub fn bombs() -> Outcome {
    forged().map_err(|what| Failure::new("PIPKIN_SEED=0", what))
}

/// Codec, dictionary and plain length of a record, its value, and whether an error is what it should answer.
type Lie = ((u8, u32, u32), &'static [u8], Box<dyn Fn(&Error) -> bool>);

fn forged() -> Checked {
    let bomb = |codec: (u8, u32, u32), value: &[u8]| {
        let optional = Optional { codec: Some(codec), ..Optional::default() };
        build(1, 0, &optional, b"bomb", value).ok_or("a frame cannot be built")
    };
    let block = b"\xf0\x05a value in one block";
    let corrupt = |what: &'static str| move |error: &Error| matches!(error, Error::Corrupt { what: found, .. } if *found == what);
    let unknown: fn(&Error) -> bool = |error| matches!(error, Error::Unsupported { .. });
    let (length, gone) = ("a compressed value with a length that it cannot have", "a compressed value whose dictionary is gone");
    let misfit = "a compressed value that its dictionary does not fit";
    let lies: Vec<Lie> = vec![
        ((1, 0, 1 << 30), block, Box::new(corrupt(length))),
        ((1, 0, u32::MAX), block, Box::new(corrupt(length))),
        ((1, 0, 21), block, Box::new(corrupt(misfit))),
        ((1, 0, 0), block, Box::new(corrupt(misfit))),
        ((1, 7, 20), block, Box::new(corrupt(gone))),
        // A match that reaches back to itself, and one to before the value.
        ((1, 0, 24), b"\x1fx\x00\x00\x00", Box::new(corrupt(misfit))),
        ((1, 0, 24), b"\x1fx\x09\x00\x00", Box::new(corrupt(misfit))),
        ((2, 0, 20), block, Box::new(unknown)),
        ((255, u32::MAX, u32::MAX), block, Box::new(unknown)),
        // Lengths inside of the value: the plain one, that of the block, and zeros up to 32 bytes.
        ((3, 0, 20), b"\x14\0\0\0\x16\0\0\0\xf0\x05a value in one block\0\0", Box::new(corrupt(length))),
        ((3, 0, 0), b"\x14\0\0\x40\x16\0\0\0\xf0\x05a value in one block\0\0", Box::new(corrupt(length))),
        ((3, 0, 0), b"\x15\0\0\0\x16\0\0\0\xf0\x05a value in one block\0\0", Box::new(corrupt(misfit))),
        ((3, 0, 0), b"\x14\0\0\0\x16\0\0\xf0\xf0\x05a value in one block\0\0", Box::new(corrupt(length))),
        ((3, 0, 0), b"\x14\0\0\0\x16\0\0\0\xf0\x05a value in one block\0\x01", Box::new(corrupt(length))),
        ((3, 0, 0), b"\x14\0\0\0\x16\0\0\0\xf0\x05a value in one block", Box::new(corrupt(length))),
        ((3, 0, 0), b"\x14\0\0", Box::new(corrupt(length))),
        ((3, 7, 0), b"\x14\0\0\0\x16\0\0\0\xf0\x05a value in one block\0\0", Box::new(corrupt(gone))),
    ];
    for ((codec, value, is_expected), number) in lies.into_iter().zip(0..) {
        let frame = bomb(codec, value)?;
        let is_known = matches!(codec.0, 1 | 3);
        let storage = MemoryStorage::new();
        let open = || {
            Db::builder()
                .segment_size(16 * 1024)
                .background(false)
                .compression(Compression::OnCompaction)
                .open_storage(Box::new(storage.clone()))
        };
        let db = open().map_err(words)?;
        db.insert("before", "there").map_err(words)?;
        let (key, placeholder) = placeholder(0, &frame);
        db.insert(key, placeholder).map_err(words)?;
        db.insert("behind", "there").map_err(words)?;
        db.flush().map_err(words)?;
        let mut bytes = storage.to_vec();
        put_frame(&mut bytes, 0, &frame);
        let storage = MemoryStorage::from_vec(bytes);
        let open =
            || Db::builder().background(false).compression(Compression::OnCompaction).open_storage(Box::new(storage.clone()));
        for round in 0..2 {
            let db = open().map_err(words)?;
            let (found, peak) = peak(|| db.get("bomb"));
            if !found.as_ref().is_err_and(&is_expected) || peak > 1 << 20 {
                return Err(format!("lie {number}, round {round}: {found:?}, and {peak} bytes for it"));
            }
            if db.verify().map_err(words)?.is_ok() == is_known || db.get("behind").map_err(words)?.is_none() {
                return Err(format!("lie {number}: it is not told, or another record is lost"));
            }
            db.compact().map_err(words)?;
            db.close().map_err(words)?;
        }
        let target = Db::open_in_memory().map_err(words)?;
        let report = salvage(&storage, &target, &mut |_, _| ()).map_err(words)?;
        if (report.undecoded, target.len().map_err(words)?) != (u64::from(is_known), 2 + u64::from(!is_known)) {
            return Err(format!("lie {number}: {report:?}"));
        }
    }
    Ok(())
}
