//! What opens sealed stores: a key or a passphrase in a file, which the component never sees.

use pipkin_wasi_host::keyvalue::WasiKeyValueCtxBuilder;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization;
use wasmtime::Result;
use wasmtime::error::Context;

/// The key of the listed stores.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// Open the stores, or create them, sealed by the key in this file: 32 bytes, or 64 hexadecimal digits. The component never sees it
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    key_file: Option<PathBuf>,
    /// The same with a passphrase: the first line of this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// What a file has.
pub(crate) enum Secret {
    Key([u8; 32]),
    Passphrase(String),
}

impl KeyArgs {
    /// What the files have, if any is named.
    pub(crate) fn read(&self) -> Result<Option<Secret>> {
        match (&self.key_file, &self.passphrase_file) {
            (Some(path), _) => key_in(path).map(Some),
            (_, Some(path)) => passphrase_in(path).map(Some),
            _ => Ok(None),
        }
    }
}

impl Secret {
    /// The listed store of this name is opened with it.
    pub(crate) fn open(&self, builder: WasiKeyValueCtxBuilder, name: &str) -> WasiKeyValueCtxBuilder {
        match self {
            Self::Key(key) => builder.encryption_key(name, *key),
            Self::Passphrase(text) => builder.encryption_passphrase(name, text),
        }
    }
}

fn bytes_in(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn key_in(path: &Path) -> Result<Secret> {
    let bytes = bytes_in(path)?;
    if let Ok(key) = bytes.as_slice().try_into() {
        return Ok(Secret::Key(key));
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = bytes.trim_ascii().iter().map(digit).collect();
    let pairs = digits.map(|digits| digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect::<Vec<u8>>());
    let key = pairs.filter(|_| bytes.trim_ascii().len() == 64).and_then(|key| key.try_into().ok());
    let what = || format!("{} is no key: that is 32 bytes, or 64 hexadecimal digits", path.display());
    key.map(Secret::Key).ok_or_else(|| wasmtime::Error::msg(what()))
}

fn passphrase_in(path: &Path) -> Result<Secret> {
    let text = String::from_utf8(bytes_in(path)?).unwrap_or_default();
    match text.lines().next() {
        // The same on every system, whatever a keyboard composes; as the command `pipkin` does it.
        Some(line) if !line.is_empty() => Ok(Secret::Passphrase(line.nfc().collect())),
        _ => Err(wasmtime::Error::msg(format!("the first line of {} is no passphrase", path.display()))),
    }
}
