//! Writes golden stores with event streams that are not there yet: `cargo run -p pipkin-tests --example golden-events -- tests/golden`. Golden
//! files are never written again.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step ends the program")]

use std::fs;
use std::path::Path;

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Events, Expected, NewEvent};

fn open(storage: &MemoryStorage) -> Db {
    let builder = Db::builder().entropy([7; 32]).segment_size(4096).background(false);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

/// Ten events of one stream, a record in the commit of each, and one event in a stream and a log of their own.
fn write(db: &Db, numbers: std::ops::Range<u8>) -> Events {
    let orders = db.events("orders").unwrap();
    for version in numbers {
        let event = NewEvent::new(if version % 3 == 0 { "Paid" } else { "Placed" }, vec![version; usize::from(version) * 20]);
        let event = event.tag(format!("customer:{}", version % 2)).tag("all").id([version; 16]).time_ms(1_700_000_000_000);
        let event = if version % 4 == 0 { event.metadata(format!("by {version}").into_bytes()) } else { event };
        let batch = db.batch().insert("orders", [version + 1]);
        batch.append(&orders, "order", Expected::Version(version.into()), [event]).commit().unwrap();
    }
    orders
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the golden files");
    let folder = Path::new(&folder).join("events");
    fs::create_dir_all(&folder).unwrap();
    let save = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        if path.exists() {
            return println!("{} is there", path.display());
        }
        fs::write(&path, bytes).unwrap();
        println!("{}: {} bytes", path.display(), bytes.len());
    };
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let orders = write(&db, 0..10);
    let other = NewEvent::new("Noted", "in another log").tag("all").id([100; 16]).time_ms(1_700_000_000_001);
    db.events("audit").unwrap().append("audit", Expected::NoStream, [other]).unwrap();
    db.flush().unwrap();
    let mut mailer = orders.tagged("customer:1").cursor("mailer").unwrap();
    let number = mailer.try_next().unwrap().unwrap().number();
    db.transaction(|tx| {
        tx.insert("mailed", [1])?;
        tx.ack(&mailer, number)
    })
    .unwrap();
    drop((mailer, orders));
    db.close().unwrap();
    // With an index of events in the index snapshot.
    save("listed.pipkin", &storage.to_vec());

    let db = open(&storage);
    drop(write(&db, 10..20));
    // Events in the tail, and copies of those before.
    while db.compact_step().unwrap().is_some() {}
    db.flush().unwrap();
    save("tail.pipkin", &storage.to_vec());

    // A stream that was removed twice, of whose events nothing but stubs is left, and that has begun anew each time.
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let orders = write(&db, 0..3);
    for life in 1..=2_u8 {
        orders.delete_stream("order").unwrap();
        db.compact().unwrap();
        let event =
            |index: u8| NewEvent::new("Placed", [life, index]).tag("all").id([10 * life + index; 16]).time_ms(u64::from(life));
        orders.append("order", Expected::Anew, [event(1), event(2), event(3), event(4)]).unwrap();
    }
    orders.truncate("order", 2).unwrap();
    drop(orders);
    db.close().unwrap();
    save("anew.pipkin", &storage.to_vec());
}
