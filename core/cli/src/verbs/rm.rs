//! `pipkin rm`

use crate::args::{FormArgs, Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin rm app.pipkin greeting
  pipkin rm app.pipkin --hex 00ff2a 00ff2b
  pipkin rm app.pipkin --group user.7

Exits with 1 if one of the keys was not there; the others are removed all the same. \
With --group all keys that begin with the name and a dot are removed, as one commit: \
all of them or, where that fails, none. Exits with 1 if there were none.";

/// The most keys that are removed as one commit.
const COMMIT_KEYS: usize = 4096;

/// Arguments of `rm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RmArgs {
    /// The store file
    store: PathBuf,
    /// The keys
    #[arg(required_unless_present = "group", value_name = "KEY")]
    keys: Vec<OsString>,
    /// Every key of this group instead
    #[arg(long, value_name = "NAME", conflicts_with = "keys")]
    group: Option<OsString>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report {
    removed: u64,
    missing: u64,
}

pub(crate) fn run(global: Global, args: &RmArgs) -> Outcome {
    let form = args.form.form();
    if let Some(name) = &args.group {
        return remove_group(global, args, &form.parse_argument(name)?);
    }
    let keys = args.keys.iter().map(|key| form.parse_argument(key)).collect::<Outcome<Vec<_>>>()?;
    let store = Store::remove_from(&args.store, &args.namespace)?;
    let mut report = Report { removed: 0, missing: 0 };
    let mut first_missing = None;
    for keys in keys.chunks(COMMIT_KEYS) {
        let mut there = BTreeSet::new();
        for key in keys {
            // The answer stays true until the removal: the store is locked.
            let is_there = store.records().contains_key(key).map_err(|error| store.failure(&error))?;
            if is_there && there.insert(key) {
                report.removed = report.removed.saturating_add(1);
            } else {
                report.missing = report.missing.saturating_add(1);
                first_missing = first_missing.or(Some(key));
            }
        }
        remove(&store, &there).map_err(|error| store.failure(&error))?;
    }
    store.flush_and_close()?;
    output::report(global.json, &report, "")?;
    match (first_missing, report.missing) {
        (None, _) => Ok(Exit::Done),
        (Some(key), 1) => Err(missing(format!("the key {} is not in the store", form.plain(key)))),
        (Some(key), more) => Err(missing(format!("{more} of the keys are not in the store, the first is {}", form.plain(key)))),
    }
}

fn remove_group(global: Global, args: &RmArgs, name: &[u8]) -> Outcome {
    let store = Store::remove_from(&args.store, &args.namespace)?;
    let removed = store.records().delete_group(name).map_err(|error| store.failure(&error))?;
    store.flush_and_close()?;
    output::report(global.json, &Report { removed, missing: 0 }, "")?;
    if removed == 0 {
        return Err(missing(format!("the group {} has no records", args.form.form().plain(name))));
    }
    Ok(Exit::Done)
}

/// Removes keys as one commit; one by one if there is no room for that, as each removal makes room for the next.
fn remove(store: &Store, keys: &BTreeSet<&Vec<u8>>) -> pipkin::Result<()> {
    match store.records().remove_many(keys) {
        Err(pipkin::Error::NoSpace | pipkin::Error::StrandedInTheWay { .. }) => {
            keys.iter().try_for_each(|key| store.records().remove(key).map(drop))
        }
        removed => removed.map(drop),
    }
}

fn missing(message: String) -> Failure {
    Failure::new(Exit::No, "key-not-found", message)
}
