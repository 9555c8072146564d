//! The least that a user of Sanakirja writes.

use sanakirja::btree::{self, UDb, page_unsized};
use sanakirja::{Commit, Env, RootDb};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a path")?;
    let env = Env::new(path, 1 << 20, 2)?;
    let mut write = Env::mut_txn_begin(&env)?;
    // SAFETY: the new tree is used with the transaction that made it.
    let mut records = unsafe { btree::create_db_::<_, [u8], [u8], page_unsized::Page<[u8], [u8]>>(&mut write) }?;
    btree::put(&mut write, &mut records, b"key".as_slice(), b"value".as_slice())?;
    write.set_root(0, records.db.into());
    write.commit()?;
    let read = Env::txn_begin(&env)?;
    let records: UDb<[u8], [u8]> = read.root_db(0).ok_or("no tree")?;
    println!("{:?}", btree::get(&read, &records, b"key".as_slice(), None)?);
    Ok(())
}
