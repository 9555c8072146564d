//! Compressing the records that compaction copies. It is done before their shards are locked, and what comes of it is decoded once, before the
//! old copy goes.

use crate::compress::{Compressed, Dictionary, PLAIN_LEN_MIN, compress, decompress, without_padding};
use crate::engine::Engine;
use crate::frame::{Codec, CodecMeta, FRAME_LEN_MIN, FrameSpec, Header, Kind, Meta};
use crate::log::{Frame, Segment};
use crate::store::{Listed, Store};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A segment is worth emptying for its compression alone if this part of its bytes has not been tried yet.
const PARTS_UNTRIED: u64 = 8;
/// So many of its records are compressed first, to see whether any gains.
const TRIALS: u32 = 32;
/// Segments of which this is remembered.
const LOOKED_MAX: usize = 16_384;

/// How the values of a namespace are compressed.
#[derive(Debug)]
struct Rule {
    dictionary: Option<Arc<Dictionary>>,
    /// Log position of its training: what compaction has copied since has been tried.
    since: u64,
}

/// Compresses the values of the namespaces that want it.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    /// By the number of the namespace.
    rules: BTreeMap<u32, Rule>,
    /// Number of the list's change.
    changes: u32,
}

/// A record as it is to be copied.
pub(super) struct Recoded {
    meta: CodecMeta,
    pub(super) value: Vec<u8>,
}

impl Recoded {
    pub(super) fn meta(&self) -> Meta<'_> {
        self.meta.meta()
    }
}

impl Compressor {
    pub(super) fn new(namespaces: &[(Arc<crate::names::Name>, u32)], listed: &Listed) -> Self {
        let rule = |name: &str| Rule {
            dictionary: listed.of(name).cloned(),
            since: listed.list.of(name).map_or(0, |entry| entry.since),
        };
        Self {
            rules: namespaces.iter().map(|(name, number)| (*number, rule(&name.name))).collect(),
            changes: listed.list.changes,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.rules.is_empty()
    }

    /// The record with its value compressed; `None` where its copy stays as it is.
    pub(super) fn recode(&self, engine: &Engine, frame: &Frame<'_>) -> Option<Recoded> {
        self.compressed(engine, frame).or_else(|| unpacked(engine, frame)).or_else(|| unpadded(engine, frame))
    }

    fn compressed(&self, engine: &Engine, frame: &Frame<'_>) -> Option<Recoded> {
        let header = &frame.header;
        let rule = self.rules.get(&header.namespace).filter(|_| header.kind == Kind::Put)?;
        let meta = frame.meta();
        if meta.has_more() || frame.check().is_err() {
            return None;
        }
        let dictionary = rule.dictionary.as_deref();
        let old = meta.codec();
        let number = dictionary.map_or(0, |dictionary| dictionary.number);
        let is_compressed_enough = |old: Codec| old.dictionary >= number && !shows_its_length(engine, old);
        if old.is_some_and(is_compressed_enough) || old.is_none() && header.value_len() < PLAIN_LEN_MIN {
            return None;
        }
        let decoded;
        let plain = match old {
            None => frame.value(),
            Some(_) => {
                decoded = engine.plain(frame.offset, &meta, frame.value()).ok()?;
                &decoded
            }
        };
        let Compressed { codec, value } = compress(plain, dictionary, engine.lengths())?;
        if decompress(codec, &value, dictionary).as_deref() != Ok(plain) {
            return None;
        }
        let recoded = Recoded { meta: CodecMeta::new(&meta, Some(codec)), value };
        // Never longer than what it replaces.
        let len =
            FrameSpec { kind: Kind::Put, continues: false, meta: recoded.meta(), key: frame.key(), value: &recoded.value }.len();
        let shows = old.is_some_and(|old| shows_its_length(engine, old));
        let replaced = if shows { header.plain_len() - header.value_len() + plain.len() } else { header.plain_len() };
        (len < replaced).then_some(recoded)
    }

    /// True if enough of a segment are records that no compaction has tried to compress. Reads the headers of all of them, in the worst case.
    fn has_enough_untried(&self, engine: &Engine, segment: &Segment) -> bool {
        let first = segment.first_frame(engine.log.geometry);
        let (mut position, mut untried, mut tried, mut gains) = (first, 0, 0, 0_usize);
        while position + FRAME_LEN_MIN as u64 <= segment.end {
            let Ok(header) = engine.log.header(position) else { break };
            if self.is_untried(engine, position, &header) {
                if tried < TRIALS {
                    tried += 1;
                    gains += usize::from(engine.log.frame(position).is_ok_and(|frame| self.recode(engine, &frame).is_some()));
                } else if gains == 0 {
                    // Copying it all would gain nothing.
                    return false;
                }
                untried += header.frame_len() as u64;
                if gains > 0 && untried * PARTS_UNTRIED >= segment.end - first {
                    return true;
                }
            }
            position += header.frame_len() as u64;
        }
        false
    }

    fn is_untried(&self, engine: &Engine, offset: u64, header: &Header) -> bool {
        let Some(rule) = self.rules.get(&header.namespace) else { return false };
        let may_gain = header.kind == Kind::Put && !header.is_compressed() && header.value_len() >= PLAIN_LEN_MIN;
        // What is compressed with an older dictionary is compressed again when it moves anyway.
        may_gain && (!header.copied || engine.log.lsn(offset) < rule.since)
    }
}

/// True for a compressed value that was written before the store began to be sealed: in a sealed one, lengths are padded.
fn shows_its_length(engine: &Engine, codec: Codec) -> bool {
    engine.log.is_sealed() && codec.plain_len != 0
}

/// The record with its plain value, where that must not stay compressed as it is; `None` for all others, and where it cannot be read.
fn unpacked(engine: &Engine, frame: &Frame<'_>) -> Option<Recoded> {
    let meta = frame.meta();
    let is_bare = frame.header.kind == Kind::Put && !meta.has_more();
    meta.codec().filter(|&codec| is_bare && shows_its_length(engine, codec))?;
    frame.check().ok()?;
    let value = engine.plain(frame.offset, &meta, frame.value()).ok()?;
    Some(Recoded { meta: CodecMeta::new(&meta, None), value })
}

/// The record with its value compressed as plain stores have it, where it was padded for a sealed one; `None` for all others, and where it cannot be read.
fn unpadded(engine: &Engine, frame: &Frame<'_>) -> Option<Recoded> {
    let meta = frame.meta();
    let is_bare = frame.header.kind == Kind::Put && !meta.has_more() && !engine.log.is_sealed();
    let codec = meta.codec().filter(|_| is_bare)?;
    frame.check().ok()?;
    let Compressed { codec, value } = without_padding(codec, frame.value())?;
    Some(Recoded { meta: CodecMeta::new(&meta, Some(codec)), value })
}

impl Store {
    /// True if a segment is worth emptying for its compression alone. A segment is looked through once, as long as it and the dictionaries stay
    /// the same.
    pub(super) fn is_worth_compressing(&self, compressor: &Compressor, segment: &Segment) -> bool {
        if compressor.is_none() {
            return false;
        }
        let state = (segment.end, compressor.changes, compressor.rules.len());
        if let Some((_, is_worth_it)) = self.dictionaries.looked.lock().get(&segment.base).filter(|(known, _)| *known == state) {
            return *is_worth_it;
        }
        let is_worth_it = compressor.has_enough_untried(&self.engine, segment);
        let mut looked = self.dictionaries.looked.lock();
        if looked.len() >= LOOKED_MAX {
            looked.clear();
        }
        looked.insert(segment.base, (state, is_worth_it));
        is_worth_it
    }
}
