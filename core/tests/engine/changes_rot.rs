//! Changes from a file with a rotten bit, and from one that another session has taken over: what comes is right and without a gap, or an
//! error says why nothing comes.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{flipped, opened};
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Change, Commit, Consumer, Db, Error};

const SEGMENT: u32 = 4096;

/// Overwrites a few keys with rising numbers, each in a commit of its own.
fn churn(db: &Db, from: u32, to: u32) {
    for number in from..to {
        let value = [&number.to_le_bytes()[..], &[0; 116]].concat();
        db.insert((number % 5).to_le_bytes(), value).unwrap();
    }
    db.flush().unwrap();
}

fn number(commit: &Commit) -> u32 {
    match commit.changes() {
        [Change::Put { value, .. }] => u32::from_le_bytes(value[..4].try_into().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// The numbers that come, up to the first error.
fn read(consumer: &mut Consumer) -> (Vec<u32>, Option<Error>) {
    let mut numbers = Vec::new();
    loop {
        match consumer.try_next() {
            Ok(Some(commit)) => numbers.push(number(&commit)),
            Ok(None) => return (numbers, None),
            Err(error) => return (numbers, Some(error)),
        }
    }
}

/// A store whose log of 300 commits is history for the most part, kept for a consumer that has read none.
fn kept() -> Vec<u8> {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    drop(db.consumer("slow").retain(u64::MAX).start().unwrap());
    churn(&db, 0, 300);
    db.compact().unwrap();
    assert!(db.stats().unwrap().history_bytes > 5 * u64::from(SEGMENT));
    db.close().unwrap();
    storage.to_vec()
}

#[test]
fn a_rotten_bit_in_history_is_an_error_at_its_place_and_never_a_gap() {
    let bytes = kept();
    let (mut whole, mut cut, mut refused) = (0, 0, 0);
    for at in (0..bytes.len()).step_by(53) {
        let storage = flipped(&bytes, at);
        let open = Db::builder().segment_size(SEGMENT).background(false).open_storage(Box::new(storage));
        let consumer = open.and_then(|db| db.consumer("slow").start().map(|consumer| (db, consumer)));
        let Ok((db, mut slow)) = consumer else {
            refused += 1;
            continue;
        };
        let (numbers, error) = read(&mut slow);
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "a gap, with bit {at}: {error:?}");
        match error {
            None => {
                assert_eq!(numbers.len(), 300, "bit {at}: the end came early, and nothing said so");
                whole += 1;
            }
            Some(first) => {
                assert!(matches!(first, Error::Corrupt { .. } | Error::Compacted { .. }), "bit {at}: {first:?}");
                let (more, again) = read(&mut slow);
                assert!(more.is_empty() && again.is_some(), "bit {at}: {more:?} came behind {first:?}");
                // There is a way on.
                drop(slow);
                let (state, mut slow) = db.consumer("slow").with_state().unwrap_or_else(|error| panic!("bit {at}: {error}"));
                drop(state);
                churn(&db, 300, 303);
                assert_eq!(read(&mut slow).0, [300, 301, 302], "bit {at}");
                cut += 1;
            }
        }
    }
    println!("{whole} read to the end, {cut} were cut, {refused} did not begin");
    assert!(whole > 50 && cut > 200, "{whole} read to the end, {cut} were cut, {refused} did not begin");
}

/// On a host without locks another session takes the file over, acknowledges everything, and frees the history that this one reads.
#[test]
fn a_consumer_whose_file_was_taken_over_reads_nothing_wrong() {
    let (mut right, mut fenced) = (0, 0);
    for before in (0..60).step_by(7) {
        let file = FaultStorage::new(MemoryStorage::new());
        file.set_shared(true);
        let first = opened(file.clone(), SEGMENT);
        let mut slow = first.consumer("slow").retain(u64::MAX).start().unwrap();
        churn(&first, 0, 200);
        let heard: Vec<u32> = (0..before).map(|_| number(&slow.try_next().unwrap().unwrap())).collect();
        let second = opened(file.clone(), SEGMENT);
        let mut other = second.consumer("slow").start().unwrap();
        let position = std::iter::from_fn(|| other.try_next().unwrap()).last().unwrap().position();
        other.ack(position).unwrap();
        churn(&second, 200, 600);
        second.compact().unwrap();
        churn(&second, 600, 1000);
        let (numbers, error) = read(&mut slow);
        let all: Vec<u32> = heard.into_iter().chain(numbers).collect();
        assert_eq!(all, (0..all.len() as u32).collect::<Vec<_>>(), "after {before}: {error:?}");
        assert!(all.len() <= 200 || error.is_none(), "after {before}: {} and {error:?}", all.len());
        match error {
            None => right += 1,
            Some(Error::Fenced | Error::Compacted { .. }) => fenced += 1,
            Some(error) => panic!("after {before}: {error}"),
        }
        assert!(first.insert("key", "value").and_then(|()| first.flush()).is_err(), "the first session writes on");
        // What the second one has is whole.
        let end = read(&mut second.consumer("again").from(pipkin::Position::START).start().unwrap());
        assert!(end.1.is_none() || matches!(end.1, Some(Error::Compacted { .. })), "{:?}", end.1);
        assert!(second.verify().unwrap().is_ok());
    }
    assert!(right + fenced == 9 && fenced > 0, "{right} read on, {fenced} were told");
}
