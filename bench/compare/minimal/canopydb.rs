//! The least that a user of canopydb writes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    let db = canopydb::Database::new(path)?;
    let write = db.begin_write()?;
    write.get_or_create_tree(b"records")?.insert(b"key", b"value")?;
    write.commit_with(true)?;
    let read = db.begin_read()?;
    println!("{:?}", read.get_tree(b"records")?.ok_or("no tree")?.get(b"key")?.is_some());
    Ok(())
}
