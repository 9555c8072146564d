//! `pipkin events cursors`

use super::{existing, failed};
use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `events cursors`.
#[derive(Debug, Args)]
pub(crate) struct CursorsArgs {
    /// The store file
    store: PathBuf,
    /// The log of events
    log: String,
    /// Forget this one instead; exits with 1 if it is not there
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
}

#[derive(Serialize)]
struct CursorJson {
    name: String,
    number: u64,
}

#[derive(Serialize)]
struct Report {
    cursors: Vec<CursorJson>,
}

pub(crate) fn run(global: Global, args: &CursorsArgs) -> Outcome {
    let Some(name) = &args.forget else {
        let store = Store::read(&args.store, &NamespaceArg::default())?;
        let cursors = existing(&store, &args.log)?.cursors().map_err(|error| failed(&store, &error))?;
        let plain: Vec<String> = cursors.iter().map(|(name, number)| format!("{}\t{number}", name.escape_debug())).collect();
        let cursors = cursors.into_iter().map(|(name, number)| CursorJson { name, number }).collect();
        output::report(global.json, &Report { cursors }, &plain.join("\n"))?;
        return Ok(Exit::Done);
    };
    let store = Store::change(&args.store, &NamespaceArg::default())?;
    let forgotten = existing(&store, &args.log)?.remove_cursor(name).map_err(|error| failed(&store, &error))?;
    store.flush_and_close()?;
    if forgotten {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::No, "cursor-not-found", format!("the log {:?} has no cursor {name:?}", args.log)))
}
