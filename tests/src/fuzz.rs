//! What the targets of `tests/fuzz/` do with their bytes. They panic on anything wrong and return whether the input got as far
//! as the target aims, so that a suite can count how many do.

mod sealed;

pub use sealed::{SealedBase, sealed_bases, sealed_store};

use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Player, Setup};
use crate::forge::{forge, frame_len, sign, sign_all};
use crate::model::State;
use crate::rng::{Choices, Script, choose, derive, index};
use crate::suite::events::scripted;
use crate::suite::hostile::{Base, Measure, examine, mutate_once};
use crate::tape::{Mix, Op, Tape, Times};
use pipkin::frame::{event_reads_alike, reencode, reencode_event};

/// Operations of the longest tape.
const OPS_MOST: usize = 400;
/// Changes that are made to one store, at the most: each may make it longer.
const CHANGES_MOST: usize = 24;
/// What the engine says about a frame that is whole and does not pass its checksum.
const CHECKSUM_FAILS: &str = "a record whose checksum does not fit";

/// The fuzzer has a limit of its own for memory.
const UNMEASURED: Measure = |work| {
    work();
    0
};

/// Small healthy stores for `open_bytes` to start from, closed and killed: from nothing a fuzzer does not find its way to one.
///
/// # Panics
///
/// When the engine cannot even write them.
pub fn seed_stores() -> Vec<Vec<u8>> {
    let mix = Mix { ops: 25, keys: 12, namespaces: 1, value_len: 40, large_len: 300, reopens: true, times: Times::Unused };
    let write = |seed: u64| -> Result<Vec<u8>, Fault> {
        let disk = Disk::default();
        let mut player = Player::open(DiskHost::new(disk.clone(), Setup::TINY, seed << 20), State::default())?;
        player.play_all(&Tape::generate(&mut derive(seed, 0x5eed), &mix, &mut 0), |_, _| Ok(()))?;
        if seed.is_multiple_of(2) {
            player.play(&Op::Reopen)?;
        }
        disk.kill();
        Ok(disk.image().to_vec())
    };
    (0..4).map(|seed| write(seed).unwrap_or_else(|fault| panic!("seed store {seed}: {fault}"))).collect()
}

/// Opens `bytes` as a store, as they are and once more with everything in them signed anew. True if one of them opened.
pub fn open_bytes(bytes: &[u8]) -> bool {
    let open = |bytes: &[u8], how: &str| {
        examine(bytes, &[], UNMEASURED, bytes.len() as u64)
            .unwrap_or_else(|fault| panic!("{} bytes {how} opened as a store: {fault}", bytes.len()))
    };
    let (signed, _) = sign_all(bytes);
    let opened = open(bytes, "as they are");
    opened | (signed != bytes && open(&signed, "signed anew"))
}

/// Decodes one frame: 8 bytes of salt, 8 of its offset, then the frame, as it is and with the checksum that fits. What decodes
/// must encode to the same bytes. True if it did.
pub fn frame_decode(bytes: &[u8]) -> bool {
    let mut script = Script::new(bytes);
    let (salt, offset) = (script.next_u64(), script.next_u64());
    let frame = script.rest();
    assert!(event_reads_alike(frame), "the event {frame:02x?} reads in two ways");
    if let Some(event) = reencode_event(frame) {
        assert_eq!(reencode_event(&event), Some(event.clone()), "the event {frame:02x?} does not come back");
    }
    if let Ok(again) = reencode(frame, salt, offset) {
        assert!(frame.starts_with(&again), "the frame {frame:02x?} decodes, and encodes to {again:02x?}");
    }
    let Some(len) = frame_len(frame).filter(|&len| len <= frame.len()) else { return false };
    let mut signed = frame.to_vec();
    sign(&mut signed[..len], salt, offset);
    match reencode(&signed, salt, offset) {
        Ok(again) => assert_eq!(again, signed[..len], "the signed frame decodes, and encodes to other bytes"),
        Err(CHECKSUM_FAILS) => panic!("the frame {:02x?} is signed as FORMAT.md says, and fails its checksum", &signed[..len]),
        Err(_) => return false,
    }
    true
}

/// Plays a tape of operations on a store and on the model. True if the tape came back from a reopen or a kill.
pub fn ops_tape(bytes: &[u8]) -> bool {
    let mut script = Script::new(bytes);
    let setup = Setup {
        segment_size: 4096 << script.below(3),
        replay_debt_max: choose(&mut script, &[4096, 20_000, 1 << 20, Setup::NEVER]),
        clock: None,
        sealed: false,
    };
    let mix =
        Mix { ops: OPS_MOST, keys: 40, namespaces: 3, value_len: 300, large_len: 9000, reopens: true, times: Times::Unused };
    let mut tape = Tape::default();
    let mut tag = 0;
    while !script.is_empty() && tape.0.len() < mix.ops {
        tape.0.push(Op::generate(&mut script, &mix, &mut tag));
    }
    // Whatever the tape was, the store comes back from a kill and from a close with the model's content.
    let last = [Op::Verify, Op::Kill, Op::Reopen];
    let returns = tape.0.iter().any(|op| matches!(op, Op::Kill | Op::Reopen));
    tape.0.extend(last);
    play(&tape, &setup).unwrap_or_else(|fault| panic!("{setup:?}: {fault}\ntape: {tape}"));
    returns
}

/// Plays appends, projections, removals, compaction and ends of sessions on a store with event streams and on the model. True if a session began
/// with events.
pub fn events_tape(bytes: &[u8]) -> bool {
    scripted(bytes).unwrap_or_else(|what| panic!("{what}"))
}

fn play(tape: &Tape, setup: &Setup) -> Result<(), Fault> {
    let mut player = Player::open(DiskHost::new(Disk::default(), setup.clone(), 1), State::default())?;
    player.play_all(tape, |_, _| Ok(()))
}

/// Opens one of `bases` with changes, half of the time with fields changed and signed anew among them; without those it has no
/// value that was never written. True if it opened.
pub fn mutated_store(bytes: &[u8], bases: &[Base]) -> bool {
    let mut script = Script::new(bytes);
    let (base, other) = (index(&mut script, bases.len()), index(&mut script, bases.len()));
    let forging = script.chance(1, 2);
    let mut store = bases[base].bytes.clone();
    for _ in 0..CHANGES_MOST {
        if script.is_empty() {
            break;
        }
        if forging && script.chance(2, 3) {
            forge(&mut store, &mut script);
        } else {
            mutate_once(&mut store, &bases[other].bytes, &mut script);
        }
    }
    let written = [&bases[base].written, &bases[other].written];
    let written = if forging { &[][..] } else { &written[..] };
    examine(&store, written, UNMEASURED, bytes.len() as u64)
        .unwrap_or_else(|fault| panic!("base store {base} with pieces of {other}, forging: {forging}: {fault}"))
}
