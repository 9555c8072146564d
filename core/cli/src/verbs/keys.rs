//! `pipkin keys`

use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::new_file::{NewFile, create_private};
use crate::output::{self, records};
use crate::secret::Secret;
use crate::store::Store;
use crate::unlock::{self, NewSecretArgs};
use clap::{Args, Subcommand};
use pipkin::{KeySlot, KeySlotKind};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pipkin keys list app.pipkin --key-file app.key
  pipkin keys add app.pipkin --key-file app.key --new-passphrase
  pipkin keys replace app.pipkin --passphrase --new-passphrase
  pipkin keys remove app.pipkin 0 --passphrase
  pipkin keys rotate app.pipkin --key-file app.key --new-key-file new.key
  pipkin keys export app.pipkin app.keypage --key-file app.key

A key is 32 random bytes in a file (`head -c 32 /dev/urandom > app.key`), and \
never an argument. Removing one keeps nobody out who has had it: they may have \
kept what it leads to. `rotate` does: it seals everything anew, under a key of \
which they have nothing.";

/// Arguments of `keys`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    action: Action,
}

/// What to do with the keys and passphrases of a sealed store.
#[derive(Debug, Subcommand)]
enum Action {
    /// List what opens the store: numbers, and whether each is a key or a passphrase
    List {
        /// The store file
        store: PathBuf,
    },
    /// Let one more key or passphrase open the store; eight can
    Add {
        /// The store file
        store: PathBuf,
        #[command(flatten)]
        new: NewSecretArgs,
    },
    /// Let a key or passphrase open the store no more
    Remove {
        /// The store file
        store: PathBuf,
        /// Its number, as `list` shows it
        number: u8,
    },
    /// Put a new key or passphrase in the place of one
    Replace {
        /// The store file
        store: PathBuf,
        /// The number of the old one; without it the passphrase that opens the store, or the only one
        number: Option<u8>,
        #[command(flatten)]
        new: NewSecretArgs,
    },
    /// Seal everything under a new data key, which the new key or passphrase alone opens; with neither, finish a rotation that waits
    Rotate {
        /// The store file
        store: PathBuf,
        #[command(flatten)]
        new: NewSecretArgs,
    },
    /// Write the page of keys into a file, against the loss of all its copies in the store: --key-page opens such a store
    Export {
        /// The store file
        store: PathBuf,
        /// The file to create; it must not exist
        target: PathBuf,
    },
}

#[derive(Serialize)]
struct SlotReport {
    number: u8,
    kind: &'static str,
}

impl SlotReport {
    fn of(slot: &KeySlot) -> Self {
        let kind = match slot.kind {
            KeySlotKind::Passphrase => "passphrase",
            _ => "key",
        };
        Self { number: slot.number, kind }
    }
}

#[derive(Serialize)]
struct ListReport {
    slots: Vec<SlotReport>,
}

/// The numbers of what was added and removed; without either, the passphrase that opened the store was replaced, and kept its number.
#[derive(Serialize)]
struct ChangeReport {
    added: Option<u8>,
    removed: Option<u8>,
}

#[derive(Serialize)]
struct RotationReport {
    finished: bool,
    segments_left: u64,
    history_bytes: u64,
    records_copied: u64,
    bytes_copied: u64,
}

#[derive(Serialize)]
struct ExportReport {
    target: String,
    bytes: usize,
}

pub(crate) fn run(global: Global, args: &KeysArgs) -> Outcome {
    match &args.action {
        Action::List { store } => list(global, &Store::read(store, &NamespaceArg::default())?),
        Action::Add { store, new } => add(global, store, new),
        Action::Remove { store, number } => remove(global, store, *number),
        Action::Replace { store, number, new } => replace(global, store, *number, new),
        Action::Rotate { store, new } => rotate(global, store, new),
        Action::Export { store, target } => export(global, store, target),
    }
}

fn open(path: &Path) -> Outcome<Store> {
    Store::change(path, &NamespaceArg::default())
}

fn slots_of(store: &Store) -> Outcome<Vec<KeySlot>> {
    store.db().key_slots().map_err(|error| store.failure(&error))
}

fn list(global: Global, store: &Store) -> Outcome {
    let report = ListReport { slots: slots_of(store)?.iter().map(SlotReport::of).collect() };
    let mut plain = String::new();
    for SlotReport { number, kind } in &report.slots {
        let _ = writeln!(plain, "{number}\t{kind}");
    }
    output::report(global.json, &report, plain.trim_end())?;
    Ok(Exit::Done)
}

fn tell(global: Global, report: &ChangeReport) -> Outcome {
    let plain = match (report.added, report.removed) {
        (Some(added), None) => format!("number {added} opens the store, too"),
        (Some(added), Some(removed)) => format!("number {added} opens the store, and number {removed} no more"),
        (None, Some(removed)) => format!("number {removed} opens the store no more"),
        (None, None) => "the new passphrase opens the store, and the old one no more".to_owned(),
    };
    output::report(global.json, report, &plain)?;
    Ok(Exit::Done)
}

fn add_to(store: &Store, new: &Secret) -> Outcome<u8> {
    let added = match new {
        Secret::Key(key) => store.db().add_encryption_key(*key),
        Secret::Passphrase(text) => store.db().add_encryption_passphrase(text),
    };
    added.map_err(|error| store.failure(&error))
}

fn add(global: Global, path: &Path, new: &NewSecretArgs) -> Outcome {
    let store = open(path)?;
    slots_of(&store)?;
    let added = add_to(&store, &new.read()?)?;
    store.close()?;
    tell(global, &ChangeReport { added: Some(added), removed: None })
}

fn remove(global: Global, path: &Path, number: u8) -> Outcome {
    let store = open(path)?;
    store.db().remove_key_slot(number).map_err(|error| store.failure(&error))?;
    store.close()?;
    tell(global, &ChangeReport { added: None, removed: Some(number) })
}

fn replace(global: Global, path: &Path, number: Option<u8>, new: &NewSecretArgs) -> Outcome {
    let store = open(path)?;
    let slots = slots_of(&store)?;
    let old = match (number, slots.as_slice()) {
        (Some(number), _) if slots.iter().any(|slot| slot.number == number) => Some(number),
        (Some(number), _) => {
            return Err(Failure::usage(format!(
                "there is no key or passphrase with the number {number}; see `pipkin keys list`"
            )));
        }
        (None, [only]) => Some(only.number),
        (None, _) => None,
    };
    let new = new.read()?;
    let report = match (number, unlock::secret(), &new) {
        (None, Some(Secret::Passphrase(old)), Secret::Passphrase(new)) => {
            store.db().change_passphrase(old, new).map_err(|error| store.failure(&error))?;
            ChangeReport { added: None, removed: None }
        }
        _ => {
            let old = old.ok_or_else(|| {
                let what = "several keys and passphrases open the store: say the number of the one to replace, as `pipkin keys list` shows it";
                Failure::usage(what)
            })?;
            let added = add_to(&store, &new)?;
            let removed = store.db().remove_key_slot(old).map_err(|error| store.failure(&error));
            removed.map_err(|failure| {
                failure.and(format!("number {added}, the new one, opens the store already, and the old one still does"))
            })?;
            ChangeReport { added: Some(added), removed: Some(old) }
        }
    };
    store.close()?;
    tell(global, &report)
}

fn rotate(global: Global, path: &Path, new: &NewSecretArgs) -> Outcome {
    let store = open(path)?;
    slots_of(&store)?;
    let rotated = match new.find()? {
        Some(Secret::Key(key)) => store.db().rotate_encryption_key(key),
        Some(Secret::Passphrase(text)) => store.db().rotate_encryption_passphrase(text),
        None => store.db().finish_key_rotation(|_| {}),
    };
    let rotated = rotated.map_err(|error| store.failure(&error))?;
    store.close()?;
    let report = RotationReport {
        finished: rotated.is_finished,
        segments_left: rotated.segments_left,
        history_bytes: rotated.history_bytes,
        records_copied: rotated.records_copied,
        bytes_copied: rotated.bytes_copied,
    };
    let plain = match rotated.is_finished {
        true => format!("{} sealed anew; nothing in the file is under the key before", records(rotated.records_copied)),
        false => format!(
            "{} sealed anew; {} segments are still under the key before, because they are damaged, stranded or kept for consumers: see `pipkin verify` and \
             `pipkin stats`, then `pipkin keys rotate {}` finishes",
            records(rotated.records_copied),
            rotated.segments_left,
            path.display()
        ),
    };
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}

fn export(global: Global, path: &Path, target: &Path) -> Outcome {
    let store = Store::read(path, &NamespaceArg::default())?;
    let page = store.db().export_key_page().map_err(|error| store.failure(&error))?;
    let new_file = NewFile::new(target, path, false)?;
    let written = new_file.make(|part| {
        let mut file = create_private(part)?;
        file.write_all(&page)?;
        file.sync_all()
    });
    written.map_err(|error| Failure::io("write", target, &error))?;
    new_file.finish()?;
    let report = ExportReport { target: target.display().to_string(), bytes: page.len() };
    let plain = format!("the page of keys is in {}; it opens nothing without a key or passphrase", report.target);
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}
