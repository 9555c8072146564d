//! Requests that may come twice. A tab whose leader has died sends its request to the next leader, and does not know whether the first
//! had carried it out. So the commit itself records that, in a system namespace with one record for each tab.

use alloc::vec::Vec;

use pipkin::{Cursor, Db, Error, Namespace, Result};

use crate::failure::{Code, Failure};
use crate::transactions;
use crate::wire::Answer;

/// The system namespace; a key is the 16 bytes of a tab's name, a value the number of its last request and that request's outcomes.
const NAME: &str = "web/requests";

/// Outcomes of failed writes; those of successful ones are 0 and 1.
pub(crate) const NO_SPACE: u8 = 0xfe;
pub(crate) const CONFLICT: u8 = 0xfd;
pub(crate) const FAILED: u8 = 0xff;

pub(crate) fn namespace(db: &Db) -> Result<Namespace> {
    db.system_namespace(NAME)
}

pub(crate) fn record(number: u64, outcomes: &[u8]) -> Vec<u8> {
    [&number.to_le_bytes(), outcomes].concat()
}

/// The outcomes of those writes of this request that have been carried out already.
pub(crate) fn outcomes(db: &Db, (client, number): ([u8; 16], u64)) -> Result<Vec<u8>> {
    let Some(namespace) = db.find_system_namespace(NAME) else { return Ok(Vec::new()) };
    let record = namespace.get(client)?.unwrap_or_default();
    match record.split_first_chunk() {
        Some((last, outcomes)) if u64::from_le_bytes(*last) == number => Ok(outcomes.to_vec()),
        _ => Ok(Vec::new()),
    }
}

pub(crate) fn outcome_of(answer: &Answer) -> u8 {
    match answer {
        Answer::Written(outcome) => *outcome,
        Answer::Failed(Failure { code: Code::Quota, .. }) => NO_SPACE,
        Answer::Failed(Failure { code: Code::Conflict, .. }) => CONFLICT,
        _ => FAILED,
    }
}

pub(crate) fn answer_of(outcome: u8) -> Answer {
    match outcome {
        NO_SPACE => Answer::Failed((&Error::NoSpace).into()),
        CONFLICT => Answer::Failed(transactions::gone()),
        FAILED => Answer::Failed(Failure::new(Code::Failed, "the write was refused; the tab that knew why has gone")),
        outcome => Answer::Written(outcome),
    }
}

/// Forgets the requests of all tabs but these, which are still open.
pub(crate) fn forget_all_but(db: &Db, living: &[[u8; 16]]) -> Result<()> {
    let Some(namespace) = db.find_system_namespace(NAME) else { return Ok(()) };
    let mut gone: Vec<Vec<u8>> = Vec::new();
    let mut next = Some(Cursor::default());
    while let Some(from) = next {
        next = namespace.page(from, |key, _| {
            if !living.iter().any(|client| client == key) {
                gone.push(key.to_vec());
            }
            true
        })?;
    }
    if gone.len() as u64 == namespace.len()? {
        return namespace.clear();
    }
    gone.iter().fold(db.batch(), |batch, key| batch.remove_in(&namespace, key)).commit()
}
