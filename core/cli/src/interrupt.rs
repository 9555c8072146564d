//! Ctrl-C. A verb that can stop at a suitable point polls a flag; any other is ended at once, and its unfinished file removed.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The verb polls [`requested`] and stops by itself.
static POLITE: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// A file to remove if the process is ended before it is finished.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Installs the handler. The engine survives the end of the process at any instruction, so ending it at once is always safe.
pub(crate) fn install(json: bool) -> Outcome<()> {
    ctrlc::set_handler(move || {
        if POLITE.load(Ordering::Relaxed) && !REQUESTED.swap(true, Ordering::Relaxed) {
            return;
        }
        terminal::restore();
        // Locked until the process ends: no file is created after the removal.
        let unfinished = lock_unfinished();
        if let Some(path) = &*unfinished {
            let _ = std::fs::remove_file(path);
        }
        if io::stderr().is_terminal() {
            // Clear the line: it may show a progress bar, and the `^C` after it.
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
        let what = "interrupted; the store is good, run the command again to finish";
        Failure::new(Exit::Interrupted, "interrupted", what).print(json);
        std::process::exit(i32::from(Exit::Interrupted as u8));
    })
    .map_err(|error| Failure::new(Exit::Io, "io", format!("cannot watch for Ctrl-C: {error}")))
}

/// Makes the first Ctrl-C only set the flag; a second one ends the process at once.
pub(crate) fn stop_politely() {
    POLITE.store(true, Ordering::Relaxed);
}

/// True when the user has asked the verb to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Creates the file at `path` with `make`. If Ctrl-C ends the process before [`set_finished`], the file is removed; Ctrl-C waits until
/// `make` has returned.
pub(crate) fn make_unfinished<T, E>(path: &Path, make: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
    let mut unfinished = lock_unfinished();
    let made = make(path)?;
    *unfinished = Some(path.to_path_buf());
    Ok(made)
}

/// Notes that there is no file to remove any more: it has its final name, or is gone.
pub(crate) fn set_finished() {
    *lock_unfinished() = None;
}

fn lock_unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
