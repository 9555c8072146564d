//! The key or passphrase of sealed stores: never an argument, which other users of the machine could see.

use crate::exit::{Exit, Failure, Outcome};
use clap::Args;
use pipkin::{Builder, Db};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use unicode_normalization::UnicodeNormalization;

/// Where the key of a sealed store is.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// Open a sealed store, or seal a new one, with the key in this file: 32 bytes, or 64 hexadecimal digits
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "passphrase_file", help_heading = "Options of every verb")]
    key_file: Option<PathBuf>,
    /// The same with a passphrase: the first line of this file. Without either, PIPKIN_PASSPHRASE is the passphrase, if it is set
    #[arg(long, global = true, value_name = "FILE", help_heading = "Options of every verb")]
    passphrase_file: Option<PathBuf>,
}

enum Secret {
    Key([u8; 32]),
    Passphrase(String),
}

static SECRET: OnceLock<Secret> = OnceLock::new();

/// Reads what the command line and the environment name. Called once, before the verb runs.
pub(crate) fn read(args: &KeyArgs) -> Outcome<()> {
    let secret = match (&args.key_file, &args.passphrase_file) {
        (Some(path), _) => Some(Secret::Key(key_in(path)?)),
        (_, Some(path)) => Some(passphrase(&line_in(path)?)),
        _ => std::env::var("PIPKIN_PASSPHRASE").ok().filter(|text| !text.is_empty()).map(|text| passphrase(&text)),
    };
    if let Some(secret) = secret {
        // The first call is the only one.
        let _ = SECRET.set(secret);
    }
    Ok(())
}

/// True if there is a key.
pub(crate) fn is_given() -> bool {
    SECRET.get().is_some()
}

/// A builder with the key, if there is one.
pub(crate) fn builder() -> Builder {
    match SECRET.get() {
        Some(Secret::Key(key)) => Db::builder().encryption_key(*key),
        Some(Secret::Passphrase(text)) => Db::builder().encryption_passphrase(text),
        None => Db::builder(),
    }
}

/// Whatever a keyboard composes: the same passphrase on every system.
fn passphrase(text: &str) -> Secret {
    Secret::Passphrase(text.nfc().collect())
}

fn bytes_in(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::new(Exit::Io, "input", format!("{}: {error}", path.display())))
}

fn key_in(path: &Path) -> Outcome<[u8; 32]> {
    let bytes = bytes_in(path)?;
    let digits = bytes.trim_ascii();
    let hex = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    // A number may have a sign; a digit is none.
    let is_digits = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    let from_digits = || digits.chunks(2).map(hex).collect::<Option<Vec<u8>>>().filter(|_| is_digits);
    let key = <[u8; 32]>::try_from(bytes.as_slice()).ok().or_else(|| from_digits()?.try_into().ok());
    key.ok_or_else(|| {
        Failure::usage(format!(
            "{} is no key: that is 32 bytes, or 64 hexadecimal digits; `head -c 32 /dev/urandom` makes one",
            path.display()
        ))
    })
}

fn line_in(path: &Path) -> Outcome<String> {
    let text = String::from_utf8(bytes_in(path)?);
    let text = text.map_err(|_| Failure::usage(format!("{} is no text in UTF-8", path.display())))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::usage(format!("the first line of {} is empty; a passphrase is not", path.display())));
    }
    Ok(line.to_owned())
}
