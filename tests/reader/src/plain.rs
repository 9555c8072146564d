//! Plain values of compressed records.

use crate::bytes::crc;
use crate::{Contents, Record};
use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The system namespace of the dictionaries.
const DICTIONARIES: &str = "\0dictionaries";
/// One block of LZ4, and one with its lengths in front and zeros behind it.
const LZ4: u8 = 1;
const PADDED: u8 = 3;
/// A block gives at most so many times its length.
const GROWTH_MAX: usize = 255;

impl Contents {
    /// The plain value of a record; `None` if it is compressed in another way, or its block or its dictionary does not check.
    pub fn plain(&self, record: &Record) -> Option<Vec<u8>> {
        let Some(codec) = record.fields.codec else { return Some(record.value.clone()) };
        let (len, value) = match codec.codec {
            _ if record.fields.more.is_some() => return None,
            LZ4 => (codec.plain_len as usize, &record.value[..]),
            PADDED if codec.plain_len == 0 => within(&record.value)?,
            _ => return None,
        };
        let (sum, block) = match codec.dictionary {
            0 => (None, value),
            _ => value.split_first_chunk::<4>().map(|(sum, block)| (Some(u32::from_le_bytes(*sum)), block))?,
        };
        let dictionary = if codec.dictionary == 0 { &[][..] } else { self.dictionary(codec.dictionary)? };
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

/// The plain length, and what codec 1 would store, of a padded value.
fn within(value: &[u8]) -> Option<(usize, &[u8])> {
    let (plain_len, rest) = value.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (block, zeros) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let in_front = 8 + block.len();
    let exponent = in_front.ilog2();
    let step = (1 << (exponent - exponent.ilog2() - 1)).max(32);
    let fits = in_front.next_multiple_of(step) == value.len() && zeros.iter().all(|&byte| byte == 0);
    fits.then_some((u32::from_le_bytes(*plain_len) as usize, block))
}
