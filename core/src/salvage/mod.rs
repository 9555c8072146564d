//! Salvage: copies every record with a valid checksum from a store that may not open any more into a new one. The source is never changed.

mod names;
mod report;
#[cfg(feature = "encrypt")]
mod sealed;

pub use report::{SalvageOptions, SalvageReport};

use crate::db::{Db, Namespace};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, Mark, NAMESPACE_OF_NAMES};
use crate::index::KeyHash;
use crate::log::Window;
use crate::names::DEFAULT;
use crate::planted::{Bug, is};
use crate::recover::Chain;
use crate::scan::{Damage, Found, Stretch, key_of, scan, value_of};
use crate::storage::Storage;
use crate::verify::{Audit, Shown, Survey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use names::Names;

/// Copies every valid record from `source` into `target`, which should be new, in the order of the log. `progress` is called with the bytes
/// done and the bytes in all. The same as [`salvage_with`] with the default options. Of a sealed store `Builder::salvage` copies the records.
///
/// A namespace whose name is lost is called `salvaged-` and its number. A commit that a crash left incomplete is left out, as on opening;
/// of a damaged commit the valid records are copied. If the report has no damage, nothing was lost.
///
/// ```
/// use pipkin::{Db, salvage, storage::{MemoryStorage, Storage}};
///
/// let file = MemoryStorage::new();
/// let db = Db::builder().open_storage(Box::new(file.clone()))?;
/// db.insert_many((0..100_u8).map(|n| ([n], [n; 100])))?;
/// db.close()?;
/// file.write_at(20_000, &[b"damage"])?; // in the middle of the records
/// let target = Db::open_in_memory()?;
/// let report = salvage(&file, &target, &mut |_done, _total| ())?;
/// assert!(target.len()? >= 98 && !report.damage.is_empty());
/// # Ok::<(), pipkin::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], [`Error::Corrupt`] when both superblocks are lost and no segment is found without
/// them, and errors of either storage.
pub fn salvage(source: &dyn Storage, target: &Db, progress: &mut dyn FnMut(u64, u64)) -> Result<SalvageReport> {
    salvage_with(source, target, SalvageOptions::default(), progress)
}

/// [`salvage`] with options.
///
/// # Errors
///
/// As for [`salvage`].
pub fn salvage_with(
    source: &dyn Storage,
    target: &Db,
    options: SalvageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    #[cfg(feature = "encrypt")]
    sealed::refuse(source)?;
    copy_all(source, target, options, progress)
}

/// Copies every valid record; of a sealed store, whose keys `source` has, every authentic one.
fn copy_all(
    source: &dyn Storage,
    target: &Db,
    options: SalvageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    let survey = Survey::of(source)?;
    let shown = Shown::load(source, &survey.pair.current)?;
    let mut copy = Copy::new(source, target, options, &survey, shown.as_ref())?;
    let total: u64 = survey.stretches.values().map(|stretch| stretch.to - stretch.from).sum();
    let followed = Chain::follow(source, &survey.pair);
    let gap = followed.as_ref().ok().and_then(|chain| gap_behind(chain, &survey));
    let mut done = 0;
    for (base, &stretch) in survey.stretches.iter() {
        // Behind damage every record is worth having.
        if gap.is_some_and(|gap| base > gap) && copy.report.damage.is_empty() {
            copy.cut_off(base, stretch)?;
        } else {
            copy.stretch(base, stretch, &mut |read| progress(done + read, total))?;
        }
        done += stretch.to - stretch.from;
        if let Some(&rest) = survey.cut_off.get(base) {
            copy.cut_off(base, rest)?;
        }
    }
    let others = survey.cut_off.iter().filter(|(base, _)| !survey.stretches.contains(*base));
    others.map(|(base, &stretch)| (base, stretch)).try_for_each(|(base, stretch)| copy.cut_off(base, stretch))?;
    progress(total, total);
    copy.finish(followed)
}

/// The base of the segment that would follow the end of the log, if a power cut has lost it: nothing of it had been synced, nor of those behind it, which
/// may still be there. Opening ends in front of it.
fn gap_behind(chain: &Chain, survey: &Survey) -> Option<u64> {
    let next = chain.tail.last()?.next_base(survey.pair.current.geometry());
    (!survey.pair.other_damaged && !survey.stretches.contains(next)).then_some(next)
}

/// Where a record is in the source, with its header.
#[derive(Clone, Copy)]
struct Place {
    base: u64,
    salt: u64,
    offset: u64,
    header: Header,
}

struct Copy<'a> {
    source: &'a dyn Storage,
    target: &'a Db,
    options: SalvageOptions,
    names: Names,
    /// The dictionaries of compressed values.
    #[cfg(feature = "compress")]
    dictionaries: crate::verify::Dictionaries,
    /// The index snapshot, if it agrees with the log.
    audit: Option<Audit<'a>>,
    report: SalvageReport,
    namespaces: BTreeMap<u32, Namespace>,
    /// Records of a commit whose end has not been read yet. A commit that a crash left without an end does not count.
    held: Vec<Place>,
    /// Records that do not count according to the snapshot, though no record that replaces them has been read so far: by the hash of their
    /// key.
    older: BTreeMap<u64, Place>,
    /// Hashes of the keys that were written or removed after the newest damage with an unknown key; `None` without such damage.
    since: Option<BTreeSet<u64>>,
    /// Records with a value that were copied.
    puts: u64,
    /// The records being copied are stranded: they do not count in the log.
    is_stranded: bool,
    /// The latest expiry that the source has acted on.
    clock: u64,
    /// Base and offset of the newest checkpoint: marks before it may say more than was true after a reset of the clock.
    marks_from: (u64, u64),
}

impl<'a> Copy<'a> {
    /// Creates the namespaces of the source in `target`, and decides whether the index snapshot can be trusted.
    fn new(
        source: &'a dyn Storage,
        target: &'a Db,
        options: SalvageOptions,
        survey: &Survey,
        shown: Option<&'a Shown>,
    ) -> Result<Self> {
        let zones = survey.stretches.iter().map(|(base, stretch)| (stretch.from..stretch.to, base)).collect();
        let mut audit = shown.map(|shown| Audit::new(shown, zones));
        let names = Names::read(source, survey, audit.as_mut())?;
        for (name, options) in names.all().filter(|(name, _)| !is_of_dictionaries(name)) {
            target.any_namespace(name, options)?;
        }
        let mut report = SalvageReport { damage: survey.damage.clone(), ..SalvageReport::default() };
        if names.contradicted {
            let offset = survey.pair.current.checkpoint.and_then(|place| place.directory).map_or(0, |place| place.offset);
            let what = "an index snapshot whose namespaces are not those of the log";
            report.damage.push(Damage { offset, len: 1, key: None, what });
        }
        if let Some(other) = audit.take_if(|audit| !audit.agrees()) {
            let what = "an index snapshot that does not point at the records of its keys";
            report.damage.push(Damage { offset: other.shown.directory, len: 1, key: None, what });
        }
        let (namespaces, older) = (BTreeMap::new(), BTreeMap::new());
        let held = Vec::new();
        Ok(Self {
            source,
            target,
            options,
            names,
            #[cfg(feature = "compress")]
            dictionaries: read_dictionaries(source, survey)?,
            audit,
            report,
            namespaces,
            held,
            older,
            since: None,
            puts: 0,
            is_stranded: false,
            clock: survey.pair.current.clock,
            marks_from: survey.pair.current.checkpoint.map_or((0, 0), |place| (place.base, place.offset)),
        })
    }

    /// Copies the records of a stretch. `progress` is called with the bytes read.
    fn stretch(&mut self, base: u64, stretch: Stretch, progress: &mut dyn FnMut(u64)) -> Result<()> {
        scan(self.source, stretch, &mut |found| {
            match found {
                Found::Frame { offset, header } => {
                    self.frame(Place { base, salt: stretch.salt, offset, header })?;
                    progress(offset - stretch.from);
                }
                Found::Damage(damage) => {
                    self.damage(base, &damage);
                    self.report.damage.push(damage);
                    // The damage may be the rest of the commit; its valid records count.
                    self.release()?;
                }
            }
            Ok(())
        })
    }

    fn frame(&mut self, place: Place) -> Result<()> {
        let Place { base, salt, offset, header } = place;
        if header.kind == Kind::Mark && (base, offset) > self.marks_from {
            let mark = Mark::decode(&value_of(self.source, salt, offset, &header)?);
            self.clock = mark.map_or(self.clock, |mark| self.clock.max(mark.clock));
        }
        // Skip control frames: the end of a segment may be in the middle of a commit.
        if header.kind.is_control() {
            return Ok(());
        }
        self.report.read += 1;
        self.held.push(place);
        if header.continues { Ok(()) } else { self.release() }
    }

    /// Reads a stretch that an unclean end has cut off, and copies its complete commits if the options say so.
    fn cut_off(&mut self, base: u64, stretch: Stretch) -> Result<()> {
        let (mut commit, mut whole) = (Vec::new(), Vec::new());
        scan(self.source, stretch, &mut |found| {
            match found {
                Found::Frame { header, .. } if header.kind.is_control() => {}
                Found::Frame { offset, header } => {
                    commit.push(Place { base, salt: stretch.salt, offset, header });
                    if !header.continues {
                        whole.append(&mut commit);
                    }
                }
                Found::Damage(_) => commit.clear(),
            }
            Ok(())
        })?;
        self.report.read += whole.len() as u64;
        self.report.stranded += whole.len() as u64;
        self.is_stranded = true;
        let kept = if self.options.stranded { whole } else { Vec::new() };
        let copied = kept.into_iter().try_for_each(|place| self.record(place));
        self.is_stranded = false;
        copied
    }

    /// Copies the records of the commit that was held back.
    fn release(&mut self) -> Result<()> {
        core::mem::take(&mut self.held).into_iter().try_for_each(|place| self.record(place))
    }

    /// Notes damage whose key is unknown: before the checkpoint the index snapshot knows the key.
    fn damage(&mut self, base: u64, damage: &Damage) {
        if !self.audit.as_ref().is_some_and(|audit| audit.shown.covers(base, damage.offset)) {
            self.since = Some(BTreeSet::new());
        }
    }

    fn namespace(&mut self, number: u32) -> Result<Option<Namespace>> {
        if let Some(namespace) = self.namespaces.get(&number) {
            return Ok(Some(namespace.clone()));
        }
        let Some(name) = self.names.of(number).filter(|name| !is_of_dictionaries(name)) else { return Ok(None) };
        let namespace = if name == DEFAULT { self.target.default_namespace() } else { self.target.any_namespace(name, &[])? };
        self.namespaces.insert(number, namespace.clone());
        Ok(Some(namespace))
    }

    fn hash(&self, namespace: u32, key: &[u8]) -> KeyHash {
        match &self.audit {
            Some(audit) => audit.shown.hash(namespace, key),
            None => KeyHash::new(0, namespace, key),
        }
    }

    fn record(&mut self, place: Place) -> Result<()> {
        let Place { base, salt, offset, header } = place;
        let number = header.namespace;
        if number == NAMESPACE_OF_NAMES {
            self.report.names += 1;
            return Ok(());
        }
        let Some(namespace) = self.namespace(number)? else {
            self.report.dropped += 1;
            return Ok(());
        };
        let key = key_of(self.source, salt, offset, &header)?;
        let hash = self.hash(number, &key);
        if !header.kind.is_carried() {
            if let Some(since) = self.since.as_mut().filter(|_| !self.is_stranded) {
                since.insert(hash.bits());
            }
            if self.older.remove(&hash.bits()).is_some() {
                self.report.replaced += 1;
            }
        }
        let counts = |audit: &Audit<'_>| !audit.shown.covers(base, offset) || audit.shown.has(hash, offset);
        let is_older = header.kind == Kind::Put && !self.is_stranded && !self.audit.as_ref().is_none_or(counts);
        // A record that was swept is a tombstone of what it had replaced.
        if header.kind == Kind::Tombstone || is_older && self.has_expired(offset, &header)? {
            self.report.tombstones += 1;
            self.report.removed += u64::from(namespace.remove_whole(&key)?);
            return Ok(());
        }
        if is_older {
            self.older.insert(hash.bits(), place);
            return Ok(());
        }
        self.copy(&namespace, &key, place)
    }

    /// True if the source has acted on the expiry of the record.
    fn has_expired(&self, offset: u64, header: &Header) -> Result<bool> {
        let front = Window::new(self.source, offset + header.header_len() as u64).bytes(offset, header.header_len())?.to_vec();
        Ok(header.meta(&front).expiry().is_some_and(|expiry| expiry <= self.clock))
    }

    fn copy(&mut self, namespace: &Namespace, key: &[u8], Place { salt, offset, header, .. }: Place) -> Result<()> {
        let is_put = header.kind == Kind::Put;
        #[cfg(feature = "compress")]
        if is_put && header.is_compressed() {
            return self.copy_decoded(namespace, key, (salt, offset), &header);
        }
        self.puts += u64::from(is_put);
        self.report.carried += u64::from(!is_put);
        let front = Window::new(self.source, offset + header.header_len() as u64).bytes(offset, header.header_len())?.to_vec();
        namespace.insert_whole(header.kind, header.meta(&front), key, &value_of(self.source, salt, offset, &header)?)
    }

    /// Copies a compressed record as a plain one. One of a later version is carried as it is.
    #[cfg(feature = "compress")]
    fn copy_decoded(&mut self, namespace: &Namespace, key: &[u8], (salt, offset): (u64, u64), header: &Header) -> Result<()> {
        let front = Window::new(self.source, offset + header.header_len() as u64).bytes(offset, header.header_len())?.to_vec();
        let meta = header.meta(&front);
        if meta.has_more() || !meta.codec().is_some_and(crate::compress::is_known) {
            self.puts += 1;
            return namespace.insert_whole(header.kind, meta, key, &value_of(self.source, salt, offset, header)?);
        }
        let Some(plain) = crate::verify::plain_value(self.source, &self.dictionaries, (salt, offset), header)? else {
            self.report.undecoded += 1;
            let (len, key) = (header.frame_len() as u64, Some(key.to_vec()));
            self.report.damage.push(Damage { offset, len, key, what: "a compressed value that cannot be decoded" });
            return Ok(());
        };
        self.puts += 1;
        namespace.insert_whole(header.kind, crate::frame::CodecMeta::new(&meta, None).meta(), key, &plain)
    }

    /// Copies or drops the records that did not count and that no later record replaced: the one that counted is damaged or gone.
    fn settle_older(&mut self) -> Result<()> {
        for place in core::mem::take(&mut self.older).into_values() {
            let Some(namespace) = self.namespace(place.header.namespace)? else { continue };
            let key = key_of(self.source, place.salt, place.offset, &place.header)?;
            let hash = self.hash(place.header.namespace, &key);
            let lives = self.audit.as_ref().is_some_and(|audit| audit.is_damaged(hash));
            if lives {
                self.report.superseded += 1;
            } else if !is(Bug::SalvageRevives) {
                self.report.revived += 1;
            }
            let is_kept = if lives { self.options.superseded } else { self.options.revived || is(Bug::SalvageRevives) };
            if is_kept {
                self.copy(&namespace, &key, place)?;
            }
        }
        Ok(())
    }

    /// `followed` is what opening makes of the log.
    fn finish(mut self, followed: Result<Chain>) -> Result<SalvageReport> {
        self.report.unfinished = self.held.len() as u64;
        if self.options.unfinished {
            self.release()?;
        }
        self.settle_older()?;
        // What had expired there has expired here.
        self.target.acted_on(self.clock);
        #[cfg(feature = "encrypt")]
        let followed = sealed::note_history(followed, &mut self.report);
        if let Err(Error::Corrupt { offset, what, .. }) = followed {
            let is_known = |damage: &Damage| (damage.offset..damage.offset + damage.len).contains(&offset);
            if !self.report.damage.iter().any(is_known) {
                // Report missing segments here: the scan found nothing of them.
                self.report.damage.push(Damage { offset, len: 1, key: None, what });
            }
        }
        self.target.flush()?;
        let mut report = self.report;
        report.records = self.target.count_all()?;
        report.replaced += (self.puts - report.removed).saturating_sub(report.records);
        report.unsure = self.since.map_or(0, |since| report.records.saturating_sub(since.len() as u64));
        Ok(report)
    }
}

/// True for the namespace of dictionaries, in a build that decodes: the new store needs none.
fn is_of_dictionaries(name: &str) -> bool {
    cfg!(feature = "compress") && name == crate::names::DICTIONARIES
}

/// The dictionaries of the source, whatever else of it is damaged.
#[cfg(feature = "compress")]
fn read_dictionaries(source: &dyn Storage, survey: &Survey) -> Result<crate::verify::Dictionaries> {
    let stretches: Vec<Stretch> = survey.stretches.values().chain(survey.cut_off.values()).copied().collect();
    crate::verify::read_dictionaries(source, &stretches)
}
