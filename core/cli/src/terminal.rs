//! Asking for a passphrase on the terminal, which does not show it.

use crate::exit::{Failure, Outcome};

/// The longest passphrase that is read, in bytes.
#[cfg(unix)]
const LONGEST: u64 = 4096;

fn no_terminal() -> Failure {
    Failure::usage("there is no terminal to ask for a passphrase on: give it with --passphrase-file or --new-passphrase-file")
}

/// A line that the user types, not shown. Of the process's terminal, whatever its input and output are.
#[cfg(unix)]
pub(crate) fn ask(prompt: &str) -> Outcome<String> {
    use std::fs::OpenOptions;
    use std::io::{BufRead, BufReader, Read, Write};
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| no_terminal())?;
    let quiet = echo::Off::new(&terminal).map_err(|_| no_terminal())?;
    let failed = |error| Failure::io("ask on", std::path::Path::new("the terminal"), &error);
    write!(terminal, "{prompt}: ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    let read = BufReader::new(terminal.take(LONGEST)).read_line(&mut line);
    drop(quiet);
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(not(unix))]
pub(crate) fn ask(prompt: &str) -> Outcome<String> {
    rpassword::prompt_password(format!("{prompt}: ")).map_err(|_| no_terminal())
}

/// Lets the terminal show again what is typed, for a process that ends while it asks.
pub(crate) fn restore() {
    #[cfg(unix)]
    echo::restore();
}

#[cfg(unix)]
mod echo {
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::fs::File;
    use std::io;
    use std::sync::{Mutex, PoisonError};

    /// How the terminal was.
    static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);

    /// The terminal does not show what is typed, until this is dropped.
    pub(super) struct Off;

    impl Off {
        pub(super) fn new(terminal: &File) -> io::Result<Self> {
            let shown = tcgetattr(terminal)?;
            let mut hidden = shown.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            hidden.local_modes.insert(LocalModes::ECHONL);
            let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
            *before = Some((terminal.try_clone()?, shown));
            tcsetattr(terminal, OptionalActions::Flush, &hidden)?;
            Ok(Self)
        }
    }

    impl Drop for Off {
        fn drop(&mut self) {
            restore();
        }
    }

    pub(super) fn restore() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((terminal, shown)) = before {
            // A terminal that is gone shows nothing either.
            let _ = tcsetattr(&terminal, OptionalActions::Now, &shown);
        }
    }
}
