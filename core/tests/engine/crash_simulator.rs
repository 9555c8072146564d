//! What the crash simulator promises to the tests that stand on it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage, PendingOp};
use pipkin::storage::random::Rng;
use pipkin::{Storage, StorageErrorKind};
use std::collections::{BTreeMap, HashSet};

const SECTOR: usize = 512;

/// `sectors` synced sectors of the byte `fill`.
fn synced(sectors: usize, fill: u8) -> CrashStorage {
    let storage = CrashStorage::new();
    storage.write_at(0, &[&vec![fill; sectors * SECTOR]]).unwrap();
    storage.sync().unwrap();
    storage
}

fn all(point: &CrashPoint, sectors_max: u32) -> Vec<Vec<u8>> {
    point.images(sectors_max).map(|image| image.to_vec()).collect()
}

#[test]
fn every_subset_of_lost_sectors_comes_exactly_once() {
    let storage = synced(12, 1);
    for sector in [0, 3, 4, 9, 11] {
        storage.write_at(sector * 512, &[&[2; SECTOR]]).unwrap();
    }
    let point = storage.freeze();
    let images = point.images(5);
    assert!(images.is_exhaustive());
    assert_eq!(images.left(), 32);
    let images = all(&point, 5);
    assert_eq!(images.len(), 32);
    assert_eq!(images.iter().collect::<HashSet<_>>().len(), 32);
    assert_eq!(images[0], point.latest_image().to_vec());
    assert_eq!(images[31], point.synced_image().to_vec());
    for image in &images {
        for (sector, content) in image.chunks(SECTOR).enumerate() {
            let written = [0, 3, 4, 9, 11].contains(&sector);
            assert!(content.iter().all(|byte| *byte == 1) || (written && content.iter().all(|byte| *byte == 2)));
        }
    }
}

#[test]
fn a_write_that_crosses_sectors_is_torn_between_them() {
    let storage = synced(3, 1);
    storage.write_at(500, &[&[2; 30]]).unwrap();
    let images = all(&storage.freeze(), 8);
    assert_eq!(images.len(), 4);
    let seen: HashSet<(u8, u8)> = images.iter().map(|image| (image[511], image[512])).collect();
    assert_eq!(seen, HashSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn changes_of_the_length_are_kept_or_lost_in_order() {
    let storage = synced(2, 1);
    storage.set_len(4096).unwrap();
    storage.write_at(2048, &[&[2; SECTOR]]).unwrap();
    storage.set_len(8192).unwrap();
    let images = all(&storage.freeze(), 8);
    let mut lens = BTreeMap::new();
    for image in &images {
        *lens.entry(image.len()).or_insert(0) += 1;
    }
    // The written sector lies behind the synced end, so it doubles the images of the two longer files only.
    assert_eq!(lens, BTreeMap::from([(1024, 1), (4096, 2), (8192, 2)]));
}

#[test]
fn a_kept_shrink_takes_the_old_bytes_with_it_and_a_lost_one_leaves_them() {
    let storage = synced(8, 1);
    storage.set_len(1000).unwrap();
    storage.set_len(4096).unwrap();
    let images = all(&storage.freeze(), 8);
    let mut cut = vec![1; 4096];
    cut[1000..].fill(0);
    assert_eq!(images, [cut, vec![1; 1000], vec![1; 4096]]);
}

#[test]
fn what_is_written_where_a_shrink_had_been_shows_old_bytes_only_if_the_shrink_was_lost() {
    let storage = synced(2, 1);
    storage.set_len(0).unwrap();
    storage.set_len(1024).unwrap();
    storage.write_at(0, &[&[2; 10]]).unwrap();
    let start = |image: &[u8]| image.first().map(|first| (*first, image[511], image[1023]));
    let images: Vec<_> = all(&storage.freeze(), 8).iter().map(|image| start(image)).collect();
    let (with_both, without_any) = ([Some((2, 0, 0)), Some((0, 0, 0))], [Some((2, 1, 1)), Some((1, 1, 1))]);
    assert_eq!(images, [with_both.as_slice(), &[None], &without_any].concat());
    let mut rng = Rng::new(5);
    for _ in 0..500 {
        let image = storage.random_image(&mut rng).to_vec();
        assert!(image.len() < 1024 || image[511] == image[1023], "a sector with old bytes beside one without");
    }
}

#[test]
fn a_discard_is_kept_or_lost_sector_by_sector() {
    let storage = synced(4, 1);
    storage.discard(100, 1500).unwrap();
    let images = all(&storage.freeze(), 8);
    assert_eq!(images.len(), 4);
    for image in &images {
        assert!(image[..512].iter().chain(&image[1536..]).all(|byte| *byte == 1));
    }
}

#[test]
fn more_sectors_than_the_budget_give_the_outer_ranks_without_repetition() {
    let storage = synced(40, 1);
    storage.write_at(0, &[&[2; 20 * SECTOR]]).unwrap();
    let point = storage.freeze();
    let images = point.images(9);
    assert!(!images.is_exhaustive());
    let announced = images.left();
    let images = all(&point, 9);
    assert_eq!(images.len() as u64, announced);
    // Ranks 0, 1 and 2, lost and kept: 2 * (1 + 20 + 190).
    assert_eq!(images.len(), 422);
    assert_eq!(images.iter().collect::<HashSet<_>>().len(), 422);
    // Below the cost of rank 1 the ranks 0 and 1 still come.
    assert_eq!(all(&point, 2).len(), 42);
    // One of two sectors lost is one of two kept.
    let storage = synced(2, 1);
    storage.write_at(0, &[&[2; 2 * SECTOR]]).unwrap();
    assert_eq!(all(&storage.freeze(), 1).len(), 2);
}

#[test]
fn a_power_cut_never_takes_a_synced_byte_and_reaches_every_kind_of_loss() {
    let mut rng = Rng::new(7);
    let storage = synced(16, 1);
    for fill in 2..6 {
        storage.write_at(1024, &[&[fill; 4 * SECTOR]]).unwrap();
    }
    storage.write_at(16 * 512, &[&[9; 8 * SECTOR]]).unwrap();
    let (mut old, mut new, mut stale, mut torn, mut short, mut between) = (0, 0, 0, 0, 0, 0);
    for _ in 0..4000 {
        let image = storage.random_image(&mut rng).to_vec();
        assert!(image.len() >= 16 * SECTOR && image.len() <= 24 * SECTOR);
        assert!(image[..1024].iter().all(|byte| *byte == 1));
        assert!(image[6 * SECTOR..16 * SECTOR].iter().all(|byte| *byte == 1));
        for sector in image[1024..6 * SECTOR].chunks(SECTOR) {
            assert!(sector.iter().all(|byte| (1..6).contains(byte)));
            match (sector[0], sector.iter().all(|byte| *byte == sector[0])) {
                (_, false) => torn += 1,
                (1, true) => old += 1,
                (5, true) => new += 1,
                _ => stale += 1,
            }
        }
        short += usize::from(image.len() == 16 * SECTOR);
        between += usize::from(image.len() > 16 * SECTOR && image.len() < 24 * SECTOR);
    }
    for count in [old, new, stale, torn, short, between] {
        assert!(count > 100, "{old} {new} {stale} {torn} {short} {between}");
    }
}

#[test]
fn images_and_the_running_file_do_not_touch_each_other() {
    let storage = synced(8, 1);
    storage.write_at(0, &[&[2; 100]]).unwrap();
    let image = storage.latest_image();
    let fork = image.fork();
    image.write_at(50, &[&[3; 100]]).unwrap();
    storage.write_at(4000, &[&[4; 96]]).unwrap();
    storage.sync().unwrap();
    assert_eq!(fork.to_vec()[..101], [[2; 100].as_slice(), &[1]].concat());
    assert_eq!(image.to_vec()[4000], 1);
    let mut seen = [0; 101];
    storage.read_at(0, &mut seen).unwrap();
    assert_eq!(seen[..], [[2; 100].as_slice(), &[1]].concat());
}

#[test]
fn a_crash_can_be_followed_by_another() {
    let storage = synced(4, 1);
    storage.write_at(0, &[&[2; SECTOR]]).unwrap();
    let again = CrashStorage::from_image(&storage.latest_image());
    assert_eq!(again.unsynced_sectors(), 0);
    again.write_at(512, &[&[3; SECTOR]]).unwrap();
    let images = all(&again.freeze(), 4);
    assert_eq!(images.len(), 2);
    assert!(images.iter().all(|image| image[0] == 2));
}

#[test]
fn the_crash_comes_in_the_call_that_was_ordered_and_nothing_works_after_it() {
    for n in 1..=5 {
        let storage = CrashStorage::new();
        storage.stop_at(Some(n));
        let calls: [&dyn Fn() -> Result<(), pipkin::StorageError>; 5] = [
            &|| storage.write_at(0, &[&[1; 512]]),
            &|| storage.sync().map(drop),
            &|| storage.reserve(0, 8192),
            &|| storage.discard(0, 512),
            &|| storage.write_at(512, &[&[1; 512]]),
        ];
        for (index, call) in calls.iter().enumerate() {
            assert_eq!(call().is_ok(), (index as u64) < n - 1, "call {index}, crash in {n}");
        }
        assert!(storage.is_stopped());
        assert_eq!(storage.io_count(), n);
        assert_eq!(storage.len().unwrap_err().kind, StorageErrorKind::Other);
        assert_eq!(storage.read_at(0, &mut [0]).unwrap_err().kind, StorageErrorKind::Other);
        // The write under way is in doubt; a sync under way has achieved nothing.
        let unsynced = storage.freeze().pending().len();
        assert_eq!(unsynced, [1, 1, 1, 2, 3][n as usize - 1]);
    }
}

#[test]
fn a_killed_process_keeps_all_but_the_end_of_its_last_write() {
    let storage = synced(4, 1);
    storage.write_at(0, &[&[2; SECTOR]]).unwrap();
    storage.stop_at(Some(storage.io_count() + 1));
    storage.write_at(1000, &[&[3; 2000]]).unwrap_err();
    let point = storage.freeze();
    assert_eq!(point.pending()[1], PendingOp::Write { offset: 1000, len: 2000 });
    assert_eq!(point.in_flight_len(), 2000);
    for bytes in [0, 1, 24, 25, 600, 1999, 2000, 9000] {
        let landed = bytes.min(2000) as usize;
        let mut expected = [[2; 512].as_slice(), &[1; 1536]].concat();
        expected.resize(expected.len().max(1000 + landed), 0);
        expected[1000..1000 + landed].fill(3);
        assert_eq!(point.killed_image(bytes).to_vec(), expected, "{bytes} bytes");
    }
}

#[test]
fn a_prefix_of_the_calls_can_be_had() {
    let storage = synced(2, 1);
    storage.write_at(10, &[&[2; 10]]).unwrap();
    storage.set_len(4096).unwrap();
    storage.write_at(5, &[&[3; 10]]).unwrap();
    let point = storage.freeze();
    let model = |ops| {
        let mut bytes = vec![1; 1024];
        if ops > 0 {
            bytes[10..20].fill(2);
        }
        if ops > 1 {
            bytes.resize(4096, 0);
        }
        if ops > 2 {
            bytes[5..15].fill(3);
        }
        bytes
    };
    for ops in 0..=4 {
        assert_eq!(point.prefix_image(ops).to_vec(), model(ops));
    }
}

#[test]
fn rot_flips_one_bit_of_what_was_synced() {
    let mut rng = Rng::new(3);
    let storage = synced(8, 0);
    storage.write_at(512, &[&[7; SECTOR]]).unwrap();
    for _ in 0..500 {
        let (image, offset) = storage.freeze().rotten_image(&mut rng).unwrap();
        assert!(!(512..1024).contains(&offset));
        let flipped: u32 = image.to_vec()[..512].iter().chain(&image.to_vec()[1024..]).map(|byte| byte.count_ones()).sum();
        assert_eq!(flipped, 1);
    }
    assert!(storage.flip_synced_bit(0, 0) && storage.flip_synced_bit(600, 0));
    let mut seen = [0; 601];
    storage.read_at(0, &mut seen).unwrap();
    assert_eq!((seen[0], seen[600]), (1, 7), "a sector written since is read as written");
    assert_eq!(storage.freeze().synced_image().to_vec()[600], 1);
    assert!(!storage.flip_synced_bit(4096, 0));
    assert!(CrashStorage::new().freeze().rotten_image(&mut rng).is_none());
}

/// The same random calls on the simulator and on a plain vector: a reader sees the vector, the synced image is the vector at the last
/// sync, and every image agrees with the vector wherever nothing was written since.
#[test]
fn the_simulator_agrees_with_a_plain_vector() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let storage = CrashStorage::new();
        let (mut current, mut durable): (Vec<u8>, Vec<u8>) = Default::default();
        let mut doubt = [false; 64 * 1024];
        let mut shortest = 0;
        for step in 0..60 {
            match rng.below(12) {
                0..6 => {
                    let (at, len) = (rng.below(20_000) as usize, rng.below(3000) as usize);
                    let mut bytes = vec![0; len];
                    rng.fill(&mut bytes);
                    let (first, second) = bytes.split_at(len / 3);
                    storage.write_at(at as u64, &[first, &[], second]).unwrap();
                    if len > 0 {
                        current.resize(current.len().max(at + len), 0);
                        current[at..at + len].copy_from_slice(&bytes);
                        doubt[at / 512 * 512..(at + len).div_ceil(512) * 512].fill(true);
                    }
                }
                6 | 7 => {
                    let len = rng.below(24_000) as usize;
                    storage.set_len(len as u64).unwrap();
                    if len < current.len() {
                        doubt[len..].fill(true);
                        shortest = shortest.min(len);
                    }
                    current.resize(len, 0);
                }
                8 => {
                    let (at, len) = (rng.below(20_000) as usize, rng.below(9000) as usize);
                    storage.discard(at as u64, len as u64).unwrap();
                    let end = (at + len).min(current.len()) / 512 * 512;
                    let start = at.div_ceil(512) * 512;
                    if start < end {
                        current[start..end].fill(0);
                        doubt[start..end].fill(true);
                    }
                }
                9 => {
                    storage.sync().unwrap();
                    durable = current.clone();
                    doubt.fill(false);
                    shortest = durable.len();
                }
                _ => {
                    let point = storage.freeze();
                    assert_eq!(point.latest_image().to_vec(), current, "seed {seed}, step {step}");
                    assert_eq!(point.synced_image().to_vec(), durable);
                    assert_eq!(point.prefix_image(point.pending().len()).to_vec(), current);
                    assert_eq!(point.prefix_image(0).to_vec(), durable);
                    let image = point.random_image(&mut rng).to_vec();
                    assert!(image.len() >= shortest);
                    for (at, byte) in image.iter().enumerate().take(durable.len()) {
                        assert!(doubt[at] || *byte == durable[at], "seed {seed}, step {step}, byte {at}");
                    }
                    for listed in point.images(3).take(40) {
                        let listed = listed.to_vec();
                        assert!(
                            listed.iter().enumerate().take(durable.len()).all(|(at, byte)| doubt[at] || *byte == durable[at])
                        );
                    }
                    let again = CrashImage::from_bytes(&image);
                    assert_eq!(again.to_vec(), image);
                }
            }
        }
        let mut seen = vec![0; current.len()];
        storage.read_at(0, &mut seen).unwrap();
        assert!(seen == current, "seed {seed}");
    }
}
