//! `pipkin encrypt` and `pipkin decrypt`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, records};
use crate::store::not_opened;
use crate::unlock;
use clap::Args;
use pipkin::{Builder, Db};
use serde::Serialize;
use std::path::{Path, PathBuf};

const ENCRYPT: &str = "\
Examples:
  head -c 32 /dev/urandom > app.key
  pipkin encrypt app.pipkin --key-file app.key
  pipkin encrypt app.pipkin --passphrase

Everything is copied into a new file, which takes the place of the old one once \
it is complete: an interruption leaves the one or the other. Then the old one \
is overwritten with zeros. What a file system, a medium or a backup keeps of it \
is beyond that. There must be room for both.";

const DECRYPT: &str = "\
Example:
  pipkin decrypt app.pipkin --key-file app.key

Everything is copied into a new file, which takes the place of the old one once \
it is complete: an interruption leaves the one or the other. There must be room \
for both. A store that a program has begun to make plain while it was open is \
made plain to the end, in its place.";

const UNFINISHED: &str = "the store is not plain yet: the medium is full, or a consumer of changes has not taken note of what is sealed; make room, or let \
     the program go on that has the consumer, which opens the store by `Builder::disable_encryption`, and run `pipkin decrypt` again";

/// Arguments of `encrypt`.
#[derive(Debug, Args)]
#[command(after_help = ENCRYPT)]
pub(crate) struct EncryptArgs {
    /// The store file
    store: PathBuf,
}

/// Arguments of `decrypt`.
#[derive(Debug, Args)]
#[command(after_help = DECRYPT)]
pub(crate) struct DecryptArgs {
    /// The store file
    store: PathBuf,
}

#[derive(Serialize)]
struct Report {
    sealed: bool,
    records: u64,
}

pub(crate) fn encrypt(global: Global, args: &EncryptArgs) -> Outcome {
    if unlock::secret().is_none() {
        return Err(Failure::usage("say what is to open the store: --key-file, --passphrase-file or --passphrase"));
    }
    unlock::confirm()?;
    run(global, &args.store, true, Builder::enable_encryption)
}

pub(crate) fn decrypt(global: Global, args: &DecryptArgs) -> Outcome {
    run(global, &args.store, false, Builder::disable_encryption)
}

fn run(global: Global, path: &Path, sealed: bool, rewrite: fn(Builder) -> pipkin::Result<Db>) -> Outcome {
    let db = rewrite(unlock::builder().path(path).create(false).background(false)).map_err(|error| not_opened(path, &error))?;
    let is_pending = db.key_rotation_pending();
    let count = db.len().and_then(|len| db.close().map(|()| len)).map_err(|error| Failure::store(path, &error))?;
    if !sealed && is_pending {
        return Err(Failure::new(Exit::No, "unfinished", format!("{}: {UNFINISHED}", path.display())));
    }
    let how = if sealed { "sealed" } else { "plain" };
    let plain = format!("{} is {how} now, with {} in its default namespace", path.display(), records(count));
    output::report(global.json, &Report { sealed, records: count }, &plain)?;
    Ok(Exit::Done)
}
