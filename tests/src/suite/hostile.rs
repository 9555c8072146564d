//! Arbitrary bytes and mutated stores as input: an error or a working store; no panic, no endless loop, no more memory than the
//! size of the file explains, and a file that is refused stays as it was.

use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Player, Setup, space};
use crate::forge::{agrees, forge, list_frame};
use crate::model::State;
use crate::parallel::{Failure, Outcome, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Choices, Rng, choose, derive, index};
use crate::tape::{Mix, Op, Tape, Times};
use pipkin::storage::crash::CrashImage;
use pipkin::{Db, Error};
use std::collections::HashMap;

/// Memory that opening a file may take for each of its bytes: header, frame and index entry of the shortest records.
const MEMORY_FACTOR: u64 = 40;
/// Memory that opening the smallest file may take.
const MEMORY_BASE: u64 = 8 << 20;

/// Every value that a key ever had, by namespace name and key.
pub type Written = HashMap<(Vec<u8>, Vec<u8>), Vec<Vec<u8>>>;

/// A healthy store to start from, and what was ever written to it.
#[derive(Debug)]
pub struct Base {
    /// The file.
    pub bytes: Vec<u8>,
    /// Every value that a key ever had.
    pub written: Written,
}

/// Healthy stores of several kinds: killed and closed, with snapshots, reused segments, several sizes of segments.
pub fn bases() -> Vec<Base> {
    let build = |seed: u64| -> Result<Base, Fault> {
        let mut rng = derive(seed, 0xba5e);
        let mix = Mix {
            ops: 40 + 40 * (seed as usize % 3),
            keys: 25,
            namespaces: (seed % 3) as u8,
            value_len: 300,
            large_len: 6000,
            reopens: true,
            times: Times::Unused,
        };
        let setup = Setup { segment_size: 4096 << (seed % 3), replay_debt_max: 10_000, clock: None, sealed: false };
        let tape = Tape::generate(&mut rng, &mix, &mut 0);
        let disk = Disk::default();
        let mut player = Player::open(DiskHost::new(disk.clone(), setup, seed << 20), State::default())?;
        player.play_all(&tape, |_, _| Ok(()))?;
        if seed.is_multiple_of(2) {
            player.play(&Op::Checkpoint)?;
            player.play(&Op::Reopen)?;
        }
        disk.kill();
        let mut written = Written::new();
        for state in &player.history.states {
            for (&ns, space) in &state.spaces {
                let name = if ns == 0 { Vec::new() } else { crate::tape::ns_name(ns).into_bytes() };
                for (&key, val) in space {
                    let values = written.entry((name.clone(), crate::tape::key_bytes(key))).or_default();
                    let value = val.bytes();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
            }
        }
        Ok(Base { bytes: disk.image().to_vec(), written })
    };
    let mut bases: Vec<Base> =
        (0..8).map(|seed| build(seed).unwrap_or_else(|fault| panic!("base store {seed}: {fault}"))).collect();
    bases.extend(["written", "killed", "compacted"].map(kinds));
    assert!(bases.iter().any(|base| agrees(&base.bytes)), "the format has moved on: mend `forge`");
    bases
}

/// The golden store of that name, with records of every kind and with every flag.
fn kinds(name: &str) -> Base {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/kinds").join(name).with_extension("pipkin");
    let bytes = std::fs::read(path).unwrap();
    let mut written = Written::new();
    // By the clock of the file: what expired long ago is among them.
    let contents = pipkin_reader::read(&bytes).unwrap();
    for ((space, key), record) in &contents.records {
        let value = contents.plain(record).unwrap_or_else(|| record.value.clone());
        written.entry((space.clone().into_bytes(), key.clone())).or_default().push(value);
    }
    // What has been replaced or removed since.
    for space in [&b""[..], pipkin_tape::kinds::SPACE.as_bytes()] {
        for key in pipkin_tape::kinds::REMOVED.iter().chain(&["written twice"]) {
            written.entry((space.to_vec(), key.as_bytes().to_vec())).or_default().push(b"there".to_vec());
        }
    }
    written.entry((Vec::new(), b"~".to_vec())).or_default().push(b"what a flush is followed by".to_vec());
    for number in 1..4 {
        let lost = (Vec::new(), format!("lost {number}").into_bytes());
        written.entry(lost).or_default().push(b"never acknowledged".to_vec());
    }
    Base { bytes, written }
}

/// How an input came about; forged ones pass their checksums, so their values may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Random bytes, or text, or zeros.
    Arbitrary,
    /// A store with bytes changed, moved, doubled or cut off.
    Mutated,
    /// A store with fields changed and signed anew.
    Forged,
}

/// Random bytes of many kinds; some begin like a store.
pub fn arbitrary(rng: &mut Rng, bases: &[Base]) -> Vec<u8> {
    let longest = 1 << rng.below(18);
    let mut bytes = vec![0; index(rng, longest)];
    match rng.below(5) {
        0 => {}
        1 => bytes.fill(rng.below(256) as u8),
        2 => bytes.iter_mut().for_each(|byte| *byte = b' ' + rng.below(90) as u8),
        _ => rng.fill(&mut bytes),
    }
    let front = &bases[index(rng, bases.len())].bytes;
    let taken = match rng.below(4) {
        0 => 8,
        1 => 512,
        2 => 16 * 1024,
        _ => 0,
    };
    let taken = taken.min(bytes.len()).min(front.len());
    bytes[..taken].copy_from_slice(&front[..taken]);
    bytes
}

/// Changes a store in one to six places.
pub fn mutate(base: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = base.to_vec();
    for _ in 0..1 + rng.below(6) {
        mutate_once(&mut bytes, other, rng);
    }
    bytes
}

/// Changes a store in one place; `other` is a store to take pieces of.
pub fn mutate_once<C: Choices>(bytes: &mut Vec<u8>, other: &[u8], rng: &mut C) {
    if bytes.is_empty() {
        return;
    }
    let unit = choose(rng, &[1, 64, 512, 4096]);
    let place = |rng: &mut C, len: usize| index(rng, len) / unit * unit;
    let (at, from) = (place(rng, bytes.len()), place(rng, bytes.len()));
    let len = (1 + index(rng, 4)) * unit;
    match rng.below(8) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => {
            let end = (at + len).min(bytes.len());
            rng.fill(&mut bytes[at..end]);
        }
        2 => {
            let end = (at + len).min(bytes.len());
            bytes[at..end].fill(0);
        }
        3 => {
            let end = (from + len).min(bytes.len());
            let piece = bytes[from..end].to_vec();
            let end = (at + piece.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&piece[..end - at]);
        }
        4 => {
            let end = (from + len).min(bytes.len());
            let piece = bytes[from..end].to_vec();
            bytes.splice(at..at, piece);
        }
        5 => {
            let end = (at + len).min(bytes.len());
            bytes.drain(at..end);
        }
        6 => {
            let end = (at + len).min(bytes.len()).min(other.len());
            if at < end {
                bytes[at..end].copy_from_slice(&other[at..end]);
            }
        }
        _ => bytes.truncate(at),
    }
}

/// The input of a seed, and the two stores that it was made from.
pub fn input(seed: u64, bases: &[Base]) -> (Vec<u8>, Origin, [&Base; 2]) {
    let mut rng = derive(seed, 0x405);
    let (base, other) = (index(&mut rng, bases.len()), index(&mut rng, bases.len()));
    let (mut bytes, origin) = match rng.below(10) {
        0 | 1 => (arbitrary(&mut rng, bases), Origin::Arbitrary),
        2..=5 => (mutate(&bases[base].bytes, &bases[other].bytes, &mut rng), Origin::Mutated),
        _ => {
            let mut bytes = bases[base].bytes.clone();
            if rng.chance(1, 4) {
                mutate_once(&mut bytes, &bases[other].bytes, &mut rng);
            }
            (0..1 + rng.below(4)).for_each(|_| forge(&mut bytes, &mut rng));
            (bytes, Origin::Forged)
        }
    };
    // The list of segments is damaged, and has to be made again out of what the rest says.
    if origin != Origin::Arbitrary
        && rng.chance(1, 5)
        && let Some(list) = list_frame(&bytes)
    {
        let at = list.start + index(&mut rng, list.len());
        bytes[at] ^= 1 << rng.below(8);
    }
    (bytes, origin, [&bases[base], &bases[other]])
}

/// Counts memory around a call, if the test binary can.
pub type Measure = fn(&mut dyn FnMut()) -> u64;

/// Opens `inputs` inputs. `written`-checks hold for inputs that pass no forged checksum.
pub fn run(inputs: std::ops::Range<u64>, measure: Measure, quota: &Quota, opened: &Quota) -> Outcome {
    let bases = bases();
    for_each(inputs, |seed, watch| {
        let replay = format!("PIPKIN_SEED={seed}");
        watch.begin(replay.clone());
        quota.add(1);
        let (bytes, origin, sources) = input(seed, &bases);
        let written = sources.map(|base| &base.written);
        let written = if origin == Origin::Mutated { &written[..] } else { &[] };
        let outcome = guard(|| examine(&bytes, written, measure, seed)).unwrap_or_else(Fault::wrong);
        match outcome {
            Ok(true) => drop(opened.add(1)),
            Ok(false) => {}
            Err(fault) => return Err(Failure::new(replay, format!("{origin:?} input of {} bytes: {fault}", bytes.len()))),
        }
        Ok(())
    })
}

/// Opens one input and uses it if it opens; then all its records were written to one and the same of `written`, if any are given. Says
/// whether it opened.
pub fn examine(bytes: &[u8], written: &[&Written], measure: Measure, seed: u64) -> Result<bool, Fault> {
    let image = CrashImage::from_bytes(bytes);
    let disk = Disk::from_image(&image);
    let mut outcome = None;
    let mut open = || outcome = Some(Setup::TINY.open(disk.storage(), seed));
    let peak = measure(&mut open);
    let allowed = MEMORY_BASE + MEMORY_FACTOR * bytes.len() as u64;
    if peak > allowed {
        return Fault::wrong(format!("opening took {peak} bytes of memory, {allowed} are allowed"));
    }
    let db = match outcome {
        Some(Ok(db)) => db,
        Some(Err(error)) => {
            refused(&error, bytes, &disk)?;
            look_offline(&image)?;
            return Ok(false);
        }
        None => return Fault::wrong("the measure did not run its work"),
    };
    let used = use_it(&db, written);
    let close = db.close();
    let again = Setup::TINY.open(disk.storage(), seed + 1);
    match used {
        // What was written and closed without a complaint opens again: limits that reading checks are checked on writing, too.
        Ok(()) if close.is_ok() && again.is_err() => {
            return Fault::wrong(format!("it took writes and was closed, and opens no more: {:?}", again.err()));
        }
        Ok(()) => {}
        // Damage that shows only when a record is read.
        Err(Fault::Engine(error)) if is_expected(&error) => return Ok(true),
        Err(other) => return Err(other),
    }
    close
        .and(again)
        .map(drop)
        .or_else(|error| if is_expected(&error) { Ok(()) } else { Err(Fault::from(error).at("opening it again")) })?;
    look_offline(&image)?;
    Ok(true)
}

/// Errors that a hostile file may cause.
fn is_expected(error: &Error) -> bool {
    match error {
        Error::Corrupt { .. } | Error::NotAStore { .. } | Error::NewerVersion { .. } | Error::NoSpace => true,
        // A flag was forged that only later versions act on, or a number near its end.
        Error::Unsupported { .. } | Error::LogExhausted => true,
        Error::Poisoned(first) => is_expected(first),
        _ => false,
    }
}

fn refused(error: &Error, bytes: &[u8], disk: &Disk) -> Result<(), Fault> {
    if !is_expected(error) {
        return Err(Fault::Engine(error.clone()).at("open"));
    }
    if disk.image().to_vec() != bytes {
        return Fault::wrong(format!("open said {error:?} and changed the file"));
    }
    Ok(())
}

/// `verify_storage` and `salvage` cope with whatever it is, and do not change it.
fn look_offline(image: &CrashImage) -> Result<(), Fault> {
    let before = image.to_vec();
    let checked = pipkin::verify_storage(image);
    let target = Db::builder().background(false).in_memory()?;
    let saved = pipkin::salvage(image, &target, &mut |_, _| {});
    for error in [checked.err(), saved.err()].into_iter().flatten() {
        if !is_expected(&error) {
            return Err(Fault::from(error).at("verify_storage or salvage"));
        }
    }
    if image.to_vec() != before {
        return Fault::wrong("verify_storage or salvage changed the file");
    }
    Ok(())
}

/// Reads everything, then writes.
fn use_it(db: &Db, written: &[&Written]) -> Result<(), Fault> {
    let mut names = db.list_namespaces();
    names.push(String::new());
    let mut sources = Sources { all: written, left: written.to_vec() };
    for name in &names {
        let space = space::named(db, name)?;
        // Key by key first: an iteration ends at the first damaged record.
        for (_, key) in written.iter().flat_map(|written| written.keys()).filter(|(of, _)| of == name.as_bytes()) {
            match space.get(key) {
                Ok(Some(value)) => sources.hold(name, key, &value)?,
                Ok(None) => {}
                Err(error) if is_expected(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut held = Ok(());
        let mut keys = Vec::new();
        space::for_each(&space, |key, value| {
            keys.push(key.to_vec());
            held = held.clone().and_then(|()| sources.hold(name, key, value));
        })?;
        held?;
        for key in keys.iter().take(50) {
            space.get(key)?;
        }
    }
    db.verify()?;
    db.insert(b"new", b"value")?;
    db.flush()?;
    db.compact_step()?;
    if db.get(b"new")?.as_deref() != Some(b"value") {
        return Fault::wrong("a store that opened does not keep what is written to it");
    }
    db.compact()?;
    db.checkpoint()?;
    if db.get(b"new")?.as_deref() != Some(b"value") {
        return Fault::wrong("a store that opened does not keep what is written to it through a compaction");
    }
    Ok(())
}

/// The stores that all records seen so far can come from.
struct Sources<'a> {
    all: &'a [&'a Written],
    left: Vec<&'a Written>,
}

impl Sources<'_> {
    /// One more record, which must come from the same store as the others. Anything goes where no store is given.
    fn hold(&mut self, name: &str, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.left.retain(|written| {
            let values = written.get(&(name.as_bytes().to_vec(), key.to_vec()));
            values.is_some_and(|values| values.iter().any(|known| known == value))
        });
        if self.left.is_empty() && !self.all.is_empty() {
            return Fault::wrong(format!("`{name}`/{:?} has a value that was never written", String::from_utf8_lossy(key)));
        }
        Ok(())
    }
}
