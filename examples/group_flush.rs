//! Many threads, each of which wants its record on the device before it goes on. Those that flush while a sync is under way share
//! the next one. `cargo run --release -p pipkin-examples --example group_flush`

use pipkin::{Db, Result};
use std::panic::resume_unwind;
use std::thread;
use std::time::Instant;

const ORDERS: u64 = 200;

/// Every order is confirmed only when it would survive a power cut. Gives the time per order.
fn take_orders(db: &Db, threads: u64) -> Result<f64> {
    let start = Instant::now();
    thread::scope(|scope| {
        let clerks: Vec<_> = (0..threads)
            .map(|clerk| {
                // A handle is cheap to clone, or may be borrowed, as here.
                scope.spawn(move || -> Result<()> {
                    for order in 0..ORDERS / threads {
                        db.insert(format!("{threads}/{clerk}/{order}"), "one pipkin of ale")?;
                        db.flush()?;
                    }
                    Ok(())
                })
            })
            .collect();
        clerks.into_iter().try_for_each(|clerk| clerk.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / ORDERS as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("orders.pipkin");
    let db = Db::open(&path)?;
    for threads in [1, 4, 20] {
        let microseconds = take_orders(&db, threads)?;
        println!("{threads:>2} threads: {microseconds:.0} microseconds per durable order");
    }
    drop(db);

    let db = Db::open(&path)?;
    assert_eq!(db.len()?, 3 * ORDERS);
    for record in db.iter() {
        let (_, value) = record?;
        assert_eq!(value, b"one pipkin of ale");
    }
    Ok(())
}
