//! Writers whose commits follow from their numbers, followers that note every commit they hear of in a file, and the check of these files:
//! no commit is missing, none comes twice, and all are whole and in one order.

use pipkin::{Change, Changes, Commit, Consumer, Db, Namespace, Position};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Writers of a child.
pub const WRITERS: u64 = 4;
/// Followers of a child. Those with even numbers acknowledge each commit and go on at the cursor that the store keeps; the others keep the
/// position in their own file, and acknowledge now and then.
pub const FOLLOWERS: u64 = 4;
/// What the store may keep for one that is behind.
const RETAIN: u64 = 1 << 40;
/// Commits after which a follower with its own position acknowledges.
const ACK_EVERY: u64 = 64;
/// Commits that a follower hears at most before it begins anew.
const READER_LIFE: u64 = 300;
/// Bytes of an entry in a follower's file: writer, number, position.
const ENTRY: usize = 32;

/// Which commit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    writer: u64,
    number: u64,
}

/// One record of a commit: whether it is in the second namespace, its key and its value, `None` for a removal.
type Edit = (bool, Vec<u8>, Option<Vec<u8>>);

fn edits(Heard { writer, number }: Heard) -> Vec<Edit> {
    let mut value = number.to_le_bytes().to_vec();
    let mut edits = vec![(false, format!("number/{writer}").into_bytes(), Some(value.clone()))];
    value.resize(8 + (number * 37 % 400) as usize, writer as u8);
    edits.push((true, format!("{writer}/{}", number % 16).into_bytes(), Some(value)));
    match number % 5 {
        4 => edits.push((false, format!("once/{writer}").into_bytes(), Some(Vec::new()))),
        0 => edits.push((false, format!("once/{writer}").into_bytes(), None)),
        _ => {}
    }
    edits
}

fn number_of(db: &Db, writer: u64) -> pipkin::Result<u64> {
    let value = db.get(format!("number/{writer}"))?;
    Ok(value.and_then(|value| value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))).unwrap_or_default())
}

/// Every third commit is a transaction, the others are batches.
fn write(db: &Db, second: &Namespace, which: Heard) -> pipkin::Result<()> {
    let edits = edits(which);
    if which.number.is_multiple_of(3) {
        return db.transaction(|tx| {
            edits.iter().try_for_each(|(in_second, key, value)| match (in_second, value) {
                (true, Some(value)) => tx.insert_in(second, key, value),
                (true, None) => tx.remove_in(second, key).map(drop),
                (false, Some(value)) => tx.insert(key, value),
                (false, None) => tx.remove(key).map(drop),
            })
        });
    }
    let batch = edits.into_iter().fold(db.batch(), |batch, (in_second, key, value)| match (in_second, value) {
        (true, Some(value)) => batch.insert_in(second, key, value),
        (true, None) => batch.remove_in(second, key),
        (false, Some(value)) => batch.insert(key, value),
        (false, None) => batch.remove(key),
    });
    batch.commit()
}

/// Writes on from where the store is, until `over`. `noted` is told each number once its commit is acknowledged, and first the number that
/// the store is found at: a kill may have come between that commit and its note, and what a session has found stays like what it wrote.
pub fn write_on(db: &Db, writer: u64, over: &AtomicBool, mut noted: impl FnMut(u64)) -> pipkin::Result<()> {
    let second = db.namespace("second")?;
    let found = number_of(db, writer)?;
    noted(found);
    for number in found + 1..=u64::MAX {
        if over.load(Ordering::Relaxed) {
            break;
        }
        write(db, &second, Heard { writer, number })?;
        noted(number);
        if number.is_multiple_of(29) {
            db.flush()?;
        }
        // Followers write as much as writers do.
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Which commit this is; an error if it is not whole, or none of a writer's.
fn recognized(commit: &Commit) -> Result<Heard, String> {
    let edit = |change: &Change| match change {
        Change::Put { namespace, key, value, .. } => Some((&**namespace == "second", key.clone(), Some(value.clone()))),
        Change::Remove { namespace, key } => Some((&**namespace == "second", key.clone(), None)),
        _ => None,
    };
    let found: Option<Vec<Edit>> = commit.changes().iter().map(edit).collect();
    let which = found.as_ref().and_then(|found| {
        let (_, key, value) = found.iter().find(|(_, key, _)| key.starts_with(b"number/"))?;
        let writer = std::str::from_utf8(key.get(7..)?).ok()?.parse().ok()?;
        Some(Heard { writer, number: u64::from_le_bytes(*value.as_ref()?.first_chunk()?) })
    });
    let sorted = |mut edits: Vec<Edit>| {
        edits.sort();
        edits
    };
    match (which, found) {
        (Some(which), Some(found)) if sorted(found.clone()) == sorted(edits(which)) => Ok(which),
        _ => Err(format!("no whole commit of a writer: {commit:?}")),
    }
}

/// The file in which a follower notes what it has heard.
#[derive(Debug)]
pub struct Account(File);

impl Account {
    /// Opens the file of a follower.
    pub fn open(folder: &Path, follower: u64) -> std::io::Result<Self> {
        let path = folder.join(format!("heard-{follower}"));
        OpenOptions::new().read(true).append(true).create(true).open(path).map(Self)
    }

    /// Everything, with the positions.
    pub fn read(&mut self) -> std::io::Result<Vec<(Heard, Position)>> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut bytes)?;
        assert!(bytes.len().is_multiple_of(ENTRY), "a kill has torn an entry: the file system does not write 32 bytes as one");
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let entry = |entry: &[u8; ENTRY]| {
            let heard = Heard { writer: number(&entry[..8]), number: number(&entry[8..16]) };
            (heard, Position::from_bytes(entry[16..].try_into().unwrap()))
        };
        Ok(bytes.as_chunks::<ENTRY>().0.iter().map(entry).collect())
    }

    fn note(&mut self, heard: Heard, position: Position) -> std::io::Result<()> {
        let mut entry = Vec::with_capacity(ENTRY);
        entry.extend(heard.writer.to_le_bytes());
        entry.extend(heard.number.to_le_bytes());
        entry.extend(position.to_bytes());
        self.0.write_all(&entry)
    }
}

fn consumer(db: &Db, follower: u64) -> pipkin::Result<Consumer> {
    db.consumer(format!("follower {follower}")).retain(RETAIN).start()
}

/// Creates the namespace, which is a commit, then registers every follower, before anybody writes.
pub fn register(db: &Db) -> pipkin::Result<()> {
    db.namespace("second")?;
    (0..FOLLOWERS).try_for_each(|follower| consumer(db, follower).map(drop))
}

/// Reads at a cursor, or by positions of its own beside it.
struct Reader {
    consumer: Consumer,
    changes: Option<Changes>,
}

impl Reader {
    fn start(db: &Db, follower: u64, account: &mut Account) -> Result<Self, String> {
        let consumer = consumer(db, follower).map_err(words)?;
        if follower.is_multiple_of(2) {
            return Ok(Self { consumer, changes: None });
        }
        let heard = account.read().map_err(|error| error.to_string())?;
        let from = heard.last().map_or_else(|| consumer.position(), |&(_, position)| position);
        let changes = db.changes().from(from).retain(RETAIN).start().map_err(words)?;
        Ok(Self { consumer, changes: Some(changes) })
    }

    fn next(&mut self, timeout: Duration) -> pipkin::Result<Option<Commit>> {
        match &mut self.changes {
            Some(changes) => changes.next_timeout(timeout),
            None => self.consumer.next_timeout(timeout),
        }
    }

    fn ack(&self, count: u64, position: Position) -> pipkin::Result<()> {
        let acks = self.changes.is_none() || count.is_multiple_of(ACK_EVERY);
        if acks { self.consumer.ack(position) } else { Ok(()) }
    }
}

fn words(error: pipkin::Error) -> String {
    format!("{error} ({error:?})")
}

/// Follows until `over`, or without it until nothing is left to hear; begins anew every few hundred commits.
pub fn follow(db: &Db, folder: &Path, follower: u64, over: Option<&AtomicBool>, heard: &AtomicU64) -> Result<(), String> {
    let mut account = Account::open(folder, follower).map_err(|error| error.to_string())?;
    let timeout = Duration::from_millis(if over.is_some() { 20 } else { 0 });
    loop {
        let mut reader = Reader::start(db, follower, &mut account)?;
        for count in 1..READER_LIFE + follower {
            let Some(commit) = reader.next(timeout).map_err(words)? else {
                match over {
                    Some(over) if !over.load(Ordering::Relaxed) => continue,
                    _ => return Ok(()),
                }
            };
            account.note(recognized(&commit)?, commit.position()).map_err(|error| error.to_string())?;
            heard.fetch_add(1, Ordering::Relaxed);
            reader.ack(count, commit.position()).map_err(words)?;
        }
    }
}

/// Checks what the followers have noted, after `kills` kills, against what was acknowledged to each writer. Once all have read to the end,
/// nothing acknowledged may be missing.
pub fn check(folder: &Path, acknowledged: &[u64], kills: u64, at_the_end: bool) -> Result<(), String> {
    let mut orders = Vec::new();
    for follower in 0..FOLLOWERS {
        let entries =
            Account::open(folder, follower).and_then(|mut account| account.read()).map_err(|error| error.to_string())?;
        let mut order: Vec<Heard> = entries.into_iter().map(|(heard, _)| heard).collect();
        let noted = order.len();
        if follower.is_multiple_of(2) {
            // The kill may have come between the note and its acknowledgement.
            order.dedup();
        }
        if (noted - order.len()) as u64 > kills {
            return Err(format!("follower {follower} has heard {} commits twice, after {kills} kills", noted - order.len()));
        }
        orders.push(order);
    }
    orders.sort_by_key(Vec::len);
    let longest = orders.last().map_or(&[][..], Vec::as_slice);
    if let Some(other) = orders.iter().find(|order| !longest.starts_with(order)) {
        let place = other.iter().zip(longest).position(|(one, other)| one != other).unwrap_or_default();
        return Err(format!("commit {place}: one follower has heard {:?}, another {:?}", other.get(place), longest.get(place)));
    }
    let mut numbers = vec![0; acknowledged.len()];
    for (place, &Heard { writer, number }) in longest.iter().enumerate() {
        let last = numbers.get_mut(writer as usize).ok_or_else(|| format!("there is no writer {writer}"))?;
        if number != *last + 1 {
            return Err(format!("commit {place} is number {number} of writer {writer}, after {last}"));
        }
        *last = number;
    }
    for (writer, (&heard, &acknowledged)) in numbers.iter().zip(acknowledged).enumerate() {
        if heard > acknowledged + 1 || at_the_end && heard < acknowledged {
            return Err(format!("writer {writer}: {acknowledged} commits acknowledged, {heard} heard"));
        }
    }
    if at_the_end && orders.first().map(Vec::len) != orders.last().map(Vec::len) {
        return Err("at the end one follower has heard less than another".to_owned());
    }
    Ok(())
}
