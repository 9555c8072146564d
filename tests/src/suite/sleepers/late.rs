//! Headers that come late into a sealed store that was closed by then: it was not set back, and what they begin does not count.

use super::session::{File, Seat, Session, Sleep};
use super::{Life, live};
use crate::forge::log_headers;
use crate::parallel::{Failure, Outcome};
use std::sync::{Arc, Mutex, PoisonError};

/// Where superblocks say which header is the newest, and where each header has its number.
const NEWEST: usize = 184;
const NUMBER: usize = 72;

/// A session sleeps in front of each write of a checkpoint while another one takes the store over and closes it. Where the place of the index snapshot is
/// named at the end of a segment, two headers are under way, and the second one has a number above all that the closed store knows.
pub fn late_headers() -> Outcome {
    let mut above = 0;
    for fill in (0..3300).step_by(47) {
        for at in 1.. {
            let replay = format!("{fill} bytes in front of the checkpoint, asleep in front of call {at}");
            match one(fill, at).map_err(|what| Failure::new(replay, what))? {
                Some(is_above) => above += u64::from(is_above),
                None => break,
            }
        }
    }
    let none = "no header came late with a number above those of the closed store";
    if above > 0 { Ok(()) } else { Err(Failure::new("late headers", none)) }
}

/// True if a header that came late has a number above all others; `None` if the sleeper makes fewer calls.
fn one(fill: usize, at: usize) -> Result<Option<bool>, String> {
    let file = File::new(true);
    let seat = Seat::new(&file, None);
    let sleep = seat.sleep.clone();
    let told = |error: pipkin::Error| format!("the sleeper was told: {error}");
    let mut session = Session::open(&file, seat, "sleeper".into()).map_err(told)?;
    session.put(40).and_then(|()| session.flush()).map_err(told)?;
    session.put(fill).map_err(told)?;
    let failed: Arc<Mutex<Option<String>>> = Arc::default();
    let (others, here) = (file.clone(), failed.clone());
    *sleep.lock().unwrap_or_else(PoisonError::into_inner) = Sleep::new(at, move || {
        *here.lock().unwrap_or_else(PoisonError::into_inner) = live(&others, Life::Closed, 0, false).err();
    });
    let _ = session.db.checkpoint();
    session.end();
    if sleep.lock().unwrap_or_else(PoisonError::into_inner).slept_before.is_none() {
        return Ok(None);
    }
    if let Some(what) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(what);
    }
    let bytes = file.bytes();
    let word = |at: usize| bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    let known = word(NEWEST).max(word(4096 + NEWEST));
    let is_above = log_headers(&bytes).into_iter().any(|start| word(start + NUMBER) > known);
    file.check().map(|()| Some(is_above))
}
