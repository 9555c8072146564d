//! The names of the namespace numbers, as far as a damaged store still has them.

use crate::error::{Error, Result};
use crate::frame::{Kind, NAMESPACE_OF_NAMES};
use crate::names::DEFAULT;
use crate::scan::{Found, key_of, scan, value_of};
use crate::snapshot;
use crate::storage::Storage;
use crate::verify::{Audit, Survey};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// The content of a name record.
#[derive(Debug, Default)]
struct Named {
    number: u32,
    /// Copied unchanged: this version does not interpret them.
    options: Box<[u8]>,
    /// File offset of the record; 0 without one.
    offset: u64,
}

impl Named {
    /// The value of the name record at `offset`.
    fn decode(value: &[u8], offset: u64) -> Self {
        let (number, options) =
            value.split_first_chunk().map_or((0, &[][..]), |(number, rest)| (u32::from_le_bytes(*number), rest));
        Self { number, options: options.into(), offset }
    }
}

/// The namespaces of a store.
#[derive(Debug)]
pub(super) struct Names {
    by_name: BTreeMap<String, Named>,
    by_number: BTreeMap<u32, String>,
    /// Numbers that some name record has assigned or taken back.
    mentioned: BTreeSet<u32>,
    /// A number below this without a name was dropped or cleared; one from here on may have a name that is lost.
    lost_from: u32,
    /// The names of the index snapshot are not those of the log.
    pub(super) contradicted: bool,
}

/// A name record of the log.
struct Record {
    /// Base of its segment, and its offset.
    place: (u64, u64),
    is_put: bool,
    name: String,
    named: Named,
}

/// Applies name records in log order.
fn apply(mut by_name: BTreeMap<String, Named>, records: Vec<Record>) -> BTreeMap<String, Named> {
    for Record { is_put, name, named, .. } in records {
        let _ = if is_put { by_name.insert(name, named) } else { by_name.remove(&name) };
    }
    by_name
}

/// Takes over the snapshot's names where they differ from those of the log for a reason: `is_lost` says whether the record of a name may be
/// damaged, `is_gone` whether a name may have been dropped by a damaged one. True when one differs without a reason.
fn merge(
    by_name: &mut BTreeMap<String, Named>,
    shown: BTreeMap<String, Named>,
    is_lost: &dyn Fn(&str) -> bool,
    is_gone: &dyn Fn(&str, &Named) -> bool,
) -> bool {
    // A number belongs to one name for good.
    let owners: BTreeMap<u32, String> = by_name.iter().map(|(name, named)| (named.number, name.clone())).collect();
    by_name.retain(|name, named| name == DEFAULT || shown.contains_key(name) || !is_gone(name, named));
    let mut contradicted = by_name.keys().any(|name| name != DEFAULT && !shown.contains_key(name));
    for (name, named) in shown {
        if by_name.get(&name).is_some_and(|logged| logged.number == named.number) {
            continue;
        }
        if is_lost(&name) && owners.get(&named.number).is_none_or(|owner| *owner == name) {
            by_name.insert(name, named);
        } else {
            contradicted = true;
        }
    }
    contradicted
}

/// Takes over the snapshot's names that a later record has copied or replaced: compaction may have freed the segment of the record that the
/// snapshot knew since.
fn take_replaced(by_name: &mut BTreeMap<String, Named>, shown: &BTreeMap<String, Named>, later: &[Record]) {
    for (name, Named { number, options, .. }) in shown {
        let differs = by_name.get(name).is_none_or(|logged| logged.number != *number);
        if differs && later.iter().any(|record| record.name == *name) {
            by_name.insert(name.clone(), Named { number: *number, options: options.clone(), offset: 0 });
        }
    }
}

/// The number that the next namespace would have got, and the names of the index snapshot; `None` where there is none, or it is damaged.
fn shown(storage: &dyn Storage, survey: &Survey) -> Result<Option<(u32, BTreeMap<String, Named>)>> {
    let current = &survey.pair.current;
    let Some(directory) = current.checkpoint.and_then(|place| place.directory) else { return Ok(None) };
    let directory = snapshot::read_directory(storage, current.geometry(), current.store_id, directory);
    match directory.and_then(|directory| snapshot::load_names(storage, &directory)) {
        Ok((next, names)) => {
            let names =
                names.into_iter().map(|found| (found.name, Named { number: found.number, options: found.options, offset: 0 }));
            Ok(Some((next, names.collect())))
        }
        Err(Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a pass over the whole log has found.
struct Logged {
    /// The name records, in the order of the log.
    records: Vec<Record>,
    is_damaged: bool,
    /// Something before the checkpoint is damaged, or gone.
    is_damaged_before: bool,
}

impl Logged {
    /// `known_at` is the place of the checkpoint. The same pass gives `audit` the records and the damage.
    fn read(storage: &dyn Storage, survey: &Survey, known_at: (u64, u64), mut audit: Option<&mut Audit<'_>>) -> Result<Self> {
        let mut logged = Self { records: Vec::new(), is_damaged: false, is_damaged_before: !survey.damage.is_empty() };
        for (base, stretch) in survey.stretches.iter() {
            scan(storage, *stretch, &mut |found| {
                let (offset, header) = match found {
                    Found::Frame { offset, header } => (offset, header),
                    Found::Damage(damage) => {
                        logged.is_damaged = true;
                        logged.is_damaged_before |= (base, damage.offset) < known_at;
                        audit.iter_mut().for_each(|audit| audit.damage(&damage));
                        return Ok(());
                    }
                };
                if header.kind == Kind::Put
                    && let Some(audit) = audit.as_deref_mut().filter(|audit| audit.shown.covers(base, offset))
                {
                    let hash = audit.shown.hash(header.namespace, &key_of(storage, stretch.salt, offset, &header)?);
                    audit.put(hash, offset);
                }
                if !header.kind.is_control() && header.namespace == NAMESPACE_OF_NAMES {
                    let is_put = header.kind == Kind::Put;
                    let name = String::from_utf8(key_of(storage, stretch.salt, offset, &header)?).unwrap_or_default();
                    let named = Named::decode(&value_of(storage, stretch.salt, offset, &header)?, offset);
                    logged.records.push(Record { place: (base, offset), is_put, name, named });
                }
                Ok(())
            })?;
        }
        Ok(logged)
    }
}

impl Names {
    /// Starts with the names of the snapshot and applies the name records after the checkpoint. Without a snapshot, all name records are
    /// applied.
    ///
    /// The snapshot's names count only as far as the name records before the checkpoint do not contradict them: each that differs needs a
    /// damaged record as its reason. The same pass checks the log against the index snapshot.
    pub(super) fn read(storage: &dyn Storage, survey: &Survey, mut audit: Option<&mut Audit<'_>>) -> Result<Self> {
        let place = survey.pair.current.checkpoint;
        let snapshot = shown(storage, survey)?;
        let known_at = place.filter(|_| snapshot.is_some()).map_or((0, 0), |place| (place.base, place.offset));
        let Logged { mut records, is_damaged, is_damaged_before } =
            Logged::read(storage, survey, known_at, audit.as_deref_mut())?;
        let before = records.partition_point(|record| record.place < known_at);
        let later = records.split_off(before);
        let mut mentioned: BTreeSet<u32> = records.iter().chain(&later).map(|record| record.named.number).collect();
        let mut by_name = apply(BTreeMap::from([(String::from(DEFAULT), Named::default())]), records);
        let (next, names) = snapshot.unwrap_or_default();
        let mut contradicted = false;
        if known_at != (0, 0) {
            let audit = audit.as_deref().filter(|audit| audit.agrees());
            let is_lost = |name: &str| match audit {
                Some(audit) => audit.is_damaged(audit.shown.hash(NAMESPACE_OF_NAMES, name.as_bytes())),
                None => is_damaged_before,
            };
            let counts = |name: &str, named: &Named| {
                audit.is_some_and(|audit| audit.shown.has(audit.shown.hash(NAMESPACE_OF_NAMES, name.as_bytes()), named.offset))
            };
            let is_gone = |name: &str, named: &Named| is_damaged_before && !counts(name, named);
            take_replaced(&mut by_name, &names, &later);
            contradicted = merge(&mut by_name, names, &is_lost, &is_gone);
        }
        mentioned.extend(by_name.values().map(|named| named.number));
        let by_name = apply(by_name, later);
        let by_number = by_name.iter().map(|(name, named)| (named.number, name.clone())).collect();
        let lost_from = match is_damaged {
            false => u32::MAX,
            true if contradicted => 0,
            true => next,
        };
        Ok(Self { by_name, by_number, mentioned, lost_from, contradicted })
    }

    /// Names and options of all namespaces except the default one.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.by_name.iter().map(|(name, named)| (name.as_str(), &*named.options)).filter(|(name, _)| *name != DEFAULT)
    }

    /// The name of a number; `None` for one that was dropped or cleared. If the name is lost, makes one from the number.
    pub(super) fn of(&mut self, number: u32) -> Option<&str> {
        if number >= self.lost_from && !self.mentioned.contains(&number) {
            self.by_number.entry(number).or_insert_with(|| alloc::format!("salvaged-{number}"));
        }
        self.by_number.get(&number).map(String::as_str)
    }
}
