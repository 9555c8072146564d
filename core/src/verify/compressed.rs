//! Compressed values: each is decoded, with the dictionaries that the log itself has.

use super::VerifyReport;
use crate::compress::{Dictionary, decompress, dictionary_key};
use crate::error::Result;
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::log::Window;
use crate::names::DICTIONARIES;
use crate::scan::{Damage, Found, Stretch, key_of, scan, value_of};
use crate::storage::Storage;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The dictionaries of a log, by their numbers.
pub(crate) type Dictionaries = BTreeMap<u32, Dictionary>;

/// Reads the dictionaries that these parts of a log have.
pub(crate) fn read_dictionaries(storage: &dyn Storage, stretches: &[Stretch]) -> Result<Dictionaries> {
    let (mut namespace, mut candidates) = (None, Vec::new());
    for &stretch in stretches {
        scan(storage, stretch, &mut |found| {
            let Found::Frame { offset, header } = found else { return Ok(()) };
            if header.kind != Kind::Put {
                return Ok(());
            }
            if header.namespace == NAMESPACE_OF_NAMES
                && key_of(storage, stretch.salt, offset, &header)? == DICTIONARIES.as_bytes()
            {
                let value = value_of(storage, stretch.salt, offset, &header)?;
                namespace = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).or(namespace);
            }
            if header.key_len() == 5 {
                candidates.push((stretch.salt, offset, header));
            }
            Ok(())
        })?;
    }
    let mut dictionaries = Dictionaries::new();
    for (salt, offset, header) in candidates.into_iter().filter(|(.., header)| Some(header.namespace) == namespace) {
        let number = dictionary_key(&key_of(storage, salt, offset, &header)?);
        if let Some(number) = number.filter(|number| *number != 0)
            && let Some(dictionary) = Dictionary::decode(number, &value_of(storage, salt, offset, &header)?)
        {
            dictionaries.insert(number, dictionary);
        }
    }
    Ok(dictionaries)
}

/// The plain value of a record; `None` if it cannot be decoded, or is of a later version.
pub(crate) fn plain_value(
    storage: &dyn Storage,
    dictionaries: &Dictionaries,
    (salt, offset): (u64, u64),
    header: &Header,
) -> Result<Option<Vec<u8>>> {
    let front = Window::new(storage, offset + header.header_len() as u64).bytes(offset, header.header_len())?.to_vec();
    let Some(codec) = header.meta(&front).codec() else { return Ok(None) };
    let dictionary = dictionaries.get(&codec.dictionary);
    if codec.dictionary != 0 && dictionary.is_none() {
        return Ok(None);
    }
    Ok(decompress(codec, &value_of(storage, salt, offset, header)?, dictionary).ok())
}

/// Decodes every compressed value of these parts of a log. Those with a codec that this build does not know are no damage.
pub(super) fn check_compressed(storage: &dyn Storage, stretches: &[Stretch], report: &mut VerifyReport) -> Result<()> {
    if report.compressed == 0 || is_locked(storage) {
        return Ok(());
    }
    let dictionaries = read_dictionaries(storage, stretches)?;
    for &stretch in stretches {
        scan(storage, stretch, &mut |found| {
            let Found::Frame { offset, header } = found else { return Ok(()) };
            if header.kind == Kind::Put
                && header.has_known_codec(storage, offset)?
                && plain_value(storage, &dictionaries, (stretch.salt, offset), &header)?.is_none()
            {
                let (len, key) = (header.frame_len() as u64, Some(key_of(storage, stretch.salt, offset, &header)?));
                report.damage.push(Damage { offset, len, key, what: "a compressed value that cannot be decoded" });
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// True for a sealed store without its key: nothing in it can be decoded.
#[cfg(feature = "encrypt")]
fn is_locked(storage: &dyn Storage) -> bool {
    crate::log::is_sealed(storage) && crate::log::keys_of(storage).is_none()
}

#[cfg(not(feature = "encrypt"))]
const fn is_locked(_: &dyn Storage) -> bool {
    false
}

impl Header {
    /// True if the value is compressed in a way that this build knows.
    fn has_known_codec(&self, storage: &dyn Storage, offset: u64) -> Result<bool> {
        if !self.is_compressed() {
            return Ok(false);
        }
        let front = Window::new(storage, offset + self.header_len() as u64).bytes(offset, self.header_len())?.to_vec();
        Ok(self.meta(&front).codec().is_some_and(crate::compress::is_known))
    }
}
