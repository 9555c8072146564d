//! The creation of a sealed store, cut anywhere: what is left is a file that opens with the key, or in which a new store can be created.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::bytes;
use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error, verify_storage};
use std::collections::HashSet;

/// Where the page of keys stands, and how long it is.
const PAGES: [usize; 3] = [1024, 5120, 12_288];
const PAGE_LEN: usize = 3072;
const FRONT_LEN: usize = 16_384;

fn open(file: impl Storage + 'static) -> pipkin::Result<Db> {
    Db::builder().encryption_key([7; 32]).segment_size(4096).background(false).open_storage(Box::new(file))
}

/// The file is a store without records, or becomes one, and keeps what is put into it.
fn is_good(file: &MemoryStorage, what: &str) {
    let db = open(file.clone()).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(db.len().unwrap(), 0, "{what}");
    db.insert("color", "green").unwrap();
    db.close().unwrap();
    let db = open(file.clone()).unwrap_or_else(|error| panic!("{what}, again: {error:?}"));
    assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..]), "{what}");
    drop(db);
    assert!(verify_storage(file).unwrap().is_ok(), "{what}");
}

/// What a process that is killed, or a power cut, can leave of the file at this point: each part of the write in flight, each number of the
/// writes since the last sync, and of their sectors many subsets, torn ones among them.
fn left_at(point: &CrashPoint, rng: &mut Rng, trials: usize) -> Vec<CrashImage> {
    let mut images = vec![point.synced_image(), point.latest_image()];
    images.extend((0..=point.in_flight_len()).step_by(509).map(|bytes| point.killed_image(bytes)));
    images.extend((0..=point.pending().len()).map(|ops| point.prefix_image(ops)));
    images.extend((0..trials).map(|_| point.random_image(rng)));
    let mut seen = HashSet::new();
    images.retain(|image| seen.insert(image.to_vec()));
    images
}

/// The points of an opening of `image`, each right behind one of its writes and syncs, and inside of it.
fn points(image: &CrashImage) -> Vec<CrashPoint> {
    let mut found = Vec::new();
    for io in 1.. {
        let file = CrashStorage::from_image(image);
        file.stop_at(Some(io));
        let opened = open(file.clone());
        let is_whole = opened.is_ok() && !file.is_stopped();
        found.push(file.freeze());
        if let Ok(db) = opened {
            killed(db);
        }
        if is_whole {
            break;
        }
    }
    found
}

#[test]
fn a_creation_that_is_cut_anywhere_leaves_a_file_that_opens_and_so_does_the_next_one() {
    let mut rng = Rng::new(1);
    let (mut once, mut twice, mut thrice) = (0, 0, 0);
    for (io, point) in points(&CrashImage::from_bytes(&[])).iter().enumerate() {
        for (which, image) in left_at(point, &mut rng, 40).iter().enumerate() {
            is_good(&image.to_memory(), &format!("cut at {io}, image {which}"));
            once += 1;
            if which % 5 != 0 {
                continue;
            }
            for (io2, point) in points(image).iter().enumerate() {
                for (which2, image) in left_at(point, &mut rng, 10).iter().enumerate() {
                    is_good(&image.to_memory(), &format!("cut at {io}, image {which}, then at {io2}, image {which2}"));
                    twice += 1;
                    if rng.below(200) == 0 {
                        for point in points(image) {
                            for image in left_at(&point, &mut rng, 2) {
                                is_good(&image.to_memory(), "cut for the third time");
                                thrice += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(once > 100 && twice > 1000 && thrice > 100, "{once}, {twice}, {thrice}");
}

/// After a failed sync the system may have the pages in memory only, and count them as stored.
#[test]
fn what_a_failed_sync_of_the_creation_left_is_written_again_before_a_record_relies_on_it() {
    for nth in 1..=4 {
        let file = CrashStorage::new();
        file.fail_sync(Some(nth));
        let failed = open(file.clone());
        assert_eq!(failed.is_err(), nth <= 3, "the creation syncs three times: {nth}");
        drop(failed);
        file.fail_sync(None);
        let db = open(file.clone()).unwrap();
        db.insert("color", "green").unwrap();
        db.flush().unwrap();
        killed(db);
        let db = open(file.freeze().synced_image().to_memory()).unwrap();
        assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..]), "{nth}");
    }
}

/// A front in which the creation has ended behind the first superblock.
fn front() -> Vec<u8> {
    let file = MemoryStorage::new();
    killed(open(file.clone()).unwrap());
    let mut front = vec![0; FRONT_LEN];
    front[..512].copy_from_slice(&bytes(&file)[..512]);
    front
}

#[test]
fn a_front_without_a_whole_page_of_keys_is_left_alone_by_who_may_not_create() {
    let file = MemoryStorage::from_vec(front());
    let before = bytes(&file);
    let with = |builder: pipkin::Builder| builder.encryption_key([7; 32]).open_storage(Box::new(file.clone())).map(drop);
    assert!(matches!(with(Db::builder().read_only(true)), Err(Error::NotAStore { .. })));
    assert!(matches!(with(Db::builder().create(false)), Err(Error::NotAStore { .. })));
    assert!(matches!(Db::builder().open_storage(Box::new(file.clone())).map(drop), Err(Error::KeyNeeded)));
    assert_eq!(bytes(&file), before);
    // The second superblock is written behind the page: it was there.
    let mut damaged = before.clone();
    damaged[4096..4100].copy_from_slice(b"PIPK");
    let damaged = MemoryStorage::from_vec(damaged);
    assert!(matches!(open(damaged.clone()).map(drop), Err(Error::Corrupt { .. })));
    // Nor is a store blank that has lost all three copies.
    let store = MemoryStorage::new();
    open(store.clone()).unwrap().close().unwrap();
    let mut lost = bytes(&store);
    PAGES.iter().for_each(|&place| lost[place..place + PAGE_LEN].fill(0));
    let store = MemoryStorage::from_vec(lost.clone());
    assert!(matches!(open(store.clone()).map(drop), Err(Error::Corrupt { .. })));
    assert_eq!(bytes(&store), lost);
}

#[test]
fn a_torn_copy_of_the_page_of_keys_is_mended_by_the_next_writer_and_only_with_the_key() {
    let file = MemoryStorage::new();
    let db = open(file.clone()).unwrap();
    db.insert("color", "green").unwrap();
    db.close().unwrap();
    let whole = bytes(&file);
    for torn in 1..7_usize {
        let mut bytes_now = whole.clone();
        for (which, &place) in PAGES.iter().enumerate() {
            if torn & 1 << which != 0 {
                bytes_now[place + 600..place + PAGE_LEN].fill(0);
            }
        }
        let file = MemoryStorage::from_vec(bytes_now.clone());
        assert!(!verify_storage(&file).unwrap().is_ok());
        let read_only = Db::builder().encryption_key([7; 32]).read_only(true).open_storage(Box::new(file.clone())).unwrap();
        assert_eq!(read_only.get("color").unwrap().as_deref(), Some(&b"green"[..]), "{torn}");
        let wrong = Db::builder().encryption_key([8; 32]).open_storage(Box::new(file.clone()));
        assert!(matches!(wrong, Err(Error::WrongKey)));
        assert_eq!(bytes(&file), bytes_now);
        open(file.clone()).unwrap().close().unwrap();
        assert_eq!(bytes(&file)[..FRONT_LEN], whole[..FRONT_LEN], "{torn}");
        assert!(verify_storage(&file).unwrap().is_ok());
    }
}
