//! Every golden store, and the examples of the specification.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use pipkin_reader::{Codec, Contents, Event, Fields, Refusal, Tag, read};

/// What the tape of `pipkin-tape` leaves in its small size: the number of records, and the sum of their hashes.
const TAPE: (usize, u64) = (454, 4_653_220_641_456_000_876);

fn golden(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pipkin")).collect()
}

/// As `pipkin_tape::digest` sums it up: FNV-1a over namespace, key and value, each behind its length.
fn digest(contents: &Contents) -> (usize, u64) {
    let hash_of = |fields: [&[u8]; 3]| {
        let bytes =
            fields.into_iter().flat_map(|field| (field.len() as u64).to_le_bytes().into_iter().chain(field.iter().copied()));
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let hashes = contents.records.iter().map(|((space, key), record)| hash_of([space.as_bytes(), key, &record.value]));
    (contents.records.len(), hashes.fold(0, u64::wrapping_add))
}

#[test]
fn golden_stores_of_every_version_hold_the_tape() {
    let files = golden("");
    assert!(!files.is_empty());
    for path in files {
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(digest(&contents), TAPE, "{}", path.display());
        let found = contents.found;
        assert!(found.is_closed && found.has_checkpoint && found.has_snapshot && found.linked > 0, "{found:?}");
        assert_eq!(contents.torn, None);
    }
}

#[test]
fn a_flipped_bit_is_refused_or_changes_nothing() {
    let whole = fs::read(&golden("")[0]).unwrap();
    for at in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(&damaged) {
            Ok(contents) => assert_eq!(digest(&contents), TAPE, "byte {at}"),
            Err(Refusal::Damaged { .. }) => {}
            Err(other) => assert_eq!(other, Refusal::Newer, "byte {at}"),
        }
    }
}

/// The records of each of the two namespaces of such a store.
fn expected_records(space: &str) -> Vec<(&'static str, Vec<u8>, Fields)> {
    let (expiry, long_ago, origin) = (Some((1 << 48) - 1), Some(1), Some(1 << 40));
    let codec = Some(Codec { codec: 1, dictionary: 0, plain_len: 20 });
    let more = Some((0x80, b"fields of a bit".to_vec()));
    let value = |key: &str| format!("the value of {key} in {space:?}").into_bytes();
    let compressed = b"\xf0\x05a value in one block".to_vec();
    let plain = Fields::default;
    vec![
        ("compressed", compressed.clone(), Fields { codec, ..plain() }),
        ("expired long ago", b"gone".to_vec(), Fields { expiry: long_ago, ..plain() }),
        ("expires far off", b"until then".to_vec(), Fields { expiry, ..plain() }),
        ("plain", value("plain"), plain()),
        ("with an origin", value("with an origin"), Fields { origin, ..plain() }),
        ("with everything", compressed, Fields { expiry, codec, origin, expired: false, more: more.clone() }),
        ("with more flags", b"of another version".to_vec(), Fields { more, ..plain() }),
        ("written twice", value("written twice"), plain()),
    ]
}

fn expected_event(number: u64) -> Event {
    let tag = |key: &str, before, distance| Tag { key: key.into(), before, distance };
    let (far_off, origin) = (Some((1 << 48) - 1), Some(1 << 40));
    let (tags, fields) = match number {
        1 => (Vec::new(), Fields::default()),
        2 => (vec![tag("a tag", 0, 0)], Fields::default()),
        3 => (vec![tag("a tag", 2, 300), tag("another", 0, 0)], Fields { expiry: far_off, ..Fields::default() }),
        _ => (vec![tag("a tag", 3, 300), tag("another", 0, 0)], Fields { origin, ..Fields::default() }),
    };
    Event {
        stream: b"a stream".to_vec(),
        number,
        version: number,
        time: 1_700_000_000_000,
        id: [number as u8; 16],
        kind: b"a type".to_vec(),
        tags,
        payload: (number < 4).then(|| format!("the payload of event {number}").into_bytes()),
        fields,
    }
}

#[test]
fn stores_with_every_kind_and_flag_are_read_whole() {
    let files = golden("kinds");
    assert_eq!(files.len(), 3);
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        for space in ["", "named"] {
            let there = contents.records.iter().filter(|((of, _), _)| of == space);
            let there: Vec<_> = there.map(|((_, key), record)| (key.as_slice(), record)).collect();
            let expected = expected_records(space);
            assert_eq!(there.len(), expected.len(), "{name} {space:?}");
            for ((key, record), (expected_key, value, fields)) in there.into_iter().zip(expected) {
                assert_eq!((key, &record.value, &record.fields), (expected_key.as_bytes(), &value, &fields), "{name} {space:?}");
                assert_eq!(record.copied, name != "written", "{name} {space:?} {expected_key}");
            }
        }
        assert_eq!(contents.events, [1, 2, 3, 4].map(expected_event), "{name}");
        let found = contents.found;
        let is_as_named = match name.as_str() {
            "written" => !found.is_closed && !found.has_checkpoint && contents.torn.is_none(),
            "killed" => !found.is_closed && found.has_checkpoint && found.has_snapshot && contents.torn.is_some(),
            _ => found.is_closed && found.has_checkpoint && found.has_snapshot && contents.torn.is_none(),
        };
        assert!(is_as_named, "{name}: {found:?} {:?}", contents.torn);
    }
}

/// Namespace, key, value and expiry of the records of the stores with records that expire.
fn expected_expiring() -> Vec<(String, String, String, Option<u64>)> {
    let (coupon, far_off, by_default) = (4_102_444_800_000, (1 << 48) - 2, 1_000_000_000_000 + 100 * 365 * 24 * 60 * 60 * 1000);
    let mut all = Vec::new();
    for space in ["", "sessions"] {
        let mut add = |key: &str, value: String, expiry| all.push((space.to_owned(), key.to_owned(), value, expiry));
        if space == "sessions" {
            add("by default", "for as long as the namespace says".into(), Some(by_default));
        }
        add("coupon", format!("until {coupon}"), Some(coupon));
        add("far off", format!("until {far_off}"), Some(far_off));
        add("stays", "for ever".into(), None);
        add("stays, too", "for ever".into(), None);
    }
    all
}

#[test]
fn compressed_values_are_decoded_as_the_specification_says() {
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/compressed/plain.pipkin")).unwrap();
    let contents = read(&bytes).unwrap();
    let (mut with_dictionary, mut alone) = (0, 0);
    for ((space, key), record) in contents.records.iter().filter(|((space, _), _)| !space.starts_with('\0')) {
        let plain = contents.plain(record).unwrap();
        let codec = record.fields.codec.map(|codec| (codec.codec, codec.dictionary));
        if space == "documents" {
            let number: u32 = std::str::from_utf8(key).unwrap().strip_prefix("document ").unwrap().parse().unwrap();
            let mixed = number.wrapping_mul(0x9e37_79b9);
            let text = format!(
                r#"{{"feature":"api.Interface{}.method{mixed:x}","version_added":"{}","status":{{"deprecated":false,"experimental":false,"standard_track":true}},"spec":"https://example.org/the-specification"}}"#,
                number % 97,
                number % 50
            );
            assert_eq!(String::from_utf8(plain).unwrap(), text);
            with_dictionary += u32::from(codec == Some((1, 1)));
        } else {
            assert!(space.is_empty() && plain.iter().all(|&byte| byte == 0) && [20, 1000, 70_000].contains(&plain.len()));
            alone += u32::from(codec == Some((1, 0)));
        }
    }
    assert!(with_dictionary > 690 && alone == 2, "{with_dictionary} {alone}");
}

#[test]
fn stores_with_records_that_expire_are_read_by_their_clock() {
    let files = golden("expiry");
    assert_eq!(files.len(), 3);
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let contents = read(&bytes).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let there = |contents: &Contents| {
            let record = |((space, key), record): (&(String, Vec<u8>), &pipkin_reader::Record)| {
                (space.clone(), text(key), text(&record.value), record.fields.expiry)
            };
            contents.records.iter().map(record).collect::<Vec<_>>()
        };
        assert_eq!(there(&contents), expected_expiring(), "{name}");
        assert_eq!(contents.clock, 1_000_000_001_000, "{name}");
        assert_eq!(contents.namespaces["sessions"].get(..8), Some(&[1, 6, 0, 0x30, 0x35, 0x41, 0xde, 2][..]), "{name}");
        let in_2100 = pipkin_reader::read_at(&bytes, 4_102_444_800_000).unwrap();
        assert!(!there(&in_2100).iter().any(|(_, key, ..)| key == "coupon"), "{name}");
        assert_eq!(contents.found.is_closed, name == "compacted", "{name}: {:?}", contents.found);
        // Before the calendars, that version wrote none.
        let expiring = expected_expiring().iter().filter(|(.., expiry)| expiry.is_some()).count();
        assert_eq!(contents.found.calendar, if name == "calendar" { expiring } else { 0 }, "{name}");
    }
}

/// What is kept for those who follow the log counts nowhere, and is there.
#[test]
fn stores_with_history_are_read_without_it() {
    for (name, last, is_closed) in [("listed", 120, true), ("tail", 200, false)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/history").join(name).with_extension("pipkin");
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        let of_user = contents.records.iter().filter(|((space, _), _)| space.is_empty());
        let numbers: Vec<u32> = of_user.map(|(_, record)| u32::from_le_bytes(record.value[..4].try_into().unwrap())).collect();
        assert_eq!(numbers, (last - 5..last).collect::<Vec<_>>(), "{name}");
        let found = contents.found;
        assert!(found.history > 1 && found.floor > 0 && found.is_closed == is_closed, "{name}: {found:?}");
        assert_eq!(contents.namespaces.keys().collect::<Vec<_>>(), ["", "\0changes", "cache"], "{name}");
    }
}

/// The events of a stream and their chains: each names the one before, and some a jump further back.
#[test]
fn stores_with_event_streams_are_read_with_their_chains() {
    for (name, last, is_closed) in [("listed", 10, true), ("tail", 20, false)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/events").join(name).with_extension("pipkin");
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((contents.events.len() as u64, contents.found.is_closed), (last + 1, is_closed), "{name}");
        let number_at = |version: u64| if version > 10 { version + 1 } else { version };
        for (event, number) in contents.events.iter().zip(1..) {
            assert_eq!(event.number, number, "{name}");
            let before = |key: &[u8]| event.tags.iter().find(|tag| tag.key == key).map(|tag| tag.before);
            if event.stream == b"audit" {
                assert_eq!((number, event.version, before(b"all"), before(&[0])), (11, 1, Some(0), Some(0)), "{name}");
                continue;
            }
            assert_eq!(number_at(event.version), number, "{name}");
            let front = |back: u64| event.version.checked_sub(back).filter(|&version| version > 0).map_or(0, number_at);
            assert_eq!((before(&[0]), before(b"all")), (Some(front(1)), Some(front(1))), "{name} {number}");
            let customer = format!("customer:{}", (event.version - 1) % 2);
            assert_eq!(before(customer.as_bytes()), Some(front(2)), "{name} {number}");
            // From the last of the pieces of 2^k - 1 that make up a version, over that piece; to the front, it is not said.
            let jump = match event.version {
                6 | 10 | 13 | 18 => Some(front(3)),
                14 => Some(front(7)),
                _ => None,
            };
            assert_eq!(before(&[0, 1]), jump, "{name} {number}");
            let metadata = event.tags.iter().find_map(|tag| tag.key.strip_prefix(&[0, 3]));
            let expected = (event.version % 4 == 1).then(|| format!("by {}", event.version - 1).into_bytes());
            assert_eq!(metadata, expected.as_deref(), "{name} {number}");
        }
        let names: Vec<&str> = contents.namespaces.keys().map(String::as_str).collect();
        assert_eq!(names, ["", "\0events\0audit", "\0events\0orders"], "{name}");
    }
}

/// A stream that was removed and has begun anew: versions from 1 again, and a first event with none before in its stream.
#[test]
fn a_stream_that_has_begun_anew_has_a_chain_of_its_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/events/anew.pipkin");
    let contents = read(&fs::read(&path).unwrap()).unwrap();
    let kept: Vec<&Event> = contents.events.iter().filter(|event| event.payload.is_some()).collect();
    assert_eq!(kept.iter().map(|event| event.version).collect::<Vec<_>>(), [2, 3, 4]);
    for (event, index) in kept.iter().zip(2_u8..) {
        assert_eq!((event.payload.as_deref(), event.id, event.time), (Some(&[2, index][..]), [20 + index; 16], 2));
        let before = event.tags.iter().find(|tag| tag.key == [0]).map(|tag| tag.before);
        assert_eq!(before, Some(event.number - 1), "{index}");
    }
    let first = contents
        .events
        .iter()
        .filter(|event| event.version == 1)
        .map(|event| event.tags.iter().find(|tag| tag.key == [0]).map(|tag| tag.before));
    assert!(first.eq([Some(0)]), "the first one of its last life, a stub now, has none before it");
}

#[test]
fn stores_of_a_newer_version_are_refused() {
    let files = golden("refused");
    assert_eq!(files.len(), 3);
    for path in files {
        assert_eq!(read(&fs::read(&path).unwrap()), Err(Refusal::Newer), "{}", path.display());
    }
}

/// Zeros with the lines of one of the examples of the specification.
fn example(number: usize) -> Vec<u8> {
    let text = include_str!("../../../core/FORMAT.md").split("<!-- example -->").nth(2 * number - 1).unwrap();
    let mut bytes = Vec::new();
    for (offset, rest) in text.lines().filter_map(|line| line.split_once(": ")) {
        let offset: usize = offset.trim().parse().unwrap();
        let hex: String = rest.split("  ").next().unwrap().split_whitespace().collect();
        for (index, pair) in hex.as_bytes().chunks(2).enumerate() {
            bytes.resize(bytes.len().max(offset + index + 1), 0);
            bytes[offset + index] = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
    }
    bytes
}

#[test]
fn the_examples_of_the_specification_hold_what_it_says() {
    let records = |contents: &Contents| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        contents.records.iter().map(|((space, key), record)| (space.clone(), text(key), text(&record.value))).collect::<Vec<_>>()
    };
    let expect = |records: &[(&str, &str, &str)]| {
        records.iter().map(|(space, key, value)| (space.to_string(), key.to_string(), value.to_string())).collect::<Vec<_>>()
    };
    let first = read(&example(1)).unwrap();
    assert_eq!(records(&first), expect(&[("", "a", "1"), ("", "b", "2"), ("users", "7", "Ada")]));
    assert!(first.found.is_closed && !first.found.has_checkpoint);
    let second = read(&example(2)).unwrap();
    assert_eq!(records(&second), expect(&[("", "a", "1"), ("", "b", "2"), ("", "color", "green")]));
    assert!(second.found.has_checkpoint && second.found.has_snapshot);
}

/// Key and value of a record of the stores with keys in order.
fn in_order(number: u32) -> ((String, Vec<u8>), Vec<u8>) {
    ((String::new(), format!("key/{number:04}").into_bytes()), number.to_le_bytes().to_vec())
}

#[test]
fn stores_with_keys_in_order_are_read_and_the_order_is_right() {
    let files = golden("order");
    assert_eq!(files.len(), 2);
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        let numbers = if name == "killed" { 10..2510 } else { 0..2500 };
        let records: Vec<_> = contents.records.iter().map(|(key, record)| (key.clone(), record.value.clone())).collect();
        assert_eq!(records, numbers.map(in_order).collect::<Vec<_>>(), "{name}");
        assert_eq!((contents.found.order, contents.found.is_closed), (Some(2500), name == "closed"), "{name}");
    }
}
