//! The least that a user of LMDB writes.

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, EnvOpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a folder")?;
    // SAFETY: nobody else touches the files of this folder while it is open.
    let env = unsafe { EnvOpenOptions::new().open(path) }?;
    let write = env.write_txn()?;
    let database = env.create_databases_and_commit(write, |opener, write| {
        opener.create_database(write, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let database: Database<'_, Bytes, Bytes> = database.commit().ok_or("no database")?;
    let mut write = env.write_txn()?;
    database.put(&mut write, b"key", b"value")?;
    write.commit()?;
    let read = env.read_txn()?;
    println!("{:?}", database.get(&read, b"key")?);
    Ok(())
}
