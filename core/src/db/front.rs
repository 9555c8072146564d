//! The superblocks at the start of the file: found, or written for a new store.

use crate::error::{Error, Result};
use crate::limits::DATA_START;
use crate::log::{FORMAT_VERSION, Front, Slots, Superblock, SuperblockPair, SuperblockSlot, read_slots, read_superblocks};
#[cfg(feature = "encrypt")]
use crate::planted::{Bug, is};
use crate::recover::{Chain, OpenReport};
#[cfg(feature = "encrypt")]
use crate::seal::Keys;
use crate::storage::Storage;
use crate::store::Options;
use alloc::string::String;

/// How often a shared file that seems damaged is read again: another session may be writing to it.
const FINDS_MAX: usize = 64;

/// Reads the superblocks and follows the log. For a shared file that is opened for writing, also returns the superblock slots as they were
/// read.
pub(super) fn find(
    storage: &dyn Storage,
    options: &Options,
    report: &mut OpenReport,
) -> Result<(SuperblockPair, Chain, Option<Slots>)> {
    if !cfg!(feature = "shared-files") && !storage.is_exclusive() {
        return Err(Error::InvalidArgument("a storage that is not exclusive needs pipkin's feature `shared-files`"));
    }
    if !is_shared(storage) && !options.follows() {
        return find_once(storage, options, report);
    }
    let mut before = None;
    for _ in 0..FINDS_MAX {
        let found = find_once(storage, options, report);
        let at = match &found {
            Err(Error::Corrupt { offset, .. }) => *offset,
            Err(Error::NotAStore { .. }) => u64::MAX,
            #[cfg(feature = "encrypt")]
            Err(Error::Forged { offset, .. }) => *offset,
            #[cfg(feature = "encrypt")]
            Err(Error::RolledBack) => u64::MAX,
            _ => return found,
        };
        storage.refresh()?;
        let now = Some((at, storage.len()?, read_slots(storage)?));
        if now == before {
            // The same error twice on an unchanged file: it is damage, not a concurrent write.
            #[cfg(feature = "encrypt")]
            return if is_of_others(storage)? { Err(Error::Fenced) } else { found };
            #[cfg(not(feature = "encrypt"))]
            return found;
        }
        before = now;
    }
    find_once(storage, options, report)
}

/// True if the superblocks are those of another store than the one whose keys are at hand: another session has created it since.
#[cfg(feature = "encrypt")]
fn is_of_others(storage: &dyn Storage) -> Result<bool> {
    let Some(keys) = crate::log::keys_of(storage) else { return Ok(false) };
    let found = read_superblocks(&crate::storage::ReadOnly::locked(storage));
    Ok(matches!(found, Ok(Front::Store(pair)) if pair.current.store_id != *keys.store_id()))
}

fn find_once(
    storage: &dyn Storage,
    options: &Options,
    report: &mut OpenReport,
) -> Result<(SuperblockPair, Chain, Option<Slots>)> {
    let is_shared = is_shared(storage) || options.follows();
    let slots = if is_shared { Some(read_slots(storage)?) } else { None };
    if is_shared {
        // Refresh after reading the slots, so that everything they name is visible.
        storage.refresh()?;
    }
    let pair = match read_superblocks(storage)? {
        Front::Store(pair) => pair,
        Front::Blank if options.create && !options.read_only => {
            report.created = true;
            if is_shared {
                create_shared(storage, options)?;
                return find_once(storage, &Options { create: false, ..*options }, report);
            }
            create(storage, options)?
        }
        Front::Blank if storage.is_empty()? => {
            // A storage does not know its path.
            return Err(Error::NotFound { path: String::from("this path (the file there is empty)") });
        }
        Front::Blank => {
            return Err(Error::NotAStore { detail: "its creation was cut short, so it is empty" });
        }
    };
    #[cfg(feature = "encrypt")]
    if pair.current.key_page != 0 && crate::log::keys_of(storage).is_none() {
        return Err(Error::KeyNeeded);
    }
    #[cfg(feature = "encrypt")]
    if !storage.is_exclusive() && !options.follows() {
        // Another session has changed who opens the store since it was unlocked, or was overtaken while it did.
        crate::unlock::follow_page(storage, pair.current.key_page)?;
    }
    if !options.read_only && pair.current.write_version > FORMAT_VERSION {
        return Err(Error::NewerVersion { found: pair.current.write_version, supported: FORMAT_VERSION });
    }
    let chain = Chain::follow(storage, &pair)?;
    if !options.read_only && !is_shared && pair.current.checkpoint.is_none() && storage.len()? < DATA_START {
        // Repair a creation that crashed after its first superblock. Files that were refused above stay as they are.
        storage.set_len(DATA_START)?;
    }
    if slots.is_some_and(|slots| read_slots(storage).is_ok_and(|now| now != slots)) {
        // The superblocks changed meanwhile: fail, so that the caller reads again, or slots and log would not belong together.
        return Err(Error::corrupt(0, "the superblocks, which are being written"));
    }
    Ok((pair, chain, slots.filter(|_| !options.read_only)))
}

/// True if others may write to the file, too. Constant false without the feature `shared-files`.
pub(super) fn is_shared(storage: &dyn Storage) -> bool {
    cfg!(feature = "shared-files") && !storage.is_exclusive()
}

/// Writes the superblocks of a new store, one after the other, so that a crash leaves either a blank file or a store.
fn create(storage: &dyn Storage, options: &Options) -> Result<SuperblockPair> {
    let mut current = first_superblock(options);
    // On a full medium this fails, and nothing has been written.
    storage.reserve(0, DATA_START)?;
    for slot in [SuperblockSlot::A, SuperblockSlot::B] {
        current.write(storage, slot)?;
        storage.sync()?;
        current.generation += 1;
    }
    current.generation -= 1;
    Ok(SuperblockPair { current, slot: SuperblockSlot::B, other_damaged: false })
}

/// Writes the front of a new sealed store: first a superblock, so that nothing else is in a blank file, then the page of keys, then the other
/// superblock. Does nothing without a page.
#[cfg(feature = "encrypt")]
pub(super) fn create_sealed(storage: &dyn Storage, options: &Options, page: Option<&[u8]>) -> Result<()> {
    let (Some(page), Some(keys)) = (page, crate::log::keys_of(storage)) else { return Ok(()) };
    let first = first_sealed(keys, options)?;
    storage.reserve(0, DATA_START)?;
    first.write(storage, SuperblockSlot::A)?;
    storage.sync()?;
    crate::unlock::write_page(storage, page)?;
    storage.sync()?;
    Superblock { generation: 2, ..first }.write(storage, SuperblockSlot::B)?;
    storage.sync()?;
    Ok(())
}

#[cfg(feature = "encrypt")]
fn first_sealed(keys: &Keys, options: &Options) -> Result<Superblock> {
    let mut seed = [0; 16];
    crate::seal::random(&mut seed)?;
    let sealed_from = crate::limits::LOG_POSITION_FIRST;
    Ok(Superblock { key_page: keys.page_version(), sealed_from, seed, ..first_superblock(options) })
}

/// Like [`create_sealed`], but other sessions may do the same concurrently. Each looks in front of each write whether the superblocks are as it expects them,
/// so one that has lost spoils at most one of them, or one copy of the page of keys. At first they are `expected`, as they were before the file was found to
/// have no store. False, if another one was there, or may have been: what it has written is to be looked at, and counts if it is whole.
#[cfg(feature = "encrypt")]
pub(super) fn create_beside_others(storage: &dyn Storage, options: &Options, mut expected: Slots) -> Result<bool> {
    let keys = crate::log::keys_of(storage).ok_or(Error::KeyNeeded)?;
    let first = first_sealed(keys, options)?;
    let is_expected = |expected: &Slots| Ok::<_, Error>(read_slots(storage)? == *expected || is(Bug::CreatedUnlooked));
    if storage.len()? < DATA_START {
        storage.write_at(DATA_START - 1, &[&[0]])?;
    }
    for (generation, slot) in [(1, SuperblockSlot::A), (2, SuperblockSlot::B)] {
        let bytes = Superblock { generation, ..first }.stored(storage, slot)?;
        if !is_expected(&expected)? {
            return Ok(false);
        }
        storage.write_at(slot.offset(), &[&bytes])?;
        storage.sync()?;
        *expected.of_mut(slot) = bytes;
        if slot == SuperblockSlot::A {
            let look = || if is_expected(&expected)? { Ok(()) } else { Err(Error::Fenced) };
            match crate::unlock::write_page_looking(storage, &keys.page(), &look) {
                Err(Error::Fenced) => return Ok(false),
                written => written?,
            }
            storage.sync()?;
        }
        storage.refresh()?;
        if !crate::unlock::is_written(storage)? && !is(Bug::CreatedUnlooked) {
            return Ok(false);
        }
    }
    is_expected(&expected)
}

/// Like [`create`], but another session may do the same concurrently: neither overwrites what the other has written.
fn create_shared(storage: &dyn Storage, options: &Options) -> Result<()> {
    let first = first_superblock(options);
    // Extends the file by a write, not by `set_len`, which could cut what another session has appended.
    storage.write_at(DATA_START - 1, &[&[0]])?;
    first.write(storage, SuperblockSlot::A)?;
    storage.sync()?;
    if read_slots(storage)?.of(SuperblockSlot::B).iter().all(|&byte| byte == 0) {
        Superblock { generation: 2, ..first }.write(storage, SuperblockSlot::B)?;
        storage.sync()?;
    }
    storage.refresh()?;
    Ok(())
}

fn first_superblock(options: &Options) -> Superblock {
    let entropy = options.entropy.unwrap_or_default();
    let (id, seed) = entropy.split_at(16);
    Superblock::first(options.segment_size, id.try_into().unwrap_or_default(), seed.try_into().unwrap_or_default())
}
