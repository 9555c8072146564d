//! The least that a user of fjall writes.

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    let db = Database::builder(path).open()?;
    let records = db.keyspace("records", KeyspaceCreateOptions::default)?;
    records.insert("key", "value")?;
    db.persist(PersistMode::SyncAll)?;
    println!("{:?}", records.get("key")?);
    Ok(())
}
