//! Writes golden stores with every kind and flag: `cargo run -p pipkin-tests --example golden-kinds -- tests/golden`.
//!
//! The engine writes a store with a placeholder for each frame of a capability that is not built yet; the codec's frame, which is as long, takes
//! its place. Then the engine goes on with that store: it checkpoints, compacts and closes it. Golden files are never written again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a failed step ends the program"
)]

use std::fs;
use std::path::Path;

use pipkin::Db;
use pipkin::frame::{Event, Optional, Tag, build};
use pipkin::storage::MemoryStorage;
use pipkin_tape::kinds::{EVENTS, SPACE, STUB, value_of};
use pipkin_tests::forge::{placeholder, put_frame, sign_chunk_at, sign_front};

const PUT: u8 = 1;
const TOMBSTONE: u8 = 2;
const EVENT: u8 = 7;
const FLOOR: u8 = 8;
const STUB_OF_EVENT: u8 = 9;
const ADOPT: u8 = 10;
/// Number of the first namespace that gets a name.
const NAMED: u32 = 1;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the golden files");
    let folder = Path::new(&folder);
    fs::create_dir_all(folder.join("kinds")).unwrap();
    fs::create_dir_all(folder.join("refused")).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        assert!(!path.exists(), "{} exists; golden files are never written again", path.display());
        fs::write(&path, bytes).unwrap();
        println!("{}: {} bytes", path.display(), bytes.len());
    };
    let written = written(&frames());
    write("kinds/written.pipkin", &written);

    let storage = MemoryStorage::from_vec(written.clone());
    let db = open(&storage, [4; 32]);
    db.compact().unwrap();
    db.checkpoint().unwrap();
    write("kinds/killed.pipkin", &cut_in_a_commit(&db, &storage));
    drop(db);

    let storage = MemoryStorage::from_vec(written.clone());
    let db = open(&storage, [5; 32]);
    db.checkpoint().unwrap();
    db.compact().unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    write("kinds/compacted.pipkin", &with_other_parts(&storage.to_vec()));

    write("refused/adopt.pipkin", &self::written(&[build(ADOPT, 0, &Optional::default(), b"", &[7; 32]).unwrap()]));
    let mut feature = written.clone();
    sign_front(&mut feature, 16, 1 << 63);
    write("refused/feature.pipkin", &feature);
    let mut version = written;
    sign_front(&mut version, 8, 2 << 32 | 2);
    write("refused/version.pipkin", &version);
}

fn open(storage: &MemoryStorage, entropy: [u8; 32]) -> Db {
    Db::builder().entropy(entropy).segment_size(16 << 10).open_storage(Box::new(storage.clone())).unwrap()
}

/// The frames that the engine of today does not write, each with a checksum of no place.
fn frames() -> Vec<Vec<u8>> {
    let more = || Some((0x80, b"fields of a bit".to_vec()));
    // A block of LZ4: 15 and 5 literals, and no match.
    let compressed = b"\xf0\x05a value in one block";
    let (codec, origin) = (Some((1, 0, 20)), Some(1 << 40));
    let (far_off, long_ago) = (Some((1 << 48) - 1), Some(1));
    let everything = Optional { expiry: far_off, codec, origin, more: more(), ..Optional::default() };
    let plain = Optional::default;
    let mut frames = Vec::new();
    for (namespace, space) in [(0, ""), (NAMED, SPACE)] {
        let mut add = |kind: u8, optional: Optional, key: &str, value: &[u8]| {
            frames.push(build(kind, namespace, &optional, key.as_bytes(), value).unwrap());
        };
        let moved = value_of(space, "with an origin");
        add(PUT, Optional { origin, ..plain() }, "with an origin", moved.as_bytes());
        add(PUT, Optional { expiry: far_off, ..plain() }, "expires far off", b"until then");
        add(PUT, Optional { expiry: long_ago, ..plain() }, "expired long ago", b"gone");
        add(PUT, Optional { codec, ..plain() }, "compressed", compressed);
        add(PUT, Optional { more: more(), ..plain() }, "with more flags", b"of another version");
        add(PUT, everything.clone(), "with everything", compressed);
        add(TOMBSTONE, Optional { expired: true, ..plain() }, "expired", b"");
        add(TOMBSTONE, Optional { origin, ..plain() }, "removed with an origin", b"");
        add(TOMBSTONE, Optional { more: more(), expired: true, ..plain() }, "removed with more flags", b"");
    }
    for number in EVENTS {
        let optional = Optional { expiry: far_off.filter(|_| number == 3), ..plain() };
        frames.push(build(EVENT, 0, &optional, b"a stream", &event(number).encode()).unwrap());
    }
    let stub = Event { payload: Vec::new(), ..event(STUB) };
    frames.push(build(STUB_OF_EVENT, NAMED, &Optional { origin, ..plain() }, b"a stream", &stub.encode()).unwrap());
    frames.push(build(FLOOR, 0, &plain(), b"", &[0; 16]).unwrap());
    frames
}

fn event(number: u64) -> Event {
    let tag = |key: &str, before: u64, distance: u64| Tag { key: key.into(), before, distance };
    let tags = match number {
        1 => Vec::new(),
        2 => vec![tag("a tag", 0, 0)],
        _ => vec![tag("a tag", number - 1, 300), tag("another", 0, 0)],
    };
    let payload = format!("the payload of event {number}").into();
    Event { number, version: number, time: 1_700_000_000_000, id: [number as u8; 16], kind: "a type".into(), tags, payload }
}

/// A store that was killed, with these frames in its first segment.
fn written(frames: &[Vec<u8>]) -> Vec<u8> {
    let storage = MemoryStorage::new();
    let db = open(&storage, [3; 32]);
    let named = db.namespace(SPACE).unwrap();
    for key in ["removed", "expired", "removed with an origin", "removed with more flags", "written twice"] {
        db.insert(key, "there").unwrap();
        named.insert(key, "there").unwrap();
    }
    for (index, frame) in frames.iter().enumerate() {
        let (key, value) = placeholder(index, frame);
        db.insert(key, value).unwrap();
    }
    db.remove("~").unwrap();
    for key in ["plain", "written twice"] {
        db.insert(key, value_of("", key)).unwrap();
        named.insert(key, value_of(SPACE, key)).unwrap();
    }
    db.remove("removed").unwrap();
    named.remove("removed").unwrap();
    db.flush().unwrap();
    db.insert("~", "what a flush is followed by").unwrap();
    db.remove("~").unwrap();
    let mut bytes = storage.to_vec();
    for (index, frame) in frames.iter().enumerate() {
        put_frame(&mut bytes, index, frame);
    }
    bytes
}

/// The bytes of a store that is killed in the middle of a commit.
fn cut_in_a_commit(db: &Db, storage: &MemoryStorage) -> Vec<u8> {
    db.insert_many(["lost 1", "lost 2", "lost 3"].map(|key| (key, "never acknowledged"))).unwrap();
    let mut bytes = storage.to_vec();
    let last = b"lost 3";
    let at = bytes.windows(last.len()).rposition(|window| window == last).unwrap();
    bytes[at..at + 1].fill(b'L');
    bytes
}

/// A closed store whose snapshot also has parts of kinds that this build does not know.
fn with_other_parts(store: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(store[at..at + 8].try_into().unwrap());
    let newer = if word(48) > word(4096 + 48) { 0 } else { 4096 };
    let (directory, len, salt) = (word(newer + 96) as usize, word(newer + 104) as usize, word(newer + 112));
    let mut chunk = store[directory..directory + len].to_vec();
    assert_eq!(chunk.pop(), Some(0), "no other parts");
    // Two of them: one has a part where the names are and three bytes of its own, the other has nothing.
    chunk.extend_from_slice(&[2, 100, 1, 0, 0xc0, 0x05, 3, 1, 2, 3, 101, 0, 0]);
    let len = chunk.len();
    sign_chunk_at(&mut chunk, salt, directory as u64);
    let mut bytes = store.to_vec();
    bytes[directory..directory + len].copy_from_slice(&chunk);
    sign_front(&mut bytes, 104, len as u64);
    bytes
}
