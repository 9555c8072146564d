//! `pipkin events read` and `pipkin events follow`

use super::filter::{FilterArgs, print};
use super::{existing, failed};
use crate::args::{NamespaceArg, ReadArgs};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `events read`.
#[derive(Debug, Args)]
pub(crate) struct ReadEventsArgs {
    /// The store file
    store: PathBuf,
    /// The log of events
    log: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Begin with this number; with --stream, with this version
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// The newest one first
    #[arg(long)]
    reverse: bool,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Read beside a process that writes the store
    #[arg(long)]
    follow: bool,
}

/// Arguments of `events follow`.
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The store file
    store: PathBuf,
    /// The log of events
    log: String,
    /// The name of the cursor; a new one begins with the first event
    #[arg(long, value_name = "NAME")]
    cursor: String,
    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) fn run(args: &ReadEventsArgs) -> Outcome {
    let namespace = NamespaceArg::default();
    let store = Store::read_as(&args.store, &ReadArgs { namespace, follow: args.follow })?;
    let log = existing(&store, &args.log)?;
    let reader = args.filter.reader(&log).from(args.from).backwards(args.reverse).limit(args.limit);
    let mut out = output::stdout();
    for event in reader.iter().map_err(|error| failed(&store, &error))? {
        print(&mut out, &event.map_err(|error| failed(&store, &error))?)?;
    }
    output::finish(out)?;
    Ok(Exit::Done)
}

/// Prints what there is behind the cursor, then moves it: what nobody has got comes again.
pub(crate) fn follow(args: &FollowArgs) -> Outcome {
    let store = Store::change(&args.store, &NamespaceArg::default())?;
    let log = existing(&store, &args.log)?;
    store.db().flush().map_err(|error| failed(&store, &error))?;
    let mut events = args.filter.reader(&log).cursor(&args.cursor).map_err(|error| failed(&store, &error))?;
    let mut out = output::stdout();
    while let Some(event) = events.try_next().map_err(|error| failed(&store, &error))? {
        print(&mut out, &event)?;
    }
    output::finish(out)?;
    events.ack(events.number()).map_err(|error| failed(&store, &error))?;
    drop((events, log));
    store.flush_and_close()?;
    Ok(Exit::Done)
}
