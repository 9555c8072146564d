//! What plain records need when a store is being sealed: room for their tags, a digest that still fits, and values that show nothing of how well they
//! compress.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{Header, sealing_len};
use crate::log::{Segment, is_as_listed, keys_of};
use crate::scan::{Found, scan};

/// True if the records of a segment are plain, and copies of them are sealed.
pub(super) fn is_plain(engine: &Engine, segment: &Segment) -> bool {
    engine.log.is_sealed() && keys_of(&*engine.log.storage).is_some_and(|keys| keys.is_plain(segment.salt))
}

/// Fails if somebody without the key has changed a plain segment since the store was opened.
pub(super) fn check(engine: &Engine, segment: &Segment) -> Result<()> {
    let log = &engine.log;
    if is_as_listed(&*log.storage, log.geometry, segment)? {
        return Ok(());
    }
    Err(Error::Forged { offset: log.geometry.start(segment.extent), what: "a segment that is not sealed" })
}

/// Bytes by which the sealed copies of a segment's records may be longer than these.
pub(super) fn growth(engine: &Engine, segment: &Segment) -> Result<u64> {
    let mut bytes = 0;
    if is_plain(engine, segment) {
        each(engine, segment, &mut |_, growth| bytes += growth)?;
    }
    Ok(bytes)
}

/// The length of the longest sealed copy of a record.
pub(super) fn longest(engine: &Engine, segment: &Segment) -> Result<u64> {
    let mut longest = 0;
    each(engine, segment, &mut |len, growth| longest = longest.max(len + growth))?;
    Ok(longest)
}

fn each(engine: &Engine, segment: &Segment, note: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let log = &engine.log;
    scan(&*log.storage, super::sift::whole(engine, segment), &mut |found| {
        if let Found::Frame { offset, header } = found
            && !header.kind.is_control()
        {
            note(header.frame_len() as u64, growth_of(engine, offset, &header)?);
        }
        Ok(())
    })
}

fn growth_of(engine: &Engine, offset: u64, header: &Header) -> Result<u64> {
    let plain = plain_len(engine, offset, header)?;
    Ok((plain - header.value_len() + sealing_len(plain)) as u64)
}

/// Bytes of the value that the copy of a record has at most.
#[cfg(feature = "compress")]
fn plain_len(engine: &Engine, offset: u64, header: &Header) -> Result<usize> {
    let codec = if header.is_compressed() { engine.log.frame(offset)?.meta().codec() } else { None };
    Ok(header.value_len().max(codec.map_or(0, |codec| codec.plain_len as usize)))
}

#[cfg(not(feature = "compress"))]
#[expect(clippy::unnecessary_wraps, reason = "fails in a build that compresses")]
const fn plain_len(_: &Engine, _: u64, header: &Header) -> Result<usize> {
    Ok(header.value_len())
}
