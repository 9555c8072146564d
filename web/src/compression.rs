//! When values are compressed, in the module that knows how: the sealed one.

use pipkin::{Db, Error, Result};

/// Why the calls below fail.
#[cfg(not(feature = "sealed"))]
const UNKNOWN: Error = Error::InvalidArgument("this module does not compress: open the store with { compression }");
#[cfg(feature = "sealed")]
const SEALED: Error = Error::InvalidArgument(
    "a sealed store compresses only when it was opened with { compressSealed: true }: lengths then tell something of what is in the values",
);

#[cfg(feature = "sealed")]
const WHENS: [pipkin::Compression; 3] =
    [pipkin::Compression::Off, pipkin::Compression::OnCompaction, pipkin::Compression::OnWrite];

#[cfg(feature = "sealed")]
pub(crate) fn set(db: &Db, when: u8) -> Result<()> {
    db.set_compression(WHENS.get(usize::from(when)).copied()).map_err(|error| match error {
        Error::InvalidArgument(_) => SEALED,
        error => error,
    })
}

#[cfg(feature = "sealed")]
pub(crate) fn of(db: &Db) -> u8 {
    WHENS.iter().position(|when| *when == db.compression()).unwrap_or_default() as u8
}

#[cfg(not(feature = "sealed"))]
pub(crate) fn set(_: &Db, _: u8) -> Result<()> {
    Err(UNKNOWN)
}

/// A module that does not know compression opens no store that has it.
#[cfg(not(feature = "sealed"))]
pub(crate) fn of(_: &Db) -> u8 {
    0
}
