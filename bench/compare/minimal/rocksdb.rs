//! The least that a user of RocksDB writes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    let db = rocksdb::DB::open_default(path)?;
    db.put("key", "value")?;
    db.flush_wal(true)?;
    println!("{:?}", db.get("key")?);
    Ok(())
}
