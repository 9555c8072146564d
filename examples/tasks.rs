//! A store in async code, on smol: tasks that write durably share syncs, and others hear of it. `core/README.md` has the same for any runtime.
//!
//! `cargo run --example tasks`
#![expect(clippy::expect_used, reason = "an example says what failed by ending")]

use pipkin::{AsyncDb, Result};
use smol::stream::StreamExt;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let path = folder.path().join("readings.pipkin");
    smol::block_on(async {
        let db = AsyncDb::open(&path).await?;
        let mut alarms = db.follow(db.watch("alarm:")).await?;
        let writers: Vec<_> = (0..1000_u32).map(|sensor| smol::spawn(measure(db.clone(), sensor))).collect();

        // Hears of alarms once they are durable, while the others still write.
        let mut heard = 0;
        while heard < 10 {
            let commit = alarms.try_next().await?.expect("the store is open");
            heard += commit.changes().len();
        }
        for writer in writers {
            writer.await?;
        }
        drop(alarms);
        assert_eq!((heard, db.len().await?), (10, 1010));
        db.close().await
    })
}

/// Returns once the reading survives a power cut. A thousand of them need a few syncs.
async fn measure(db: AsyncDb, sensor: u32) -> Result<()> {
    let reading = sensor * 7 % 1000;
    let mut batch = db.durable().batch().insert(format!("reading:{sensor}"), reading.to_be_bytes());
    if reading >= 990 {
        batch = batch.insert(format!("alarm:{sensor}"), reading.to_be_bytes());
    }
    batch.commit().await
}
