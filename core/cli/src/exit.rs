//! How the command ends: the exit codes, and failures as one sentence or as one JSON object on stderr.

use pipkin::Error;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The exit codes. The table in `command::AFTER_HELP` documents them for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    No = 1,
    Usage = 2,
    Damage = 3,
    Locked = 4,
    NoSpace = 5,
    NoStore = 6,
    Io = 7,
    BadInput = 8,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    kind: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// What every verb returns. `Ok` with a code other than [`Exit::Done`] is a result that was printed already, such as damage that `verify`
/// found.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, kind: &'static str, message: impl Display) -> Self {
        Self { exit, kind, message: message.to_string(), details: Map::new() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn bad_input(message: impl Display) -> Self {
        Self::new(Exit::BadInput, "bad-input", message)
    }

    pub(crate) fn is(&self, exit: Exit) -> bool {
        self.exit == exit
    }

    /// Adds a field to the JSON form.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the consequence of the failure to its message.
    pub(crate) fn and(mut self, consequence: impl Display) -> Self {
        self.message = format!("{}; {consequence}", self.message);
        self
    }

    /// A failure of the file system outside the store.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let (exit, kind) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (Exit::NoSpace, "no-space"),
            _ => (Exit::Io, "io"),
        };
        Self::new(exit, kind, format!("cannot {doing} {}: {error}", path.display())).with("path", path.display().to_string())
    }

    /// A failed write to stdout. A reader that has closed the pipe (`pipkin scan ... | head`) is not a failure: the exit code is 0.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, CLOSED_PIPE, "");
        }
        // Not the exit code of `NoSpace`, even if the output's disk is full: that would suggest that the store has no space.
        Self { exit: Exit::Io, kind: "io", ..Self::io("write to", Path::new("standard output"), error) }
    }

    /// A failure of the engine on the store at `path`.
    pub(crate) fn store(path: &Path, error: &Error) -> Self {
        let (exit, kind) = classify(error);
        // Some of the engine's messages contain the path already.
        let failure = match error {
            Error::Locked { .. } | Error::NotFound { .. } | Error::IsDirectory { .. } => Self::new(exit, kind, error),
            Error::Storage(failed) if failed.path().is_some() => Self::new(exit, kind, format!("{error:#}")),
            _ => Self::new(exit, kind, format!("{}: {error:#}", path.display())),
        };
        let failure = failure.with("path", path.display().to_string());
        match error {
            Error::Locked { holder: Some(pid), .. } => failure.with("holder_pid", *pid),
            Error::Corrupt { offset, .. } | Error::Unsupported { offset, .. } | Error::Forged { offset, .. } => {
                failure.with("offset", *offset)
            }
            Error::NewerVersion { found, supported } => failure.with("found", *found).with("supported", *supported),
            _ => failure,
        }
    }

    /// A failure of a copy from one store into another. Errors of a full or read-only medium concern the target, others the source.
    pub(crate) fn copy(source: &Path, target: &Path, error: &Error) -> Self {
        match error {
            Error::NoSpace | Error::StrandedInTheWay { .. } | Error::ReadOnly | Error::Poisoned(_) => Self::store(target, error),
            _ => Self::store(source, error),
        }
    }

    /// Prints the failure as one line on stderr.
    pub(crate) fn print(&self, json: bool) {
        #[derive(Serialize)]
        struct Report<'a> {
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            exit_code: u8,
            kind: &'a str,
            message: &'a str,
            #[serde(flatten)]
            details: &'a Map<String, Value>,
        }
        let line = if json {
            let error = Body { exit_code: self.exit as u8, kind: self.kind, message: &self.message, details: &self.details };
            serde_json::to_string(&Report { error }).unwrap_or_default()
        } else {
            format!("pipkin: {}", self.message)
        };
        // If stderr is closed, the exit code still reports the failure.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

const CLOSED_PIPE: &str = "closed-pipe";

/// The exit code and the name in JSON of an engine error.
fn classify(error: &Error) -> (Exit, &'static str) {
    match error {
        Error::Locked { .. } => (Exit::Locked, "locked"),
        Error::NotFound { .. } => (Exit::NoStore, "not-found"),
        Error::IsDirectory { .. } => (Exit::NoStore, "is-directory"),
        Error::NotAStore { .. } => (Exit::NoStore, "not-a-store"),
        Error::NewerVersion { .. } => (Exit::NoStore, "newer-version"),
        Error::ReadOnly => (Exit::Io, "read-only"),
        Error::NoSpace | Error::StrandedInTheWay { .. } => (Exit::NoSpace, "no-space"),
        Error::KeyTooLong { .. } | Error::GroupKeyTooLong { .. } => (Exit::Usage, "key-too-long"),
        Error::ValueTooLong { .. } => (Exit::Usage, "value-too-long"),
        Error::NamespaceName { .. } => (Exit::Usage, "namespace-name"),
        Error::SystemNamespace => (Exit::Usage, "system-namespace"),
        Error::InvalidArgument(_) => (Exit::Usage, "usage"),
        Error::Corrupt { .. } => (Exit::Damage, "damage"),
        Error::Unsupported { .. } => (Exit::NoStore, "unsupported"),
        Error::KeyNeeded => (Exit::Usage, "key-needed"),
        Error::NotSealed => (Exit::Usage, "not-sealed"),
        Error::WrongKey => (Exit::Usage, "wrong-key"),
        Error::DisablingEncryption => (Exit::Usage, "disabling-encryption"),
        Error::Forged { .. } => (Exit::Damage, "forged"),
        Error::RolledBack => (Exit::Damage, "rolled-back"),
        Error::UnknownPosition => (Exit::No, "unknown-position"),
        Error::Compacted { .. } => (Exit::No, "compacted"),
        Error::AppendRefused { .. } => (Exit::No, "append-refused"),
        Error::LogExhausted => (Exit::Io, "log-exhausted"),
        Error::Poisoned(first) => classify(first),
        _ => (Exit::Io, "io"),
    }
}

/// Turns what a verb returned into the exit code of the process.
pub(crate) fn finish(outcome: Outcome, json: bool) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) if failure.kind == CLOSED_PIPE => Exit::Done.into(),
        Err(failure) => {
            failure.print(json);
            failure.exit.into()
        }
    }
}
