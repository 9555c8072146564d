//! The vectors of `core/FORMAT.md`, and what a page of keys refuses.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::page::{KeyPage, PAGE_PLACES, Stored, write};
use crate::error::Error;
use crate::frame::{FrameSpec, Header, Kind, Mark, Meta, crc32c, sum_sealed};
use crate::seal::{Cipher, Cost, Derived, Key, KeyProvider, KeySet, Keys, PlainSide, Ring, Sealer, Secret, derive, wrapping_key};
use crate::storage::{MemoryStorage, Storage};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

const SALT: u64 = 0x1122_3344_5566_7788;
const OFFSET: u64 = 17_088;

fn counted<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|index| first + index as u8)
}

fn data() -> Key {
    Key::new(counted(0x20))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys of the vectors, with the segment of their frames entered.
fn keys(cipher: Cipher) -> Keys {
    let current = Arc::new(KeySet::new(data(), &counted(0)).unwrap());
    let id = current.derived.id;
    let keys =
        Keys::new(counted(0), cipher, Ring { current, previous: None, border: 0, plain: PlainSide::Nowhere }, (1, Vec::new()))
            .unwrap();
    keys.enter(SALT, (16_384 + 4096, 16_384), id, (counted(0x40), 3)).unwrap();
    keys
}

fn frame(keys: &Keys, spec: &FrameSpec<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let parts = spec.encode_unsealed(&mut out);
    keys.seal(&mut out, &parts, SALT, OFFSET).unwrap();
    sum_sealed(&mut out, SALT, OFFSET);
    out
}

fn put<'a>(meta: Meta<'a>, key: &'a [u8], value: &'a [u8]) -> FrameSpec<'a> {
    FrameSpec { kind: Kind::Put, continues: false, meta, key, value }
}

/// The vectors, a line each.
fn vectors() -> Vec<String> {
    let mut lines = Vec::new();
    let derived = Derived::new(&data(), &counted(0)).unwrap();
    lines.push(format!("key id: {}", hex(&derived.id)));
    lines.push(format!("seed mask: {}", hex(&*derived.seed)));
    for (name, secret, cost) in [
        ("key", Secret::Key(Key::new(counted(0x60))), Cost { memory: 0, passes: 0, lanes: 0 }),
        ("passphrase", Secret::Passphrase(b"caf\xc3\xa9 au lait".to_vec().into()), Cost::CHOSEN),
    ] {
        let wrapping = wrapping_key(&secret, cost, &counted(0x80), &counted(0)).unwrap();
        lines.push(format!("wrapping key of a {name}: {}", hex(&*wrapping)));
    }
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let info: [&[u8]; 4] = [b"pipkin 1 session", &[cipher.code()], &counted::<16>(0), &3_u64.to_le_bytes()];
        let session = derive::<32>(&counted::<32>(0x20), &counted::<32>(0x40), &info).unwrap();
        lines.push(format!("session key, suite {}: {}", cipher.code(), hex(&*session)));
        let keys = keys(cipher);
        let small = put(Meta::plain(0), b"color", b"green");
        lines.push(format!("put of color=green, suite {}: {}", cipher.code(), hex(&frame(&keys, &small))));
        let empty = put(Meta::plain(300), b"", b"");
        lines.push(format!("put of nothing in namespace 300, suite {}: {}", cipher.code(), hex(&frame(&keys, &empty))));
        let mark = Mark { synced: 16_500, clock: 0 }.encode();
        lines.push(format!(
            "mark of 16500, suite {}: {}",
            cipher.code(),
            hex(&frame(&keys, &FrameSpec::control(Kind::Mark, &mark)))
        ));
        for len in [65_535, 65_536, 65_537] {
            let value = alloc::vec![0x61; len];
            let long = frame(&keys, &put(Meta::plain(0), b"color", &value));
            let front = hex(long.get(..16).unwrap());
            lines.push(format!(
                "put of color={len} times a, suite {}: {front}.. of {} bytes, crc32c {:08x}",
                cipher.code(),
                long.len(),
                crc32c(&long)
            ));
        }
        let mut part = b"a part".to_vec();
        let tag = keys.seal_part(&mut part, SALT, OFFSET).unwrap();
        let (mut text, sealed) = (part.clone(), hex(&[&part[..], &tag].concat()));
        lines.push(format!("part of an index snapshot, suite {}: {sealed}", cipher.code()));
        assert!(keys.open_part(&mut text, &tag, SALT, OFFSET).unwrap() && text == b"a part");
        assert!(!keys.open_part(&mut part, &tag, SALT, OFFSET + 1).unwrap());
    }
    let keys = keys(Cipher::Aes256Gcm);
    lines.push(format!(
        "tag of a superblock of 480 bytes 77 in slot B: {}",
        hex(&keys.tag_superblock(&[0x77; 480], 4096).unwrap())
    ));
    lines.push(format!("tag of a header of 136 bytes 77 at 16384: {}", hex(&keys.tag_header(&[0x77; 136], 16_384).unwrap())));
    lines
}

#[test]
fn the_vectors_of_the_format_are_what_this_computes() {
    let text = include_str!("../../FORMAT.md");
    let written = text.split("<!-- vectors -->").nth(1).unwrap();
    let written: Vec<&str> = written.lines().filter(|line| !line.is_empty() && !line.starts_with("```")).collect();
    let computed = vectors();
    assert_eq!(written, computed, "\n{}", computed.join("\n"));
}

#[test]
fn what_was_sealed_opens_as_it_was_and_nowhere_else() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let keys = keys(cipher);
        for len in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            let value: Vec<u8> = (0..len).map(|at: u32| at as u8).collect();
            let spec = FrameSpec { kind: Kind::Put, continues: true, meta: Meta::plain(5), key: b"a key", value: &value };
            let sealed = frame(&keys, &spec);
            assert_eq!(sealed.len(), spec.sealed_len());
            let header = Header::decode(&sealed).unwrap();
            assert_eq!((header.value_len(), header.frame_len()), (value.len(), sealed.len()));
            let plain = keys.open(&sealed, &header.parts(), SALT, OFFSET).unwrap();
            assert_eq!((header.key(&plain), header.value(&plain)), (Some(&b"a key"[..]), Some(&*value)));
            for (salt, offset) in [(SALT, OFFSET + 1), (SALT, OFFSET - 4096)] {
                let moved = keys.open(&sealed, &header.parts(), salt, offset);
                assert!(matches!(moved, Err(Error::Forged { offset: at, .. }) if at == offset));
            }
            assert!(matches!(keys.open(&sealed, &header.parts(), SALT + 1, OFFSET), Err(Error::Corrupt { .. })));
            for at in (4..sealed.len()).step_by(1 + sealed.len() / 100) {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                let opened = Header::decode(&changed).map(|header| keys.open(&changed, &header.parts(), SALT, OFFSET));
                assert!(!matches!(opened, Ok(Ok(_))), "byte {at} of {len}");
            }
        }
    }
}

#[test]
fn a_page_of_keys_gives_the_data_key_to_its_secret_alone() {
    let derived = Derived::new(&data(), &counted(0)).unwrap();
    let secret = Secret::Key(Key::new(counted(0x60)));
    let mut made = KeyPage::new(4, Cipher::ChaCha20Poly1305, &derived);
    made.put_slot(0, &data(), &secret, &counted(0)).unwrap();
    let page = made.encode(&derived, &counted(0)).unwrap();
    let file = MemoryStorage::new();
    file.set_len(16_384).unwrap();
    write(&file, &page, &PAGE_PLACES, &|| Ok(())).unwrap();
    let read = Stored::read(&file, 4).unwrap().unwrap();
    assert_eq!((read.page.version, read.page.cipher), (4, Cipher::ChaCha20Poly1305));
    let found = read.unlock(&secret, &counted(0)).unwrap().current;
    assert!(*found.data == *data());
    let other = Secret::Key(Key::new(counted(0x61)));
    assert!(matches!(read.unlock(&other, &counted(0)), Err(Error::WrongKey)));
    assert!(matches!(read.unlock(&secret, &counted(1)), Err(Error::WrongKey)), "of another store");
    // Any copy will do, and none that was changed, its checksum repaired or not.
    file.write_at(1024, &[&[0; 100]]).unwrap();
    file.write_at(12_288, &[&[0; 100]]).unwrap();
    assert!(Stored::read(&file, 4).unwrap().is_some());
    for at in 0..page.len() - 4 {
        let mut changed = page.clone();
        changed[at] ^= 1;
        file.write_at(1024, &[&[0; 100]]).unwrap();
        file.write_at(12_288, &[&[0; 100]]).unwrap();
        file.write_at(5120, &[&changed]).unwrap();
        assert!(Stored::read(&file, 4).unwrap().is_none(), "byte {at}");
        write(&file, &changed, &PAGE_PLACES, &|| Ok(())).unwrap();
        let opened = Stored::read(&file, 4).and_then(|page| page.ok_or(Error::WrongKey)?.unlock(&secret, &counted(0)).map(drop));
        assert!(matches!(opened, Err(Error::WrongKey | Error::Forged { .. })), "byte {at}: {opened:?}");
    }
}

/// Derives as a key of WebCrypto does, and notes what it was asked.
struct Elsewhere {
    key: [u8; 32],
    salt: Option<[u8; 16]>,
}

impl KeyProvider for Elsewhere {
    fn derive(&self, salt: &[u8; 16], info: &[u8]) -> Result<[u8; 32], String> {
        if self.key == [0; 32] {
            return Err("the service does not answer".into());
        }
        Ok(*derive::<32>(&self.key, salt, &[info]).unwrap())
    }

    fn new_salt(&self) -> Option<[u8; 16]> {
        self.salt
    }
}

#[test]
fn a_key_that_lives_elsewhere_opens_what_its_bytes_open_and_says_why_it_does_not_answer() {
    let derived = Derived::new(&data(), &counted(0)).unwrap();
    let provider = |key: [u8; 32], salt| Secret::Provider(Arc::new(Elsewhere { key, salt }));
    let bytes = Secret::Key(Key::new([5; 32]));
    for (made, opens) in [(&bytes, &provider([5; 32], None)), (&provider([5; 32], Some([9; 16])), &bytes)] {
        let mut page = KeyPage::new(4, Cipher::Aes256Gcm, &derived);
        page.put_slot(0, &data(), made, &counted(0)).unwrap();
        let encoded = page.encode(&derived, &counted(0)).unwrap();
        let stored = Stored::decode(&encoded, 1024).unwrap();
        let found = stored.unlock(opens, &counted(0)).unwrap().current;
        assert!(*found.data == *data());
        assert_eq!(encoded[48..64] == [9; 16], matches!(made, Secret::Provider(_)), "the salt of the slot");
        assert!(matches!(stored.unlock(&provider([6; 32], None), &counted(0)), Err(Error::WrongKey)));
        let silent = stored.unlock(&provider([0; 32], None), &counted(0)).map(drop);
        assert!(matches!(&silent, Err(Error::KeyUnavailable { detail }) if detail == "the service does not answer"));
        assert!(silent.unwrap_err().to_string().contains("the service does not answer"));
    }
}

#[test]
fn a_cost_that_nobody_can_pay_is_refused_before_anything_is_allocated() {
    for cost in
        [Cost { memory: u32::MAX, ..Cost::CHOSEN }, Cost { passes: 1000, ..Cost::CHOSEN }, Cost { lanes: 0, ..Cost::CHOSEN }]
    {
        assert!(!cost.is_within_limits(), "{cost:?}");
    }
    assert!(Cost::CHOSEN.is_within_limits());
}

#[test]
fn a_sealer_of_another_key_opens_nothing() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let (one, other) = (Sealer::new(cipher, &Key::new([1; 32])).unwrap(), Sealer::new(cipher, &Key::new([2; 32])).unwrap());
        let mut text = *b"text";
        let tag = one.seal([3; 12], b"associated", &mut text).unwrap();
        assert!(!other.open([3; 12], b"associated", &mut text.clone(), &tag));
        assert!(!one.open([4; 12], b"associated", &mut text.clone(), &tag));
        assert!(!one.open([3; 12], b"", &mut text.clone(), &tag));
        assert!(one.open([3; 12], b"associated", &mut text, &tag) && text == *b"text");
    }
}
