//! Followers in the sandbox: instances of the component read a store that a native process, or another instance, writes meanwhile. Each commit of
//! the writer sets all keys to the commit's number, so that a reader sees half of one at once.

use super::machine::types::{Change, ChangesOptions, Commit, Durability, Error, Op, Reason, Start};
use super::machine::{Machine, Options, Provider};
use super::{Rng, host, open};
use pipkin::Db;
use pipkin_wasi_host::{Options as HostOptions, Reason as HostReason, Sandbox};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmtime::Store;
use wasmtime::component::ResourceAny;

const NAME: &str = "app.pipkin";
/// Keys of a commit.
const KEYS: u64 = 24;
/// Processes that are killed.
const KILLS: u64 = 25;
/// So often a follower must have shown a state, or the test has tested nothing.
const LOOKS_LEAST: u64 = 200;
const FOLDER: &str = "PIPKIN_FOLLOWED_IN_SANDBOX";

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(key).collect()
}

fn value(commit: u64) -> Vec<u8> {
    let mut value = vec![commit as u8; 8 + (commit * 37 % 300) as usize];
    value[..8].copy_from_slice(&commit.to_le_bytes());
    value
}

fn number_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The number of the last commit that was acknowledged, beside the store.
struct Note(File);

impl Note {
    fn open(folder: &Path) -> Self {
        let options = File::options().read(true).write(true).create(true).truncate(false).open(folder.join("note"));
        Self(options.unwrap())
    }

    fn write(&mut self, number: u64) {
        self.0.rewind().unwrap();
        self.0.write_all(&number.to_le_bytes()).unwrap();
    }

    fn read(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.rewind().unwrap();
        self.0.read_exact(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
    }
}

/// Not a test of its own: the process that is killed, when the environment says so.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let (mut note, mut rng) = (Note::open(folder), Rng(std::process::id().into()));
    loop {
        let db = Db::builder().path(folder.join(NAME)).segment_size(16 * 1024).open().unwrap();
        let first = db.get(key(0)).unwrap().map_or(0, |value| number_of(&value));
        for number in first + 1..first + 300 {
            db.insert_many((0..KEYS).map(|at| (key(at), value(number)))).unwrap();
            note.write(number);
            match rng.below(40) {
                0 => drop(db.compact().unwrap()),
                1 => db.checkpoint().unwrap(),
                2 | 3 => drop(db.flush().unwrap()),
                4..8 => sleep(Duration::from_micros(rng.below(2000))),
                _ => {}
            }
        }
        db.close().unwrap();
    }
}

fn spawn(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "followers::child", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::null()).spawn().unwrap()
}

fn options(follow: bool) -> Options {
    Options {
        create: !follow,
        read_only: false,
        durability: Durability::Written,
        cache_bytes: 1 << 20,
        segment_bytes: 16 * 1024,
        exclusive: false,
        follow,
    }
}

/// An instance that follows, and what it has shown.
struct Follower {
    store: Store<Sandbox>,
    provider: Provider,
    db: ResourceAny,
    records: ResourceAny,
    changes: Option<ResourceAny>,
    /// The last commit that it has shown, and the one that its reader of changes has heard of.
    shown: u64,
    heard: Option<u64>,
    looks: u64,
    commits: u64,
}

impl Follower {
    fn open(folder: &Path) -> Result<Self, Error> {
        let (mut store, provider) = Machine::shared().start(folder);
        let db = provider.pipkin_kv_store().db().call_open(&mut store, NAME, options(true)).unwrap()?;
        let records = provider.pipkin_kv_store().db().call_namespace(&mut store, db, None).unwrap()?;
        Ok(Self { store, provider, db, records, changes: None, shown: 0, heard: None, looks: 0, commits: 0 })
    }

    /// Begins anew to read changes: after the present state.
    fn listen(&mut self) -> Result<(), Error> {
        if let Some(old) = self.changes.take() {
            old.resource_drop(&mut self.store).unwrap();
        }
        let asked = ChangesOptions {
            start: Start::Now,
            namespace: None,
            prefix: Vec::new(),
            retain_bytes: None,
            appended: true,
            coalesced: false,
        };
        self.heard = None;
        self.changes = Some(self.provider.pipkin_kv_store().db().call_changes(&mut self.store, self.db, &asked).unwrap()?);
        Ok(())
    }

    /// The number of the newest commit that a snapshot shows, whole; none if there is none yet.
    fn whole(&mut self) -> Result<Option<u64>, Error> {
        let Self { store, provider, db, .. } = self;
        let kv = provider.pipkin_kv_store();
        let snapshot = kv.db().call_snapshot(&mut *store, *db).unwrap()?;
        let space = kv.snapshot().call_namespace(&mut *store, snapshot, None).unwrap();
        let values = space.map(|space| {
            let space = space.unwrap();
            let values = kv.snapshot_namespace().call_get_many(&mut *store, space, &keys()).unwrap();
            space.resource_drop(&mut *store).unwrap();
            values
        });
        snapshot.resource_drop(&mut *store).unwrap();
        let values: Vec<Vec<u8>> = values??.into_iter().flatten().collect();
        let Some(first) = values.first() else { return Ok(None) };
        let number = number_of(first);
        let numbers = || values.iter().map(|value| number_of(value)).collect::<Vec<_>>();
        let is_whole = values.len() as u64 == KEYS && values.iter().all(|found| *found == value(number));
        assert!(is_whole, "half a commit: {:?}", numbers());
        Ok(Some(number))
    }

    /// Refreshes, and shows no less than what was acknowledged before, and never less than before.
    fn look(&mut self, acknowledged: u64) {
        match self.provider.pipkin_kv_store().db().call_refresh(&mut self.store, self.db).unwrap() {
            Ok(_) => {}
            // The writer is faster than the whole store can be read: said, and nothing is shown.
            Err(Error { reason: Reason::Overtaken, .. }) => return,
            Err(error) => panic!("a refresh: {error:?}"),
        }
        match self.whole() {
            Ok(number) => {
                let number = number.unwrap_or(0);
                let least = acknowledged.max(self.shown);
                assert!(number >= least, "shows {number} after {}, with {acknowledged} acknowledged", self.shown);
                self.shown = number;
                self.looks += 1;
            }
            Err(Error { reason: Reason::SnapshotTooOld | Reason::Overtaken, .. }) => {}
            Err(error) => panic!("a read: {error:?}"),
        }
        let at = self.looks % KEYS;
        let space = self.provider.pipkin_kv_store().namespace();
        match space.call_get(&mut self.store, self.records, &key(at)).unwrap() {
            Ok(found) => {
                let number = found.as_deref().map_or(0, number_of);
                assert!(number >= self.shown && found.is_none_or(|found| found == value(number)), "a get: {number}");
            }
            Err(Error { reason: Reason::Overtaken, .. }) => {}
            Err(error) => panic!("a get: {error:?}"),
        }
    }

    /// Hears of every commit once, whole and in order, or that some are no longer kept.
    fn hear(&mut self) {
        let Some(changes) = self.changes else { return self.listen().unwrap() };
        let kv = self.provider.pipkin_kv_store();
        match kv.changes().call_next(&mut self.store, changes, 1000, 1 << 20).unwrap() {
            Ok(page) => page.commits.iter().for_each(|commit| self.has_heard(commit)),
            Err(Error { reason: Reason::Compacted(_) | Reason::Overtaken, .. }) => self.listen().unwrap(),
            Err(error) => panic!("changes: {error:?}"),
        }
    }

    fn has_heard(&mut self, commit: &Commit) {
        let number = match commit.changes.first() {
            Some(Change::Put(record)) => number_of(&record.value),
            other => panic!("a commit of {other:?}"),
        };
        let is_right =
            |(at, change): (u64, &Change)| matches!(change, Change::Put(put) if put.key == key(at) && put.value == value(number));
        assert_eq!(commit.changes.len() as u64, KEYS);
        assert!((0..).zip(&commit.changes).all(is_right), "commit {number} is not whole");
        assert!(self.heard.is_none_or(|heard| heard + 1 == number), "commit {number} after {:?}", self.heard);
        self.heard = Some(number);
        self.commits += 1;
    }
}

#[test]
fn a_follower_of_native_processes_that_are_killed_shows_whole_commits_and_hears_of_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut note, mut rng) = (Note::open(folder.path()), Rng(0xf0110));
    let mut follower: Option<Follower> = None;
    for _ in 0..KILLS {
        let (mut writer, before) = (spawn(folder.path()), note.read());
        let patience = Instant::now() + Duration::from_secs(120);
        while note.read() == before {
            assert!(Instant::now() < patience, "the writer does not get to work");
            sleep(Duration::from_millis(1));
        }
        let follower = follower.get_or_insert_with(|| Follower::open(folder.path()).unwrap());
        let end = Instant::now() + Duration::from_micros(20_000 + rng.below(100_000));
        while Instant::now() < end {
            let acknowledged = note.read();
            follower.look(acknowledged);
            follower.hear();
            if rng.below(20) == 0 {
                sleep(Duration::from_millis(rng.below(20)));
            }
        }
        assert_eq!(writer.try_wait().unwrap(), None, "the writer has ended by itself");
        writer.kill().and_then(|()| writer.wait()).unwrap();
        let acknowledged = note.read();
        follower.look(acknowledged);
        follower.hear();
    }
    let follower = follower.unwrap();
    println!("{KILLS} kills, {} looks, {} commits heard, {} written", follower.looks, follower.commits, note.read());
    assert!(follower.looks >= LOOKS_LEAST && follower.commits >= LOOKS_LEAST);
    // One that opens now shows the same.
    let mut last = Follower::open(folder.path()).unwrap();
    last.look(note.read());
    assert_eq!(last.shown, follower.shown);
}

#[test]
fn a_follower_of_another_instance_shows_whole_commits_through_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let mut writer = open(&host, NAME);
    let mut follower = Follower::open(folder.path()).unwrap();
    for commit in 1..=600 {
        writer.insert_many((0..KEYS).map(|at| (key(at), value(commit)))).unwrap();
        if commit % 7 == 0 {
            follower.look(commit);
            assert_eq!(follower.shown, commit);
            follower.hear();
        }
        match commit % 60 {
            17 => while writer.compact_step().unwrap().is_some() {},
            31 => writer.checkpoint().unwrap(),
            // Behind a close, and behind an instance that a host has dropped without one.
            43 => writer = reopened(&host, writer, commit % 120 == 43),
            _ => {}
        }
    }
    follower.look(600);
    follower.hear();
    assert_eq!((follower.shown, follower.heard), (600, Some(600)));
    assert!(follower.looks > 50 && follower.commits > 50);
}

fn reopened(host: &pipkin_wasi_host::Host, mut db: pipkin_wasi_host::Db, closes: bool) -> pipkin_wasi_host::Db {
    if closes {
        db.close().unwrap();
    } else {
        db.flush().unwrap();
        drop(db);
    }
    open(host, NAME)
}

/// Without any lock: the writer fences, and takes the store over each time that it opens it.
#[test]
fn a_follower_of_instances_without_a_lock_goes_on_through_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut follower: Option<Follower> = None;
    let mut commit = 0;
    for life in 0..12 {
        let (mut store, provider) = Machine::shared().start(folder.path());
        let kv = provider.pipkin_kv_store();
        let db = kv.db().call_open(&mut store, NAME, options(false)).unwrap().unwrap();
        for _ in 0..40 {
            commit += 1;
            let put = |at| Op { namespace: None, key: key(at), value: Some(value(commit)), ttl: None };
            let ops: Vec<Op> = (0..KEYS).map(put).collect();
            kv.db().call_write(&mut store, db, &ops, Durability::Written).unwrap().unwrap();
            let follower = follower.get_or_insert_with(|| Follower::open(folder.path()).unwrap());
            follower.look(commit);
            assert_eq!(follower.shown, commit);
        }
        // The other half goes away as an instance does that a host drops.
        if life % 2 == 0 {
            kv.db().call_close(&mut store, db).unwrap().unwrap();
        }
    }
}

#[test]
fn a_follower_refuses_to_write_and_says_when_its_file_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let following = HostOptions { follow: true, ..HostOptions::default() };
    let missing = host.open_with(NAME, following).map(drop).unwrap_err();
    assert!(matches!(missing.reason(), Some(HostReason::NotFound)), "{missing}");
    assert!(!folder.path().join(NAME).exists());

    let db = Db::open(folder.path().join(NAME)).unwrap();
    db.insert("color", "green").unwrap();
    let mut follower = host.open_with(NAME, following).unwrap();
    db.insert("color", "red").unwrap();
    assert_eq!(follower.get(b"color").unwrap().as_deref(), Some(&b"green"[..]));
    assert!(follower.refresh().unwrap() && !follower.refresh().unwrap());
    assert_eq!(follower.get(b"color").unwrap().as_deref(), Some(&b"red"[..]));
    assert_eq!(follower.len().unwrap(), 1);

    let before = std::fs::read(folder.path().join(NAME)).unwrap();
    let refused = [
        follower.insert(b"color", b"blue"),
        follower.remove(b"color").map(drop),
        follower.flush().map(drop),
        follower.checkpoint(),
        follower.compact_step().map(drop),
        follower.records(Some("new")).get(b"a").map(drop),
    ];
    for refused in refused {
        let refused = refused.unwrap_err();
        assert!(matches!(refused.reason(), Some(HostReason::ReadOnly)), "{refused}");
    }
    let refused = follower.verify().unwrap_err();
    assert!(matches!(refused.reason(), Some(HostReason::InvalidArgument)), "{refused}");
    follower.backup("copy.pipkin").unwrap_err();
    assert!(!folder.path().join("copy.pipkin").exists());
    assert_eq!(before, std::fs::read(folder.path().join(NAME)).unwrap());

    // The writer goes on beside it, and ends as if it was alone.
    db.insert("color", "yellow").unwrap();
    db.close().unwrap();
    assert!(follower.refresh().unwrap());
    let mut alone = open(&host, NAME);
    let refused = alone.refresh().unwrap_err();
    assert!(matches!(refused.reason(), Some(HostReason::InvalidArgument)), "{refused}");
    alone.close().unwrap();

    std::fs::rename(folder.path().join(NAME), folder.path().join("moved.pipkin")).unwrap();
    Db::open(folder.path().join(NAME)).unwrap().insert("color", "black").unwrap();
    let refused = follower.refresh().unwrap_err();
    assert!(matches!(refused.reason(), Some(HostReason::Io)) && refused.to_string().contains("replaced"), "{refused}");
    assert_eq!(follower.get(b"color").unwrap().as_deref(), Some(&b"yellow"[..]));
    follower.close().unwrap();
    let mut follower = host.open_with(NAME, following).unwrap();
    assert_eq!(follower.get(b"color").unwrap().as_deref(), Some(&b"black"[..]));
}

/// What the follower has shown is not in the file any more: an earlier state was copied over it.
#[test]
fn a_file_that_was_set_back_is_told_from_one_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    Db::open(&path).unwrap().insert("a", "1").unwrap();
    let earlier = std::fs::read(&path).unwrap();
    let db = Db::open(&path).unwrap();
    (0..100_u32).for_each(|key| db.insert(key.to_be_bytes(), vec![0; 100]).map(drop).unwrap());
    let mut follower = host(folder.path()).open_with(NAME, HostOptions { follow: true, ..HostOptions::default() }).unwrap();
    db.close().unwrap();
    let mut file = File::options().write(true).truncate(true).open(&path).unwrap();
    file.write_all(&earlier).unwrap();
    let refused = follower.refresh().unwrap_err();
    assert!(matches!(refused.reason(), Some(HostReason::Diverged)), "{refused}");
    assert_eq!(follower.len().unwrap(), 101);
}
