//! A backup while the store is in use, the bit that flips in it, and everything else out of it again.
//! `cargo run -p pipkin-examples --example salvage`

use pipkin::storage::{NativeOptions, NativeStorage};
use pipkin::{Db, Error, salvage, verify_storage};
use std::fs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let backup = folder.path().join("backup.pipkin");
    let db = Db::open(folder.path().join("letters.pipkin"))?;
    for number in 0..1_000 {
        db.insert(format!("letter/{number}"), format!("the text of letter {number}."))?;
    }

    // Online: others may read and write meanwhile. The file appears whole or not at all, and every record in it was checked.
    let report = db.backup_to(&backup)?;
    println!("backup: {} records, {} bytes", report.records, report.bytes);
    assert!(db.verify()?.is_ok());

    // Years later, on another disk.
    let mut bytes = fs::read(&backup)?;
    let text = b"the text of letter 321.";
    let at = bytes.windows(text.len()).position(|window| window == text).ok_or("no such letter")?;
    bytes.get_mut(at).map(|byte| *byte ^= 1).ok_or("no such byte")?;
    fs::write(&backup, bytes)?;

    // The record does not pass for what it was: neither `get` nor a later backup hands it on.
    let damaged = Db::builder().path(&backup).read_only(true).open();
    let read = damaged.and_then(|damaged| damaged.get("letter/321"));
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");

    // `verify_storage` and `salvage` work on stores that do not even open, and never change them.
    let source =
        NativeStorage::open(&backup, NativeOptions { read_only: true, create: false, mmap: false, ..NativeOptions::default() })?;
    let report = verify_storage(&source)?;
    for damage in &report.damage {
        let key = damage.key.as_deref().map(String::from_utf8_lossy);
        println!("damage: {} bytes at {}, key {key:?}: {}", damage.len, damage.offset, damage.what);
        assert!((damage.offset..damage.offset + damage.len).contains(&(at as u64)));
    }
    assert_eq!(report.damage.len(), 1);

    let mended = Db::open(folder.path().join("mended.pipkin"))?;
    let report = salvage(&source, &mended, &mut |_, _| {})?;
    println!("salvage: {} of {} records", report.records, db.len()?);
    assert_eq!(mended.len()?, 999);
    assert_eq!(mended.get("letter/321")?, None);
    assert_eq!(mended.get("letter/320")?, db.get("letter/320")?);
    Ok(())
}
