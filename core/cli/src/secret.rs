//! Keys and passphrases: read from files, the environment and the terminal; never from an argument, which other users of the machine could see.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use std::fs;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;

/// What opens a sealed store.
#[derive(PartialEq, Eq)]
pub(crate) enum Secret {
    Key([u8; 32]),
    Passphrase(String),
}

impl Secret {
    /// The key in a file: 32 bytes, or 64 hexadecimal digits.
    pub(crate) fn key_in(path: &Path) -> Outcome<Self> {
        let bytes = bytes_in(path)?;
        let digits = bytes.trim_ascii();
        let hex = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        // A number may have a sign; a digit is none.
        let is_digits = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
        let from_digits = || digits.chunks(2).map(hex).collect::<Option<Vec<u8>>>().filter(|_| is_digits);
        let key = <[u8; 32]>::try_from(bytes.as_slice()).ok().or_else(|| from_digits()?.try_into().ok());
        key.map(Self::Key).ok_or_else(|| {
            Failure::usage(format!(
                "{} is no key: that is 32 bytes, or 64 hexadecimal digits; `head -c 32 /dev/urandom` makes one",
                path.display()
            ))
        })
    }

    /// The passphrase in the first line of a file.
    pub(crate) fn passphrase_in(path: &Path) -> Outcome<Self> {
        let text = String::from_utf8(bytes_in(path)?);
        let text = text.map_err(|_| Failure::usage(format!("{} is no text in UTF-8", path.display())))?;
        let line = text.lines().next().unwrap_or_default();
        if line.is_empty() {
            return Err(Failure::usage(format!("the first line of {} is empty; a passphrase is not", path.display())));
        }
        Ok(Self::passphrase(line))
    }

    /// The passphrase in the environment, if there is one.
    pub(crate) fn in_environment() -> Option<Self> {
        std::env::var("PIPKIN_PASSPHRASE").ok().filter(|text| !text.is_empty()).map(|text| Self::passphrase(&text))
    }

    /// A passphrase that the user types.
    pub(crate) fn asked(prompt: &str) -> Outcome<Self> {
        let line = terminal::ask(prompt)?;
        if line.is_empty() {
            return Err(Failure::usage("a passphrase is not empty"));
        }
        Ok(Self::passphrase(&line))
    }

    /// A passphrase that the user types twice, because a slip would lock them out.
    pub(crate) fn asked_twice(prompt: &str) -> Outcome<Self> {
        let first = Self::asked(prompt)?;
        first.ask_again()?;
        Ok(first)
    }

    /// Fails unless the user types the same passphrase again.
    pub(crate) fn ask_again(&self) -> Outcome<()> {
        if Self::asked("The same again")? == *self {
            return Ok(());
        }
        Err(Failure::usage("the two passphrases differ, so nothing was changed; try again"))
    }

    /// Whatever a keyboard composes: the same passphrase on every system.
    fn passphrase(text: &str) -> Self {
        Self::Passphrase(text.nfc().collect())
    }
}

fn bytes_in(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::new(Exit::Io, "input", format!("{}: {error}", path.display())))
}
