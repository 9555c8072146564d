//! What goes wrong in a run.

use pipkin::Error;
use std::fmt;

/// What stopped a run.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The engine returned an error. Whether that is wrong depends on what was done to it.
    Engine(Error),
    /// The engine gave a wrong answer.
    Wrong(String),
}

impl Fault {
    /// A wrong answer.
    pub fn wrong<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Wrong(what.into()))
    }

    /// The same fault, with where it happened.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Engine(error) => Self::Wrong(format!("{place}: unexpected error: {error} ({error:?})")),
            Self::Wrong(what) => Self::Wrong(format!("{place}: {what}")),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => write!(f, "unexpected error: {error} ({error:?})"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}
