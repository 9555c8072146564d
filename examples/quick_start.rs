//! Open a store, write, read, close, open it again. `cargo run -p pipkin-examples --example quick_start`

use pipkin::{Db, Result};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("settings.pipkin");

    let db = Db::open(&path)?;
    db.insert("theme", "dark")?; // survives the end of this process, however it ends
    db.insert("language", "de")?;
    db.insert_many([("window/width", "1280"), ("window/height", "800")])?; // both or none, whatever happens
    let durability = db.flush()?; // survives what the host promises: here a power cut
    println!("flushed: {durability:?}");

    // A copy, or the bytes as they stand in the file.
    assert_eq!(db.get("theme")?.as_deref(), Some(&b"dark"[..]));
    if let Some(value) = db.get_zerocopy("language")? {
        assert_eq!(&*value, b"de");
    }
    assert_eq!(db.get("no such key")?, None);

    // Read, change, write, with no other writer of the key in between.
    for _ in 0..3 {
        db.update("starts", |old| {
            let starts = old.and_then(|old| old.try_into().ok()).map_or(0, u32::from_le_bytes);
            Some((starts + 1).to_le_bytes().to_vec())
        })?;
    }
    assert!(db.remove("theme")?);
    db.close()?; // dropping the last handle does the same, but cannot tell of an error

    let db = Db::open(&path)?;
    assert!(db.open_report().clean);
    assert_eq!(db.len()?, 4);
    assert_eq!(db.get("starts")?, Some(3u32.to_le_bytes().to_vec()));

    // In no order: sort what you want sorted.
    let mut keys = db.keys().collect::<Result<Vec<_>>>()?;
    keys.sort();
    let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
    assert_eq!(keys, ["language", "starts", "window/height", "window/width"]);
    println!("found again: {}", keys.join(", "));
    Ok(())
}
