//! The least that a user of redb writes.

use redb::{Database, ReadableDatabase, TableDefinition};

const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("records");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a path")?;
    let db = Database::create(path)?;
    let write = db.begin_write()?;
    write.open_table(TABLE)?.insert(&b"key"[..], &b"value"[..])?;
    write.commit()?;
    println!("{:?}", db.begin_read()?.open_table(TABLE)?.get(&b"key"[..])?.map(|value| value.value().to_vec()));
    Ok(())
}
