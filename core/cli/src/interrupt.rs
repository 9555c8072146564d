//! Ctrl-C. A verb that can stop at a good place asks to be told; any other is ended at once, and its unfinished file removed.

use crate::exit::{Exit, Failure, Outcome};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The verb looks at [`requested`] and stops by itself.
static POLITE: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// A file that means nothing until it is finished.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Installs the handler. The engine survives the end of the process at any instruction, so ending at once is always safe.
pub(crate) fn install(json: bool) -> Outcome<()> {
    ctrlc::set_handler(move || {
        if POLITE.load(Ordering::Relaxed) && !REQUESTED.swap(true, Ordering::Relaxed) {
            return;
        }
        remove_unfinished();
        if io::stderr().is_terminal() {
            // The bar that may stand there, and the ^C behind it.
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
        let what = "interrupted; the store is good, run the command again to finish";
        Failure::new(Exit::Interrupted, "interrupted", what).print(json);
        std::process::exit(i32::from(Exit::Interrupted as u8));
    })
    .map_err(|error| Failure::new(Exit::Io, "io", format!("cannot watch for Ctrl-C: {error}")))
}

/// From now on the first Ctrl-C only sets the flag; a second one ends the process at once.
pub(crate) fn stop_politely() {
    POLITE.store(true, Ordering::Relaxed);
}

/// True when the user wants the verb to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Names the file to remove when the process is ended before it is finished; `None` when it is.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = path.map(Path::to_path_buf);
}

fn remove_unfinished() {
    let path = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(path) = path {
        let _ = std::fs::remove_file(path);
    }
}
