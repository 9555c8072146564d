//! Sealed stores: salvage with the key copies what somebody with the key has written, wherever the file was damaged or changed.

use super::{SalvageOptions, SalvageReport, copy_all, salvage_with};
use crate::db::{Builder, Db};
use crate::error::{Error, Result};
use crate::limits::{DATA_START, LOG_POSITION_FIRST, LOG_POSITION_MAX, SEGMENT_SIZE_MIN};
use crate::log::{Front, SEGMENT_HEADER_LEN, SegmentHeader, Superblock, SuperblockSlot, keys_of, read_superblocks};
use crate::scan::Damage;
use crate::seal::{Keys, Secret, Vault};
use crate::storage::{MemoryStorage, ReadOnly, SealedStorage, Storage};
use crate::unlock::{PAGE_LEN, PAGE_PLACES, Sealed, unlock, version_at, write_page};
use crate::verify::is_sealed_file;
use alloc::boxed::Box;
use alloc::vec::Vec;

const SLOTS: [SuperblockSlot; 2] = [SuperblockSlot::A, SuperblockSlot::B];
const SUPERBLOCK_LEN: usize = 512;

/// A sealed store is never copied without its key: nothing could tell its records from others.
pub(super) fn refuse(source: &dyn Storage) -> Result<()> {
    if is_sealed_file(source)? { Err(Error::KeyNeeded) } else { Ok(()) }
}

impl Builder {
    /// As [`salvage_with`](crate::salvage_with), from a sealed store with the key or passphrase of this builder, and with its
    /// [`key_page`](Self::key_page) if the file has lost its own. Copies every authentic record, and never one that somebody without the key has made,
    /// changed or moved; what is not authentic is listed as damage. The target is plain or sealed, as it was opened.
    ///
    /// With both superblocks lost and the id of the store with them, a page of keys that was kept is needed: it has the id, too.
    /// [`SalvageReport::history_unproven`] says whether what is left shows that this is the newest state. Of a store that is being made plain, what is
    /// plain in it is copied as from a plain store, and [`SalvageReport::unauthenticated`] says so.
    ///
    /// ```
    /// use pipkin::{Db, SalvageOptions, storage::{MemoryStorage, Storage}};
    ///
    /// let file = MemoryStorage::new();
    /// let sealed = Db::builder().encryption_key([7; 32]);
    /// let db = sealed.clone().open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// file.write_at(0, &[b"lost"])?; // a part of a superblock
    /// let target = sealed.clone().in_memory()?;
    /// let report = sealed.salvage(&file, &target, SalvageOptions::default(), &mut |_done, _total| ())?;
    /// assert!(report.records == 1 && report.history_unproven);
    /// assert_eq!(target.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyNeeded`], [`Error::WrongKey`], [`Error::NotSealed`]; [`Error::Corrupt`] if no page of keys is left, or the id of the store is lost; and
    /// as [`salvage_with`](crate::salvage_with).
    pub fn salvage(
        &self,
        source: &dyn Storage,
        target: &Db,
        options: SalvageOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SalvageReport> {
        let (secret, kept) = self.what_opens();
        let Some(secret) = secret else { return salvage_with(source, target, options, progress) };
        let keyed = keyed(source, secret, kept)?;
        let vault = keyed.vault().ok_or(Error::KeyNeeded)?;
        let source = ReadOnly::forgiving(source, vault);
        let Some(keys) = vault.keys() else { return Err(Error::KeyNeeded) };
        let findings = Findings::of(&source, keys)?;
        let mut report = copy_all(&source, target, options, progress)?;
        findings.add_to(&mut report);
        report.unauthenticated = keys.is_disabling();
        Ok(report)
    }
}

/// What in the file is not authentic, beside records.
struct Findings {
    damage: Vec<Damage>,
    history_unproven: bool,
}

impl Findings {
    fn of(source: &dyn Storage, keys: &Keys) -> Result<Self> {
        let mut found = Self { damage: Vec::new(), history_unproven: false };
        for slot in SLOTS {
            if !Superblock::is_authentic(source, slot)? {
                found.history_unproven = true;
                found.note(
                    slot.offset(),
                    SUPERBLOCK_LEN,
                    "a superblock that is damaged, or that somebody without the key has changed",
                );
            }
        }
        for place in PAGE_PLACES {
            if version_at(source, place)?.is_none() {
                found.note(place, PAGE_LEN, "a copy of the page of keys");
            }
        }
        let mut newest = 0;
        for offset in header_places(source)? {
            if SegmentHeader::is_forged_at(source, keys, *keys.store_id(), offset)? {
                found.history_unproven = true;
                found.note(
                    offset,
                    SEGMENT_HEADER_LEN,
                    "a segment header that somebody without the key has made, changed or moved",
                );
            }
            newest = SegmentHeader::read(source, *keys.store_id(), offset)?.map_or(newest, |header| header.number.max(newest));
        }
        if let Ok(Front::Store(pair)) = read_superblocks(source)
            && pair.current.clean_end.is_some()
            && newest > pair.current.headers
        {
            found.history_unproven = true;
            found.note(
                pair.slot.offset(),
                SUPERBLOCK_LEN,
                "a superblock that is older than segments of the file: it was set back",
            );
        }
        Ok(found)
    }

    fn note(&mut self, offset: u64, len: usize, what: &'static str) {
        self.damage.push(Damage { offset, len: len as u64, key: None, what });
    }

    fn add_to(self, report: &mut SalvageReport) {
        let is_new = |damage: &Damage| !report.damage.iter().any(|known| known.offset == damage.offset);
        let new: Vec<Damage> = self.damage.into_iter().filter(is_new).collect();
        report.damage.extend(new);
        report.history_unproven |= self.history_unproven;
    }
}

/// Notes what following the log says of its history: what was exchanged there is damage.
pub(super) fn note_history<T>(followed: Result<T>, report: &mut SalvageReport) -> Result<T> {
    followed.map_err(|error| {
        report.history_unproven |= matches!(error, Error::Forged { .. } | Error::RolledBack);
        match error {
            Error::Forged { offset, what } => Error::corrupt(offset, what),
            other => other,
        }
    })
}

/// Every offset where a segment may begin, whatever the size of segments is.
fn header_places(source: &dyn Storage) -> Result<impl Iterator<Item = u64>> {
    let behind = (source.len()? + 1).saturating_sub(SEGMENT_HEADER_LEN as u64);
    Ok((DATA_START..behind).step_by(SEGMENT_SIZE_MIN as usize))
}

/// Something that has the keys of the store in `source`. Its bytes are those of the front of the file only.
fn keyed(source: &dyn Storage, secret: &Secret, kept: Option<&[u8]>) -> Result<Box<dyn Storage>> {
    let fronts = fronts(source, kept)?;
    let mut failed = None;
    for front in &fronts {
        for (store_id, version) in candidates(front, kept)? {
            let sealed = Sealed { store_id, page: version, border: LOG_POSITION_FIRST, is_to_be_plain: true };
            match open_front(front, &sealed, secret) {
                Ok(found) => return with_border(source, front, sealed, (found, secret)),
                // A wrong id and a wrong key look the same; what else there is says more.
                Err(error) if failed.is_none() || !matches!(error, Error::WrongKey) => failed = Some(error),
                Err(_) => {}
            }
        }
    }
    let front = read_superblocks(source);
    match failed {
        _ if matches!(&front, Ok(Front::Store(pair)) if pair.current.key_page == 0) => Err(Error::NotSealed),
        None if fronts.iter().any(|front| version_of_any(front).is_some()) => Err(Error::corrupt(0, LOST_ID)),
        None if front.is_ok() => {
            Err(Error::corrupt(PAGE_PLACES.into_iter().min().unwrap_or_default(), "all three copies of the page of keys"))
        }
        None => front.and(Err(Error::NotAStore { detail: "no superblock and no page of keys is left" })),
        Some(Error::WrongKey) if front.is_err() => Err(Error::corrupt(0, LOST_ID)),
        Some(error) => Err(error),
    }
}

const LOST_ID: &str = "both superblocks, and with them the id of the store, unless the key is wrong: give the page of keys that was kept, which has the id";

fn version_of_any(front: &MemoryStorage) -> Option<u64> {
    PAGE_PLACES.into_iter().find_map(|place| version_at(front, place).ok().flatten())
}

/// The front of the file, and the same with the page of keys that was kept.
fn fronts(source: &dyn Storage, kept: Option<&[u8]>) -> Result<Vec<MemoryStorage>> {
    let mut bytes = alloc::vec![0; DATA_START as usize];
    let len = (source.len()?.min(DATA_START)) as usize;
    source.read_at(0, bytes.get_mut(..len).unwrap_or_default())?;
    let mut fronts = alloc::vec![MemoryStorage::from_vec(bytes.clone())];
    if let Some(page) = kept.and_then(|kept| kept.get(..PAGE_LEN)) {
        let front = MemoryStorage::from_vec(bytes);
        write_page(&front, page)?;
        fronts.push(front);
    }
    Ok(fronts)
}

/// The ids that the store may have, and for each the versions that its page of keys may have. A wrong one opens nothing.
fn candidates(front: &MemoryStorage, kept: Option<&[u8]>) -> Result<Vec<([u8; 16], u64)>> {
    let (mut ids, mut versions) = (Vec::new(), Vec::new());
    let mut add = |id: [u8; 16]| {
        if id != [0; 16] && !ids.contains(&id) {
            ids.push(id)
        }
    };
    for slot in SLOTS {
        let mut bytes = [0; SUPERBLOCK_LEN];
        front.read_at(slot.offset(), &mut bytes)?;
        add(Superblock::store_id_in(&bytes));
    }
    kept.and_then(|kept| kept.get(PAGE_LEN..)?.first_chunk().copied()).into_iter().for_each(&mut add);
    for place in PAGE_PLACES {
        let found = version_at(front, place)?;
        versions.extend(found.filter(|version| !versions.contains(version)));
    }
    // The newest first: a change that was cut short leaves two.
    versions.sort_unstable_by(|one, other| other.cmp(one));
    Ok(ids.iter().flat_map(|&id| versions.iter().map(move |&version| (id, version))).collect())
}

fn open_front(front: &MemoryStorage, sealed: &Sealed, secret: &Secret) -> Result<Box<dyn Storage>> {
    let keys = unlock(front, sealed, Some(secret), None)?;
    Ok(Box::new(SealedStorage::new(Box::new(front.clone()), Vault(Some(keys)))))
}

/// The same keys, with the border between the current key and the one before, or between what is sealed and what is plain: the superblock names it, or
/// else the first segment under the current key does; or the last one, in a store that is being made plain.
fn with_border(
    source: &dyn Storage,
    front: &MemoryStorage,
    sealed: Sealed,
    (found, secret): (Box<dyn Storage>, &Secret),
) -> Result<Box<dyn Storage>> {
    let border = {
        let vault = found.vault().ok_or(Error::KeyNeeded)?;
        let view = ReadOnly::forgiving(source, vault);
        match read_superblocks(&view) {
            Ok(Front::Store(pair)) if pair.current.key_page == sealed.page => pair.current.sealed_from,
            _ if keys_of(&view).is_some_and(Keys::is_disabling) => {
                let all = open_front(front, &Sealed { border: LOG_POSITION_MAX, ..sealed }, secret)?;
                behind_last_base(&ReadOnly::forgiving(source, all.vault().ok_or(Error::KeyNeeded)?), sealed.store_id)?
            }
            _ if keys_of(&view).is_some_and(Keys::is_rotating) => first_base(&view, sealed.store_id)?,
            _ => sealed.border,
        }
    };
    if border == sealed.border {
        return Ok(found);
    }
    open_front(front, &Sealed { border, ..sealed }, secret)
}

/// The log position behind the beginning of the last segment whose tags fit.
fn behind_last_base(view: &dyn Storage, store_id: [u8; 16]) -> Result<u64> {
    let mut last = LOG_POSITION_FIRST;
    for offset in header_places(view)? {
        last = SegmentHeader::read(view, store_id, offset)?.map_or(last, |header| last.max(header.base + 1));
    }
    Ok(last)
}

/// The log position of the first segment under the current key, of those whose tags fit.
fn first_base(view: &dyn Storage, store_id: [u8; 16]) -> Result<u64> {
    let mut first = LOG_POSITION_MAX;
    for offset in header_places(view)? {
        first = SegmentHeader::read(view, store_id, offset)?.map_or(first, |header| header.base.min(first));
    }
    Ok(first)
}
