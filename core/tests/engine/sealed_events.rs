//! Event streams of sealed stores against somebody without the key, who repairs each checksum: no way to read shows an event that was not written.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::stride;
use crate::sealed_bytes::{bytes, frame_len, frames, sum_again};
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error, Event, EventReader, Events, Expected, NewEvent, Result};

/// Where the only segment begins.
const SEGMENT: usize = 16_384;
const STREAMS: [&str; 2] = ["a secret cart", "a secret account"];
const COUNT: u64 = 24;

fn open(file: &MemoryStorage, read_only: bool, verify: bool) -> Result<Db> {
    let builder = Db::builder().encryption_key([7; 32]).segment_size(64 * 1024).background(false).verify_on_read(verify);
    builder.read_only(read_only).open_storage(Box::new(file.clone()))
}

fn event(number: u64) -> NewEvent<'static> {
    let event =
        NewEvent::new(["secretly added", "secretly taken"][number as usize % 2], format!("a secret thing, number {number:03}"));
    event.tag(format!("a secret tag {}", number % 3))
}

fn written() -> Vec<u8> {
    let file = MemoryStorage::new();
    let db = open(&file, false, true).unwrap();
    let log = db.events("a secret log").unwrap();
    for number in 0..COUNT {
        log.append(STREAMS[number as usize / 3 % 2], Expected::Any, [event(number)]).unwrap();
    }
    drop(log);
    db.close().unwrap();
    bytes(&file)
}

/// What can be seen of an event.
type Seen = (u64, u64, String, String, Vec<String>, Vec<u8>);

fn seen(event: &Event) -> Seen {
    let tags = event.tags().map(String::from).collect();
    (event.number(), event.version(), event.stream().into(), event.kind().into(), tags, event.payload().to_vec())
}

fn walk(reader: EventReader, into: &mut Vec<Seen>) -> Result<()> {
    for event in reader.iter()? {
        into.push(seen(&event?));
    }
    Ok(())
}

/// The results of every way to read, each as far as it goes.
fn every_way(log: &Events, into: &mut Vec<Seen>) -> Vec<Result<()>> {
    let mut all = vec![walk(log.all(), into), walk(log.all().backwards(true), into)];
    for stream in STREAMS {
        all.push(walk(log.stream(stream), into));
        all.push(walk(log.stream(stream).backwards(true), into));
        all.extend((1..=COUNT / 2).map(|version| log.get(stream, version).map(|found| into.extend(found.iter().map(seen)))));
    }
    all.extend(["secretly added", "secretly taken"].map(|kind| walk(log.of_type(kind), into)));
    all.extend((0..3).map(|tag| walk(log.tagged(format!("a secret tag {tag}")), into)));
    all.extend((1..=COUNT).map(|number| log.get_by_number(number).map(|found| into.extend(found.iter().map(seen)))));
    all
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Forged { .. } | Error::Corrupt { .. })
}

/// What each way shows of the changed bytes, which took the place of `good` while the store was open; the number of refusals.
fn shown_later(good: &[u8], bytes: &[u8], verify: bool) -> (Vec<Seen>, usize) {
    let file = MemoryStorage::from_vec(good.to_vec());
    let db = open(&file, true, verify).unwrap();
    let log = db.events("a secret log").unwrap();
    file.write_at(0, &[bytes]).unwrap();
    let mut found = Vec::new();
    let results = every_way(&log, &mut found);
    let refusals = results.into_iter().filter_map(Result::err).inspect(|error| assert!(is_refusal(error), "{error:?}")).count();
    (found, refusals)
}

/// What each way shows in a store that is opened on these bytes; the number of refusals.
fn shown(bytes: Vec<u8>, verify: bool) -> (Vec<Seen>, usize) {
    let mut found = Vec::new();
    let db = match open(&MemoryStorage::from_vec(bytes), true, verify) {
        Ok(db) => db,
        Err(error) if is_refusal(&error) => return (found, 1),
        Err(error) => panic!("{error:?}"),
    };
    let log = match db.events("a secret log") {
        Ok(log) => log,
        // The name of the log may be what is damaged.
        Err(Error::ReadOnly) => return (found, usize::from(db.open_report().unsure_at.is_some())),
        Err(error) if is_refusal(&error) => return (found, 1),
        Err(error) => panic!("{error:?}"),
    };
    let results = every_way(&log, &mut found);
    let refusals = results.into_iter().filter_map(Result::err).inspect(|error| assert!(is_refusal(error), "{error:?}")).count();
    (found, refusals)
}

#[test]
fn who_repairs_the_checksum_of_an_event_is_found_out_however_it_is_read() {
    let good = written();
    for text in [&b"secret"[..], b"cart", b"added", b"number"] {
        assert!(!good.windows(text.len()).any(|window| window == text), "{text:?} can be read");
    }
    let (truth, refusals) = shown(good.clone(), true);
    assert!(refusals == 0 && truth.len() == 8 * COUNT as usize, "{refusals} of {}", truth.len());
    let (salt, all) = frames(&good, SEGMENT);
    assert!(all.len() >= COUNT as usize);
    let stride = stride(6);
    for (number, &(at, len)) in all.iter().enumerate() {
        // Frames of one length are many: together they have a change at each of its places.
        for place in (at + 4 + number % stride..at + len).step_by(stride) {
            let mut bytes = good.clone();
            bytes[place] ^= 1 << ((place + number) % 8);
            let len = frame_len(&bytes, at).unwrap_or(len).min(bytes.len() - at);
            sum_again(&mut bytes, salt, at, len);
            let (later, refusals) = shown_later(&good, &bytes, place % 2 == 0);
            // The first frame only gives the log its name.
            assert!(refusals > 0 || number == 0, "byte {} of frame {number} goes unnoticed when it is read", place - at);
            let (found, refusals) = shown(bytes, place % 2 == 0);
            assert!(refusals > 0, "byte {} of frame {number} goes unnoticed", place - at);
            for event in found.iter().chain(&later) {
                assert!(truth.contains(event), "byte {} of frame {number} shows {event:?}", place - at);
            }
        }
    }
}

#[test]
fn events_that_change_places_are_found_out_however_they_are_read() {
    let good = written();
    let (truth, _) = shown(good.clone(), true);
    let (salt, all) = frames(&good, SEGMENT);
    let mut tried = 0;
    for &(one, len) in &all {
        for &(two, _) in all.iter().filter(|(two, other)| *two != one && *other == len) {
            let mut bytes = good.clone();
            bytes.copy_within(two..two + len, one);
            sum_again(&mut bytes, salt, one, len);
            let (later, missed) = shown_later(&good, &bytes, tried % 2 == 0);
            let (found, refusals) = shown(bytes, tried % 2 == 0);
            tried += 1;
            assert!(refusals > 0 && missed > 0, "the frame at {two} in the place of that at {one}");
            assert!(found.iter().chain(&later).all(|event| truth.contains(event)));
        }
    }
    assert!(tried > 20, "{tried}");
}
