//! `pipkin namespaces`

use crate::args::{CompressArgs, Global, NamespaceArg};
use crate::choices::{Choices, CompressionArg, NamespaceJson};
use crate::exit::{Exit, Outcome};
use crate::expiry::duration;
use crate::output::{self, human_count};
use crate::store::{Store, no_namespace};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pipkin namespaces list app.pipkin
  pipkin namespaces set app.pipkin sessions --default-ttl 1h
  pipkin namespaces set app.pipkin events --ordered yes
  pipkin namespaces set app.pipkin documents --compression on-compaction
  pipkin namespaces drop app.pipkin sessions

A namespace is made by writing to it, or by `set`:
pipkin put app.pipkin --namespace sessions KEY VALUE";

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
    /// Say how a namespace keeps its records, in the file, whoever opens it; it is made if it is not there
    Set {
        /// The store file
        store: PathBuf,
        /// The namespace; without it the default one
        name: Option<String>,
        #[command(flatten)]
        choices: ChoiceArgs,
    },
    /// Drop a namespace with all its records; exits with 1 if it is not there
    Drop {
        /// The store file
        store: PathBuf,
        /// The namespace
        name: String,
    },
}

/// What a namespace may say; what is not given stays as it is.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct ChoiceArgs {
    /// Let records that are written without --ttl or --expires live this long: 90s, 5m, 2h, 7d, 4w, or never (for ever)
    #[arg(long, value_name = "TIME")]
    default_ttl: Option<String>,
    /// Keep its keys in order, so that programs can read ranges, from the next opening of the store on
    #[arg(long, value_enum, value_name = "WHETHER")]
    ordered: Option<OrderArg>,
    /// When its values are compressed
    #[arg(long, value_enum, value_name = "WHEN")]
    compression: Option<CompressionArg>,
    /// Compress in a sealed store, too: see `pipkin compact --help`
    #[arg(long, requires = "compression")]
    compress_sealed: bool,
}

/// Whether the keys of a namespace are kept in order.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArg {
    /// Whatever the program says that opens the store
    Yes,
    /// The same
    No,
    /// As the program says that opens the store
    AsOpened,
}

impl From<OrderArg> for Option<bool> {
    fn from(arg: OrderArg) -> Self {
        match arg {
            OrderArg::Yes => Some(true),
            OrderArg::No => Some(false),
            OrderArg::AsOpened => None,
        }
    }
}

#[derive(Serialize)]
struct Listed {
    name: String,
    records: u64,
    #[serde(flatten)]
    choices: Choices,
}

#[derive(Serialize)]
struct ListReport {
    default_records: u64,
    /// Of the default namespace.
    #[serde(flatten)]
    choices: Choices,
    namespaces: Vec<Listed>,
}

#[derive(Serialize)]
struct DropReport<'a> {
    dropped: &'a str,
}

pub(crate) fn run(global: Global, args: &NamespacesArgs) -> Outcome {
    match &args.action {
        Action::List { store } => list(global, &Store::read(store, &NamespaceArg::default())?),
        Action::Set { store, name, choices } => {
            let store = Store::compress(store, &NamespaceArg::default(), choices.compress_sealed)?;
            set(global, store, name.as_deref(), choices)
        }
        Action::Drop { store, name } => drop_one(global, Store::change(store, &NamespaceArg::default())?, name),
    }
}

fn list(global: Global, store: &Store) -> Outcome {
    let mut report = ListReport {
        default_records: store.db().len().map_err(|error| store.failure(&error))?,
        choices: Choices::of(&store.db().default_namespace()),
        namespaces: Vec::new(),
    };
    for name in store.db().list_namespaces() {
        let space = store.db().namespace(&name).map_err(|error| store.failure(&error))?;
        let records = space.len().map_err(|error| store.failure(&error))?;
        report.namespaces.push(Listed { name, records, choices: Choices::of(&space) });
    }
    let mut plain = String::new();
    for space in &report.namespaces {
        // A name may contain any character: escaped, so that it stays on one line.
        let _ = writeln!(plain, "{}\t{}{}", space.name.escape_debug(), human_count(space.records), in_words(space.choices));
    }
    output::report(global.json, &report, plain.trim_end_matches('\n'))?;
    Ok(Exit::Done)
}

/// What a namespace says, behind its figures; nothing for most.
fn in_words(choices: Choices) -> String {
    let ttl = choices.default_ttl_ms.map(|ms| format!("\tdefault ttl {} s", human_count(ms.div_ceil(1000))));
    let order = choices.ordered.map(|ordered| if ordered { "\tordered" } else { "\tnot ordered" });
    let compressed =
        choices.compression.map(|when| if when == CompressionArg::OnWrite { "\tcompressed on write" } else { "\tcompressed" });
    format!("{}{}{}", ttl.unwrap_or_default(), order.unwrap_or_default(), compressed.unwrap_or_default())
}

fn set(global: Global, store: Store, name: Option<&str>, args: &ChoiceArgs) -> Outcome {
    let ttl = args.default_ttl.as_deref().map(default_ttl).transpose()?;
    let new = name.filter(|name| store.db().find_namespace(name).is_none());
    let store = store.with_namespace(name)?;
    let space = store.records();
    // What is refused most often comes first.
    let made = store.keep_compression(CompressArgs { compression: args.compression, compress_sealed: args.compress_sealed });
    let made = made.and_then(|()| {
        let made = ttl.map_or(Ok(()), |ttl| space.set_default_ttl(ttl));
        let made = made.and_then(|()| args.ordered.map_or(Ok(()), |ordered| space.set_ordered(ordered.into())));
        made.map_err(|error| store.failure(&error))
    });
    if let Err(failure) = made {
        // A call that is refused leaves no namespace behind. Why it was refused says more than why that could not be undone.
        let _ = new.map(|new| store.db().drop_namespace(new));
        return Err(failure);
    }
    let choices = Choices::of(space);
    store.flush_and_close()?;
    output::report(global.json, &NamespaceJson { namespace: name.unwrap_or_default(), choices }, "")?;
    Ok(Exit::Done)
}

fn default_ttl(text: &str) -> Outcome<Option<Duration>> {
    if text == "never" { Ok(None) } else { duration(text).map(Some) }
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
