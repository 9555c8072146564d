//! Opening and closing: superblock, end of the log, index, ready.

use super::maintenance::Maintenance;
use super::store::{Policy, Store};
use crate::checkpoint::{self, Extent};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{Index, seed_of};
use crate::limits::DATA_START;
use crate::log::{
    ActivePlace, CheckpointPlace, FORMAT_VERSION, Fence, Front, Geometry, Log, LogEnd, LogOptions, Segment, Slots, Superblock,
    SuperblockPair, SuperblockSlot, read_slots, read_superblocks,
};
use crate::names::{DEFAULT, Names};
use crate::pins::Pins;
use crate::recover::{Chain, OpenReport, SnapshotState, rebuild, standing};
use crate::snapshot::{Directory, read_directory};
use crate::sorted::Set;
use crate::storage::Storage;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use once_cell::race::OnceBox;

/// A closed store with less than this to replay needs no new snapshot: replaying is as quick as loading one.
const REPLAY_DEBT_AT_CLOSE: u64 = 256 * 1024;

/// What sessions that ended without a close have left unused is compacted by the first write when it is one part in so many of what is used,
/// from so many bytes on, and always when it is as much as so many segments.
const LOST_PARTS: u64 = 4;
const LOST_LEAST: u64 = 128 * 1024;
const LOST_SEGMENTS_MAX: u64 = 8;

pub(super) struct OpenOptions {
    pub(super) read_only: bool,
    pub(super) create: bool,
    pub(super) verify_on_read: bool,
    pub(super) segment_size: u32,
    #[cfg(feature = "ordered")]
    pub(super) ordered: bool,
    pub(super) entropy: [u8; 32],
    pub(super) policy: Policy,
}

pub(super) fn open(storage: Box<dyn Storage>, options: OpenOptions) -> Result<Arc<Store>> {
    let mut report = OpenReport::default();
    let (mut pair, chain, slots) = find(&*storage, &options, &mut report)?;
    if !options.read_only && (pair.current.floor != 0 || chain.has_history()) {
        let offset = pair.current.checkpoint.map_or(0, |place| place.offset);
        return Err(Error::Unsupported { offset, what: "history that is kept for followers (reading only is safe)" });
    }
    let (snapshot, lost_snapshot) = find_snapshot(&*storage, &mut pair, &chain)?;
    report.clean = chain.clean;
    report.damaged_superblock = pair.other_damaged;
    report.damaged_list = chain.damaged_list;
    let stranded = chain.stranded;
    (report.stranded_records, report.stranded_bytes, report.stranded_at) = (stranded.records, stranded.bytes, stranded.at);
    (report.torn_at, report.torn_bytes) = chain.torn.map_or((None, 0), |(offset, bytes)| (Some(offset), bytes));

    let fence = match slots {
        Some(slots) => {
            let found = pair.current.generation;
            let standing_now = chain.standing(&*storage, &pair.current)?;
            Some(Fence { follow: standing, standing: standing_now, found, slots: Mutex::new(slots) })
        }
        None => None,
    };
    let log_options = LogOptions {
        fence,
        read_only: options.read_only,
        verify_on_read: options.verify_on_read,
        entropy: xxhash_rust::xxh3::xxh3_64_with_seed(&options.entropy, 0),
    };
    let log = Log::new(storage, pair, log_options);
    let seed = seed_of(&pair.current.seed);
    let engine = Engine {
        index: Index::default(),
        pins: Pins::default(),
        log,
        checkpoints: Mutex::new(snapshot),
        origin: OnceBox::new(),
        #[cfg(feature = "ordered")]
        ordered: OnceBox::new(),
        #[cfg(feature = "ordered")]
        nameless: OnceBox::new(),
        doubt: OnceBox::new(),
        set_aside: Mutex::default(),
        seed,
    };
    let names = rebuild(&engine, &chain, &mut report).map_err(|error| engine.log.or_fenced(error))?;
    if lost_snapshot {
        report.snapshot = SnapshotState::Damaged;
    }
    engine.log.start_at(end_of(&engine, &chain, &pair, report.created), &engine.pins)?;
    #[cfg(feature = "ordered")]
    if options.ordered {
        engine.order()?;
    }
    // Nothing has been written so far: whatever refuses to open stays as it was.
    if !engine.log.read_only {
        engine.log.storage.claim()?;
    }
    if pair.other_damaged && !engine.log.read_only && !engine.log.is_fenced() {
        engine.log.replace_lost_superblock()?;
    }
    Ok(start(engine, names, report, options.policy))
}

/// Others may write to the file, too. Known when it is compiled where no host is shared.
fn is_shared(storage: &dyn Storage) -> bool {
    cfg!(feature = "shared-files") && !storage.is_exclusive()
}

/// How often a file is read again that seems damaged, where somebody else may be writing to it.
const FINDS_MAX: usize = 64;

/// Reads the superblocks and follows the log. Where others may write to the file, too: the slots as they were read.
fn find(storage: &dyn Storage, options: &OpenOptions, report: &mut OpenReport) -> Result<(SuperblockPair, Chain, Option<Slots>)> {
    if !cfg!(feature = "shared-files") && !storage.is_exclusive() {
        return Err(Error::InvalidArgument("a storage that is not exclusive needs pipkin's feature `shared-files`"));
    }
    if !is_shared(storage) {
        return find_once(storage, options, report);
    }
    let mut before = None;
    for _ in 0..FINDS_MAX {
        let found = find_once(storage, options, report);
        let at = match &found {
            Err(Error::Corrupt { offset, .. }) => *offset,
            Err(Error::NotAStore { .. }) => u64::MAX,
            _ => return found,
        };
        storage.refresh()?;
        let now = Some((at, storage.len()?, read_slots(storage)?));
        if now == before {
            // Twice the same: it is not that somebody was writing meanwhile.
            return found;
        }
        before = now;
    }
    find_once(storage, options, report)
}

fn find_once(
    storage: &dyn Storage,
    options: &OpenOptions,
    report: &mut OpenReport,
) -> Result<(SuperblockPair, Chain, Option<Slots>)> {
    let is_shared = is_shared(storage);
    let slots = if is_shared { Some(read_slots(storage)?) } else { None };
    if is_shared {
        // Whatever they name is there by now.
        storage.refresh()?;
    }
    let pair = match read_superblocks(storage)? {
        Front::Store(pair) => pair,
        Front::Blank if options.create && !options.read_only => {
            report.created = true;
            if is_shared {
                create_shared(storage, options)?;
                return find_once(storage, &OpenOptions { create: false, ..*options }, report);
            }
            create(storage, options)?
        }
        Front::Blank if storage.is_empty()? => {
            // A storage has no path to tell.
            return Err(Error::NotFound { path: String::from("this path (the file there is empty)") });
        }
        Front::Blank => {
            return Err(Error::NotAStore { detail: "its creation was cut short, so it is empty" });
        }
    };
    if !options.read_only && pair.current.write_version > FORMAT_VERSION {
        return Err(Error::NewerVersion { found: pair.current.write_version, supported: FORMAT_VERSION });
    }
    let chain = Chain::follow(storage, &pair)?;
    if !options.read_only && !is_shared && pair.current.checkpoint.is_none() && storage.len()? < DATA_START {
        // A creation that a crash cut short behind its first superblock. What is refused above stays as it is.
        storage.set_len(DATA_START)?;
    }
    if slots.is_some_and(|slots| read_slots(storage).is_ok_and(|now| now != slots)) {
        // Once more, or it would be what nobody has ever seen together.
        return Err(Error::corrupt(0, "the superblocks, which are being written"));
    }
    Ok((pair, chain, slots.filter(|_| !options.read_only)))
}

/// As [`create`], where another one may be at the same: neither writes over what the other one has begun with.
fn create_shared(storage: &dyn Storage, options: &OpenOptions) -> Result<()> {
    let first = first_superblock(options);
    // Longer without cutting what somebody else has made longer.
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

/// Finds the snapshot. One that is not where it should be, or stands where the log does, is forgotten.
fn find_snapshot(storage: &dyn Storage, pair: &mut SuperblockPair, chain: &Chain) -> Result<(Directory, bool)> {
    let current = &mut pair.current;
    let Some(place) = current.checkpoint else { return Ok((Directory::default(), false)) };
    let Some(directory) = place.directory else { return Ok((Directory::default(), false)) };
    match read_directory(storage, current.geometry(), current.store_id, directory) {
        Ok(directory) if !overlaps(&directory, &chain.live_segments()) => return Ok((directory, false)),
        Ok(_) | Err(Error::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    current.checkpoint = Some(CheckpointPlace { directory: None, ..place });
    Ok((Directory::default(), true))
}

/// True when a segment of the snapshot shares an extent with one of the log.
fn overlaps(directory: &Directory, live: &[Segment]) -> bool {
    let used = Set::collect(live.iter().flat_map(|segment| segment.extent..segment.extent + segment.extents).map(u64::from));
    let mut extents = directory.segments.iter().flat_map(|segment| segment.extent..segment.extent + segment.extents);
    extents.any(|extent| used.contains(extent.into()))
}

/// Writes the superblocks of a new store, one after the other, so that a crash leaves a blank file or a store.
fn create(storage: &dyn Storage, options: &OpenOptions) -> Result<SuperblockPair> {
    let mut current = first_superblock(options);
    storage.set_len(DATA_START)?;
    for slot in [SuperblockSlot::A, SuperblockSlot::B] {
        current.write(storage, slot)?;
        storage.sync()?;
        current.generation += 1;
    }
    current.generation -= 1;
    Ok(SuperblockPair { current, slot: SuperblockSlot::B, other_damaged: false })
}

fn first_superblock(options: &OpenOptions) -> Superblock {
    let (id, seed) = options.entropy.split_at(16);
    Superblock {
        write_version: FORMAT_VERSION,
        optional_features: 0,
        store_id: id.try_into().unwrap_or_default(),
        generation: 1,
        session: 0,
        segment_size: options.segment_size,
        first_extent: Geometry::first_of(options.segment_size),
        checkpoint: None,
        clean_end: None,
        synced: 0,
        torn_end: false,
        floor: 0,
        clock: 0,
        active: ActivePlace::default(),
        headers: 0,
        key_page: 0,
        sealed_from: 0,
        seed: seed.try_into().unwrap_or_default(),
    }
}

/// Where recovery found the end of the log.
fn end_of(engine: &Engine, chain: &Chain, pair: &SuperblockPair, created: bool) -> LogEnd {
    let retired = chain.listed.segments.iter().filter(|segment| chain.retired.contains(segment.base));
    let checkpoint = pair.current.checkpoint.and(chain.listed.segments.last());
    LogEnd {
        live: chain.live_segments(),
        kept: chain.kept.clone(),
        retired: retired.copied().collect(),
        given_up: chain.given_up.clone(),
        snapshot: engine.checkpoints.lock().segments.clone(),
        listed: chain.listed.segments.iter().map(|segment| segment.extent + segment.extents).max().unwrap_or(0),
        next_base: chain.next_base,
        next_header: chain.next_header,
        headers: chain.headers,
        next_event: chain.next_event,
        torn_headers: chain.torn_headers.clone(),
        lost_trailers: chain.lost_trailers.clone(),
        unproven: chain.unproven.clone(),
        end: chain.end,
        synced: if chain.clean { chain.end } else { chain.proven.min(chain.end) },
        checkpoint: checkpoint.map(|last| last.lsn(engine.log.geometry, last.end)),
        is_unsettled: !chain.clean && !created,
        goes_on: chain.clean && !pair.current.torn_end,
    }
}

/// True when sessions that ended without a close have left much of their last segments unused, beside what is used.
fn is_much_lost(engine: &Engine) -> bool {
    let usage = engine.log.usage();
    let (used, lost) = (usage.written, usage.kept - usage.written);
    let segments = LOST_SEGMENTS_MAX * engine.log.geometry.segment_size();
    lost > (used / LOST_PARTS).max(LOST_LEAST).min(segments)
}

fn start(engine: Engine, names: Names, report: OpenReport, policy: Policy) -> Arc<Store> {
    let default = names.get(DEFAULT).unwrap_or_default();
    let end = engine.log.end();
    let was_closed = report.clean || report.created;
    let due = end.saturating_sub(engine.log.replay_debt()).saturating_add(policy.replay_debt_max);
    let is_listless = report.damaged_list;
    let due = if is_listless { 0 } else { due };
    let overdue = is_listless || !was_closed && (end >= due || is_much_lost(&engine));
    let store = Arc::new(Store {
        default,
        report,
        policy,
        names: RwLock::new(names),
        transactions: Mutex::new(()),
        maintenance: Maintenance::default(),
        checkpoint_due: AtomicU64::new(due),
        // Each session that ends without a close leaves a segment behind, and may be too short to fill another.
        compaction_due: AtomicU64::new(if was_closed { end + engine.log.geometry.segment_size() } else { end + 1 }),
        steps: Mutex::default(),
        overdue: AtomicBool::new(overdue),
        closed: AtomicBool::new(false),
        #[cfg(feature = "native")]
        process: std::process::id(),
        #[cfg(feature = "std")]
        background: super::background::Background::default(),
        engine,
    });
    #[cfg(feature = "std")]
    if policy.background {
        super::background::Background::start(&store);
    }
    store
}

impl Store {
    /// Flushes, writes a snapshot if there is much to replay, and says in the superblock where the log ends.
    pub(super) fn close(&self) -> Result<()> {
        #[cfg(feature = "native")]
        if std::process::id() != self.process {
            // A child that was forked drops what it has inherited. The store is its parent's, which goes on writing.
            return Ok(());
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        #[cfg(feature = "std")]
        self.background.stop();
        let _maintenance = self.maintenance.lock();
        let log = &self.engine.log;
        if log.read_only {
            return Ok(());
        }
        let result = self.mark_clean();
        log.close_to_writes();
        log.storage.release()?;
        result
    }

    fn mark_clean(&self) -> Result<()> {
        let log = &self.engine.log;
        if !log.is_announced() && (self.report.clean || log.is_fenced()) {
            // What a session has not taken over it does not close either.
            return Ok(());
        }
        log.writable()?;
        // Segments that are kept for what is stranded in them are found behind an unclean end, or in the list.
        let has_stranded = self.report.stranded_records > 0;
        if has_stranded
            || self.report.damaged_list
            || log.replay_debt() > REPLAY_DEBT_AT_CLOSE.max(log.geometry.segment_size() / 16)
        {
            match checkpoint::write(&self.engine, &self.names, Extent::Closing) {
                // Opening will replay more, and nothing is lost: no reason to leave the file uncut.
                Err(Error::NoSpace) if !log.is_poisoned() && !has_stranded => {}
                result => drop(result?),
            }
            // The snapshot before had to stay until this one was safe. Now that its place is free, a second move may shorten the file.
            if log.snapshot_could_move_down() {
                checkpoint::write(&self.engine, &self.names, Extent::Whole)?;
            }
        }
        let _writers = self.engine.lock_all()?;
        log.finish(&self.engine.pins)
    }
}
