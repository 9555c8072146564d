//! Values that are compressed: whoever returns one decodes it here. A build without the feature `compress` answers that it does not know them.

use crate::engine::Engine;
#[cfg(feature = "compress")]
use crate::engine::FullKey;
use crate::error::Result;
use crate::log::Frame;
#[cfg(feature = "compress")]
use crate::{
    compress::{COPIES, Dictionary, Lengths, Undecoded, decompress, is_known, key_of},
    error::Error,
    frame::{Meta, NAMESPACE_OF_NAMES},
    names::DICTIONARIES,
};
#[cfg(feature = "compress")]
use alloc::{sync::Arc, vec::Vec};

/// What a build does not know of a codec.
#[cfg(feature = "compress")]
const CODEC: &str = "a value with a codec that this build does not know";

impl Engine {
    /// The record with its plain value. The caller has verified it, and holds no lock.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) when the value has an encoding that this build does not know, and
    /// [`Error::Corrupt`](crate::Error::Corrupt) when it is compressed, and its dictionary does not fit or cannot be read.
    #[inline]
    pub(crate) fn decoded<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>> {
        if frame.header.unsupported().is_none() { Ok(frame) } else { self.decode(frame) }
    }

    #[cfg(not(feature = "compress"))]
    #[cold]
    fn decode<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>> {
        frame.is_readable().map(|()| frame)
    }

    #[cfg(feature = "compress")]
    #[inline(never)]
    fn decode<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>> {
        let plain = self.plain(frame.offset, &frame.meta(), frame.value())?;
        Ok(frame.with_plain(plain))
    }

    /// The record with its plain value, for a caller that holds a lock: a dictionary that has not been read yet is not, and its number is
    /// returned.
    ///
    /// # Errors
    ///
    /// As for [`Self::decoded`].
    #[inline]
    pub(crate) fn decoded_locked<'a>(&self, frame: Frame<'a>) -> Result<core::result::Result<Frame<'a>, u32>> {
        #[cfg(feature = "compress")]
        if let Some(codec) = if frame.header.is_compressed() { frame.meta().codec() } else { None }
            && codec.dictionary != 0
            && is_known(codec)
            && self.dictionaries.get(codec.dictionary).is_none()
        {
            return Ok(Err(codec.dictionary));
        }
        self.decoded(frame).map(Ok)
    }
}

impl Engine {
    /// Reads a dictionary that [`Self::decoded_locked`] has asked for.
    ///
    /// # Errors
    ///
    /// As for [`Self::decoded`].
    #[cold]
    pub(crate) fn know_dictionary(&self, number: u32) -> Result<()> {
        #[cfg(feature = "compress")]
        if self.dictionary(number)?.is_none() {
            return Err(Error::corrupt(0, "a compressed value whose dictionary is gone"));
        }
        let _ = number;
        Ok(())
    }
}

#[cfg(feature = "compress")]
impl Engine {
    /// What compressed values show of their lengths.
    pub(crate) fn lengths(&self) -> Lengths {
        if self.log.is_sealed() { Lengths::Padded } else { Lengths::Shown }
    }

    /// The plain value of a record at `offset`, which has an encoding.
    pub(crate) fn plain(&self, offset: u64, meta: &Meta<'_>, value: &[u8]) -> Result<Vec<u8>> {
        let unsupported = |what: &'static str| Err(Error::Unsupported { offset, what });
        if meta.has_more() {
            return unsupported("a property that this build does not know");
        }
        let Some(codec) = meta.codec().filter(|codec| is_known(*codec)) else { return unsupported(CODEC) };
        let dictionary = match codec.dictionary {
            0 => None,
            number => Some(
                self.dictionary(number)?.ok_or_else(|| Error::corrupt(offset, "a compressed value whose dictionary is gone"))?,
            ),
        };
        let decoded = match decompress(codec, value, dictionary.map(|dictionary| &**dictionary)) {
            // What a follower has read of a session that another one has taken over from need not be in the log any more.
            Err(Undecoded::Block) if self.log.follows() && codec.dictionary != 0 => {
                let newer = self.fresh_dictionary(codec.dictionary)?;
                newer.map_or(Err(Undecoded::Block), |newer| decompress(codec, value, Some(&newer)))
            }
            decoded => decoded,
        };
        decoded.map_err(|error| match error {
            Undecoded::Codec => Error::Unsupported { offset, what: CODEC },
            Undecoded::Length => Error::corrupt(offset, "a compressed value with a length that it cannot have"),
            Undecoded::Block => Error::corrupt(offset, "a compressed value that its dictionary does not fit"),
            Undecoded::Memory => Error::Unsupported { offset, what: "a compressed value that does not fit into memory" },
        })
    }

    /// The plain value of a record, whether it is compressed or not.
    pub(crate) fn plain_of<'v>(&self, frame: &'v Frame<'_>) -> Result<alloc::borrow::Cow<'v, [u8]>> {
        match frame.header.unsupported() {
            None => Ok(frame.value().into()),
            Some(_) => self.plain(frame.offset, &frame.meta(), frame.value()).map(Into::into),
        }
    }

    /// The dictionary of a number; `None` if there is none. Reads it if that has not been done yet: the caller holds no lock.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when none of its copies can be read.
    pub(crate) fn dictionary(&self, number: u32) -> Result<Option<&Arc<Dictionary>>> {
        match self.dictionaries.get(number) {
            Some(known) => Ok(Some(known)),
            None => self.read_dictionary(number),
        }
    }

    #[cold]
    fn read_dictionary(&self, number: u32) -> Result<Option<&Arc<Dictionary>>> {
        Ok(self.fresh_dictionary(number)?.and_then(|dictionary| self.dictionaries.add(dictionary)))
    }

    /// A dictionary as the log has it now.
    fn fresh_dictionary(&self, number: u32) -> Result<Option<Dictionary>> {
        let Some(namespace) = self.namespace_of_dictionaries()? else { return Ok(None) };
        let mut failed = None;
        for copy in 0..COPIES {
            match self.own_record(self.full_key(namespace, &key_of(number, copy))) {
                Ok(Some((offset, value))) => match Dictionary::decode(number, &value) {
                    Some(dictionary) => return Ok(Some(dictionary)),
                    None => failed = failed.or(Some(Error::corrupt(offset, "a dictionary that its hash does not fit"))),
                },
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// True if both copies of a dictionary can be read. The caller holds no lock.
    pub(crate) fn has_both_copies(&self, number: u32) -> Result<bool> {
        let namespace = match self.namespace_of_dictionaries() {
            Ok(Some(namespace)) if number != 0 => namespace,
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        if crate::planted::is(crate::planted::Bug::DictionaryAfterRecords) {
            return Ok(self.dictionaries.get(number).is_some());
        }
        for copy in 0..COPIES {
            match self.own_record(self.full_key(namespace, &key_of(number, copy))) {
                Ok(Some((_, value))) if Dictionary::decode(number, &value).is_some() => {}
                Ok(_) | Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The number of the namespace of dictionaries; `None` if there is none.
    pub(crate) fn namespace_of_dictionaries(&self) -> Result<Option<u32>> {
        let found = self.own_record(self.full_key(NAMESPACE_OF_NAMES, DICTIONARIES.as_bytes()))?;
        Ok(found.and_then(|(_, value)| value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))))
    }

    /// Offset and value of one of the store's own records. The caller holds no lock.
    pub(crate) fn own_record(&self, key: FullKey<'_>) -> Result<Option<(u64, Vec<u8>)>> {
        let pin = self.pin();
        let Some(frame) = self.find(&pin, key)? else { return Ok(None) };
        if !crate::planted::is(crate::planted::Bug::DictionaryUnchecked) {
            self.log.check(&frame)?;
        }
        Ok(Some((frame.offset, frame.value().to_vec())))
    }
}
