//! The dictionaries in the log: writing them, each twice and in different segments; keeping the two apart; and dropping those that nothing
//! names any more. All of it holds the maintenance lock, and waits for no other.

use super::compressed::Compressor;
use super::train::Trained;
use crate::compress::{COPIES, Dictionary, Entry, List, key_of, key_of_list};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::{Purpose, Segment};
use crate::names::{DICTIONARIES, Name};
use crate::planted::{Bug, is};
use crate::scan::{Found, scan};
use crate::store::{Listed, Store};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A record that stands twice.
struct Twins {
    keys: [[u8; 5]; COPIES as usize],
    /// Offset and value of each that can be read.
    found: [Option<(u64, Vec<u8>)>; COPIES as usize],
}

/// What has been trained and stands once.
#[derive(Default)]
pub(super) struct Pending {
    records: Vec<(u32, Vec<u8>)>,
    list: List,
}

impl Store {
    /// What compresses the records that a compaction copies.
    pub(super) fn compressor(&self) -> Result<Compressor> {
        let namespaces = self.names.read().compressed();
        let is_none = namespaces.is_empty() || self.own_namespace().is_err();
        if is_none { Ok(Compressor::default()) } else { Ok(Compressor::new(&namespaces, &*self.listed()?)) }
    }

    /// The namespace of dictionaries, which is made if need be: it is there before anything is compressed, so that a build without a decoder sees when
    /// it opens the store that it needs one. Where there is no space for it, nothing is compressed.
    fn own_namespace(&self) -> Result<Arc<Name>> {
        let found = self.names.read().get(DICTIONARIES);
        found.map_or_else(|| self.make_namespace_maintaining(DICTIONARIES, &[]), Ok)
    }

    /// The number of the namespace of dictionaries, if there is one.
    fn dictionaries_number(&self) -> Option<u32> {
        self.names.read().get(DICTIONARIES).and_then(|name| name.number())
    }

    /// Trains the dictionaries that are due, and writes the first copy of each. The second belongs into another segment, and comes with
    /// [`Self::finish_training`].
    pub(super) fn begin_training(&self) -> Result<Option<Pending>> {
        if self.names.read().compressed().is_empty() || self.own_namespace().is_err() {
            return Ok(None);
        }
        let listed = self.listed()?;
        let trained = self.train(&listed)?;
        let bytes: usize = trained.iter().map(|trained| trained.dictionary.len()).sum();
        let log = &self.engine.log;
        // Only where there is space: compaction may have to make some.
        if trained.is_empty() || !log.secure_free(3)? || !log.has_room(4 * bytes as u64) {
            return Ok(None);
        }
        match self.write_first(&listed, &trained) {
            Err(Error::NoSpace) => Ok(None),
            result => result.map(Some),
        }
    }

    fn write_first(&self, listed: &Listed, trained: &[Trained]) -> Result<Pending> {
        let log = &self.engine.log;
        let namespace = self.own_namespace()?;
        let namespace = namespace.number().ok_or(Error::NamespaceDropped)?;
        let mut list = List { changes: listed.list.changes + 1, next: listed.list.next.max(1), ..listed.list.clone() };
        let mut records = Vec::new();
        for Trained { name, dictionary } in trained {
            let name = name.name.clone();
            let mut number = 0;
            if !dictionary.is_empty() {
                number = list.next;
                list.next += 1;
                records.push((number, Dictionary::new(number, dictionary.clone()).encode()));
            }
            // Of a judgement that there is nothing to gain, only the newest is kept.
            list.entries.retain(|entry| entry.number != 0 || entry.name != name);
            let kept = if number == 0 { listed.list.of(&name).map_or(0, |entry| entry.number) } else { number };
            list.entries.retain(|entry| kept == 0 || entry.number != kept);
            list.entries.push(Entry { number: kept, since: log.end(), name });
        }
        for (number, value) in &records {
            self.put_own(namespace, &key_of(*number, 0), value)?;
        }
        self.put_own(namespace, &key_of_list(0), &list.encode())?;
        Ok(Pending { records, list })
    }

    /// Writes the second copies, and makes the dictionaries count once both are durable. `is_sealed`: the log has gone on in another segment
    /// since the first ones.
    pub(super) fn finish_training(&self, pending: Pending, is_sealed: bool) -> Result<()> {
        let log = &self.engine.log;
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        if is(Bug::DictionaryAfterRecords) {
            for (number, value) in &pending.records {
                if let Some(dictionary) = Dictionary::decode(*number, value) {
                    self.engine.dictionaries.add(dictionary);
                }
                self.remove_own(namespace, &key_of(*number, 0))?;
            }
            self.set_listed(pending.list.clone(), false)?;
            *self.dictionaries.late.lock() = pending.records;
            return Ok(());
        }
        let written = || {
            if !is_sealed && log.secure_free(2)? {
                log.seal_active()?;
            }
            for (number, value) in &pending.records {
                self.put_own(namespace, &key_of(*number, 1), value)?;
            }
            self.put_own(namespace, &key_of_list(1), &pending.list.encode())
        };
        match written() {
            // One copy stands, and is completed when there is space: until then the dictionary does not count.
            Err(Error::NoSpace) => return Ok(()),
            result => result?,
        }
        log.sync_to(log.end())?;
        self.set_listed(pending.list, false).map(drop)
    }

    /// The planted bug: the dictionaries come after the records.
    pub(super) fn write_late_dictionaries(&self) -> Result<()> {
        if !is(Bug::DictionaryAfterRecords) {
            return Ok(());
        }
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        let late = core::mem::take(&mut *self.dictionaries.late.lock());
        for (number, value) in late {
            (0..COPIES).try_for_each(|copy| self.put_own(namespace, &key_of(number, copy), &value))?;
        }
        Ok(())
    }

    /// Stores one of the store's own records. Never waits for space.
    fn put_own(&self, namespace: u32, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = &self.engine;
        let full_key = engine.full_key(namespace, key);
        let mut shard = engine.lock(full_key.hash)?;
        let old = engine.find_locked(&shard, full_key)?;
        let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(namespace), key, value };
        shard.will_publish();
        let new = engine.log.append_one(&spec, Purpose::Store)?;
        engine.publish_put(&mut shard, full_key, old, new);
        Ok(())
    }

    fn remove_own(&self, namespace: u32, key: &[u8]) -> Result<()> {
        let engine = &self.engine;
        let full_key = engine.full_key(namespace, key);
        let mut shard = engine.lock(full_key.hash)?;
        if let Some(old) = engine.find_locked(&shard, full_key)? {
            let spec = FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::plain(namespace), key, value: &[] };
            shard.will_publish();
            let new = engine.log.append_one(&spec, Purpose::MakeSpace)?;
            engine.publish_remove(&mut shard, full_key, Some(old), new);
        }
        Ok(())
    }

    /// All records of the namespace of dictionaries.
    fn twins(&self, namespace: u32) -> Result<Vec<Twins>> {
        let listed = self.listed()?;
        let numbers: BTreeSet<u32> = listed.list.entries.iter().map(|entry| entry.number).collect();
        let keys = numbers.into_iter().filter(|number| *number != 0).map(|number| [key_of(number, 0), key_of(number, 1)]);
        let read = |key: &[u8; 5]| match self.engine.own_record(self.engine.full_key(namespace, key)) {
            Err(Error::Corrupt { .. }) => Ok(None),
            result => result,
        };
        let twins = |keys: [[u8; 5]; 2]| {
            let [first, second] = &keys;
            Ok(Twins { found: [read(first)?, read(second)?], keys })
        };
        keys.chain([[key_of_list(0), key_of_list(1)]]).map(twins).collect()
    }

    /// Finds the segments that hold dictionaries.
    pub(super) fn find_homes(&self) -> Result<()> {
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        let segments = self.engine.log.segments();
        let twins = self.twins(namespace)?;
        let offsets = twins.iter().flat_map(|twins| twins.found.iter().flatten().map(|(offset, _)| *offset));
        *self.engine.homes.write() = offsets.filter_map(|offset| home_of(&self.engine, &segments, offset)).collect();
        Ok(())
    }

    /// Before a segment is emptied: lets the log go on in another segment if a dictionary would else come to stand twice in the one that
    /// takes appends. Where there is no space for that, it stands there until [`Self::mend_dictionaries`].
    pub(super) fn part_dictionaries(&self, emptied: &Segment) -> Result<()> {
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        let log = &self.engine.log;
        let (segments, active) = log.segments_and_active();
        let meets = |twins: &Twins| {
            let homes = twins
                .found
                .each_ref()
                .map(|found| found.as_ref().and_then(|(offset, _)| home_of(&self.engine, &segments, *offset)));
            homes.contains(&Some(emptied.base)) && active.is_some() && homes.contains(&active)
        };
        if self.twins(namespace)?.iter().any(meets) && log.secure_free(2)? {
            log.seal_active()?;
        }
        Ok(())
    }

    /// Writes copies again that are gone, damaged, or in the same segment as the other.
    pub(super) fn mend_dictionaries(&self) -> Result<()> {
        self.write_late_dictionaries()?;
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        let log = &self.engine.log;
        let mut has_mended = false;
        for Twins { keys, found } in self.twins(namespace)? {
            let (segments, active) = log.segments_and_active();
            let homes =
                found.each_ref().map(|found| found.as_ref().and_then(|(offset, _)| home_of(&self.engine, &segments, *offset)));
            let (lost, kept) = match (&found, homes) {
                ([Some(_), Some(_)], [one, other]) if one != other => continue,
                ([Some(kept), _], _) => (1, kept),
                ([None, Some(kept)], _) => (0, kept),
                ([None, None], _) => continue,
            };
            if !log.secure_free(2)? {
                return Ok(());
            }
            if active.is_some() && home_of(&self.engine, &segments, kept.0) == active {
                log.seal_active()?;
            }
            let Some(key) = keys.get(lost) else { continue };
            match self.put_own(namespace, key, &kept.1) {
                Err(Error::NoSpace) => return Ok(()),
                result => result?,
            }
            has_mended = true;
        }
        if has_mended {
            log.sync_to(log.end())?;
            // What had one copy counts from now on.
            let listed = self.listed()?;
            self.set_listed(listed.list.clone(), listed.is_lost)?;
        }
        Ok(())
    }

    /// Drops the dictionaries that no segment names any more: no live one, and nothing is kept or waits for readers. The newest number stays,
    /// so that none is given out again.
    pub(super) fn drop_dictionaries(&self) -> Result<()> {
        let Some(namespace) = self.dictionaries_number() else { return Ok(()) };
        let listed = self.listed()?;
        let counts = |entry: &Entry| {
            listed.list.of(&entry.name).is_some_and(|newest| newest.number == entry.number)
                && self.names.read().get(&entry.name).is_some()
        };
        let candidates: BTreeSet<u32> = listed
            .list
            .entries
            .iter()
            .filter(|entry| entry.number != 0 && entry.number + 1 != listed.list.next && !counts(entry))
            .map(|entry| entry.number)
            .collect();
        if candidates.is_empty() || listed.is_lost {
            return Ok(());
        }
        let unnamed = if is(Bug::DictionaryDroppedEarly) { candidates } else { self.unnamed(candidates)? };
        if unnamed.is_empty() {
            return Ok(());
        }
        let mut list = List { changes: listed.list.changes + 1, ..listed.list.clone() };
        list.entries.retain(|entry| !unnamed.contains(&entry.number));
        let dropped = || {
            for copy in 0..COPIES {
                self.put_own(namespace, &key_of_list(copy), &list.encode())?;
                unnamed.iter().try_for_each(|&number| self.remove_own(namespace, &key_of(number, copy)))?;
            }
            Ok(())
        };
        match dropped() {
            Err(Error::NoSpace) => {}
            result => result?,
        }
        self.set_listed(list, false).map(drop)
    }

    /// Which of these dictionaries no frame of any segment names.
    fn unnamed(&self, candidates: BTreeSet<u32>) -> Result<BTreeSet<u32>> {
        let (engine, log) = (&self.engine, &self.engine.log);
        for &number in &candidates {
            // Readers may still need one that is kept after all; nobody writes with it from now on.
            if let Ok(Some(dictionary)) = engine.dictionary(number) {
                dictionary.end();
            }
        }
        // Whoever writes with one holds a shard.
        drop(engine.lock_all()?);
        if log.keeps_segments() || engine.moments.any() {
            return Ok(BTreeSet::new());
        }
        let mut unnamed = candidates;
        for segment in log.segments() {
            let pin = engine.pins.pin();
            scan(&*log.storage, super::sift::whole(engine, &segment), &mut |found| {
                match found {
                    Found::Frame { offset, header } if header.is_compressed() => {
                        if let Some(codec) = log.frame(offset)?.meta().codec() {
                            unnamed.remove(&codec.dictionary);
                        }
                    }
                    Found::Frame { .. } => {}
                    // Nobody knows what it named.
                    Found::Damage(_) => unnamed.clear(),
                }
                Ok(())
            })?;
            drop(pin);
            if unnamed.is_empty() {
                break;
            }
        }
        Ok(unnamed)
    }
}

/// The base of the segment that has an offset.
fn home_of(engine: &Engine, segments: &[Segment], offset: u64) -> Option<u64> {
    let geometry = engine.log.geometry;
    let has = |segment: &&Segment| (geometry.start(segment.extent)..segment.behind(geometry)).contains(&offset);
    segments.iter().find(has).map(|segment| segment.base)
}
