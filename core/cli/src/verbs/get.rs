//! `pipkin get`

use crate::args::{FormArgs, Global, ReadArgs};
use crate::bytes::RecordJson;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin get app.pipkin greeting
  pipkin get app.pipkin photo/1 > photo.jpg
  pipkin get app.pipkin --base64 AP8q --json
  pipkin get app.pipkin greeting --follow      # while another process has it open

Exits with 1 if the key is not there. The bytes of the value come as they are; \
only on a terminal a line break is added.";

/// Arguments of `get`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// The store file
    store: PathBuf,
    /// The key
    key: OsString,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

pub(crate) fn run(global: Global, args: &GetArgs) -> Outcome {
    let form = args.form.form();
    let key = form.parse_argument(&args.key)?;
    let store = Store::read_as(&args.store, &args.read)?;
    let value = store.records().get_zerocopy(&key).map_err(|error| store.failure(&error))?;
    let Some(value) = value else {
        return Err(Failure::new(Exit::No, "key-not-found", format!("the key {} is not in the store", form.plain(&key))));
    };
    if global.json {
        output::report(true, &RecordJson::new(form, &key, &value), "")?;
    } else {
        write_raw(&value).map_err(|error| Failure::stdout(&error))?;
    }
    Ok(Exit::Done)
}

fn write_raw(value: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(value)?;
    if out.is_terminal() && !value.ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    out.flush()
}
