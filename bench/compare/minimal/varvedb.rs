//! The least that a user of varvedb writes.

use rkyv::{Archive, Serialize};
use varvedb::{StreamId, Varve};

#[derive(Archive, Serialize)]
struct Event {
    number: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    let mut store = Varve::new(path)?;
    let mut stream = store.stream::<Event, 64>("events")?;
    let (number, _) = stream.append(StreamId(1), &Event { number: 1 })?;
    println!("{:?}", stream.reader().get_bytes(StreamId(1), number)?);
    Ok(())
}
