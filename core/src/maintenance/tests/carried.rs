//! What counts as live while events are copied.

use crate::maintenance::emptying::Emptying;
use crate::{Db, Expected, NewEvent};

#[test]
fn of_events_that_were_copied_only_the_copies_count_as_live() {
    let db = Db::builder().segment_size(64 * 1024).background(false).in_memory().unwrap();
    let events = db.events("log").unwrap();
    events.append("stream", Expected::Any, (0..20).map(|_| NewEvent::new("T", "data"))).unwrap();
    let engine = &db.store().engine;
    let (log, stats) = (&engine.log, &engine.log.segment_stats);
    log.seal_active().unwrap();
    let [old] = log.segments()[..] else { panic!("one segment") };
    let before = stats.live(old.extent);
    assert!(before > 20 * 4, "{before}");
    let report = Emptying::new(engine, u64::MAX).empty(&old, &mut |_| {}).unwrap();
    let new = log.segments()[1];
    assert!(report.segments_retired == 1 && report.records_copied >= 20, "{report:?}");
    assert_eq!((stats.live(old.extent), stats.live(new.extent)), (0, report.bytes_copied));
    assert_eq!(log.usage().live, report.bytes_copied);
}
