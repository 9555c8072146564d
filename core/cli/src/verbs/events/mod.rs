//! `pipkin events`

mod append;
mod cursors;
mod filter;
mod import;
mod read;
mod remove;
mod retention;

use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::{Args, Subcommand};
use pipkin::{Error, Events};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin events append app.pipkin orders order-7 Placed '3 apples' --tag customer:ada --expect none
  pipkin events read app.pipkin orders --stream order-7
  pipkin events read app.pipkin orders --tag customer:ada --reverse --limit 10
  pipkin events read app.pipkin orders | pipkin events import copy.pipkin orders -
  pipkin events follow app.pipkin orders --cursor mailer | while read -r line; do ...; done
  pipkin events truncate app.pipkin orders order-7 --keep 100
  pipkin events retention app.pipkin orders --max-age 30d --max-events 1000000

One line of JSON per event: its number, which rises over all events of the \
store, its stream and version, which counts the events of the stream, its \
type, payload, tags, metadata, id and time.";

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    action: Action,
}

/// What to do with events.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the logs of events
    List {
        /// The store file
        store: PathBuf,
    },
    /// Append an event to a stream; exits with 1 if the stream is not as expected
    Append(append::AppendArgs),
    /// Print events, from the oldest or the newest on
    Read(read::ReadEventsArgs),
    /// Append the events of lines as `read` prints them: with the same ids, times and versions, and once however often it is done
    Import(import::ImportEventsArgs),
    /// Print the events behind a cursor, which the store keeps, and move it
    Follow(read::FollowArgs),
    /// List the cursors of a log, or forget one
    Cursors(cursors::CursorsArgs),
    /// Remove the oldest events of a stream; versions go on
    Truncate(remove::TruncateArgs),
    /// Show or set for how long, and how many, events a log keeps
    Retention(retention::RetentionArgs),
}

#[derive(Serialize)]
struct ListReport {
    logs: Vec<String>,
}

pub(crate) fn run(global: Global, args: &EventsArgs) -> Outcome {
    match &args.action {
        Action::List { store } => {
            let store = Store::read(store, &NamespaceArg::default())?;
            let logs = store.db().list_events();
            let plain: Vec<String> = logs.iter().map(|name| name.escape_debug().to_string()).collect();
            output::report(global.json, &ListReport { logs }, &plain.join("\n"))?;
            Ok(Exit::Done)
        }
        Action::Append(args) => append::run(global, args),
        Action::Read(args) => read::run(args),
        Action::Import(args) => import::run(global, args),
        Action::Follow(args) => read::follow(args),
        Action::Cursors(args) => cursors::run(global, args),
        Action::Truncate(args) => remove::run(global, args),
        Action::Retention(args) => retention::run(global, args),
    }
}

/// The log with this name, which must be there.
fn existing(store: &Store, log: &str) -> Outcome<Events> {
    if !store.db().list_events().iter().any(|name| name == log) {
        let message = format!(
            "{}: there is no log of events {log:?}; `pipkin events list` shows those that there are",
            store.path().display()
        );
        return Err(Failure::new(Exit::No, "log-not-found", message));
    }
    store.db().events(log).map_err(|error| failed(store, &error))
}

fn failed(store: &Store, error: &Error) -> Failure {
    store.failure(error)
}
