//! Why a foreign store cannot be read.

use crate::engine::Engine;
use std::fmt;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a foreign store cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This build does not read the files of that engine.
    NotBuiltIn {
        /// The engine, whose name is that of the feature.
        engine: Engine,
    },
    /// There is no such file, folder or table.
    NotFound {
        /// What is missing.
        what: String,
    },
    /// The engine refuses, or the file system does.
    Failed {
        /// The engine.
        engine: Engine,
        /// Its words.
        detail: String,
    },
    /// The table is no map from bytes to bytes.
    Unsupported {
        /// Its name.
        table: String,
        /// What it is.
        detail: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuiltIn { engine } => {
                let engine = engine.name();
                write!(
                    f,
                    "this build does not read {engine}; `cargo install pipkin-cli --features from-{engine}` makes one that does"
                )
            }
            Self::NotFound { what } => write!(f, "there is no {what}"),
            Self::Failed { engine, detail } => write!(f, "this is no store that {} can read: {detail}", engine.name()),
            Self::Unsupported { table, detail } => write!(f, "the table {table:?} cannot be imported: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// For `map_err`: the words of the engine.
    #[cfg_attr(not(feature = "all"), allow(dead_code, reason = "without an engine nothing fails"))]
    pub(crate) fn from<E: fmt::Display>(engine: Engine) -> impl Fn(E) -> Self {
        move |error| Self::Failed { engine, detail: error.to_string() }
    }

    #[cfg_attr(not(feature = "all"), allow(dead_code, reason = "without an engine there are no tables"))]
    pub(crate) fn no_table(name: &str) -> Self {
        Self::NotFound { what: format!("table {name:?}") }
    }
}
