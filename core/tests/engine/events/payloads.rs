//! Payloads as types.

use super::{open, read};
use pipkin::storage::MemoryStorage;
use pipkin::{Error, Expected, NewEvent};

#[derive(rkyv::Archive, rkyv::Serialize, serde::Serialize, serde::Deserialize, PartialEq, Debug)]
struct Paid {
    cents: u64,
    notes: Vec<u64>,
}

#[test]
fn a_payload_is_read_as_its_type_wherever_it_stands_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    for db in [open(&MemoryStorage::new()), pipkin::Db::open(folder.path().join("payloads.pip")).unwrap()] {
        let log = db.events("log").unwrap();
        let paid = |cents| Paid { cents, notes: vec![cents; 3] };
        for cents in 0..40 {
            // Each stream is a byte longer: the payloads stand at all alignments.
            let stream = "s".repeat(cents as usize % 20 + 1);
            let both = [NewEvent::archived("A", &paid(cents)).unwrap(), NewEvent::typed("T", &paid(cents)).unwrap()];
            log.append(&stream, Expected::Any, both).unwrap();
        }
        let mut sum = 0;
        log.of_type("A")
            .try_for_each(|event| event.access::<Paid, _>(|paid| sum += paid.cents.to_native() + paid.notes[2].to_native()))
            .unwrap();
        assert_eq!(sum, 2 * (0..40).sum::<u64>());
        for (cents, event) in (0..).zip(read(&log.of_type("T"))) {
            assert_eq!(event.decode::<Paid>().unwrap(), paid(cents));
        }
        log.append("s", Expected::Any, [NewEvent::new("A", "abc")]).unwrap();
        let other = read(&log.of_type("A")).pop().unwrap();
        assert!(matches!(other.access::<Paid, _>(|_| ()), Err(Error::NotOfType { what: "payload", .. })));
        assert!(matches!(other.decode::<u32>(), Err(Error::NotOfType { .. })));
    }
}
