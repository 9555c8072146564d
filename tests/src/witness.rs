//! Writers whose every operation follows from its number, and the outside witness of how many of them were acknowledged: a
//! file that the child overwrites behind each acknowledgement and that outlives it in the page cache.

use crate::rng::{Rng, derive};
use pipkin::testing::TestClock;
use pipkin::{Clock, Db, Namespace, Ttl};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writers of a child. Each has keys of its own in every namespace.
pub const WRITERS: u64 = 3;
/// Keys of a writer in each namespace.
pub(crate) const KEYS: u64 = 50;
/// Namespaces, the default one included.
pub(crate) const SPACES: u64 = 3;

/// A key: namespace and number.
type Key = (u64, u64);

/// When records expire that live long, in milliseconds since 1970.
pub const LONG_MS: u64 = 4_102_444_800_000;
/// How long those live that are gone when somebody looks. What they have replaced is gone, too.
const SHORT: Duration = Duration::from_millis(1);

/// True if records expire in the store of this seed.
pub fn expires(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

/// How long what an operation sets lives: in a third of the stores not always for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Forever,
    Long,
    Short,
}

impl Life {
    fn ttl(self) -> Ttl {
        match self {
            Self::Forever => Ttl::Never,
            Self::Long => Ttl::At(LONG_MS),
            Self::Short => Ttl::After(SHORT),
        }
    }
}

/// What one operation sets (to a value that follows from its number) or removes. All of it is one commit.
#[derive(Clone, Debug)]
struct Commit {
    edits: BTreeMap<Key, bool>,
    kind: Kind,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One,
    Many,
    Transaction,
}

fn commit(seed: u64, writer: u64, number: u64) -> Commit {
    let mut rng = derive(seed ^ writer << 32, number);
    let key = |rng: &mut Rng, space: u64| (space, rng.below(KEYS));
    let kind = match rng.below(10) {
        0 | 1 => Kind::Many,
        2 | 3 => Kind::Transaction,
        _ => Kind::One,
    };
    let space = rng.below(SPACES);
    let mut edits = BTreeMap::new();
    match kind {
        Kind::One => {
            edits.insert(key(&mut rng, space), rng.chance(4, 5));
        }
        Kind::Many => edits.extend((0..4).map(|_| (key(&mut rng, space), true))),
        Kind::Transaction => {
            for _ in 0..5 {
                let space = rng.below(SPACES);
                edits.insert(key(&mut rng, space), rng.chance(3, 4));
            }
        }
    }
    let life = match rng.below(3) {
        1 if expires(seed) => Life::Long,
        2 if expires(seed) => Life::Short,
        _ => Life::Forever,
    };
    Commit { edits, kind, life }
}

pub(crate) fn key_of(writer: u64, key: u64) -> Vec<u8> {
    format!("writer {writer} key {key}").into_bytes()
}

pub(crate) fn value_of(writer: u64, key: Key, number: u64) -> Vec<u8> {
    let mut rng = derive(number, writer << 32 | key.0 << 16 | key.1);
    let len = if rng.chance(1, 40) { 3000 + rng.below(60_000) } else { rng.below(400) };
    let mut value = vec![0; 8 + len as usize];
    rng.fill(&mut value);
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The name of a namespace; that of the default one is empty.
pub(crate) fn name_of(space: u64) -> String {
    if space == 0 { String::new() } else { format!("space {space}") }
}

/// The namespaces of a store, the default one first.
pub struct Spaces {
    pub(crate) db: Db,
    pub(crate) all: Vec<Namespace>,
    pub(crate) clock: Option<TestClock>,
}

impl Spaces {
    /// Opens them; creates what is missing.
    pub fn open(db: &Db) -> pipkin::Result<Self> {
        let named = (1..SPACES).map(|space| db.namespace(&name_of(space)));
        let all = std::iter::once(Ok(db.default_namespace())).chain(named).collect::<pipkin::Result<_>>()?;
        Ok(Self { db: db.clone(), all, clock: None })
    }

    /// Those of a store that was opened under this clock, which shows a time at which what lives shortly has expired.
    #[must_use]
    pub fn under(self, clock: Option<TestClock>) -> Self {
        Self { clock, ..self }
    }

    /// True if what lives long has expired, too.
    pub(crate) fn is_late(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.now_ms() >= LONG_MS)
    }

    /// Until what was set to live shortly has expired.
    fn wait_for_expiry(&self, seed: u64) {
        if expires(seed) && self.clock.is_none() {
            std::thread::sleep(SHORT * 2);
        }
    }

    /// A record, and when it expires.
    fn get(&self, space: u64, key: &[u8]) -> pipkin::Result<Option<(Vec<u8>, Option<u64>)>> {
        let space = &self.all[space as usize];
        space.get(key)?.map(|value| Ok((value, space.expires_at(key)?))).transpose()
    }

    /// Plays one operation of a writer.
    pub fn play(&self, seed: u64, writer: u64, number: u64) -> pipkin::Result<()> {
        let Commit { edits, kind, life } = commit(seed, writer, number);
        let ttl = life.ttl();
        let records = edits.iter().map(|(&key, &set)| {
            let value = set.then(|| value_of(writer, key, number));
            (&self.all[key.0 as usize], key_of(writer, key.1), value)
        });
        match kind {
            Kind::One => {
                for (space, key, value) in records.clone() {
                    match value {
                        Some(value) => space.insert_with_ttl(key, value, ttl)?,
                        None => drop(space.remove(key)?),
                    }
                }
                Ok(())
            }
            Kind::Many => {
                let space = edits.keys().next().map_or(0, |key| key.0);
                let records = records.filter_map(|(_, key, value)| Some((key, value?)));
                self.all[space as usize].with_ttl(ttl).insert_many(records)
            }
            Kind::Transaction => self.db.transaction(|txn| {
                for (space, key, value) in records.clone() {
                    match value {
                        Some(value) => txn.insert_in_with_ttl(space, key, value, ttl)?,
                        None => drop(txn.remove_in(space, key)?),
                    }
                }
                Ok(())
            }),
        }
    }
}

/// What a writer's keys should hold: the number of the operation that set each, and when it expires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    keys: BTreeMap<Key, (u64, Option<u64>)>,
    /// Operations played so far.
    pub played: u64,
}

impl Model {
    /// Plays operations up to and including `number`.
    pub fn advance(&mut self, seed: u64, writer: u64, number: u64) {
        while self.played < number {
            self.played += 1;
            let Commit { edits, life, .. } = commit(seed, writer, self.played);
            for (key, set) in edits {
                if set && life != Life::Short {
                    self.keys.insert(key, (self.played, (life == Life::Long).then_some(LONG_MS)));
                } else {
                    self.keys.remove(&key);
                }
            }
        }
    }

    /// What a key should hold: the number of the operation that set it, and when it expires. `late`: once what lives long has expired.
    pub(crate) fn get(&self, space: u64, key: u64, late: bool) -> Option<(u64, Option<u64>)> {
        self.keys.get(&(space, key)).copied().filter(|(_, expiry)| !late || expiry.is_none())
    }

    fn differences(&self, spaces: &Spaces, writer: u64) -> Result<Vec<String>, String> {
        let (mut out, late) = (Vec::new(), spaces.is_late());
        for space in 0..SPACES {
            for key in 0..KEYS {
                let found = spaces.get(space, &key_of(writer, key)).map_err(|error| format!("get: {error} ({error:?})"))?;
                let right = self.get(space, key, late);
                let is_right = match (&found, right) {
                    (Some((value, expiry)), Some((number, right))) => {
                        *expiry == right && *value == value_of(writer, (space, key), number)
                    }
                    (found, right) => found.is_none() && right.is_none(),
                };
                if !is_right {
                    let number = |value: &Vec<u8>| value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                    let found = found.map(|(value, expiry)| (number(&value), expiry));
                    out.push(format!("{space}/{key}: of operation {found:?}, should be of {right:?}"));
                }
            }
        }
        Ok(out)
    }

    /// Finds how far a writer has come, from `low` to `high` operations: all numbers that it may be. Some operations change nothing, and what one
    /// sets another one may take back, or its end.
    pub fn find_between(&mut self, spaces: &Spaces, seed: u64, writer: u64, low: u64, high: u64) -> Result<Vec<u64>, String> {
        spaces.wait_for_expiry(seed);
        self.advance(seed, writer, low);
        let missing = self.differences(spaces, writer)?;
        let mut found: Vec<u64> = missing.is_empty().then_some(low).into_iter().collect();
        while self.played < high {
            self.advance(seed, writer, self.played + 1);
            if self.differences(spaces, writer)?.is_empty() {
                found.push(self.played);
            }
        }
        (!found.is_empty()).then_some(found).ok_or_else(|| {
            let shown: Vec<&str> = missing.iter().take(8).map(String::as_str).collect();
            format!("writer {writer} has come to no state from {low} to {high}; against {low}:\n  {}", shown.join("\n  "))
        })
    }

    /// Finds out whether the operation behind the `acked` ones is there, too: the child may have died between its end and the
    /// note of the witness. Moves the model there.
    pub fn find(&mut self, spaces: &Spaces, seed: u64, writer: u64, acked: u64) -> Result<(), String> {
        spaces.wait_for_expiry(seed);
        self.advance(seed, writer, acked);
        let missing = self.differences(spaces, writer)?;
        if missing.is_empty() {
            return Ok(());
        }
        let mut next = self.clone();
        next.advance(seed, writer, acked + 1);
        if next.differences(spaces, writer)?.is_empty() {
            *self = next;
            return Ok(());
        }
        let shown: Vec<&str> = missing.iter().take(8).map(String::as_str).collect();
        Err(format!("writer {writer}, {acked} operations acknowledged, {} keys differ:\n  {}", missing.len(), shown.join("\n  ")))
    }
}

/// The file in which a writer notes how many of its operations were acknowledged.
#[derive(Debug)]
pub struct Note(File);

impl Note {
    /// Opens the note of a writer.
    pub fn open(folder: &Path, writer: u64) -> std::io::Result<Self> {
        let path: PathBuf = folder.join(format!("witness-{writer}"));
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// Notes a number. Eight bytes at one place: the system writes them whole or not at all.
    pub fn write(&mut self, number: u64) -> std::io::Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(&number.to_le_bytes())
    }

    /// The number noted last; 0 in a fresh file.
    pub fn read(&mut self) -> std::io::Result<u64> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}
