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

/// The content of a name record.
#[derive(Debug, Default)]
struct Named {
    number: u32,
    /// Copied unchanged: this version does not interpret them.
    options: Box<[u8]>,
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
}

impl Names {
    /// Starts with the names of the snapshot and applies the name records after the checkpoint. Those before it may be of any age, because
    /// compaction moves records and drops replaced ones. Without a snapshot, all name records are applied.
    ///
    /// The same pass checks the log against the index snapshot.
    pub(super) fn read(storage: &dyn Storage, survey: &Survey, mut audit: Option<&mut Audit<'_>>) -> Result<Self> {
        let pair = &survey.pair;
        let place = pair.current.checkpoint;
        let load = |directory| {
            let (geometry, store_id) = (pair.current.geometry(), pair.current.store_id);
            snapshot::load_names(storage, &snapshot::read_directory(storage, geometry, store_id, directory)?)
        };
        let snapshot = match place.and_then(|place| place.directory).map(load).transpose() {
            Ok(snapshot) => snapshot,
            Err(Error::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let known_at = place.filter(|_| snapshot.is_some()).map_or((0, 0), |place| (place.base, place.offset));
        let (next, names) = snapshot.unwrap_or_default();
        let mut by_name = BTreeMap::from([(String::from(DEFAULT), Named::default())]);
        by_name.extend(names.into_iter().map(|named| (named.name, Named { number: named.number, options: named.options })));
        let mut mentioned = BTreeSet::new();
        let mut is_damaged = false;
        for (base, stretch) in survey.stretches.iter() {
            scan(storage, *stretch, &mut |found| {
                let (offset, header) = match found {
                    Found::Frame { offset, header } => (offset, header),
                    Found::Damage(damage) => {
                        is_damaged = true;
                        audit.iter_mut().for_each(|audit| audit.damage(&damage));
                        return Ok(());
                    }
                };
                if header.kind == Kind::Put
                    && let Some(audit) = audit.as_deref_mut().filter(|audit| audit.shown.covers(base, offset))
                {
                    let hash = audit.shown.hash(header.namespace, &key_of(storage, offset, &header)?);
                    audit.put(hash, offset);
                }
                if header.kind.is_control() || header.namespace != NAMESPACE_OF_NAMES {
                    return Ok(());
                }
                let name = String::from_utf8(key_of(storage, offset, &header)?).unwrap_or_default();
                let value = value_of(storage, offset, &header)?;
                let (number, options) =
                    value.split_first_chunk().map_or((0, &[][..]), |(number, rest)| (u32::from_le_bytes(*number), rest));
                mentioned.insert(number);
                if (base, offset) >= known_at {
                    let named = Named { number, options: options.into() };
                    let before = if header.kind == Kind::Put { by_name.insert(name, named) } else { by_name.remove(&name) };
                    mentioned.extend(before.map(|named| named.number));
                }
                Ok(())
            })?;
        }
        let by_number = by_name.iter().map(|(name, named)| (named.number, name.clone())).collect();
        Ok(Self { by_name, by_number, mentioned, lost_from: if is_damaged { next } else { u32::MAX } })
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
