//! A plain store that is sealed, and a sealed one that is made plain: everything is there behind it, and nothing is lost if it cannot be done.
#![cfg(all(
    feature = "encrypt",
    feature = "testing",
    feature = "events",
    feature = "salvage",
    feature = "ordered",
    feature = "compress"
))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use pipkin::{Builder, Compression, Db, Error, Expected, NewEvent, Ttl};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEY: [u8; 32] = [7; 32];
const SECRET: &str = "what nobody should read";

fn plain(path: &Path) -> Builder {
    Db::builder().path(path).background(false)
}

/// A closed plain store with something of everything.
fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("app.pipkin");
    let db = plain(&path).ordered(true).compression(Compression::OnWrite).segment_size(64 * 1024).open().unwrap();
    for number in 0..300_u32 {
        db.insert(format!("key {number:03}"), format!("{SECRET} {number} {SECRET} {number}")).unwrap();
    }
    (0..300_u32).step_by(3).for_each(|number| assert!(db.remove(format!("key {number:03}")).unwrap()));
    db.insert_with_ttl("for an hour", SECRET, Duration::from_secs(3600)).unwrap();
    let users = db.namespace("users").unwrap();
    users.insert("ada", "Ada").unwrap();
    users.insert_with_ttl("guest", "Guest", Ttl::After(Duration::from_secs(7200))).unwrap();
    db.namespace("gone").unwrap().insert("a", "b").unwrap();
    db.drop_namespace("gone").unwrap();
    let log = db.events("orders").unwrap();
    for number in 0..60_u32 {
        let stream = format!("cart {}", number % 7);
        let event = NewEvent::new("added", format!("{SECRET} {number}")).tag(format!("tag {}", number % 5));
        log.append(&stream, Expected::Any, [event]).unwrap();
    }
    log.truncate("cart 1", 4).unwrap();
    log.delete_stream("cart 2").unwrap();
    // A subscription hands out what is durable.
    db.flush().unwrap();
    let mut projection = log.all().cursor("projection").unwrap();
    let third = (0..3).map(|_| projection.try_next().unwrap().unwrap().number()).max().unwrap();
    projection.ack(third).unwrap();
    drop((projection, log));
    db.compact().unwrap();
    db.close().unwrap();
    path
}

type Shown = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>, Option<u64>)>>;

/// Everything that can be read, by namespace, log of events and cursor.
fn shown(db: &Db) -> Shown {
    let mut all = Shown::new();
    for name in db.list_namespaces().into_iter().chain([String::new()]) {
        let space = if name.is_empty() { db.default_namespace() } else { db.namespace(&name).unwrap() };
        let records = space.iter().map(|record| {
            let (key, value) = record.unwrap();
            let ends = space.expires_at(&key).unwrap();
            (key, value, ends)
        });
        let mut records: Vec<_> = records.collect();
        records.sort();
        all.insert(format!("namespace {name}"), records);
    }
    for name in db.list_events() {
        let log = db.events(&name).unwrap();
        let of = |event: pipkin::Event| {
            let what = format!(
                "{} {} {} {:?} {}",
                event.stream(),
                event.version(),
                event.kind(),
                event.tags().collect::<Vec<_>>(),
                event.time_ms()
            );
            (event.number().to_be_bytes().to_vec(), [what.as_bytes(), event.payload()].concat(), None)
        };
        all.insert(format!("events {name}"), log.all().iter().unwrap().map(|event| of(event.unwrap())).collect());
        let mut versions: Vec<_> =
            (0..7).map(|cart| (vec![cart], log.version(&format!("cart {cart}")).unwrap().to_be_bytes().to_vec(), None)).collect();
        versions
            .extend(log.cursors().unwrap().into_iter().map(|(name, at)| (name.into_bytes(), at.to_be_bytes().to_vec(), None)));
        all.insert(format!("versions {name}"), versions);
    }
    all
}

fn has_text(path: &Path) -> bool {
    std::fs::read(path).unwrap().windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_store_that_is_sealed_and_made_plain_again_shows_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let truth = shown(&plain(&path).read_only(true).open().unwrap());
    assert!(truth.len() == 4 && truth["namespace "].len() == 201 && truth["events orders"].len() > 40, "{truth:?}");
    // Another name of the file: a copy that somebody has kept so is not touched.
    let kept = folder.path().join("kept.pipkin");
    let before = std::fs::read(&path).unwrap();
    std::fs::hard_link(&path, &kept).unwrap();
    let db = plain(&path).ordered(true).encryption_key(KEY).enable_encryption().unwrap();
    assert_eq!(shown(&db), truth);
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    assert_eq!(files(folder.path()), 2);
    // It goes on as it was: in order, and with numbers of events behind those that it has.
    assert_eq!(db.range("key 001".."key 005").unwrap().count(), 3);
    let next = db.events("orders").unwrap().append("cart 2", Expected::Any, [NewEvent::new("added", SECRET)]).unwrap();
    assert!(next.first_number == 61 && next.version > 8, "{next:?}");
    db.insert("behind", SECRET).unwrap();
    let truth = shown(&db);
    db.close().unwrap();
    assert!(!has_text(&path));
    assert!(matches!(plain(&path).open(), Err(Error::KeyNeeded)));
    let db = plain(&path).encryption_key(KEY).open().unwrap();
    assert!(db.open_report().clean && db.verify().unwrap().is_ok());
    assert_eq!(shown(&db), truth);
    db.close().unwrap();
    let db = plain(&path).encryption_key(KEY).disable_encryption().unwrap();
    assert_eq!(shown(&db), truth);
    db.close().unwrap();
    assert!(has_text(&path));
    assert_eq!(shown(&plain(&path).open().unwrap()), truth);
}

#[test]
fn what_cannot_be_rewritten_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let before = std::fs::read(&path).unwrap();
    let sealed = || plain(&path).encryption_key(KEY);
    let stays = |what: &str| {
        assert!(std::fs::read(&path).unwrap() == before, "{what}");
        assert_eq!(files(folder.path()), 1, "{what}");
    };
    assert!(matches!(plain(&path).enable_encryption(), Err(Error::KeyNeeded)));
    assert!(matches!(sealed().disable_encryption(), Err(Error::NotSealed)));
    assert!(matches!(plain(&folder.path().join("none")).encryption_key(KEY).enable_encryption(), Err(Error::NotFound { .. })));
    assert!(matches!(sealed().read_only(true).enable_encryption(), Err(Error::ReadOnly)));
    stays("refused");
    let reader = plain(&path).read_only(true).open().unwrap();
    assert!(matches!(sealed().enable_encryption(), Err(Error::Locked { .. })));
    stays("open elsewhere");
    drop(reader);
    // What an earlier attempt left is no obstacle; what is no file of ours is.
    let beside = folder.path().join("app.pipkin.rewriting");
    std::fs::create_dir(&beside).unwrap();
    assert!(matches!(sealed().enable_encryption(), Err(Error::Storage(_))));
    std::fs::remove_dir(&beside).unwrap();
    stays("a folder is in the way");
    // Damage is not copied in silence.
    let mut damaged = before.clone();
    let at = damaged.len() / 2;
    damaged[at..at + 40].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&path, &damaged).unwrap();
    let refused = sealed().enable_encryption();
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{:?}", refused.map(drop));
    assert_eq!(files(folder.path()), 1);
    std::fs::write(&path, &before).unwrap();
    std::fs::write(&beside, "half of a file").unwrap();
    let db = sealed().create(false).enable_encryption().unwrap();
    db.close().unwrap();
    assert_eq!(files(folder.path()), 1);
    let refused = sealed().enable_encryption();
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{:?}", refused.map(drop));
    let wrong = plain(&path).encryption_key([8; 32]);
    assert!(matches!(wrong.disable_encryption(), Err(Error::WrongKey)));
    assert!(matches!(plain(&path).disable_encryption(), Err(Error::KeyNeeded)));
    assert!(!has_text(&path));
}

#[cfg(unix)]
#[test]
fn a_link_stays_one_and_the_rights_of_the_file_stay_what_they_were() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let link = folder.path().join("link.pipkin");
    symlink(&path, &link).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    plain(&link).encryption_key(KEY).enable_encryption().unwrap().close().unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!has_text(&path));
}
