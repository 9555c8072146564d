//! What is kept of the records behind the end of the log: those that the log knows nothing of.

use crate::engine::Engine;
use crate::error::Result;
use crate::frame::Kind;
use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::log::{Holds, Segment};

/// True when `segment` stays as it is for the sake of records behind its end. Much of what a crash strands are copies that a compaction was
/// making, whose originals still count: these keep nothing.
///
/// The caller holds no lock but the turn to maintain the store.
pub(crate) fn is_kept(engine: &Engine, segment: &Segment) -> bool {
    match engine.log.holds_stranded(segment) {
        Ok(Holds::Nothing) => false,
        Ok(Holds::Records) => look_up(engine, segment).unwrap_or(true),
        _ => true,
    }
}

/// Holds the records behind the end of a segment against the index, once.
fn look_up(engine: &Engine, segment: &Segment) -> Result<bool> {
    let mut is_known = true;
    for offset in engine.log.stranded_offsets(segment)? {
        is_known = is_known && is_in_the_log(engine, offset)?;
    }
    engine.log.found_stranded(segment, if is_known { Holds::Nothing } else { Holds::Unknown });
    Ok(!is_known)
}

/// True when the log says of the key just what the record at `offset` does.
fn is_in_the_log(engine: &Engine, offset: u64) -> Result<bool> {
    let frame = engine.log.frame(offset)?;
    let (meta, key) = (frame.meta(), frame.key());
    if meta.namespace > NAMESPACE_NUMBER_MAX {
        return Ok(false);
    }
    let full_key = engine.full_key(meta.namespace, key);
    let shard = engine.lock(full_key.hash)?;
    Ok(match frame.header.kind {
        Kind::Put => engine.frame_locked(&shard, full_key)?.is_some_and(|known| {
            (known.meta().copied(), known.value()) == (meta.copied(), frame.value()) && known.check().is_ok()
        }),
        Kind::Tombstone => engine.find_locked(&shard, full_key)?.is_none() && !engine.may_be_there(full_key.hash),
        _ => false,
    })
}

/// Frees what was kept for records that the log knows as well, and goes on in the torn segment, if there is no other place.
pub(crate) fn make_way(engine: &Engine) -> Result<()> {
    let log = &engine.log;
    if !log.is_behind_crash() {
        return Ok(());
    }
    // The first write of the session, if there was none yet.
    log.secure_free(0)?;
    log.free_unlisted(&|segment| is_kept(engine, segment));
    match log.torn_end() {
        Some(torn) if !is_kept(engine, &torn) => log.resume_again(),
        _ => Ok(()),
    }
}
