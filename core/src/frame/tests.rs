#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::event::{Event, Tag};
use super::meta::Optional;
use super::*;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use alloc::vec;
use alloc::vec::Vec;

fn frame(spec: &FrameSpec<'_>, salt: u64, offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    spec.encode_into(&mut out, salt, offset);
    assert_eq!(out.len(), spec.len());
    out
}

#[test]
fn a_frame_reads_back_as_it_was_written() {
    for (key_len, value_len) in [(0, 0), (1, 0), (0, 1), (24, 150), (127, 127), (128, 128), (300, 16_384)] {
        for namespace in [0, 1, 127, 128, NAMESPACE_OF_NAMES] {
            for continues in [false, true] {
                let (key, value) = (vec![7; key_len], vec![9; value_len]);
                let spec = FrameSpec { kind: Kind::Put, continues, meta: Meta::plain(namespace), key: &key, value: &value };
                let bytes = frame(&spec, 11, 4096);
                let header = Header::decode(&bytes).unwrap();
                assert_eq!(header.frame_len(), bytes.len());
                assert_eq!((header.namespace, header.continues), (namespace, continues));
                check(&header, &bytes, 11, 4096).unwrap();
                assert_eq!(header.key(&bytes), Some(&key[..]));
                assert_eq!(header.value(&bytes), Some(&value[..]));
            }
        }
    }
}

/// What the fast path reads the whole one reads, too, and alike.
#[test]
fn the_fast_path_of_named_records_agrees_with_the_whole_one() {
    let mut read = 0;
    // Under miri all would take minutes: there only those that the fast path takes, and a few others.
    let named = [0x41, 0x51, 0x61, 0x71, 0x47, 0x57, 0x67, 0x77, 0, 1, 7, 0xc1];
    let all: Vec<u8> = (0..=255).collect();
    for &head in if cfg!(miri) { &named[..] } else { &all } {
        for flags in [0, 1, 2, 3, 0x80, 0x81] {
            for lens in [
                [0, 0, 1, 1],
                [7, 5, 1, 1],
                [7, 8, 1, 1],
                [127, 8, 127, 0],
                [128, 1, 9, 1],
                [3, 0x80, 1, 1],
                [3, 0xff, 0x7f, 0x7f],
            ] {
                for behind in [[0, 0, 0], [0x80, 1, 1], [0xff, 0xff, 1]] {
                    let bytes = [&[1, 2, 3, 4, head, flags][..], &lens, &behind].concat();
                    for len in 0..=bytes.len() {
                        if let Some(header) = Header::decode_named(&bytes[..len]) {
                            assert_eq!(Header::decode_whole(&bytes[..len]), Ok(header), "{:?}", &bytes[..len]);
                            read += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_small_plain_record_costs_eight_bytes() {
    let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: &[1; 24], value: &[2; 150] };
    assert_eq!(spec.len(), 24 + 150 + 8);
}

#[test]
fn a_moved_or_stale_frame_fails_its_check() {
    let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: b"k", value: b"v" };
    let bytes = frame(&spec, 5, 4096);
    let header = Header::decode(&bytes).unwrap();
    assert_eq!(check(&header, &bytes, 5, 4097), Err(DecodeError::Checksum));
    assert_eq!(check(&header, &bytes, 6, 4096), Err(DecodeError::Checksum));
}

#[test]
fn every_flipped_bit_and_every_cut_is_seen() {
    let spec = FrameSpec { kind: Kind::Put, continues: true, meta: Meta::plain(3), key: b"key", value: b"a value" };
    let good = frame(&spec, 5, 4096);
    let passes = |bytes: &[u8]| Header::decode(bytes).is_ok_and(|header| check(&header, bytes, 5, 4096).is_ok());
    assert!(passes(&good));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(!passes(&bad), "bit {bit}");
    }
    for len in 0..good.len() {
        assert!(!passes(&good[..len]), "cut at {len}");
    }
}

#[test]
fn zeros_are_never_a_frame() {
    assert!(Header::decode(&[0; 64]).is_err());
}

#[test]
fn a_pad_fills_every_room_to_the_byte() {
    let zeros = vec![0; 20_000];
    for room in 0..zeros.len() {
        let Some((key, value)) = pad_spec(room) else {
            assert!(room < FRAME_LEN_MIN, "no pad for {room} bytes");
            continue;
        };
        let mut spec = FrameSpec::control(Kind::Pad, &zeros[..value]);
        spec.key = &zeros[..key];
        assert_eq!(spec.len(), room);
    }
}

#[test]
fn numbers_have_one_encoding() {
    for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455, 268_435_456, u32::MAX] {
        let mut bytes = Vec::new();
        varint::encode(value, |byte| bytes.push(byte));
        assert_eq!(bytes.len(), varint::len(value));
        assert_eq!(varint::decode(&bytes), Some((value, bytes.len())));
    }
    assert_eq!(varint::decode(&[0x80, 0x00]), None, "a longer form of zero");
    for (bytes, expected) in [
        (&[0x80, 0, 1][..], None),
        (&[0xff, 0, 0], None),
        (&[0x80, 0x80, 0], None),
        (&[0x80, 0x80], None),
        (&[0x80], None),
        (&[0x81, 1, 1], Some((0x81, 2))),
        (&[0x81, 0x7f, 0x80], Some((0x3f81, 2))),
        (&[0x81, 0x80, 1], Some((0x4001, 3))),
        (&[0xff, 0xff, 0x7f, 1], Some((0x1f_ffff, 3))),
        (&[0x80, 0x80, 0x80, 1, 1], Some((0x20_0000, 4))),
    ] {
        assert_eq!(varint::decode(bytes), expected, "{bytes:02x?}");
        assert_eq!(varint::decode_u64(bytes), expected.map(|(value, len)| (value.into(), len)), "{bytes:02x?}");
    }
    assert_eq!(varint::decode(&[0xff, 0xff, 0xff, 0xff, 0x10]), None, "more than 32 bits");
}

#[test]
fn both_ways_to_the_checksum_agree_with_the_published_check_value() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let mut parts = Checksum::new();
    parts.update(b"1234");
    parts.update(b"");
    parts.update(b"56789");
    assert_eq!(parts.finish(), 0xe306_9283);
}

#[test]
fn short_ways_for_small_frames_come_to_the_same() {
    let bytes = [7; 0x4001];
    let mut small = 0;
    for namespace in [0, 1] {
        for key_len in [0, 1, 0x7f, 0x80, 300] {
            // Megabytes of checksums take miri many minutes.
            let long: &[usize] = if cfg!(miri) { &[] } else { &[0x3fff, 0x4000] };
            for &value_len in [0, 1, 0x7f, 0x80, 0x81, 150].iter().chain(long) {
                for (kind, continues) in [(Kind::Put, false), (Kind::Put, true), (Kind::Tombstone, false), (Kind::Mark, false)] {
                    let spec = FrameSpec {
                        kind,
                        continues,
                        meta: Meta::plain(namespace),
                        key: &bytes[..key_len],
                        value: &bytes[..value_len],
                    };
                    let header = spec.any_header();
                    if let Some(short) = spec.small_header() {
                        assert_eq!(short.as_slice(), header.as_slice());
                        small += 1;
                    }
                    let mut whole = Vec::new();
                    spec.encode_into(&mut whole, 1, 2);
                    let decoded = Header::decode_any(&whole);
                    let is_small = kind == Kind::Put && namespace == 0 && key_len < 0x80 && value_len < 0x4000;
                    let short = Header::decode_small(&whole);
                    assert_eq!(short.is_some(), is_small && whole.len() > FRAME_LEN_MIN);
                    if let Some(short) = short {
                        assert_eq!(decoded, Ok(short));
                    }
                    let mut room = [0; ONE_PIECE_MAX];
                    let one_piece = spec.encode_unbound(&mut room);
                    assert_eq!(one_piece.is_some(), spec.small_header().is_some() && whole.len() <= ONE_PIECE_MAX);
                    if let Some(frame) = one_piece {
                        bind_front(frame, 1, 2);
                        assert_eq!(frame, whole);
                    }
                }
            }
        }
    }
    assert_eq!(small, 3 * if cfg!(miri) { 6 } else { 7 } * 4);
    for bytes in [[0, 0, 0, 0, 1, 0, 0x80, 0], [0, 0, 0, 0, 1, 0x80, 0x80, 1], [0, 0, 0, 0, 0x41, 0, 1, 1]] {
        assert_eq!(Header::decode_small(&bytes), None);
    }
}

/// Optional fields with their flags and bytes, and why this build cannot return a value that has them.
fn optional_fields() -> Vec<(Optional, u8, Vec<u8>, Option<&'static str>)> {
    let none = Optional::default;
    let (packed, strange) = (Some("a compressed value"), Some("a property that this build does not know"));
    let all =
        Optional { expiry: Some(1), codec: Some((1, 0, 0)), origin: Some(3), expired: false, more: Some((0x40, vec![8; 16])) };
    let bytes_of_all = [&[1, 0, 0, 0, 0, 0, 1, 0, 0, 3, 0x40, 16][..], &[8; 16]].concat();
    vec![
        (none(), 0, vec![], None),
        (Optional { expiry: Some(0x0102_0304_0506), ..none() }, 0x02, vec![6, 5, 4, 3, 2, 1], None),
        (Optional { codec: Some((7, 300, 128)), ..none() }, 0x04, vec![7, 0xac, 2, 0x80, 1], packed),
        (Optional { origin: Some(1 << 62), ..none() }, 0x08, vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40], None),
        (Optional { more: Some((1, vec![9, 9])), ..none() }, 0x80, vec![1, 2, 9, 9], strange),
        (Optional { more: Some((1, vec![])), ..none() }, 0x80, vec![1, 0], strange),
        (all, 0x8e, bytes_of_all, packed),
    ]
}

#[test]
fn optional_fields_read_back_and_say_what_this_build_cannot_return() {
    for (optional, flags, bytes, unsupported) in optional_fields() {
        assert_eq!(optional.encode(), (flags, bytes.clone()));
        for (namespace, copied) in [(0, false), (5, false), (u32::MAX, true)] {
            let plain = Meta::new(namespace, flags, &bytes);
            let meta = if copied { plain.copied() } else { plain };
            let spec = FrameSpec { kind: Kind::Put, continues: false, meta, key: b"key", value: &[4; 300] };
            let bytes = frame(&spec, 3, 8192);
            let header = Header::decode(&bytes).unwrap();
            check(&header, &bytes, 3, 8192).unwrap();
            assert_eq!((header.meta(&bytes), header.flags, header.unsupported()), (meta, flags, unsupported));
            assert_eq!((header.expires(), header.meta(&bytes).expiry()), (optional.expiry.is_some(), optional.expiry));
            assert_eq!((header.has_origin(), header.is_compressed()), (optional.origin.is_some(), optional.codec.is_some()));
            assert_eq!(header.needs_a_closer_look(), flags & !0x08 != 0);
            assert!(!header.is_expired_tombstone() && !header.is_sealed());
            let renamed = meta.with_namespace(7);
            assert_eq!(renamed, Meta { copied, ..Meta::new(7, flags, meta.fields) });
            assert_eq!(renamed.with_namespace(namespace), meta);
            assert_eq!((header.key(&bytes), header.value(&bytes)), (Some(&b"key"[..]), Some(&[4; 300][..])));
            for cut in 0..header.header_len() {
                assert_eq!(Header::decode(&bytes[..cut]), Err(DecodeError::Truncated), "{optional:?} cut at {cut}");
            }
        }
    }
    for expiry in [1, 0x0102_0304_0506, crate::limits::EXPIRY_MAX] {
        let until = Until::new(expiry);
        assert_eq!((until.meta(7).expiry(), Until::new(0).meta(7)), (Some(expiry), Meta::plain(7)));
    }
    let expired = Optional { expired: true, ..Optional::default() };
    assert_eq!(expired.encode(), (0x10, vec![]));
    let spec = FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::new(1, 0x10, &[]), key: b"key", value: &[] };
    let bytes = frame(&spec, 3, 8192);
    let header = Header::decode(&bytes).unwrap();
    assert_eq!((header.flags, header.unsupported(), header.is_expired_tombstone()), (0x10, None, true));
    assert!(!header.expires() && !header.has_origin() && !header.is_compressed() && header.needs_a_closer_look());
}

#[test]
fn a_frame_gets_room_for_all_of_it_at_once() {
    for (key, value) in [(0, 0), (1, 0), (0, 1), (100, 3), (3, 100)] {
        let (key, value) = (vec![1; key], vec![2; value]);
        let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: &key, value: &value };
        assert!(frame(&spec, 1, 2).capacity() >= HEADER_LEN_MAX + key.len() + value.len());
    }
}

#[cfg(feature = "encrypt")]
#[test]
fn a_sealed_copy_is_longer_by_its_tags_and_at_most_four_more() {
    let key = b"key";
    for (len, tags) in [(0, 1), (1, 1), (127, 1), (CHUNK, 1), (CHUNK + 1, 2), (2 * CHUNK, 2), (2 * CHUNK + 1, 3)] {
        let value = vec![0; len];
        let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key, value: &value };
        assert_eq!((tags_of(len), sealing_len(len)), (tags, tags * TAG_LEN + 4), "{len}");
        let more = spec.sealed_len() - spec.len();
        assert!((tags * TAG_LEN..=sealing_len(len)).contains(&more), "{len}");
    }
}

#[cfg(feature = "encrypt")]
#[test]
fn the_first_piece_of_a_sealed_text_has_the_key_and_each_the_same_of_the_value() {
    let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: &[1; 10], value: &[2; 20] };
    let parts = spec.encode_unsealed(&mut Vec::new());
    assert_eq!((parts.header, parts.key, parts.value, parts.tags, parts.text()), (7, 10, 20, 1, 7));
    for (number, left, len) in [
        (0, CHUNK + 11, CHUNK + 10),
        (0, CHUNK + 10, CHUNK + 10),
        (0, CHUNK + 9, CHUNK + 9),
        (0, 0, 0),
        (1, CHUNK + 1, CHUNK),
        (1, CHUNK, CHUNK),
        (1, CHUNK - 1, CHUNK - 1),
        (2, usize::MAX, CHUNK),
    ] {
        assert_eq!(parts.chunk_len(number, left), len, "{number} {left}");
    }
    let parts = FrameSpec::control(Kind::Pad, &[0; 20]).encode_unsealed(&mut Vec::new());
    assert_eq!((parts.text(), parts.tags, parts.is_control, parts.is_pad), (27, 1, true, true));
}

#[test]
fn headers_that_no_writer_makes_say_what_is_wrong() {
    let number = |value: usize| {
        let mut bytes = Vec::new();
        varint::encode(value as u32, |byte| bytes.push(byte));
        bytes
    };
    let decode = |parts: &[&[u8]]| {
        let bytes = [&[0; CRC_LEN][..], &parts.concat(), &[0; 64]].concat();
        Header::decode(&bytes).map(|header| header.frame_len()).map_err(DecodeError::what)
    };
    let bad: [(&[&[u8]], &str); 27] = [
        (
            &[&[0x81, 0, 0]],
            if cfg!(feature = "encrypt") { "a sealed record without a tag" } else { "a record of an unknown version" },
        ),
        (&[&[0x00, 0, 0]], "a record of an unknown kind"),
        (&[&[0x0c, 0, 0]], "a record of an unknown kind"),
        (&[&[0x41, 0, 0, 0]], "a record with unknown flags"),
        (&[&[0x41, 0x20, 0, 0]], "a record with unknown flags"),
        (&[&[0x41, 0x40, 0, 0]], "a record with unknown flags"),
        (&[&[0x01, 0x80, 0, 0]], "a record with a malformed length"),
        (&[&[0x01, 1, 0xff, 0xff, 0xff, 0xff, 0x10]], "a record with a malformed length"),
        (&[&[0x41, 1, 0, 0, 0]], "a record with a malformed namespace"),
        (&[&[0x01], &number(KEY_LEN_MAX + 1), &[0]], "a record over the limits of key or value"),
        (&[&[0x01, 0], &number(VALUE_LEN_MAX + 1)], "a record over the limits of key or value"),
        (&[&[0x23, 0, 16]], "a control record with flags of a data record"),
        (&[&[0x13, 0, 16]], "a control record with flags of a data record"),
        (&[&[0x44, 0x08, 0, 0, 1]], "a control record with flags of a data record"),
        (&[&[0x44, 0x01, 0, 0, 1]], "a control record with flags of a data record"),
        (&[&[0x41, 0x10, 0, 0]], "a record with flags of another kind"),
        (&[&[0x47, 0x10, 0, 8]], "a record with flags of another kind"),
        (&[&[0x42, 0x02, 0, 0]], "a record with flags of another kind"),
        (&[&[0x49, 0x04, 0, 8, 1, 0, 0]], "a record with flags of another kind"),
        (&[&[0x03, 0, 15]], "a record that is too short for its kind"),
        (&[&[0x03, 0, 17]], "a record that is too short for its kind"),
        (&[&[0x07, 0, 7]], "a record that is too short for its kind"),
        (&[&[0x09, 0, 7]], "a record that is too short for its kind"),
        (&[&[0x41, 0x04, 0, 0, 0, 1, 1]], "a record with a malformed codec"),
        (&[&[0x41, 0x04, 0, 0, 1, 1, 0x80, 0]], "a record with a malformed codec"),
        (&[&[0x41, 0x08, 0, 0, 0x80, 0]], "a record with a malformed origin"),
        (&[&[0x41, 0x80, 0, 0, 0, 1]], "a record with malformed flags"),
    ];
    for (parts, what) in bad {
        assert_eq!(decode(parts), Err(what), "{parts:02x?}");
    }
    assert_eq!(decode(&[&[0x41, 0x80, 0, 0, 1, 17]]), Err("a record with malformed flags"));
    let malformed = |len: usize| Header::decode(&[&[0; CRC_LEN][..], &[1], &[0x80; 5][..len]].concat());
    assert_eq!(malformed(4), Err(DecodeError::Truncated), "it may go on");
    assert_eq!(malformed(5), Err(DecodeError::Invalid("a record with a malformed length")));
    let good: [(&[&[u8]], usize); 9] = [
        (&[&[0x01], &number(KEY_LEN_MAX), &[0]], CRC_LEN + 1 + number(KEY_LEN_MAX).len() + 1 + KEY_LEN_MAX),
        (&[&[0x01, 0], &number(VALUE_LEN_MAX)], CRC_LEN + 2 + number(VALUE_LEN_MAX).len() + VALUE_LEN_MAX),
        (&[&[0x03, 0, 16]], CRC_LEN + 3 + 16),
        (&[&[0x07, 0, 8]], CRC_LEN + 3 + 8),
        (&[&[0x09, 0, 8]], CRC_LEN + 3 + 8),
        (&[&[0x41, 0x80, 0, 0, 1, 16]], CRC_LEN + 4 + 2 + 16),
        (&[&[0x52, 0x10, 0, 0]], CRC_LEN + 4),
        (&[&[0x49, 0x08, 0, 8, 2]], CRC_LEN + 4 + 1 + 8),
        (&[&[0x08, 0, 0]], CRC_LEN + 3),
    ];
    for (parts, len) in good {
        assert_eq!(decode(parts), Ok(len), "{parts:02x?}");
    }
}

fn event() -> Event {
    let tag = |key: &[u8], before, distance| Tag { key: key.to_vec(), before, distance };
    Event {
        number: 0x1122_3344,
        version: 7,
        time: 0x0605_0403_0201,
        id: [9; 16],
        kind: b"kind".to_vec(),
        tags: vec![tag(b"", 0, 1), tag(b"order", 300, 1 << 40)],
        payload: b"payload".to_vec(),
    }
}

#[test]
fn an_event_reads_back_as_it_was_written() {
    let bytes = event().encode();
    let numbers = [&0x1122_3344_u64.to_le_bytes()[..], &7_u64.to_le_bytes(), &[1, 2, 3, 4, 5, 6], &[9; 16]].concat();
    let tags = b"\x02\x00\x00\x01\x05order\xac\x02\x80\x80\x80\x80\x80\x20";
    assert_eq!(bytes, [&numbers[..], b"\x04kind", tags, b"payload"].concat());
    assert_eq!(Event::decode(&bytes), Some(event()));
    for cut in 0..bytes.len() - b"payload".len() {
        assert_eq!(Event::decode(&bytes[..cut]), None, "cut at {cut}");
    }
}

/// The checksum covers every bit, in one piece and in two, also of an event, whose number it is bound to instead of covering it.
#[test]
fn a_frame_in_pieces_is_checked_as_one_piece_is() {
    let value = event().encode();
    for kind in [Kind::Put, Kind::Event] {
        let spec = FrameSpec { kind, continues: false, meta: Meta::plain(2), key: b"stream", value: &value };
        let good = frame(&spec, 5, 4096);
        assert_eq!(&good[..spec.header(5, 4096).as_slice().len()], spec.header(5, 4096).as_slice());
        let header = Header::decode(&good).unwrap();
        let whole = |bytes: &[u8]| check(&header, bytes, 5, 4096);
        let front_len = header.header_len() + header.key_len() + EVENT_NUMBER_LEN;
        let in_pieces = |bytes: &[u8], cut: usize| {
            check_sum(&header, &bytes[..cut], 5, 4096, |mut sum| {
                sum.update(&bytes[cut..]);
                sum
            })
        };
        assert_eq!(whole(&good), Ok(()));
        (front_len..=good.len()).for_each(|cut| assert_eq!(in_pieces(&good, cut), Ok(()), "{kind:?} cut at {cut}"));
        for bit in (0..CRC_LEN * 8).chain(header.header_len() * 8..good.len() * 8).step_by(if cfg!(miri) { 31 } else { 1 }) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(whole(&bad), Err(DecodeError::Checksum), "{kind:?} bit {bit}");
            assert_eq!(in_pieces(&bad, front_len), Err(DecodeError::Checksum), "{kind:?} bit {bit}");
        }
        assert_eq!(event_number(header.value(&good).unwrap()), 0x1122_3344);
    }
}

#[test]
fn values_of_control_frames_read_back() {
    let mark = Mark { synced: 0x1234_5678_9abc, clock: 99 };
    assert_eq!((Mark::decode(&mark.encode()), Mark::decode(&[0; 15])), (Some(mark), None));
    let next = Next { extent: 7, extents: 2, base: 1 << 33, salt: 0xdead_beef };
    assert_eq!(Next::decode(&next.encode()), Some(next));
    assert_eq!(Next::decode(&Next { extents: 0, ..next }.encode()), None, "a run of nothing");
    assert_eq!(Next::decode(&[1; 23]), None);
}

#[cfg(feature = "events")]
#[test]
fn an_event_is_read_in_place_as_it_is_in_parts() {
    let bytes = event().encode();
    let view = EventView::decode(&bytes).unwrap();
    assert_eq!((view.number, view.version, view.time, view.id), (0x1122_3344, 7, 0x0605_0403_0201, [9; 16]));
    assert_eq!((view.kind, view.payload), (&b"kind"[..], &b"payload"[..]));
    assert!(view.tags().eq([(&b""[..], 0), (b"order", 300)]));
    assert_eq!([&b""[..], b"order", b"orde"].map(|key| view.before(key)), [Some(0), Some(300), None]);
    for cut in 0..bytes.len() - b"payload".len() {
        assert!(EventView::decode(&bytes[..cut]).is_none(), "cut at {cut}");
    }
    assert_eq!((event_version(&bytes), event_version(&bytes[..16]), event_version(&bytes[..15])), (Some(7), Some(7), None));
    // What is written says of no tag how far back it leads.
    let near = Event { tags: event().tags.into_iter().map(|tag| Tag { distance: 0, ..tag }).collect(), ..event() };
    let head = (view.number, view.version, view.time, view.id);
    assert_eq!(encode_event(head, view.kind, [(&b""[..], 0), (b"order", 300)].into_iter(), view.payload), near.encode());
    assert!(EventView::decode(&near.encode()).unwrap().tags().eq(view.tags()));
}

#[cfg(feature = "events")]
#[test]
fn an_event_jumps_over_the_last_piece_of_its_stream() {
    let jumps: Vec<u64> = (0..16).map(jump_version).collect();
    assert_eq!(jumps, [0, 0, 1, 0, 3, 4, 3, 0, 7, 8, 7, 10, 11, 10, 7, 0]);
    assert_eq!(jump_version((1 << 40) + 3), (1 << 40) - 1 + 3);
}

#[test]
fn the_number_of_an_event_is_one_that_may_be_assigned() {
    use crate::limits::LOG_POSITION_MAX;
    for (number, expected) in [(0, 0), (7, 7), (LOG_POSITION_MAX, LOG_POSITION_MAX), (LOG_POSITION_MAX + 1, LOG_POSITION_MAX)] {
        assert_eq!(event_number(&number.to_le_bytes()), expected);
    }
    assert_eq!(event_number(&[1; 7]), 0);
}
