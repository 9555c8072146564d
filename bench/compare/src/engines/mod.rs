//! The engines, one file each.

#[cfg(feature = "canopydb")]
mod canopydb;
#[cfg(feature = "emdb")]
mod emdb;
mod files;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "heed")]
mod heed;
mod limits;
mod pipkin;
#[cfg(feature = "redb")]
mod redb;
mod redis;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sanakirja")]
mod sanakirja;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "umadb")]
mod umadb;
#[cfg(feature = "varvedb")]
mod varvedb;

use crate::Result;
use crate::engine::{Engine, Facts};
use crate::phases::Job;

/// The table of engines, in the order of the report's columns.
macro_rules! engines {
    ($($(#[$when:meta])* $engine:ty,)*) => {
        /// All that were built in and can run here.
        pub(crate) fn all() -> Vec<Facts> {
            let all = [$($(#[$when])* <$engine as Engine>::FACTS,)*];
            all.into_iter().filter(|facts| !facts.served || redis::is_there()).collect()
        }

        /// Runs a job with the engine of that name.
        pub(crate) fn run(name: &str, job: Job) -> Result<()> {
            $($(#[$when])*
            if name == <$engine as Engine>::FACTS.name {
                return job.run::<$engine>();
            })*
            Err(format!("there is no engine named {name}").into())
        }
    };
}

engines! {
    pipkin::Pipkin,
    limits::Limits,
    #[cfg(feature = "emdb")]
    emdb::EmdbEngine,
    #[cfg(feature = "redb")]
    redb::RedbEngine,
    #[cfg(feature = "heed")]
    heed::Heed,
    #[cfg(feature = "rocksdb")]
    rocksdb::RocksDb,
    #[cfg(feature = "fjall")]
    fjall::Fjall,
    #[cfg(feature = "canopydb")]
    canopydb::Canopy,
    #[cfg(feature = "sled")]
    sled::Sled,
    #[cfg(feature = "sanakirja")]
    sanakirja::Sanakirja,
    #[cfg(feature = "varvedb")]
    varvedb::VarveEngine,
    #[cfg(feature = "umadb")]
    umadb::Uma,
    files::Files,
    redis::Redis,
}
