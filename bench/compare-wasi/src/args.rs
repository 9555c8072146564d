//! What is measured, and how often.

use crate::Outcome;
use std::path::PathBuf;

const USAGE: &str = "\
usage: pipkin-compare-wasi --guests DIR [--quick] [--served] [--dir DIR]

DIR of --guests has pipkin.wasm (the component), composed.wasm, keyvalue.wasm, redb.wasm and, if there is one, sqlite.wasm.
--quick  few rounds
--served only what the host serves: needs keyvalue.wasm alone
--dir    another folder for the stores than the system's for temporary files";

pub(crate) struct Args {
    pub(crate) guests: PathBuf,
    pub(crate) folder: PathBuf,
    /// How often everything is measured; the medians count.
    pub(crate) rounds: usize,
    /// Operations of one measurement.
    pub(crate) count: u32,
    /// Only the providers of `wasi:keyvalue`.
    pub(crate) served: bool,
    /// Records of each store.
    pub(crate) records: u32,
}

impl Args {
    pub(crate) fn parse() -> Outcome<Self> {
        let (mut guests, mut folder, mut quick, mut served) = (None, std::env::temp_dir(), false, false);
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match (word.as_str(), words.len()) {
                ("--guests", 1..) => guests = words.next().map(PathBuf::from),
                ("--dir", 1..) => folder = words.next().map_or(folder, PathBuf::from),
                ("--quick", _) => quick = true,
                ("--served", _) => served = true,
                _ => return Err(format!("{word} is not understood\n\n{USAGE}").into()),
            }
        }
        let guests = guests.ok_or(USAGE)?;
        // So few operations that a measurement ends before the system gives the processor to somebody else.
        let (rounds, count) = if quick { (11, 1_000) } else { (201, 1_000) };
        Ok(Self { guests, folder, rounds, count, served, records: 10_000 })
    }
}
