//! The least that a user of emdb writes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a path")?;
    let db = emdb::Emdb::open(path)?;
    db.insert("key", "value")?;
    db.flush()?;
    println!("{:?}", db.get("key")?);
    Ok(())
}
