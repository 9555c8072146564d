//! Training dictionaries: for whom, from which samples, and whether one is worth its space. Reads only.

use crate::compress::{DICTIONARY_LEN, Dictionary, Lengths, PLAIN_LEN_MAX, PLAIN_LEN_MIN, compress, train};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::Kind;
use crate::index::SHARDS;
use crate::names::Name;
use crate::store::{Listed, Store};
use crate::sync::Ordering;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of a value that are sampled.
const SAMPLE_LEN_MAX: usize = 4 * 1024;
/// Bytes and number of the samples of a namespace.
const SAMPLES_BYTES: usize = 512 * 1024;
const SAMPLES: usize = 2500;
/// With less than this, nothing is trained.
const SAMPLES_BYTES_MIN: usize = 4 * 1024;
/// With this much, "nothing to gain" is a judgement, which is noted.
const SAMPLES_BYTES_JUDGED: usize = 64 * 1024;
/// Records that are read in search of samples.
const RECORDS_READ: usize = 100_000;
/// A dictionary has at most so many bytes: this part of its samples.
const PARTS_OF_SAMPLES: usize = 8;
/// A dictionary has to save so many times its own length: it stands twice.
const SAVES_TIMES: u64 = 4;
/// And this part of what values take without it.
const SAVES_PARTS: usize = 8;
/// A namespace gets another dictionary at the earliest after so many segments of log, and after so many times as much log as the store has
/// live bytes: a compaction writes all of them.
const SEGMENTS_LATER: u64 = 8;
const TIMES_LATER: u64 = 4;
/// Dictionaries that a namespace gets in its life, before the older ones are dropped.
const DICTIONARIES: usize = 16;
/// Namespaces that get a dictionary in one compaction.
const TOGETHER: usize = 8;

/// The result of a training.
pub(super) struct Trained {
    pub(super) name: Arc<Name>,
    /// Empty: there is nothing to gain.
    pub(super) dictionary: Vec<u8>,
}

/// The samples of a namespace.
#[derive(Default)]
struct Samples {
    values: Vec<Vec<u8>>,
    bytes: usize,
}

impl Samples {
    fn is_full(&self) -> bool {
        self.bytes >= SAMPLES_BYTES || self.values.len() >= SAMPLES
    }
}

impl Store {
    /// Trains dictionaries for the namespaces that need one.
    pub(super) fn train(&self, listed: &Listed) -> Result<Vec<Trained>> {
        let log = &self.engine.log;
        let is_early = log.end() < self.dictionaries.next_try.load(Ordering::Relaxed);
        let due = if is_early || listed.is_lost || self.engine.doubt.get().is_some() { Vec::new() } else { self.due(listed) };
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let samples = sample(&self.engine, due.iter().map(|(_, number)| *number))?;
        let mut trained = Vec::new();
        for (name, number) in due {
            let Some(samples) = samples.get(&number) else { continue };
            let (mean, count) = ((samples.bytes / samples.values.len().max(1)) as u64, self.engine.count(number)?);
            let old = listed.of(&name.name).map(|old| &**old);
            let dictionary = dictionary_of(samples, (old, self.engine.lengths()), mean * count, self.engine.seed);
            // Too few samples to judge: later.
            if !dictionary.is_empty() || samples.bytes >= SAMPLES_BYTES_JUDGED {
                trained.push(Trained { name, dictionary });
            }
            if trained.len() == TOGETHER {
                return Ok(trained);
            }
        }
        let next_try = log.end() + log.geometry.segment_size() / 2;
        self.dictionaries.next_try.store(next_try, Ordering::Relaxed);
        Ok(trained)
    }

    /// The namespaces that may get a dictionary now.
    fn due(&self, listed: &Listed) -> Vec<(Arc<Name>, u32)> {
        let log = &self.engine.log;
        let later = (TIMES_LATER * log.usage().live).max(SEGMENTS_LATER * log.geometry.segment_size());
        let is_due = |(name, _): &(Arc<Name>, u32)| {
            let has = listed.list.entries.iter().filter(|entry| entry.name == name.name).count();
            has < DICTIONARIES && listed.list.of(&name.name).is_none_or(|entry| log.end().saturating_sub(entry.since) >= later)
        };
        self.names.read().compressed().into_iter().filter(is_due).collect()
    }
}

/// Samples values of these namespaces, in the order of the index, which is none.
fn sample(engine: &Engine, namespaces: impl Iterator<Item = u32>) -> Result<BTreeMap<u32, Samples>> {
    let mut samples: BTreeMap<u32, Samples> = namespaces.map(|number| (number, Samples::default())).collect();
    let mut read = 0;
    for shard in 0..SHARDS {
        if engine.index.is_empty_at(shard) {
            continue;
        }
        let pin = engine.pins.pin();
        let slots = engine.lock_shard(shard)?.slots(engine.medium())?;
        for slot in slots {
            if read == RECORDS_READ || samples.values().all(Samples::is_full) {
                return Ok(samples);
            }
            read += 1;
            let Ok(frame) = engine.log.frame(slot.offset()) else { continue };
            let Some(of) = samples.get_mut(&frame.header.namespace).filter(|of| !of.is_full()) else { continue };
            if frame.header.kind != Kind::Put || frame.check().is_err() {
                continue;
            }
            let frame = match engine.decoded(frame) {
                Ok(frame) => frame,
                Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => continue,
                Err(error) => return Err(error),
            };
            let value = frame.value();
            if (PLAIN_LEN_MIN..=PLAIN_LEN_MAX).contains(&value.len()) {
                let value = value.get(..SAMPLE_LEN_MAX).unwrap_or(value);
                of.bytes += value.len();
                of.values.push(value.to_vec());
            }
        }
        drop(pin);
    }
    Ok(samples)
}

/// A dictionary for a namespace with `all` bytes of values; empty where the one that it has, or none, is as good.
fn dictionary_of(samples: &Samples, (old, lengths): (Option<&Dictionary>, Lengths), all: u64, seed: u64) -> Vec<u8> {
    if samples.bytes < SAMPLES_BYTES_MIN {
        return Vec::new();
    }
    // One in four is kept back, to judge by.
    let is_judge = |number: usize| number % 4 == 3;
    let values = |judges: bool| samples.values.iter().enumerate().filter(move |(number, _)| is_judge(*number) == judges);
    let trained_with: Vec<&[u8]> = values(false).map(|(_, value)| value.as_slice()).collect();
    let bytes = train(&trained_with, DICTIONARY_LEN.min(samples.bytes / PARTS_OF_SAMPLES), seed);
    let new = Dictionary::new(u32::MAX, bytes);
    let stored = |value: &[u8], dictionary: Option<&Dictionary>| {
        compress(value, dictionary, lengths).map_or(value.len(), |stored| stored.value.len())
    };
    let (mut plain, mut before, mut after) = (0, 0, 0);
    for (_, value) in values(true) {
        plain += value.len();
        before += stored(value, old);
        after += stored(value, Some(&new));
    }
    let saved = before.saturating_sub(after);
    let in_all = (saved as u64).saturating_mul(all) / (plain.max(1) as u64);
    let is_worth_it = saved * SAVES_PARTS >= before && saved > 0 && in_all >= SAVES_TIMES * new.bytes.len() as u64;
    if is_worth_it { new.bytes.into_vec() } else { Vec::new() }
}

#[cfg(test)]
mod tests;
