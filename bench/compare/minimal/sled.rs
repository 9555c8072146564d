//! The least that a user of sled writes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    let db = sled::open(path)?;
    db.insert("key", "value")?;
    db.flush()?;
    println!("{:?}", db.get("key")?);
    Ok(())
}
