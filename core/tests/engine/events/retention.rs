//! What is removed, and what stays.

use super::{open, read};
use pipkin::storage::MemoryStorage;
use pipkin::{Event, Expected, NewEvent};

#[test]
fn what_was_removed_gives_its_space_back_and_keeps_the_versions() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    for index in 0..2000_u32 {
        let event = NewEvent::new("T", vec![7; 1000]).tag("t").metadata("m").time_ms(index.into());
        log.append(&format!("s{}", index % 3), Expected::Any, [event]).unwrap();
    }
    let before = db.stats().unwrap();
    assert_eq!(log.remove_before_ms(1500).unwrap(), 1500);
    assert_eq!(log.keep_last("s1", 10).unwrap(), 157);
    assert_eq!(read(&log.stream("s1")).iter().map(Event::version).collect::<Vec<_>>(), (658..=667).collect::<Vec<_>>());
    assert_eq!(log.delete_stream("s2").unwrap(), 166);
    assert_eq!((log.delete_stream("s2").unwrap(), log.delete_stream("none").unwrap()), (0, 0));
    let after = db.stats().unwrap();
    assert!(after.live_bytes < before.live_bytes / 5, "{} of {}", after.live_bytes, before.live_bytes);
    for round in 0..3 {
        db.compact().unwrap();
        let stats = db.stats().unwrap();
        assert!(stats.file_bytes < before.file_bytes / 3, "{round}: {} of {}", stats.file_bytes, before.file_bytes);
        assert_eq!((log.version("s2").unwrap(), read(&log.tagged("t")).len()), (666, 177));
    }
    drop(log);
    db.close().unwrap();
    let db = open(&file);
    let log = db.events("log").unwrap();
    assert_eq!((log.version("s0").unwrap(), log.version("s1").unwrap(), log.version("s2").unwrap()), (667, 667, 666));
    assert_eq!(log.append("s2", Expected::Version(666), [NewEvent::new("T", "")]).unwrap().version, 667);
    assert_eq!(read(&log.of_type("T")).len(), 178);
}
