//! When the values of a namespace are compressed, and writes that compress them.

use super::handle::{Db, Namespace};
use crate::compress::{Compressed, Dictionary, Lengths, compress, plain_len};
use crate::compression::{Compression, NOT_ASKED_FOR, with_compression};
use crate::error::{Error, Result};
use crate::frame::{CodecMeta, FrameSpec, Until};
use crate::index::SHARDS;
use crate::names::{DICTIONARIES, Name};
use crate::store::Store;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A value that a write has compressed.
pub(super) struct Packed {
    dictionary: Option<Arc<Dictionary>>,
    compressed: Compressed,
    lengths: Lengths,
}

impl Packed {
    /// True if it may be written, in a log where compressed values show these lengths: not if its dictionary is about to be dropped, or if the store was
    /// sealed or made plain meanwhile. Asked with the record's shard locked.
    fn still_fits(&self, lengths: Lengths) -> bool {
        self.lengths == lengths && !self.dictionary.as_ref().is_some_and(|dictionary| dictionary.is_ending())
    }

    /// The record with its value compressed; the metadata is kept in `room`. `None` if it does not fit any more.
    pub(super) fn frame<'a>(
        &'a self,
        lengths: Lengths,
        plain: &FrameSpec<'a>,
        room: &'a mut Option<CodecMeta>,
    ) -> Option<FrameSpec<'a>> {
        if !self.still_fits(lengths) {
            return None;
        }
        let meta = room.insert(CodecMeta::new(&plain.meta, Some(self.compressed.codec)));
        Some(FrameSpec { meta: meta.meta(), value: &self.compressed.value, ..*plain })
    }
}

impl Namespace {
    /// Sets when values of this namespace are compressed; `None`: as the store says. It stands in the file, and counts for what is written or
    /// compacted from now on.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// use pipkin::Compression;
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let events = db.namespace("events")?;
    /// events.set_compression(Some(Compression::OnCompaction))?;
    /// assert_eq!(events.compression(), Compression::OnCompaction);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`], [`Error::NamespaceDropped`](crate::Error::NamespaceDropped), and [`Error::InvalidArgument`](crate::Error::InvalidArgument)
    /// where a sealed store may not compress: see `Builder::compress_sealed`.
    pub fn set_compression(&self, compression: Option<Compression>) -> Result<()> {
        if compression.is_some_and(|compression| compression != Compression::Off) {
            if !self.store.names.read().may_compress() {
                return Err(Error::InvalidArgument(NOT_ASKED_FOR));
            }
            self.store.make_namespace(DICTIONARIES, &[])?;
        }
        self.store.set_options(&self.name, &|options| with_compression(options, compression))
    }

    /// When values of this namespace are compressed: what [`Self::set_compression`] has set, else what
    /// [`Builder::compression`](crate::Builder::compression) says.
    pub fn compression(&self) -> Compression {
        self.name.compression()
    }
}

/// What compression saves. All sizes are in bytes; from [`Db::compression_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionStats {
    /// Live records with a compressed value.
    pub records: u64,
    /// What these values are in all.
    pub plain_bytes: u64,
    /// What they take in the file.
    pub stored_bytes: u64,
    /// Dictionaries, the earlier ones that records still name included.
    pub dictionaries: u64,
    /// What these take in the file, where each stands twice.
    pub dictionary_bytes: u64,
}

impl Db {
    /// What compression saves. Reads the front of every live record, which takes as long as [`Namespace::keys`] over the whole store.
    ///
    /// ```
    /// # let db = pipkin::Db::builder().compression(pipkin::Compression::OnWrite).in_memory()?;
    /// db.insert("zeros", [0; 1000])?;
    /// let stats = db.compression_stats()?;
    /// assert!(stats.records == 1 && stats.plain_bytes == 1000 && stats.stored_bytes < 20);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::stats`]. A damaged record is passed over.
    pub fn compression_stats(&self) -> Result<CompressionStats> {
        let stats = || self.store.seen(self.store.compression_stats());
        stats().or_else(|error| self.store.read_again(error, &mut || stats()))
    }
}

impl Store {
    fn compression_stats(&self) -> Result<CompressionStats> {
        let engine = &self.engine;
        engine.build_all(&|| false)?;
        let dictionaries = engine.namespace_of_dictionaries()?;
        let mut stats = CompressionStats::default();
        for shard in (0..SHARDS).filter(|&shard| !engine.index.is_empty_at(shard)) {
            let _pin = engine.pin();
            let slots = engine.lock_shard(shard)?.slots(engine.medium())?;
            for slot in slots {
                let frame = match engine.log.frame(slot.offset()) {
                    Ok(frame) => frame,
                    Err(Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                if let Some(codec) = frame.meta().codec() {
                    stats.records += 1;
                    stats.plain_bytes += plain_len(codec, frame.value());
                    stats.stored_bytes += frame.header.value_len() as u64;
                } else if Some(frame.header.namespace) == dictionaries
                    && let Some((_, copy)) = frame.key().split_first_chunk::<4>().filter(|(number, _)| **number != [0; 4])
                {
                    stats.dictionaries += u64::from(copy == [0]);
                    stats.dictionary_bytes += frame.header.frame_len() as u64;
                }
            }
        }
        Ok(stats)
    }

    /// Makes the namespace of dictionaries, in front of the first compressed value: whoever opens the store in a build without a decoder sees
    /// that it needs one. False if that fails now, for there is no space: nothing may be compressed then. The caller holds no lock.
    fn announce_compression(&self) -> bool {
        self.make_namespace(DICTIONARIES, &[]).is_ok()
    }

    /// Makes [`Self::pack`] compress what is written to this namespace, if that is wanted. The caller holds no lock.
    pub(super) fn know_dictionaries(&self, name: &Name) {
        if name.compression() == Compression::OnWrite && !self.dictionaries.are_known() && self.announce_compression() {
            // A list that cannot be read is no reason not to write.
            drop(self.listed());
        }
    }

    /// Compresses a value that is written to a namespace, if that is wanted and worth it, and the dictionaries are known. The caller may hold locks.
    pub(super) fn pack(&self, name: &Name, value: &[u8]) -> Option<Packed> {
        if name.compression() != Compression::OnWrite || !self.dictionaries.are_known() {
            return None;
        }
        let dictionary = self.listed().ok().and_then(|listed| listed.of(&name.name).cloned());
        let lengths = self.engine.lengths();
        let compressed = compress(value, dictionary.as_deref(), lengths)?;
        Some(Packed { dictionary, compressed, lengths })
    }

    /// Compresses the values of a commit; nothing at all where none is.
    pub(super) fn pack_all<'a>(&self, values: impl Iterator<Item = (&'a Name, Option<&'a [u8]>)> + Clone) -> Vec<Option<Packed>> {
        if values.clone().all(|(name, _)| name.compression() != Compression::OnWrite) {
            return Vec::new();
        }
        values.map(|(name, value)| self.pack(name, value?)).collect()
    }

    /// The metadata of the records of a commit that are compressed, by their places in it. `namespaces` are the numbers of all of its records.
    pub(super) fn packed_metas(
        lengths: Lengths,
        namespaces: impl Iterator<Item = u32>,
        expiries: &[(Until, u64)],
        packed: &[Option<Packed>],
    ) -> Vec<Option<CodecMeta>> {
        let meta = |((index, packed), namespace): ((usize, &Option<Packed>), u32)| {
            let packed = packed.as_ref()?;
            if !packed.still_fits(lengths) {
                return None;
            }
            let until = expiries.get(index).map_or(Until::new(0), |(until, _)| *until);
            Some(CodecMeta::new(&until.meta(namespace), Some(packed.compressed.codec)))
        };
        packed.iter().enumerate().zip(namespaces).map(meta).collect()
    }
}

/// The record of a commit as it is stored.
pub(super) fn packed_frame<'a>(
    frame: FrameSpec<'a>,
    index: usize,
    metas: &'a [Option<CodecMeta>],
    packed: &'a [Option<Packed>],
) -> FrameSpec<'a> {
    match (metas.get(index), packed.get(index)) {
        (Some(Some(meta)), Some(Some(packed))) => FrameSpec { meta: meta.meta(), value: &packed.compressed.value, ..frame },
        _ => frame,
    }
}
