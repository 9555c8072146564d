//! What must be true of a store that comes back from a crash.

use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Host, Player, Setup, check_gets, dump};
use crate::model::{Digest, History, State, default_digest, expiry_digest, namespace_digest, record_digest};
use crate::tape::{Op, Val};
use pipkin::Db;
use pipkin::storage::crash::CrashImage;

/// What is done to a recovered store after its content was found right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Closed and opened again.
    Close,
    /// Killed right behind recovery and opened again.
    Kill,
    /// Written to, flushed, killed, opened again.
    WriteFlushKill,
    /// Written to, closed, opened again.
    WriteClose,
    /// Compacted, written to, killed, opened again.
    CompactWriteKill,
    /// Written to, flushed, written to; then the power goes and takes everything that was not synced.
    WriteFlushWriteCut,
}

impl After {
    /// Every kind, for turns.
    pub const ALL: [Self; 6] =
        [Self::Close, Self::Kill, Self::WriteFlushKill, Self::WriteClose, Self::CompactWriteKill, Self::WriteFlushWriteCut];
}

/// One image of so many is read by `pipkin-reader`, too.
const READ_TWICE: u64 = 8;
/// Keys below this are asked for one by one; the rest is covered by the dump.
const KEYS_PROBED: u16 = 8;

/// Finds the state of `db`, whose time is `now`, among `low..=high` of the history.
pub fn find_state(db: &Db, now: u64, history: &History, low: usize, high: usize) -> Result<usize, Fault> {
    let digest = dump(db)?;
    let Some(place) = history.find(digest, now, low, high) else {
        let older = history.find(digest, now, 0, history.newest());
        return Fault::wrong(match older {
            Some(place) if place < low => {
                format!("came back in state {place}, but {low} was acknowledged: {} commits lost", low - place)
            }
            Some(place) => format!("came back in state {place}, beyond {high}, the newest that was begun"),
            None => format!(
                "came back in no state that ever was (allowed {low}..={high}); against {high}:{}",
                differences_from(db, &history.states[high].at(now))
            ),
        });
    };
    check_gets(db, &history.states[place].at(now), KEYS_PROBED)?;
    Ok(place)
}

fn differences_from(db: &Db, state: &State) -> String {
    crate::drive::differences(db, state)
}

/// Opens an image; its state must be one of `low..=high`. Then does `after` and looks again. Returns the place of the state.
pub fn examine(
    image: &CrashImage,
    setup: &Setup,
    history: &History,
    (low, high): (usize, usize),
    after: After,
    entropy: u64,
) -> Result<usize, Fault> {
    let disk = Disk::from_image(image);
    let host = DiskHost::new(disk.clone(), setup.clone(), entropy);
    let db = host.open().map_err(|error| Fault::from(error).at("opening the image"))?;
    let now = setup.now_of(&db);
    let place = find_state(&db, now, history, low, high)?;
    let state = history.states[place].at(now);
    if entropy.is_multiple_of(READ_TWICE) {
        check_by_reader(image, &state)?;
    }
    again(host, db, state, after).map_err(|fault| fault.at(format!("after recovery, {after:?}")))?;
    Ok(place)
}

/// The reader that was written from the specification alone finds the same in the image, at the time of the state.
pub fn check_by_reader(image: &CrashImage, state: &State) -> Result<(), Fault> {
    let bytes = image.to_vec();
    // The reader has no keys.
    if [16, 4112].iter().any(|&features| bytes.get(features).is_some_and(|bits| bits & 1 != 0)) {
        return Ok(());
    }
    let contents =
        pipkin_reader::read_at(&bytes, state.now).map_err(|refusal| Fault::Wrong(format!("pipkin-reader: {refusal}")))?;
    let named = contents.namespaces.iter().filter(|(name, _)| !name.is_empty() && !name.starts_with('\0'));
    let named = named.map(|(name, options)| namespace_digest(name).wrapping_add(default_of(name, options)));
    let users = contents.records.iter().filter(|((space, _), _)| !space.starts_with('\0'));
    let plain = users.map(|(key, record)| contents.plain(record).map(|plain| (key, record, plain)));
    let plain: Option<Vec<_>> = plain.collect();
    let Some(plain) = plain else { return Fault::wrong("pipkin-reader finds a compressed value that does not check") };
    let records = plain.iter().map(|((space, key), record, plain)| {
        let expiry = record.fields.expiry.map_or(0, |expiry| expiry_digest(space, key, expiry));
        record_digest(space, key, plain).wrapping_add(expiry)
    });
    if named.chain(records).fold(0, Digest::wrapping_add) == state.digest {
        return Ok(());
    }
    Fault::wrong(format!("pipkin-reader finds {} records, and other ones than the engine", contents.records.len()))
}

/// What the options of a namespace add that say how long its records live.
fn default_of(name: &str, mut options: &[u8]) -> Digest {
    while let [kind, len, rest @ ..] = options {
        let (value, others) = rest.split_at_checked(usize::from(*len)).unwrap_or_default();
        if let (1, &[a, b, c, d, e, f]) = (*kind, value) {
            return default_digest(name, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        }
        options = others;
    }
    0
}

fn again(host: DiskHost, db: Db, state: State, after: After) -> Result<(), Fault> {
    let disk = host.disk.clone();
    let mut player = Player::going_on(host, db, History::new(state));
    let put = |key, tag| Op::Put(0, key, Val { len: 40, tag });
    let change = [put(1, 900_001), Op::Txn(true, vec![(0, 2, None), (1, 3, Some(Val { len: 700, tag: 900_002 }))])];
    let ops: &[Op] = match after {
        After::Close => &[Op::Reopen],
        After::Kill => &[Op::Kill],
        After::WriteFlushKill => &[change[0].clone(), change[1].clone(), Op::Flush, Op::Kill],
        After::WriteClose => &[change[0].clone(), change[1].clone(), Op::Reopen, Op::Reopen],
        After::CompactWriteKill => &[Op::Compact, change[0].clone(), change[1].clone(), Op::Kill],
        After::WriteFlushWriteCut => return write_cut(player, disk, &change),
    };
    ops.iter().try_for_each(|op| player.play(op).map_err(|fault| fault.at(op)))
}

fn write_cut(mut player: Player<DiskHost>, disk: Disk, change: &[Op]) -> Result<(), Fault> {
    player.play(&change[0])?;
    player.play(&Op::Flush)?;
    player.play(&change[1])?;
    let cut = disk.crash().synced_image();
    let db = player.host.setup.open(Disk::from_image(&cut).storage(), 3)?;
    find_state(&db, player.host.setup.now_of(&db), &player.history, player.history.flushed, player.history.newest()).map(drop)
}
