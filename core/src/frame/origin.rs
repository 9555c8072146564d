//! When a record was first written. Compaction's copy of a record says nothing about it if that was before every position that anybody
//! held; otherwise the copy carries its origin, the bytes of log between the first version and itself.

use super::meta::{FIELDS_LEN_MAX, FLAG_CODEC, FLAG_EXPIRY, FLAG_NAMESPACE, FLAG_ORIGIN, fields_len};
use super::{Header, Meta, decode_u64, encode_u64};

/// Most bytes that an origin adds to a frame: the byte of flags and the longest distance.
pub(crate) const ORIGIN_LEN_MAX: usize = 1 + 9;

/// The largest distance that [`encode_u64`] takes.
const DISTANCE_MAX: u64 = (1 << 63) - 1;

impl Meta<'_> {
    /// Bytes of log between the record's first version and this copy.
    fn origin(&self) -> Option<u64> {
        let fields = self.fields.get(self.before_origin()..).filter(|_| self.flags & FLAG_ORIGIN != 0)?;
        decode_u64(fields).map(|(distance, _)| distance)
    }

    /// Length of the fields before the origin.
    fn before_origin(&self) -> usize {
        fields_len(self.flags & (FLAG_EXPIRY | FLAG_CODEC), self.fields).ok().flatten().unwrap_or(0)
    }

    /// Log position of the record's first version, if this record is at `lsn`; 0 if that was before every position that anybody held.
    pub(crate) fn begin(&self, lsn: u64) -> u64 {
        match self.origin() {
            _ if !self.copied => lsn,
            None => 0,
            Some(distance) => lsn.saturating_sub(distance),
        }
    }
}

impl Header {
    /// True if the record carries the distance to its first version.
    pub(crate) const fn has_origin(&self) -> bool {
        self.flags & FLAG_ORIGIN != 0
    }
}

/// The metadata of compaction's copy of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyMeta {
    namespace: u32,
    flags: u8,
    fields: [u8; FIELDS_LEN_MAX],
    len: usize,
}

impl CopyMeta {
    /// The metadata of a copy, with this distance to the record's first version, or without one.
    pub(crate) fn new(meta: &Meta<'_>, origin: Option<u64>) -> Self {
        let mut copy = Self { namespace: meta.namespace, flags: meta.flags & !FLAG_ORIGIN, fields: [0; FIELDS_LEN_MAX], len: 0 };
        let (front, rest) = meta.fields.split_at_checked(meta.before_origin()).unwrap_or((meta.fields, &[]));
        front.iter().for_each(|&byte| copy.push(byte));
        if let Some(distance) = origin {
            copy.flags |= FLAG_ORIGIN;
            encode_u64(distance.min(DISTANCE_MAX), |byte| copy.push(byte));
        }
        let old = if meta.flags & FLAG_ORIGIN == 0 { 0 } else { decode_u64(rest).map_or(0, |(_, taken)| taken) };
        rest.iter().skip(old).for_each(|&byte| copy.push(byte));
        copy
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.fields.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    pub(crate) fn meta(&self) -> Meta<'_> {
        let fields = self.fields.get(..self.len).unwrap_or_default();
        Meta::new(self.namespace, self.flags & !FLAG_NAMESPACE, fields).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::Optional;
    use super::*;

    #[test]
    fn a_copy_keeps_all_fields_but_has_an_origin_of_its_own() {
        let optional = |origin| Optional {
            expiry: Some(77),
            codec: Some((1, 300, 5)),
            origin,
            expired: false,
            more: Some((1, alloc::vec![9; 16])),
        };
        for (before, after) in
            [(None, None), (None, Some(1)), (Some(5), None), (Some(1 << 40), Some(300)), (Some(1), Some(u64::MAX))]
        {
            for namespace in [0, 7] {
                let (flags, fields) = optional(before).encode();
                let meta = Meta::new(namespace, flags, &fields);
                let (flags, fields) = optional(after.map(|distance| distance.min(DISTANCE_MAX))).encode();
                let copy = CopyMeta::new(&meta, after);
                assert_eq!(copy.meta(), Meta::new(namespace, flags, &fields).copied());
                let begin = |distance: u64| 1000_u64.saturating_sub(distance);
                assert_eq!(copy.meta().begin(1000), after.map_or(0, begin));
                assert_eq!(meta.begin(1000), 1000, "not a copy");
                assert_eq!(meta.copied().begin(1000), before.map_or(0, begin));
            }
        }
        let (plain, origin) = (Meta::plain(0), CopyMeta::new(&Meta::plain(0), Some(DISTANCE_MAX)));
        assert_eq!(CopyMeta::new(&plain, None).meta(), plain.copied());
        assert_eq!(origin.meta().fields.len() + 1, ORIGIN_LEN_MAX);
    }
}
