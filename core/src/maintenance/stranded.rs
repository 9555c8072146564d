//! Which segments are kept for stranded records: those with a record that the log itself does not have.

use crate::engine::Engine;
use crate::error::Result;
#[cfg(feature = "events")]
use crate::frame::event_number;
use crate::frame::{CopyMeta, Kind, NAMESPACE_OF_NAMES};
use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::log::{Holds, Segment};
#[cfg(feature = "compress")]
use crate::{engine::FullKey, frame::CodecMeta};
#[cfg(any(feature = "compress", feature = "events"))]
use crate::{error::Error, log::Frame};

/// True when `segment` must stay as it is because of stranded records after its end. Many stranded records are copies that a compaction was
/// making when it crashed; their originals still count, so they are no reason to keep the segment.
///
/// The caller may hold the maintenance lock, and no other.
pub(crate) fn is_kept(engine: &Engine, segment: &Segment) -> bool {
    match engine.log.holds_stranded(segment) {
        Ok(Holds::Nothing) => false,
        Ok(Holds::Records) => look_up(engine, segment).unwrap_or(true),
        _ => true,
    }
}

/// Compares the records after the end of a segment with the index, and remembers the result.
fn look_up(engine: &Engine, segment: &Segment) -> Result<bool> {
    let mut is_known = true;
    for offset in engine.log.stranded_offsets(segment)? {
        is_known = is_known && is_in_the_log(engine, offset)?;
    }
    engine.log.found_stranded(segment, if is_known { Holds::Nothing } else { Holds::Unknown });
    Ok(!is_known)
}

/// True when the log has the same state of the key as the record at `offset`: the same value, or no record for a tombstone.
fn is_in_the_log(engine: &Engine, offset: u64) -> Result<bool> {
    let frame = engine.log.frame(offset)?;
    let (meta, key) = (frame.meta(), frame.key());
    if meta.namespace > NAMESPACE_NUMBER_MAX && meta.namespace != NAMESPACE_OF_NAMES {
        return Ok(false);
    }
    #[cfg(feature = "events")]
    if frame.header.kind == Kind::Event {
        return is_the_same_event(engine, &frame);
    }
    let full_key = engine.full_key(meta.namespace, key);
    #[cfg(feature = "compress")]
    if frame.header.kind == Kind::Put && (frame.header.is_compressed() || is_compressed_there(engine, full_key)?) {
        return is_the_same_value(engine, full_key, &frame);
    }
    let shard = engine.lock(full_key.hash)?;
    Ok(match frame.header.kind {
        Kind::Put => engine.frame_locked(&shard, full_key)?.is_some_and(|known| {
            let same = CopyMeta::new(&known.meta(), None).meta() == CopyMeta::new(&meta, None).meta();
            same && known.value() == frame.value() && known.check().is_ok()
        }),
        Kind::Tombstone => engine.find_locked(&shard, full_key)?.is_none() && !engine.may_be_there(full_key.hash),
        _ => false,
    })
}

/// True if the log has this event, as it is here.
#[cfg(feature = "events")]
fn is_the_same_event(engine: &Engine, frame: &Frame<'_>) -> Result<bool> {
    let _pin = engine.pins.pin();
    let found = match engine.events()?.by_number(&engine.log, event_number(frame.value())) {
        Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => None,
        result => result?,
    };
    // It is looked for near the place where it should be, and so may be found behind the end of a segment.
    Ok(found.is_some_and(|stored| {
        let known = stored.frame();
        let has_it = |segment: &Segment| (engine.log.geometry.start(segment.extent)..segment.end).contains(&known.offset);
        let same = CopyMeta::new(&known.meta(), None).meta() == CopyMeta::new(&frame.meta(), None).meta();
        same && engine.log.segments().iter().any(has_it)
            && !stored.is_stub()
            && known.key() == frame.key()
            && known.value() == frame.value()
    }))
}

/// Frees segments whose stranded records the log has as well, and continues the log in the torn segment if that need not be kept and there
/// is no other room.
pub(crate) fn make_way(engine: &Engine) -> Result<()> {
    let log = &engine.log;
    if !log.is_behind_crash() {
        return Ok(());
    }
    // Announces the session, if it has written nothing yet.
    log.secure_free(0)?;
    log.free_unlisted(&|segment| is_kept(engine, segment));
    match log.torn_end() {
        Some(torn) if !is_kept(engine, &torn) => log.resume_again(),
        _ => Ok(()),
    }
}

/// True if the log has the record of a key with a compressed value.
#[cfg(feature = "compress")]
fn is_compressed_there(engine: &Engine, key: FullKey<'_>) -> Result<bool> {
    let shard = engine.lock(key.hash)?;
    Ok(engine.frame_locked(&shard, key)?.is_some_and(|known| known.header.is_compressed()))
}

/// True if the log has the value of a record, compressed or not: a compaction that crashed may have been compressing it.
#[cfg(feature = "compress")]
fn is_the_same_value(engine: &Engine, key: FullKey<'_>, frame: &Frame<'_>) -> Result<bool> {
    let plain_meta = |frame: &Frame<'_>| CodecMeta::new(&CopyMeta::new(&frame.meta(), None).meta(), None);
    let pin = engine.pins.pin();
    let same = || {
        let Some(known) = engine.find(&pin, key)? else { return Ok(false) };
        known.check()?;
        let is_same = plain_meta(&known).meta() == plain_meta(frame).meta();
        Ok(is_same && engine.plain_of(&known)? == engine.plain_of(frame)?)
    };
    match same() {
        Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => Ok(false),
        result => result,
    }
}
