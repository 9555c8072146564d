//! What opens sealed stores on this command line: the options of every verb, and those of the verbs that change it.

use crate::exit::{Exit, Failure, Outcome};
use crate::secret::Secret;
use clap::Args;
use pipkin::{Builder, Db};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where the key of a sealed store is.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// Open a sealed store, or seal a new one, with the key in this file: 32 bytes, or 64 hexadecimal digits
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["passphrase_file", "passphrase"], help_heading = "Options of every verb")]
    key_file: Option<PathBuf>,
    /// The same with a passphrase: the first line of this file. Without any of these, PIPKIN_PASSPHRASE is the passphrase, if it is set
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "passphrase", help_heading = "Options of every verb")]
    passphrase_file: Option<PathBuf>,
    /// The same with a passphrase that is asked for on the terminal
    #[arg(long, global = true, help_heading = "Options of every verb")]
    passphrase: bool,
    /// Open a sealed store that has lost its page of keys with the one in this file, which `pipkin keys export` has written
    #[arg(long, global = true, value_name = "FILE", help_heading = "Options of every verb")]
    key_page: Option<PathBuf>,
}

/// A new key or passphrase.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct NewSecretArgs {
    /// The new key is in this file: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,
    /// The new passphrase is the first line of this file
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
    /// Ask for the new passphrase on the terminal, twice
    #[arg(long)]
    new_passphrase: bool,
}

impl NewSecretArgs {
    /// The new one; `None` if there is none.
    pub(crate) fn find(&self) -> Outcome<Option<Secret>> {
        match (&self.new_key_file, &self.new_passphrase_file) {
            (Some(path), _) => Secret::key_in(path).map(Some),
            (_, Some(path)) => Secret::passphrase_in(path).map(Some),
            _ if self.new_passphrase => Secret::asked_twice("New passphrase").map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn read(&self) -> Outcome<Secret> {
        let what = "say what is to open the store: --new-key-file, --new-passphrase-file or --new-passphrase";
        self.find()?.ok_or_else(|| Failure::usage(what))
    }
}

/// What the command line and the environment name.
#[derive(Default)]
struct Given {
    secret: Option<Secret>,
    /// It was typed, so it may be a slip.
    is_typed: bool,
    key_page: Option<Vec<u8>>,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Reads what the command line and the environment name. Called once, before the verb runs.
pub(crate) fn read(args: &KeyArgs) -> Outcome<()> {
    let secret = match (&args.key_file, &args.passphrase_file) {
        (Some(path), _) => Some(Secret::key_in(path)?),
        (_, Some(path)) => Some(Secret::passphrase_in(path)?),
        _ if args.passphrase => Some(Secret::asked("Passphrase")?),
        _ => Secret::in_environment(),
    };
    let page = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| Failure::new(Exit::Io, "input", format!("{}: {error}", path.display())))
    };
    let key_page = args.key_page.as_ref().map(page).transpose()?;
    // The first call is the only one.
    let _ = GIVEN.set(Given { secret, is_typed: args.passphrase, key_page });
    Ok(())
}

/// The key or passphrase, if there is one.
pub(crate) fn secret() -> Option<&'static Secret> {
    GIVEN.get()?.secret.as_ref()
}

/// A builder with the key, if there is one, for a store that is not there yet.
pub(crate) fn builder_of_new() -> Builder {
    match secret() {
        Some(Secret::Key(key)) => Db::builder().encryption_key(*key),
        Some(Secret::Passphrase(text)) => Db::builder().encryption_passphrase(text),
        None => Db::builder(),
    }
}

/// A builder with the key, if there is one, and with the page of keys that was kept.
pub(crate) fn builder() -> Builder {
    let builder = builder_of_new();
    match GIVEN.get().and_then(|given| given.key_page.as_ref()) {
        Some(page) => builder.key_page(page.as_slice()),
        None => builder,
    }
}

/// Asks for a typed passphrase once more: it is about to seal a store.
pub(crate) fn confirm() -> Outcome<()> {
    match GIVEN.get() {
        Some(Given { secret: Some(secret), is_typed: true, .. }) => secret.ask_again(),
        _ => Ok(()),
    }
}

/// Asks for a typed passphrase once more if it would seal a new store at `path`.
pub(crate) fn confirm_for_new(path: &Path) -> Outcome<()> {
    if path.exists() { Ok(()) } else { confirm() }
}
