//! Opening a store: read the superblocks, find the end of the log, rebuild the index, start.

use super::front::find;
use crate::clock::StoreClock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{Index, seed_of};
use crate::log::{CheckpointPlace, FEATURE_EXPIRY, Fence, Log, LogEnd, LogOptions, Segment, Slots, SuperblockPair};
use crate::moments::Moments;
use crate::names::{DEFAULT, Names};
use crate::pins::Pins;
#[cfg(feature = "ordered")]
use crate::recover::OrderState;
use crate::recover::{Chain, OpenReport, SnapshotState, rebuild, standing};
use crate::snapshot::{Directory, read_directory};
use crate::sorted::Set;
use crate::storage::Storage;
use crate::store::{Attached, Options, Precedence, Store, Turn};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, RwLock};
use alloc::boxed::Box;
use alloc::sync::Arc;
use once_cell::race::OnceBox;

/// Space that sessions without a close left unused at the ends of their segments is compacted by the first write when it exceeds both
/// `LOST_LEAST` bytes and the used bytes divided by `LOST_PARTS`, or, in any case, when it exceeds `LOST_SEGMENTS_MAX` segments.
const LOST_PARTS: u64 = 4;
const LOST_LEAST: u64 = 128 * 1024;
const LOST_SEGMENTS_MAX: u64 = 8;

/// Most bytes of memory for what is newer than the slots that stay in the file; `None` where all are in memory: as the options say, for a
/// follower, whose writer may use the space again, and where parts of the snapshot are sealed, or another session may write.
#[cfg(feature = "std")]
fn newer_max(log: &Log, options: &Options) -> Option<u64> {
    #[cfg(feature = "encrypt")]
    let is_sealed = crate::log::is_sealed(&*log.storage);
    #[cfg(not(feature = "encrypt"))]
    let is_sealed = false;
    options.index_memory.newer_max().filter(|_| !options.follows() && !is_sealed && log.storage.is_exclusive())
}

/// The engine on a log, as it is before anything has been read.
fn engine_on(log: Log, snapshot: Directory, seed: u64, options: &Options) -> Engine {
    let index = Index::default();
    #[cfg(feature = "std")]
    let newer_max = newer_max(&log, options);
    #[cfg(feature = "std")]
    if newer_max.is_some() {
        index.keep_in_file();
    }
    #[cfg(not(feature = "std"))]
    let _ = options;
    Engine {
        index,
        pins: Pins::default(),
        log,
        checkpoints: Mutex::new(snapshot),
        #[cfg(feature = "std")]
        bases: crate::bases::Bases::new(newer_max),
        origin: OnceBox::new(),
        #[cfg(feature = "ordered")]
        ordered: OnceBox::new(),
        #[cfg(feature = "ordered")]
        nameless: RwLock::default(),
        #[cfg(feature = "ordered")]
        moves: Mutex::default(),
        #[cfg(feature = "ordered")]
        orders_lost: AtomicU64::new(0),
        forgotten: AtomicU64::new(0),
        taken_out: AtomicU64::new(0),
        #[cfg(feature = "events")]
        events: crate::events::EventIndex::default(),
        doubt: OnceBox::new(),
        set_aside: Mutex::default(),
        living: RwLock::default(),
        #[cfg(feature = "compress")]
        dictionaries: crate::compress::Known::default(),
        #[cfg(feature = "compress")]
        homes: RwLock::default(),
        moments: Moments::default(),
        seed,
    }
}

pub(super) fn open(storage: Box<dyn Storage>, options: Options, attached: Attached) -> Result<Arc<Store>> {
    let mut report = OpenReport::default();
    #[cfg(feature = "encrypt")]
    {
        report.created = attached.created;
    }
    let (mut pair, chain, slots) = find(&*storage, &options, &mut report)?;
    let (snapshot, lost_snapshot) = find_snapshot(&*storage, &mut pair, &chain)?;
    report.damaged_superblock = pair.other_damaged;
    tell_of_log(&mut report, &chain);
    #[cfg(feature = "io-uring")]
    report.io_uring.clone_from(&attached.io_uring);
    let fence = slots.map(|slots| fence_of(&*storage, &chain, &pair, slots)).transpose()?;
    let log_options = LogOptions {
        fence,
        read_only: options.read_only,
        follows: options.follow,
        verify_on_read: options.verify_on_read,
        clock: StoreClock::new(
            attached.clock.clone(),
            chain.clock,
            chain.clock != 0 || pair.current.optional_features & FEATURE_EXPIRY != 0,
        ),
        entropy: xxhash_rust::xxh3::xxh3_64_with_seed(&options.entropy.unwrap_or_default(), 0),
    };
    let log = Log::new(storage, pair, log_options);
    let engine = engine_on(log, snapshot, seed_of(&pair.current.seed), &options);
    let names = rebuild(&engine, &chain, &mut report).map_err(|error| engine.log.or_fenced(error))?;
    if lost_snapshot {
        report.snapshot = SnapshotState::Damaged;
    }
    (report.clock_behind_ms, _) = engine.log.clock.state();
    report.clock_ahead_ms = engine.log.clock.ahead();
    engine.log.start_at(end_of(&engine, &chain, &pair, report.created), &engine.pins)?;
    #[cfg(feature = "ordered")]
    {
        let namespaces = names.pairs().map(|(name, number)| (number, names.options(name)));
        let choice = crate::ordered::Choice::new(options.ordered, namespaces);
        if !choice.keeps_none() {
            report.order = if engine.order(choice)? { OrderState::Loaded } else { OrderState::Built };
        }
    }
    // Nothing has been written so far: a file that cannot be opened stays as it was.
    if !engine.log.read_only {
        engine.log.storage.claim()?;
    }
    #[cfg(feature = "encrypt")]
    {
        report.key_rotation_pending = crate::log::keys_of(&*engine.log.storage).is_some_and(crate::seal::Keys::is_rotating);
        mend_keys(&engine.log, &pair, report.clean)?;
    }
    if pair.other_damaged && !engine.log.read_only && !engine.log.is_fenced() {
        engine.log.replace_lost_superblock()?;
    }
    Ok(start(engine, names, report, options, attached))
}

/// Writes the page of keys of a sealed store again where a part of it may be missing: before anything relies on it. In a plain one it takes away what a
/// crash has left of a page. A session without a lock does so once it has taken the store over.
#[cfg(feature = "encrypt")]
fn mend_keys(log: &Log, pair: &SuperblockPair, is_clean: bool) -> Result<()> {
    if log.read_only || log.is_fenced() {
        return Ok(());
    }
    let Some(keys) = crate::log::keys_of(&*log.storage) else {
        let has_left = !is_clean && crate::unlock::has_leftover(&*log.storage)?;
        if has_left {
            // Where a sealed store has become plain, the other superblock may be one that the page belongs to.
            log.write_superblock_again()?;
            log.write_front(|_| crate::unlock::wipe_page(&*log.storage))?;
        }
        return Ok(());
    };
    let found = crate::unlock::copies(&*log.storage, keys.page_version())?;
    // A creation that was cut short may have failed to sync it.
    let is_unfinished = pair.current.generation == 1;
    if found == crate::unlock::Copies::Whole && !is_unfinished {
        return Ok(());
    }
    // While a store begins to be sealed, the other superblock may be a plain one, and the third copy none; while it begins to be made plain, from before.
    if found == crate::unlock::Copies::Mixed || keys.is_mixed() {
        // The other superblock may name the page that is about to be written over.
        log.write_superblock_again()?;
    }
    log.write_front(|_| crate::unlock::write_page(&*log.storage, &keys.page()))
}

/// What was found of the log.
fn tell_of_log(report: &mut OpenReport, chain: &Chain) {
    report.clean = chain.clean;
    report.damaged_list = chain.damaged_list;
    let stranded = chain.stranded;
    (report.stranded_records, report.stranded_bytes, report.stranded_at) = (stranded.records, stranded.bytes, stranded.at);
    (report.torn_at, report.torn_bytes) = chain.torn.map_or((None, 0), |(offset, bytes)| (Some(offset), bytes));
}

/// What this session compares to notice another session that has taken the file over.
fn fence_of(storage: &dyn Storage, chain: &Chain, pair: &SuperblockPair, slots: Slots) -> Result<Box<Fence>> {
    let standing_now = chain.standing(storage, &pair.current)?;
    Ok(Box::new(Fence {
        follow: standing,
        standing: standing_now,
        found: pair.current.generation,
        slots: Mutex::new(slots),
        looked: AtomicU64::new(0),
        #[cfg(feature = "encrypt")]
        mend: crate::unlock::mend,
    }))
}

/// Reads the directory of the index snapshot. One that is damaged, or overlaps a segment of the log, is ignored; the flag is then true.
fn find_snapshot(storage: &dyn Storage, pair: &mut SuperblockPair, chain: &Chain) -> Result<(Directory, bool)> {
    let current = &mut pair.current;
    let Some(place) = current.checkpoint else { return Ok((Directory::default(), false)) };
    let Some(directory) = place.directory else { return Ok((Directory::default(), false)) };
    match read_directory(storage, current.geometry(), current.store_id, directory) {
        Ok(directory) if !overlaps(&directory, &[chain.live_segments(), chain.history()].concat()) => {
            return Ok((directory, false));
        }
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

/// What recovery found about the end of the log, for `Log::start_at`.
fn end_of(engine: &Engine, chain: &Chain, pair: &SuperblockPair, created: bool) -> LogEnd {
    let checkpoint = pair.current.checkpoint.and(chain.listed.segments.last());
    LogEnd {
        live: chain.live_segments(),
        kept: chain.kept.clone(),
        retired: chain.gone(),
        history: chain.history(),
        floor: chain.floor,
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
        #[cfg(feature = "encrypt")]
        last_tag: chain.last_tag,
    }
}

/// True when sessions that ended without a close left much of their last segments unused, compared with what is used.
fn is_much_lost(engine: &Engine) -> bool {
    let usage = engine.log.usage();
    let (used, lost) = (usage.written, usage.kept - usage.written);
    let segments = LOST_SEGMENTS_MAX * engine.log.geometry.segment_size();
    lost > (used / LOST_PARTS).max(LOST_LEAST).min(segments)
}

/// True if values may be compressed: in a sealed store only where that was asked for.
#[cfg(feature = "compress")]
fn may_compress(engine: &Engine, attached: &Attached) -> bool {
    #[cfg(feature = "encrypt")]
    let is_asked_for = attached.compress_sealed;
    #[cfg(not(feature = "encrypt"))]
    let (is_asked_for, _) = (false, attached);
    is_asked_for || !engine.log.is_sealed()
}

fn start(engine: Engine, names: Names, report: OpenReport, options: Options, attached: Attached) -> Arc<Store> {
    let mut names = names;
    names.set_store_ttl(attached.default_ttl);
    #[cfg(feature = "compress")]
    names.set_store_compression(attached.compression, may_compress(&engine, &attached));
    engine.living.write().extend(names.pairs().map(|(_, number)| number));
    let default = names.get(DEFAULT).unwrap_or_default();
    let end = engine.log.end();
    let was_closed = report.clean || report.created;
    let is_replayed = report.snapshot != SnapshotState::Loaded;
    let due = end.saturating_sub(engine.log.replay_debt()).saturating_add(engine.log.between_lists(options.replay_debt_max));
    let is_listless = report.damaged_list;
    let due = if is_listless { 0 } else { due };
    let overdue = is_listless || !was_closed && (end >= due || is_much_lost(&engine));
    let store = Arc::new(Store {
        default,
        report,
        options,
        attached,
        names: RwLock::new(names),
        consumers: Mutex::default(),
        acknowledging: Mutex::default(),
        #[cfg(feature = "compress")]
        dictionaries: crate::store::Dictionaries::default(),
        precedence: Precedence::default(),
        following: OnceBox::new(),
        turn: Turn::default(),
        checkpoint_due: AtomicU64::new(due),
        // Each session that ends without a close leaves a partly used segment, and may be too short to fill another.
        compaction_due: AtomicU64::new(if was_closed { end + engine.log.geometry.segment_size() } else { end + 1 }),
        steps: Mutex::default(),
        dying: Mutex::default(),
        dead_left: AtomicU64::new(0),
        sweep_next: AtomicU32::new(0),
        #[cfg(feature = "events")]
        events_removed: AtomicU64::new(0),
        overdue: AtomicBool::new(overdue),
        // Names that were rebuilt from the log match its records; those of a loaded snapshot still have to be checked.
        names_checked: AtomicBool::new(is_replayed),
        closed: AtomicBool::new(false),
        #[cfg(feature = "native")]
        process: std::process::id(),
        #[cfg(feature = "std")]
        background: crate::store::Background::default(),
        #[cfg(feature = "async")]
        lane: alloc::sync::Arc::default(),
        #[cfg(feature = "async")]
        rounds: alloc::sync::Arc::default(),
        #[cfg(feature = "async")]
        overtaken: alloc::sync::Arc::default(),
        engine,
    });
    #[cfg(feature = "std")]
    if store.engine.keeps_in_file() {
        let heard = Arc::downgrade(&store);
        // Whoever finds it keeps the store open: this is never its last owner.
        store.engine.bases.rot.tell(Box::new(move || heard.upgrade().iter().for_each(|store| store.heal_soon())));
    }
    #[cfg(feature = "std")]
    if options.has_thread() {
        // Ignoring the error is safe: either it has closed the store to writes, and the next write reports that, or there is no space, and
        // nothing is lost.
        store.background.start(&store, |store| {
            drop(store.maintain());
            store.looks_again_after()
        });
    }
    store
}
