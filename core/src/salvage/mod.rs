//! Salvage: every record that still checks, out of a store that may not open any more, into a new one. The source is never changed.

mod names;

use crate::db::{Db, Namespace};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::log::{Front, Window, read_superblocks};
use crate::names::DEFAULT;
use crate::recover::Chain;
use crate::scan::{Damage, Found, key_of, scan, value_of};
use crate::storage::Storage;
use crate::verify::Survey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use names::Names;

/// What salvaging got out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Records in the new store.
    pub records: u64,
    /// Removals that were applied on the way.
    pub removed: u64,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// Copies everything that checks from `source` into `target`, which should be new, in the order of the log. `progress` hears how
/// many bytes are done, of how many.
///
/// A namespace whose name is lost is called `salvaged-` and its number. A commit that a crash has left unfinished is left out, as opening
/// leaves it out; of one that is damaged, what checks is copied. If the report has no damage, nothing was lost.
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], [`Error::Corrupt`] when both superblocks are lost, and errors of either storage.
pub fn salvage(source: &dyn Storage, target: &Db, progress: &mut dyn FnMut(u64, u64)) -> Result<SalvageReport> {
    let pair = match read_superblocks(source)? {
        Front::Store(pair) => pair,
        Front::Blank => {
            return Err(Error::NotAStore { detail: "it is empty" });
        }
    };
    let survey = Survey::take(source, &pair)?;
    let names = Names::read(source, &pair, &survey)?;
    for name in names.all() {
        target.namespace(name)?;
    }
    let mut report = SalvageReport::default();
    let mut copy = Copy { source, target, names, namespaces: BTreeMap::new(), held: Vec::new(), removed: 0 };
    let total: u64 = survey.stretches.values().map(|stretch| stretch.to - stretch.from).sum();
    let mut done = 0;
    for &stretch in survey.stretches.values() {
        scan(source, stretch, &mut |found| {
            match found {
                Found::Frame { offset, header } => {
                    copy.frame(offset, header)?;
                    progress(done + (offset - stretch.from), total);
                }
                Found::Damage(damage) => {
                    report.damage.push(damage);
                    // The rest of a commit may be what is damaged; what is left of it counts.
                    copy.release()?;
                }
            }
            Ok(())
        })?;
        done += stretch.to - stretch.from;
    }
    progress(total, total);
    if report.damage.is_empty()
        && let Err(Error::Corrupt { offset, what, .. }) = Chain::follow(source, &pair)
    {
        // Whole segments that are missing leave nothing to scan.
        report.damage.push(Damage { offset, len: 1, key: None, what });
    }
    target.flush()?;
    report.removed = copy.removed;
    report.records = target.stats()?.records;
    Ok(report)
}

struct Copy<'a> {
    source: &'a dyn Storage,
    target: &'a Db,
    names: Names,
    namespaces: BTreeMap<u32, Namespace>,
    /// Records of a commit whose end has not come yet. One that a crash has left without an end never was.
    held: Vec<(u64, Header)>,
    removed: u64,
}

impl Copy<'_> {
    fn frame(&mut self, offset: u64, header: Header) -> Result<()> {
        // The end of a segment may stand in the middle of a commit.
        if header.kind.is_control() {
            return Ok(());
        }
        self.held.push((offset, header));
        if header.continues { Ok(()) } else { self.release() }
    }

    /// Copies what was held back.
    fn release(&mut self) -> Result<()> {
        core::mem::take(&mut self.held).into_iter().try_for_each(|(offset, header)| self.record(offset, &header))
    }

    fn record(&mut self, offset: u64, header: &Header) -> Result<()> {
        let number = header.namespace;
        if number == NAMESPACE_OF_NAMES {
            return Ok(());
        }
        let Some(name) = self.names.of(number) else { return Ok(()) };
        let namespace = match self.namespaces.get(&number) {
            Some(namespace) => namespace.clone(),
            None => {
                let namespace = if name == DEFAULT { self.target.default_namespace() } else { self.target.namespace(name)? };
                self.namespaces.insert(number, namespace.clone());
                namespace
            }
        };
        let key = key_of(self.source, offset, header)?;
        if header.kind != Kind::Tombstone {
            let front = Window::new(self.source, offset + header.header_len as u64).bytes(offset, header.header_len)?.to_vec();
            return namespace.insert_whole(header.kind, header.meta(&front), &key, &value_of(self.source, offset, header)?);
        }
        self.removed += u64::from(namespace.remove(key)?);
        Ok(())
    }
}
