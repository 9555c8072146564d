#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::*;
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
            for value_len in [0, 1, 0x7f, 0x80, 0x81, 150, 0x3fff, 0x4000] {
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
                    if let Some(short) = Header::decode_small(&whole) {
                        assert_eq!(decoded, Ok(short));
                    }
                    let mut room = [0; ONE_PIECE_MAX];
                    if let Some(frame) = spec.encode_unbound(&mut room) {
                        bind_front(frame, 1, 2);
                        assert_eq!(frame, whole);
                    }
                }
            }
        }
    }
    assert_eq!(small, 3 * 7 * 4);
    for bytes in [[0, 0, 0, 0, 1, 0, 0x80, 0], [0, 0, 0, 0, 1, 0x80, 0x80, 1], [0, 0, 0, 0, 0x41, 0, 1, 1]] {
        assert_eq!(Header::decode_small(&bytes), None);
    }
}
