//! Plays operations on a store and on the model, and compares every answer.

use crate::disk::Disk;
use crate::model::{DEFAULT_NS, Digest, History, State, commits, namespace_digest, record_digest};
use crate::tape::{Op, Tape, Val, key_bytes, ns_name};
use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Db, Durability, Error, Namespace, Storage, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What stopped a run.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The engine returned an error. Whether that is wrong depends on what was done to it.
    Engine(Error),
    /// The engine gave a wrong answer.
    Wrong(String),
}

impl Fault {
    /// A wrong answer.
    pub fn wrong<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Wrong(what.into()))
    }

    /// The same fault, with where it happened.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Engine(error) => Self::Wrong(format!("{place}: unexpected error: {error} ({error:?})")),
            Self::Wrong(what) => Self::Wrong(format!("{place}: {what}")),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => write!(f, "unexpected error: {error} ({error:?})"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// Where a store lives, and how it comes back.
pub trait Host {
    /// Opens the store, creating it the first time.
    fn open(&self) -> pipkin::Result<Db>;
    /// Lets the process of `db` die: opens what it has written so far, without a close.
    fn kill(&self, db: Db) -> pipkin::Result<Db>;
    /// What a flush there achieves.
    fn durability(&self) -> Durability {
        Durability::Device
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Size of its segments in bytes.
    pub segment_size: u32,
    /// Log bytes behind the newest checkpoint after which a new one is due.
    pub replay_debt_max: u64,
}

impl Setup {
    /// A replay debt that no test gathers: with it the store neither checkpoints nor compacts by itself.
    pub const NEVER: u64 = 1 << 30;

    /// Segments of 4 KiB: a few records fill one.
    pub const TINY: Self = Self { segment_size: 4096, replay_debt_max: 1 << 20 };

    /// A builder with these options that spawns nothing and takes nothing from the system's random source.
    pub fn builder(&self, entropy: u64) -> Builder {
        let mut bytes = [0x5a; 16];
        bytes[..8].copy_from_slice(&entropy.to_le_bytes());
        Db::builder()
            .segment_size(self.segment_size)
            .replay_debt_max(self.replay_debt_max)
            .background(false)
            .entropy(bytes)
            // Some with the ordered index, which `dump` then holds against the other one.
            .ordered(entropy % 4 == 3)
    }

    /// Opens a store over `storage`.
    pub fn open(&self, storage: impl Storage + 'static, entropy: u64) -> pipkin::Result<Db> {
        self.builder(entropy).open_storage(Box::new(storage))
    }
}

/// A [`Disk`] as a host. Every opening has entropy of its own, the same in every run.
#[derive(Clone, Debug)]
pub struct DiskHost {
    /// The file.
    pub disk: Disk,
    /// How it is opened.
    pub setup: Setup,
    opens: Arc<AtomicU64>,
}

impl DiskHost {
    /// A host over `disk`. `entropy` starts the sequence of the openings' entropy.
    pub fn new(disk: Disk, setup: Setup, entropy: u64) -> Self {
        Self { disk, setup, opens: Arc::new(AtomicU64::new(entropy << 20)) }
    }
}

impl Host for DiskHost {
    fn open(&self) -> pipkin::Result<Db> {
        self.setup.open(self.disk.storage(), self.opens.fetch_add(1, Ordering::Relaxed))
    }

    fn kill(&self, db: Db) -> pipkin::Result<Db> {
        self.disk.kill();
        drop(db);
        self.open()
    }
}

/// The records of one namespace, whichever it is.
pub enum Space<'a> {
    /// The default one.
    Default(&'a Db),
    /// A named one.
    Named(Namespace),
}

macro_rules! forward {
    ($(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the namespace.")]
        pub fn $name(&self $(, $arg: $type)*) -> $out {
            match self {
                Self::Default(db) => db.$name($($arg),*),
                Self::Named(ns) => ns.$name($($arg),*),
            }
        }
    )*};
}

impl<'a> Space<'a> {
    /// The namespace by number; creates it.
    pub fn open(db: &'a Db, ns: u8) -> pipkin::Result<Self> {
        if ns == 0 { Ok(Self::Default(db)) } else { db.namespace(&ns_name(ns)).map(Self::Named) }
    }

    forward! {
        fn insert(&self, key: &[u8], value: &[u8]) -> pipkin::Result<()>;
        fn get(&self, key: &[u8]) -> pipkin::Result<Option<Vec<u8>>>;
        fn get_zerocopy(&self, key: &[u8]) -> pipkin::Result<Option<Value<'_>>>;
        fn remove(&self, key: &[u8]) -> pipkin::Result<bool>;
        fn contains_key(&self, key: &[u8]) -> pipkin::Result<bool>;
        fn insert_many(&self, records: Vec<(Vec<u8>, Vec<u8>)>) -> pipkin::Result<()>;
        fn get_many(&self, keys: Vec<Vec<u8>>) -> pipkin::Result<Vec<Option<Vec<u8>>>>;
        fn compare_and_swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> pipkin::Result<bool>;
        fn clear(&self) -> pipkin::Result<()>;
        fn len(&self) -> pipkin::Result<u64>;
        fn is_empty(&self) -> pipkin::Result<bool>;
    }

    /// `update` of the namespace.
    pub fn update(&self, key: &[u8], change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.update(key, change),
            Self::Named(ns) => ns.update(key, change),
        }
    }

    /// Every record, as `iter` gives it.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.iter().try_for_each(|record| record.map(|(key, value)| each(&key, &value))),
            Self::Named(ns) => ns.iter().try_for_each(|record| record.map(|(key, value)| each(&key, &value))),
        }
    }

    /// Every record, as `range_with` gives it; false when the store keeps no order.
    pub fn for_each_in_order(&self, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<bool> {
        let all = |key: &[u8], value: &[u8]| {
            each(key, value);
            true
        };
        let result = match self {
            Self::Default(db) => db.range_with::<&[u8]>(.., all),
            Self::Named(ns) => ns.range_with::<&[u8]>(.., all),
        };
        match result {
            Err(Error::NotOrdered) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Every key, as `keys` gives it.
    pub fn for_each_key(&self, mut each: impl FnMut(Vec<u8>)) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.keys().try_for_each(|key| key.map(&mut each)),
            Self::Named(ns) => ns.keys().try_for_each(|key| key.map(&mut each)),
        }
    }
}

/// Reads the whole store through `iter` and returns the digest of what is in it.
pub fn dump(db: &Db) -> Result<Digest, Fault> {
    let mut digest: Digest = 0;
    let mut read = |name: &str, space: &Space<'_>| -> Result<(), Fault> {
        let (mut records, mut own): (u64, Digest) = (0, 0);
        space.for_each(|key, value| {
            records += 1;
            own = own.wrapping_add(record_digest(name, key, value));
        })?;
        digest = digest.wrapping_add(own);
        let mut ordered = Vec::new();
        if space.for_each_in_order(|key, value| ordered.push((key.to_vec(), value.to_vec())))? {
            let (mut sum, mut before): (Digest, Option<&[u8]>) = (0, None);
            for (key, value) in &ordered {
                sum = sum.wrapping_add(record_digest(name, key, value));
                if before.replace(key).is_some_and(|before| before >= key.as_slice()) {
                    return Fault::wrong(format!("range() of `{name}` gives keys out of order"));
                }
            }
            if sum != own {
                return Fault::wrong(format!(
                    "range() of `{name}` gives {} records, iter() gives {records} others",
                    ordered.len()
                ));
            }
        }
        let len = space.len()?;
        if len != records {
            return Fault::wrong(format!("len() of `{name}` is {len}, iter() gives {records}"));
        }
        Ok(())
    };
    read(DEFAULT_NS, &Space::Default(db))?;
    let mut names = db.list_namespaces();
    names.sort_unstable();
    for name in &names {
        read(name, &Space::Named(db.namespace(name)?))?;
    }
    names.iter().for_each(|name| digest = digest.wrapping_add(namespace_digest(name)));
    Ok(digest)
}

/// The first differences between a store and a state, in words, for a person.
pub fn differences(db: &Db, state: &State) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        if out.len() < 1500 {
            out.push_str("\n  ");
            out.push_str(&line);
        }
    };
    let mut names: BTreeSet<String> = db.list_namespaces().into_iter().collect();
    for (&ns, space) in &state.spaces {
        if ns != 0 && !names.remove(&ns_name(ns)) {
            say(format!("namespace {ns} is missing"));
            continue;
        }
        let Ok(handle) = Space::open(db, ns) else {
            say(format!("namespace {ns} does not open"));
            continue;
        };
        let mut extra: BTreeSet<Vec<u8>> = BTreeSet::new();
        if let Err(error) = handle.for_each_key(|key| {
            extra.insert(key);
        }) {
            say(format!("keys() of namespace {ns}: {error}"));
        }
        for (&key, &val) in space {
            extra.remove(&key_bytes(key));
            match handle.get(&key_bytes(key)) {
                Ok(Some(found)) if found == val.bytes() => {}
                Ok(Some(found)) => say(format!(
                    "{ns}/{key}: should be {}#{}, has {} bytes {:02x?}",
                    val.len,
                    val.tag,
                    found.len(),
                    found.get(..8.min(found.len()))
                )),
                Ok(None) => say(format!("{ns}/{key}: should be {}#{}, is missing", val.len, val.tag)),
                Err(error) => say(format!("{ns}/{key}: {error}")),
            }
        }
        for key in extra {
            say(format!("namespace {ns} has {:?}, which should not be there", String::from_utf8_lossy(&key)));
        }
    }
    names.into_iter().for_each(|name| say(format!("`{name}` exists, and should not")));
    out
}

/// The store's whole content is that of `state`.
pub fn check_state(db: &Db, state: &State) -> Result<(), Fault> {
    let digest = dump(db)?;
    if digest == state.digest {
        return Ok(());
    }
    Fault::wrong(format!("the content differs from the model's:{}", differences(db, state)))
}

/// `get` and `contains_key` answer as `state` does for every key below `keys`, present or not.
pub fn check_gets(db: &Db, state: &State, keys: u16) -> Result<(), Fault> {
    for (&ns, space) in &state.spaces {
        let handle = Space::open(db, ns)?;
        for key in 0..keys {
            check_get(&handle, ns, key, space.get(&key).copied())?;
        }
    }
    Ok(())
}

fn check_get(space: &Space<'_>, ns: u8, key: u16, val: Option<Val>) -> Result<(), Fault> {
    let bytes = key_bytes(key);
    let found = space.get_zerocopy(&bytes)?;
    let right = match (&found, val) {
        (Some(found), Some(val)) => **found == *val.bytes(),
        (None, None) => true,
        _ => false,
    };
    if !right {
        return Fault::wrong(format!(
            "get {ns}/{key}: should be {val:?}, got {:?}",
            found.map(|found| (found.len(), found.iter().take(8).copied().collect::<Vec<u8>>()))
        ));
    }
    if space.contains_key(&bytes)? != val.is_some() {
        return Fault::wrong(format!("contains_key {ns}/{key} disagrees with get"));
    }
    Ok(())
}

/// A store, its model, and what may be found after a crash.
pub struct Player<H: Host> {
    /// Where the store lives.
    pub host: H,
    /// The open store; none after a failed reopen.
    pub db: Option<Db>,
    /// What it has been through.
    pub history: History,
    /// The states of an operation that failed: it may have got as far as any of them.
    pub in_doubt: Vec<State>,
}

impl<H: Host> Player<H> {
    /// Opens the store, which must be in `state`.
    pub fn open(host: H, state: State) -> Result<Self, Fault> {
        let db = host.open()?;
        check_state(&db, &state).map_err(|fault| fault.at("right after opening"))?;
        Ok(Self { host, db: Some(db), history: History::new(state), in_doubt: Vec::new() })
    }

    /// The open store.
    pub fn db(&self) -> Result<Db, Fault> {
        self.db.clone().map_or_else(|| Fault::wrong("the store is not open"), Ok)
    }

    /// Plays one operation. An error leaves its states in `in_doubt`; then only reads and a reopen make sense.
    pub fn play(&mut self, op: &Op) -> Result<(), Fault> {
        let steps = commits(self.history.now(), op);
        self.in_doubt.clone_from(&steps);
        self.act(op)?;
        self.in_doubt.clear();
        self.history.states.extend(steps);
        if matches!(op, Op::Flush | Op::Reopen) {
            self.history.flushed = self.history.newest();
        }
        Ok(())
    }

    /// Plays a whole tape; `each` runs behind every operation.
    pub fn play_all(&mut self, tape: &Tape, mut each: impl FnMut(&mut Self, &Op) -> Result<(), Fault>) -> Result<(), Fault> {
        for (i, op) in tape.0.iter().enumerate() {
            self.play(op).and_then(|()| each(self, op)).map_err(|fault| fault.at(format!("operation {i} `{op}`")))?;
        }
        Ok(())
    }

    fn act(&mut self, op: &Op) -> Result<(), Fault> {
        let db = self.db()?;
        let now = self.history.now();
        match op {
            Op::Put(ns, key, val) => Space::open(&db, *ns)?.insert(&key_bytes(*key), &val.bytes())?,
            Op::Del(ns, key) => {
                let had = now.get(*ns, *key).is_some();
                if Space::open(&db, *ns)?.remove(&key_bytes(*key))? != had {
                    return Fault::wrong(format!("remove should say {had}"));
                }
            }
            Op::Many(ns, records) => {
                let records = records.iter().map(|(key, val)| (key_bytes(*key), val.bytes())).collect();
                Space::open(&db, *ns)?.insert_many(records)?;
            }
            Op::Txn(keep, edits) => transact(&db, now, *keep, edits)?,
            Op::Cas(ns, key, hit, val) => {
                let expected = match (now.get(*ns, *key), hit) {
                    (old, true) => old.map(Val::bytes),
                    (Some(_), false) => None,
                    (None, false) => Some(b"not there".to_vec()),
                };
                let new = val.map(Val::bytes);
                let space = Space::open(&db, *ns)?;
                if space.compare_and_swap(&key_bytes(*key), expected.as_deref(), new.as_deref())? != *hit {
                    return Fault::wrong(format!("compare_and_swap should say {hit}"));
                }
            }
            Op::Update(ns, key, val) => {
                let old = now.get(*ns, *key).map(Val::bytes);
                let mut seen = None;
                Space::open(&db, *ns)?.update(&key_bytes(*key), |found| {
                    seen = Some(found.map(<[u8]>::to_vec));
                    val.map(Val::bytes)
                })?;
                if seen != Some(old) {
                    return Fault::wrong("update was shown another value than the newest");
                }
            }
            Op::Clear(ns) => Space::open(&db, *ns)?.clear()?,
            Op::Drop(ns) => {
                let had = now.spaces.contains_key(ns);
                if db.drop_namespace(&ns_name(*ns))? != had {
                    return Fault::wrong(format!("drop_namespace should say {had}"));
                }
            }
            Op::Flush => {
                let achieved = db.flush()?;
                if achieved != self.host.durability() {
                    return Fault::wrong(format!("flush claims {achieved:?}, the host gives {:?}", self.host.durability()));
                }
            }
            Op::Checkpoint => db.checkpoint()?,
            Op::Step => db.compact_step().map(|_| ())?,
            Op::Compact => db.compact().map(|_| ())?,
            Op::Verify => {
                let report = db.verify()?;
                if !report.is_ok() {
                    return Fault::wrong(format!("verify of a healthy store finds {:?}", report.damage));
                }
            }
            Op::Backup => backup(&db, now)?,
            Op::Reopen => {
                self.db = None;
                db.close()?;
                self.come_back(|host| host.open())?;
            }
            Op::Kill => {
                self.db = None;
                self.come_back(|host| host.kill(db))?;
            }
        }
        Ok(())
    }

    fn come_back(&mut self, open: impl FnOnce(&H) -> pipkin::Result<Db>) -> Result<(), Fault> {
        let db = open(&self.host)?;
        let checked = check_state(&db, self.history.now());
        self.db = Some(db);
        checked
    }
}

fn backup(db: &Db, now: &State) -> Result<(), Fault> {
    let target = MemoryStorage::new();
    let report = db.backup_to_storage(&target)?;
    // It copies the log, so the dead records count, too.
    if report.records < now.records() {
        return Fault::wrong(format!("backup counts {} records, the model {}", report.records, now.records()));
    }
    let copy = Setup::TINY.open(target, 1)?;
    check_state(&copy, now).map_err(|fault| fault.at("in the backup"))
}

/// Any error that the closure of a transaction can return to have it rolled back.
fn roll_back() -> Error {
    Error::InvalidArgument("rolled back by the test")
}

fn transact(db: &Db, now: &State, keep: bool, edits: &[(u8, u16, Option<Val>)]) -> Result<(), Fault> {
    let mut handles = std::collections::BTreeMap::new();
    let mut spaces: Vec<u8> = edits.iter().map(|edit| edit.0).filter(|&ns| ns != 0).collect();
    spaces.sort_unstable();
    spaces.dedup();
    for ns in spaces {
        handles.insert(ns, db.namespace(&ns_name(ns))?);
    }
    let mut inside = now.clone();
    let mut wrong = None;
    let result = db.transaction(|txn| {
        for (ns, key, val) in edits {
            let bytes = key_bytes(*key);
            let before = match handles.get(ns) {
                None => txn.get(&bytes)?,
                Some(handle) => txn.get_in(handle, &bytes)?,
            };
            if before != inside.get(*ns, *key).map(Val::bytes) {
                wrong = Some(format!("inside the transaction {ns}/{key} is not what was written"));
            }
            match (handles.get(ns), val) {
                (None, Some(val)) => txn.insert(&bytes, val.bytes())?,
                (None, None) => txn.remove(&bytes).map(|_| ())?,
                (Some(handle), Some(val)) => txn.insert_in(handle, &bytes, val.bytes())?,
                (Some(handle), None) => txn.remove_in(handle, &bytes).map(|_| ())?,
            }
            inside.spaces.entry(*ns).or_default();
            inside.set(*ns, *key, *val);
            let there = match handles.get(ns) {
                None => txn.contains_key(&bytes)?,
                Some(handle) => txn.contains_key_in(handle, &bytes)?,
            };
            if there != val.is_some() {
                wrong = Some(format!("the transaction does not see its own write to {ns}/{key}"));
            }
        }
        if keep { Ok(()) } else { Err(roll_back()) }
    });
    match (result, wrong) {
        (_, Some(wrong)) => Fault::wrong(wrong),
        (Ok(()), None) => Ok(()),
        (Err(Error::InvalidArgument(_)), None) if !keep => Ok(()),
        (Err(error), None) => Err(error.into()),
    }
}
