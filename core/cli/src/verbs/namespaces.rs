//! `pipkin namespaces`

use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Outcome};
use crate::output::{self, human_count};
use crate::store::{Store, no_namespace};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin namespaces list app.pipkin
  pipkin namespaces drop app.pipkin sessions

A namespace is made by writing to it: pipkin put app.pipkin --namespace sessions KEY VALUE";

/// Arguments of `namespaces`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NamespacesArgs {
    #[command(subcommand)]
    action: Action,
}

/// What to do with namespaces.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the named namespaces and how many records each holds
    List {
        /// The store file
        store: PathBuf,
    },
    /// Drop a namespace with all its records; exits with 1 if it is not there
    Drop {
        /// The store file
        store: PathBuf,
        /// The namespace
        name: String,
    },
}

#[derive(Serialize)]
struct Listed {
    name: String,
    records: u64,
}

#[derive(Serialize)]
struct ListReport {
    default_records: u64,
    namespaces: Vec<Listed>,
}

#[derive(Serialize)]
struct DropReport<'a> {
    dropped: &'a str,
}

pub(crate) fn run(global: Global, args: &NamespacesArgs) -> Outcome {
    match &args.action {
        Action::List { store } => list(global, &Store::read(store, &NamespaceArg::default())?),
        Action::Drop { store, name } => drop_one(global, Store::change(store, &NamespaceArg::default())?, name),
    }
}

fn list(global: Global, store: &Store) -> Outcome {
    let mut report =
        ListReport { default_records: store.db().len().map_err(|error| store.failure(&error))?, namespaces: Vec::new() };
    for name in store.db().list_namespaces() {
        let records = store.db().namespace(&name).and_then(|space| space.len()).map_err(|error| store.failure(&error))?;
        report.namespaces.push(Listed { name, records });
    }
    let mut plain = String::new();
    for space in &report.namespaces {
        // A name may contain any character: escaped, so that it stays on one line.
        let _ = writeln!(plain, "{}\t{}", space.name.escape_debug(), human_count(space.records));
    }
    output::report(global.json, &report, plain.trim_end_matches('\n'))?;
    Ok(Exit::Done)
}

fn drop_one(global: Global, store: Store, name: &str) -> Outcome {
    let dropped = store.db().drop_namespace(name).map_err(|error| store.failure(&error))?;
    let path = store.path().to_path_buf();
    store.flush_and_close()?;
    if !dropped {
        return Err(no_namespace(&path, name));
    }
    output::report(global.json, &DropReport { dropped: name }, "")?;
    Ok(Exit::Done)
}
