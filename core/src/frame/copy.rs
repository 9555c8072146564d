//! Copying a frame to another place of the log without a pass over its key and value.

use super::{CRC_LEN, Checksum, HEAD_CONTINUES, HEAD_COPIED, Header, bind, crc32c};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Longest covered length, in bytes, for which the change of a checksum is kept: it takes four bytes for each length.
const KEPT_MAX: usize = 4096;
/// Zeros are appended to a checksum in pieces of this length.
const ZEROS: [u8; 256] = [0; 256];

/// Makes copies of frames. A copy differs from its original in two bits of the head, and the checksum is linear: what it changes by depends
/// on these bits and on the number of bytes after them, not on what the bytes are.
#[derive(Debug)]
pub(crate) struct Copier {
    copied: Changes,
    continues: Changes,
}

impl Default for Copier {
    fn default() -> Self {
        Self { copied: Changes::new(HEAD_COPIED), continues: Changes::new(HEAD_CONTINUES) }
    }
}

impl Copier {
    /// Appends to `out` the copy of a frame, which is a commit of its own. `frame` begins with its bytes; it is at `offset` of a segment
    /// with `salt`. The checksum of the copy is not bound to an offset yet. `None` if bytes are missing.
    pub(crate) fn copy_unbound(
        &mut self,
        header: &Header,
        frame: &[u8],
        salt: u64,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut covered = header.frame_len() - CRC_LEN;
        if is(Bug::ChecksumSkipsKey) {
            covered -= header.key_len();
        }
        let mut change = bind(salt, offset);
        let (&[a, b, c, d, head], rest) = frame.get(..header.frame_len())?.split_first_chunk()?;
        if !header.copied {
            change ^= self.copied.at(covered);
        }
        if header.continues {
            change ^= self.continues.at(covered);
        }
        let [a, b, c, d] = (u32::from_le_bytes([a, b, c, d]) ^ change).to_le_bytes();
        out.extend_from_slice(&[a, b, c, d, head & !HEAD_CONTINUES | HEAD_COPIED]);
        out.extend_from_slice(rest);
        Some(())
    }
}

/// What the checksum of some bytes changes by when a bit of the first one does.
#[derive(Debug)]
struct Changes {
    /// By the number of bytes, from one on.
    kept: Vec<u32>,
}

impl Changes {
    fn new(bit: u8) -> Self {
        Self { kept: alloc::vec![crc32c(&[bit]) ^ crc32c(&[0])] }
    }

    #[inline]
    fn at(&mut self, len: usize) -> u32 {
        match self.kept.get(len.wrapping_sub(1)) {
            Some(&change) => change,
            None => self.compute(len),
        }
    }

    #[cold]
    fn compute(&mut self, len: usize) -> u32 {
        let mut change = self.kept.last().copied().unwrap_or_default();
        while self.kept.len() < len.min(KEPT_MAX) {
            change = behind_zeros(change, 1);
            self.kept.push(change);
        }
        behind_zeros(change, len.saturating_sub(KEPT_MAX))
    }
}

/// What a change becomes when so many bytes are appended on both sides.
fn behind_zeros(change: u32, mut count: usize) -> u32 {
    // A checksum is inverted before and after its bytes; a difference of two checksums is not.
    let mut sum = Checksum::resume(!change);
    while let Some(zeros) = ZEROS.get(..count.min(ZEROS.len())).filter(|zeros| !zeros.is_empty()) {
        sum.update(zeros);
        count -= zeros.len();
    }
    !sum.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;
    use crate::frame::{FrameSpec, Kind, Meta, bind_front};

    #[cfg_attr(miri, ignore = "two thousand encodings of up to 65 kB")]
    #[test]
    fn a_copy_is_what_encoding_the_record_again_gives() {
        let mut copier = Copier::default();
        let bytes: Vec<u8> = (0..70_000_u32).map(|number| (number * 7 % 251) as u8).collect();
        let lens = [0, 1, 5, 24, 127, 128, 150, 300, 3000, 4095, 4096, 4097, 5000, 65_536, 20];
        let kinds = [Kind::Put, Kind::Tombstone, Kind::Event];
        let mut trials = 0;
        for (key_len, value_len) in lens.into_iter().flat_map(|key| lens.map(|value| (key.min(3000), value.max(8)))) {
            for (kind, continues, copied, namespace) in
                kinds.into_iter().flat_map(|kind| [(kind, false, false, 0), (kind, true, false, 7), (kind, true, true, 300)])
            {
                let meta = Meta { copied, ..Meta::plain(namespace) };
                let (key, value) = (bytes.get(1..1 + key_len).unwrap(), bytes.get(3..3 + value_len).unwrap());
                let spec = FrameSpec { kind, continues, meta, key, value };
                let mut original = Vec::new();
                spec.encode_into(&mut original, 5, 16_384);
                let header = Header::decode(&original).unwrap();
                let mut copy = alloc::vec![1, 2, 3];
                copier.copy_unbound(&header, &original, 5, 16_384, &mut copy).unwrap();
                bind_front(copy.get_mut(3..).unwrap(), 9, 20_000);
                let mut expected = alloc::vec![1, 2, 3];
                FrameSpec { continues: false, meta: meta.copied(), ..spec }.encode_into(&mut expected, 9, 20_000);
                assert!(copy == expected, "{kind:?} {continues} {copied} {key_len} {value_len}");
                trials += 1;
            }
        }
        assert_eq!(trials, 15 * 15 * 9);
    }

    #[test]
    fn a_copy_of_changed_bytes_fails_its_check() {
        let spec = FrameSpec { kind: Kind::Put, continues: true, meta: Meta::plain(0), key: b"key", value: b"value" };
        let mut original = Vec::new();
        spec.encode_into(&mut original, 5, 16_384);
        let header = Header::decode(&original).unwrap();
        *original.last_mut().unwrap() ^= 1;
        let mut copy = Vec::new();
        Copier::default().copy_unbound(&header, &original, 5, 16_384, &mut copy).unwrap();
        bind_front(&mut copy, 9, 20_000);
        let header = Header::decode(&copy).unwrap();
        assert!(crate::frame::check(&header, &copy, 9, 20_000).is_err());
    }
}
