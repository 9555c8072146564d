//! The operations, each of which follows from its number, and the judgement of a store that comes back: which operation of each thread is
//! the last one that it shows, and whether everything that it holds is what these operations made, no more and no less.

use crate::disk::{Acked, HANDS};
use pipkin::{Db, FlushPolicy, IndexMemory, Namespace};
use pipkin_tests::rng::{Rng, derive};
use std::collections::BTreeMap;

/// The threads that work; the last of [`HANDS`] is the process that checks and then writes on.
pub(crate) const WRITERS: usize = HANDS - 1;
/// Namespaces that all share. Behind them stands the one that a thread has for itself, and drops.
const SHARED: u8 = 3;
/// Keys of a thread in each namespace.
const KEYS: u64 = 40;

/// Namespace and number.
type Key = (u8, u8);
/// The operation that set something: its life and its number.
type Origin = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Batch,
    Transaction,
    /// A single insert or removal, which no mark goes with.
    Single,
    /// Drops the thread's own namespace, and no mark goes with it.
    Drop,
}

struct Commit {
    kind: Kind,
    edits: BTreeMap<Key, bool>,
}

impl Commit {
    /// Whether the store says itself that this operation is there. Of two in a row at least one is marked.
    fn marked(&self) -> bool {
        matches!(self.kind, Kind::Batch | Kind::Transaction)
    }
}

fn commit(seed: u64, life: u64, hand: usize, number: u64) -> Commit {
    let mut rng = derive(seed ^ (hand as u64) << 40 ^ life << 48, number);
    let single = number.is_multiple_of(2);
    let kind = match rng.below(20) {
        0 if single => Kind::Drop,
        0..=9 if single => Kind::Single,
        0..=6 => Kind::Transaction,
        _ => Kind::Batch,
    };
    let mut edits = BTreeMap::new();
    let count = match kind {
        Kind::Single => 1,
        Kind::Drop => 0,
        Kind::Batch | Kind::Transaction => 1 + rng.below(6),
    };
    for _ in 0..count {
        let key = (rng.below(u64::from(SHARED) + 1) as u8, rng.below(KEYS) as u8);
        edits.insert(key, rng.chance(3, 4));
    }
    Commit { kind, edits }
}

fn key_of(hand: usize, key: u8) -> Vec<u8> {
    format!("hand {hand} key {key}").into_bytes()
}

fn mark_key(hand: usize) -> Vec<u8> {
    format!("mark of hand {hand}").into_bytes()
}

/// Begins with its origin, so that a person can read where a wrong one came from.
fn value_of(hand: usize, key: Key, (life, number): Origin) -> Vec<u8> {
    let mut rng = derive(number ^ life << 40, (hand as u64) << 16 | u64::from(key.0) << 8 | u64::from(key.1));
    let len = if rng.chance(1, 60) { 2000 + rng.below(60_000) } else { rng.below(500) };
    let mut value = vec![0; 16 + len as usize];
    rng.fill(&mut value[16..]);
    value[..8].copy_from_slice(&life.to_le_bytes());
    value[8..16].copy_from_slice(&number.to_le_bytes());
    value
}

/// The mark in a commit: its own number, and how far the other threads had come when it began. These must be there if it is: the log is
/// one sequence.
struct Mark {
    origin: Origin,
    others: [u64; HANDS],
}

impl Mark {
    fn to_bytes(&self) -> Vec<u8> {
        [self.origin.0, self.origin.1].into_iter().chain(self.others).flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Mark> {
        let mut numbers = bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        let origin = (numbers.next()?, numbers.next()?);
        let mut others = [0; HANDS];
        for other in &mut others {
            *other = numbers.next()?;
        }
        Some(Mark { origin, others })
    }
}

fn space_name(hand: usize, space: u8) -> String {
    match space {
        0 => String::new(),
        SHARED => format!("of hand {hand}"),
        shared => format!("space {shared}"),
    }
}

fn space(db: &Db, hand: usize, number: u8) -> pipkin::Result<Namespace> {
    match number {
        0 => Ok(db.default_namespace()),
        number => db.namespace(&space_name(hand, number)),
    }
}

/// One thread of the workload.
pub(crate) struct Hand<'a> {
    pub(crate) db: &'a Db,
    pub(crate) seed: u64,
    pub(crate) life: u64,
    pub(crate) hand: usize,
}

impl Hand<'_> {
    /// Plays an operation. `others` is how far all threads are.
    pub(crate) fn play(&self, number: u64, others: [u64; HANDS]) -> pipkin::Result<()> {
        let Hand { db, seed, life, hand } = *self;
        let Commit { kind, edits } = commit(seed, life, hand, number);
        let spaces = (0..=SHARED).map(|number| space(db, hand, number)).collect::<pipkin::Result<Vec<_>>>()?;
        let mark = Mark { origin: (life, number), others };
        let (mark_key, mark) = (mark_key(hand), mark.to_bytes());
        let edits: Vec<_> = edits
            .iter()
            .map(|(&key, &set)| {
                let value = set.then(|| value_of(hand, key, (life, number)));
                (&spaces[usize::from(key.0)], key_of(hand, key.1), value)
            })
            .collect();
        match kind {
            Kind::Single => edits.iter().try_for_each(|(space, key, value)| match value {
                Some(value) => space.insert(key, value),
                None => space.remove(key).map(drop),
            }),
            Kind::Drop => db.drop_namespace(&space_name(hand, SHARED)).map(drop),
            Kind::Batch => {
                let batch = edits.iter().fold(db.batch(), |batch, (space, key, value)| match value {
                    Some(value) => batch.insert_in(space, key, value),
                    None => batch.remove_in(space, key),
                });
                batch.insert(&mark_key, &mark).commit()
            }
            Kind::Transaction => db.transaction(|txn| {
                txn.insert(&mark_key, &mark)?;
                edits.iter().try_for_each(|(space, key, value)| match value {
                    Some(value) => txn.insert_in(space, key, value),
                    None => txn.remove_in(space, key).map(drop),
                })
            }),
        }
    }
}

/// Everything in a store, by name of the namespace and key.
pub(crate) type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Reads a store twice: by walks, and by asking for each key that there may be.
pub(crate) fn content(db: &Db) -> Result<Content, String> {
    let said = |what: &'static str| move |error: pipkin::Error| format!("{what}: {error} ({error:?})");
    let mut content = Content::new();
    let names = db.list_namespaces();
    for name in std::iter::once(String::new()).chain(names) {
        let space = if name.is_empty() { db.default_namespace() } else { db.namespace(&name).map_err(said("namespace"))? };
        for record in space.iter() {
            let (key, value) = record.map_err(said("walk"))?;
            if content.insert((name.clone(), key), value).is_some() {
                return Err("a walk shows a key twice".into());
            }
        }
        let walked = content.range((name.clone(), Vec::new())..).take_while(|((of, _), _)| *of == name).count() as u64;
        let len = space.len().map_err(said("len"))?;
        if walked != len {
            return Err(format!("`len` of {name:?} says {len}, a walk shows {walked} records"));
        }
        for hand in 0..HANDS {
            for key in (0..KEYS).map(|key| key_of(hand, key as u8)).chain([mark_key(hand)]) {
                let got = space.get(&key).map_err(said("get"))?;
                let place = (name.clone(), key);
                if content.get(&place) != got.as_ref() {
                    return Err(format!("a walk and `get` differ in {place:?}"));
                }
            }
        }
    }
    Ok(content)
}

pub(crate) fn encode(content: &Content) -> Vec<u8> {
    let mut out = Vec::new();
    for ((space, key), value) in content {
        for piece in [space.as_bytes(), key, value] {
            out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            out.extend_from_slice(piece);
        }
    }
    out
}

pub(crate) fn decode(mut bytes: &[u8]) -> Option<Content> {
    let mut piece = || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bytes = rest;
        Some(piece.to_vec())
    };
    let mut content = Content::new();
    while let Some(space) = piece() {
        content.insert((String::from_utf8(space).ok()?, piece()?), piece()?);
    }
    Some(content)
}

/// What a thread's keys hold, and its mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Belongings {
    keys: BTreeMap<Key, Origin>,
    mark: Option<Origin>,
}

impl Belongings {
    fn play(&mut self, seed: u64, life: u64, hand: usize, number: u64) {
        let commit = commit(seed, life, hand, number);
        if commit.kind == Kind::Drop {
            self.keys.retain(|key, _| key.0 != SHARED);
        }
        if commit.marked() {
            self.mark = Some((life, number));
        }
        for (key, set) in commit.edits {
            if set {
                self.keys.insert(key, (life, number));
            } else {
                self.keys.remove(&key);
            }
        }
    }

    /// What is different in the store.
    fn differences(&self, hand: usize, content: &Content) -> Vec<String> {
        let keys = (0..=SHARED).flat_map(|space| (0..KEYS).map(move |key| (space, key as u8)));
        keys.filter_map(|key| {
            let found = content.get(&(space_name(hand, key.0), key_of(hand, key.1)));
            let right = self.keys.get(&key);
            if found == right.map(|&origin| value_of(hand, key, origin)).as_ref() {
                return None;
            }
            let origin =
                found.and_then(|value| Mark::from_bytes(&[value.get(..16)?, &[0; 8 * HANDS]].concat())).map(|mark| mark.origin);
            Some(format!("{}/{}: of operation {origin:?}, should be of {right:?} (life, number)", key.0, key.1))
        })
        .collect()
    }
}

/// What a store held when a life of it began.
pub(crate) type State = [Belongings; HANDS];

/// What is wrong with a store that came back.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// Something acknowledged is missing.
    Lost(String),
    /// Anything else.
    Broken(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Wrong::Lost(what) | Wrong::Broken(what)) = self;
        f.write_str(what)
    }
}

/// How far each thread is in `content`, which began the life of `acked` as `start`. All that was acknowledged must be there, each
/// thread's keys must be exactly what its operations up to some number made, and what was done before one of them must be there, too.
pub(crate) fn judge(seed: u64, acked: &Acked, start: &State, content: &Content) -> Result<([u64; HANDS], State), Wrong> {
    let mut state = start.clone();
    let mut found = [0; HANDS];
    let mut marks = Vec::new();
    for (hand, belongings) in state.iter_mut().enumerate() {
        let mark = match content.get(&(String::new(), mark_key(hand))) {
            None => None,
            Some(bytes) => {
                Some(Mark::from_bytes(bytes).ok_or_else(|| Wrong::Broken(format!("hand {hand}: the mark is no mark")))?)
            }
        };
        let number = match &mark {
            Some(mark) if mark.origin.0 == acked.life => mark.origin.1,
            // Of none of this life's, so what was there before it must still be there.
            mark if mark.as_ref().map(|mark| mark.origin) == belongings.mark => 0,
            mark => {
                let origin = mark.as_ref().map(|mark| mark.origin);
                return Err(Wrong::Lost(format!(
                    "hand {hand}: the mark is of {origin:?}, before this life it was {:?}",
                    belongings.mark
                )));
            }
        };
        (1..=number).for_each(|number| belongings.play(seed, acked.life, hand, number));
        let here = belongings.differences(hand, content);
        // The next operation may be one without a mark.
        let mut next = belongings.clone();
        next.play(seed, acked.life, hand, number + 1);
        let follows = !commit(seed, acked.life, hand, number + 1).marked() && next.differences(hand, content).is_empty();
        if !follows && !here.is_empty() {
            let shown = here.iter().take(6).map(String::as_str).collect::<Vec<_>>().join("\n  ");
            let what =
                format!("hand {hand} at operation {number} of life {}: {} keys differ:\n  {shown}", acked.life, here.len());
            // Which it is a device that loses writes does not say; a mark that is too old does.
            return Err(if number < acked.done[hand] { Wrong::Lost(what) } else { Wrong::Broken(what) });
        }
        if follows {
            *belongings = next;
        }
        found[hand] = number + u64::from(follows);
        if found[hand] < acked.done[hand] {
            return Err(Wrong::Lost(format!(
                "hand {hand}: {} operations of life {} were acknowledged as `Device`, {} are there",
                acked.done[hand], acked.life, found[hand]
            )));
        }
        marks.extend(mark.filter(|mark| mark.origin.0 == acked.life).map(|mark| (hand, mark)));
    }
    for (hand, mark) in marks {
        if let Some(other) = (0..HANDS).find(|&other| found[other] < mark.others[other]) {
            return Err(Wrong::Broken(format!(
                "not a prefix: operation {} of hand {hand} is there, which came after operation {} of hand {other}; of that only {} are",
                mark.origin.1, mark.others[other], found[other]
            )));
        }
    }
    let known = |(space, key): &(String, Vec<u8>)| {
        (0..HANDS).any(|hand| {
            let own = (0..=SHARED).any(|number| space_name(hand, number) == *space);
            own && (*key == mark_key(hand) && space.is_empty() || (0..KEYS).any(|number| key_of(hand, number as u8) == *key))
        })
    };
    match content.keys().find(|place| !known(place)) {
        None => Ok((found, state)),
        Some(place) => Err(Wrong::Broken(format!("nobody wrote {place:?}"))),
    }
}

/// How a store is opened: the lives differ, and the rounds in a life.
pub(crate) fn builder(path: &std::path::Path, seed: u64, round: u64) -> pipkin::Builder {
    let mut rng: Rng = derive(seed ^ 0xB1, round);
    Db::builder()
        .path(path)
        .segment_size([16 * 1024, 64 * 1024, 256 * 1024, 4 << 20][rng.below(4) as usize])
        .mmap(rng.chance(2, 3))
        .ordered(rng.chance(1, 3))
        .background(rng.chance(1, 2))
        .replay_debt_max([100_000, 1_000_000][rng.below(2) as usize])
        .flush_policy(policy(seed, round))
        .index_memory(match rng.below(3) {
            0 => IndexMemory::InFile { newer_max: rng.below(3) * 4000 },
            _ => IndexMemory::Resident,
        })
}

/// When the store that [`builder`] opens syncs.
pub(crate) fn policy(seed: u64, round: u64) -> FlushPolicy {
    const POLICIES: [FlushPolicy; 4] =
        [FlushPolicy::Group, FlushPolicy::Group, FlushPolicy::OnEachFlush, FlushPolicy::WriteThrough];
    POLICIES[derive(seed ^ 0xB2, round).below(4) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    /// A store in which every thread has done `done` operations of life 1.
    fn played(done: [u64; HANDS]) -> Content {
        let db = Db::builder().in_memory().unwrap();
        for (hand, &done) in done.iter().enumerate() {
            let hand = Hand { db: &db, seed: SEED, life: 1, hand };
            (1..=done).for_each(|number| hand.play(number, [0; HANDS]).unwrap());
        }
        decode(&encode(&content(&db).unwrap())).unwrap()
    }

    fn acked(done: [u64; HANDS]) -> Acked {
        Acked { life: 1, done }
    }

    #[test]
    fn a_store_is_as_far_as_it_was_played_and_acknowledged_operations_are_missed() {
        for last in [30, 31, 32, 33, 34] {
            let content = played([last, 5, 0, 9]);
            let (found, _) = judge(SEED, &acked([last, 0, 0, 9]), &State::default(), &content).unwrap();
            assert_eq!(found, [last, 5, 0, 9]);
            let more = acked([last + 2, 0, 0, 0]);
            assert!(matches!(judge(SEED, &more, &State::default(), &content), Err(Wrong::Lost(_))));
        }
    }

    #[test]
    fn a_torn_commit_an_old_value_and_a_foreign_record_are_seen() {
        let content = played([40, 40, 40, 0]);
        let broken = |change: &dyn Fn(&mut Content)| {
            let mut content = content.clone();
            change(&mut content);
            judge(SEED, &acked([0; HANDS]), &State::default(), &content).is_err()
        };
        assert!(!broken(&|_| ()));
        for (place, value) in &content {
            if value.len() == 16 + 8 * HANDS && place.1.starts_with(b"mark") {
                continue;
            }
            assert!(broken(&|content| drop(content.remove(place))), "{place:?} is not missed");
            assert!(broken(&|content| content.get_mut(place).unwrap()[8] ^= 1), "{place:?} may be another one");
        }
        assert!(broken(&|content| drop(content.insert((String::new(), b"stray".to_vec()), Vec::new()))));
    }

    #[test]
    fn a_commit_without_the_one_before_it_is_no_prefix() {
        let db = Db::builder().in_memory().unwrap();
        let hand = |hand| Hand { db: &db, seed: SEED, life: 1, hand };
        (1..=9).for_each(|number| hand(0).play(number, [0; HANDS]).unwrap());
        (1..=9).for_each(|number| hand(1).play(number, [20, 0, 0, 0]).unwrap());
        let wrong = judge(SEED, &acked([0; HANDS]), &State::default(), &content(&db).unwrap());
        assert!(matches!(wrong, Err(Wrong::Broken(what)) if what.starts_with("not a prefix")));
    }
}
