//! Plain values of compressed records.

use crate::bytes::crc;
use crate::{Contents, Record};
use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The system namespace of the dictionaries.
const DICTIONARIES: &str = "\0dictionaries";
/// One block of LZ4.
const LZ4: u8 = 1;
/// A block gives at most so many times its length.
const GROWTH_MAX: usize = 255;

impl Contents {
    /// The plain value of a record; `None` if it is compressed in another way, or its block or its dictionary does not check.
    pub fn plain(&self, record: &Record) -> Option<Vec<u8>> {
        let Some(codec) = record.fields.codec else { return Some(record.value.clone()) };
        if codec.codec != LZ4 || record.fields.more.is_some() {
            return None;
        }
        let (sum, block) = match codec.dictionary {
            0 => (None, &record.value[..]),
            _ => record.value.split_first_chunk::<4>().map(|(sum, block)| (Some(u32::from_le_bytes(*sum)), block))?,
        };
        let dictionary = if codec.dictionary == 0 { &[][..] } else { self.dictionary(codec.dictionary)? };
        let len = codec.plain_len as usize;
        if len > GROWTH_MAX * block.len() + dictionary.len() {
            return None;
        }
        let mut plain = vec![0; len];
        let got = match dictionary {
            [] => decompress_into(block, &mut plain),
            dictionary => decompress_into_with_dict(block, &mut plain, dictionary),
        };
        (got.is_ok_and(|got| got == len) && sum.is_none_or(|sum| sum == crc(&[&plain]))).then_some(plain)
    }

    /// The bytes of a dictionary, of whichever copy checks.
    fn dictionary(&self, number: u32) -> Option<&[u8]> {
        [0, 1].iter().find_map(|copy| {
            let key = [&number.to_le_bytes()[..], &[*copy]].concat();
            let (sum, bytes) = self.records.get(&(DICTIONARIES.to_owned(), key))?.value.split_first_chunk::<8>()?;
            (u64::from_le_bytes(*sum) == xxh3_64_with_seed(bytes, number.into())).then_some(bytes)
        })
    }
}
