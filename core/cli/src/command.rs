//! The command as a whole: its verbs, its help texts, and dispatch from the command line to a verb.

use crate::args::Global;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::interrupt;
use crate::unlock::{self, KeyArgs};
use crate::verbs::{
    backup, compact, completions, digest, events, export, get, import, keys, man, namespaces, persist, put, reseal, rm, salvage,
    scan, stats, sweep, ttl, verify, watch,
};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Read, fill, check, repair and copy pipkin stores.

A store is one file, an append-only log of keys and values. It survives a kill of the process at any moment. \
Each verb takes the path of the store first.";

// Lists are wrapped by hand at 78 columns: clap would wrap them too, but without their indent.
const AFTER_HELP: &str = "\
Examples:
  pipkin put app.pipkin greeting hello
  pipkin get app.pipkin greeting
  pipkin import app.pipkin words.ndjson --key word
  pipkin scan app.pipkin --prefix user/ --json | head
  pipkin verify app.pipkin || pipkin salvage app.pipkin mended.pipkin

Keys and values are bytes:
  A key on the command line is taken as it is, or with --hex or --base64 in
  that form. `get` writes the bytes of the value and nothing else. `scan`
  writes one record per line, key TAB value, with \\\\, \\t, \\n, \\r and \\xNN for
  a backslash, for control characters and for bytes that are not UTF-8.
  Put -- before a key that begins with a dash.

JSON:
  With --json every verb writes one JSON object to stdout (`scan`: one per
  line), and a failure is one JSON object on stderr:
    {\"error\":{\"exit_code\":4,\"kind\":\"locked\",\"message\":\"...\",...}}
  Bytes that are UTF-8 are a plain string. Any others are base64, and a field
  beside them says so:
    {\"key\":\"/wA=\",\"key_encoding\":\"base64\",\"value\":\"text\"}
  With --hex or --base64 all are in that form and marked.

Exit codes:
  0    done
  1    no: the key or the namespace is not there, what came after a
       position is no longer kept, or a stream is not as an append expects
  2    usage: an argument makes no sense, a key or value is too long, or a
       file that would be created is there already
  3    damage: stored bytes have changed, or records are stranded; `verify`
       lists them, `salvage` copies everything else
  4    locked: the store is open elsewhere
  5    no space left for the store, or for a file that is written
  6    no store: nothing is there, it is a directory, a pipe, a device or
       another kind of file, or a newer version wrote it or the record
  7    the file system failed or refused: permission, a read-only medium, an
       input that cannot be read, a standard output that is full
  8    input that cannot be imported, or a key that cannot be a file name
  130  interrupted by Ctrl-C; the store is good
A closed pipe (`pipkin scan app.pipkin | head`) is no failure.

Sealed stores:
  Whoever creates a store with --key-file, --passphrase-file, --passphrase or
  PIPKIN_PASSPHRASE seals it, and opens it with the same again. A missing or
  wrong key is a usage error (2); a file that somebody else has changed is
  damage (3). Without the key, `verify` checks checksums alone. `keys` lets
  others open it. No key and no passphrase is ever an argument.";

/// Read, fill, check, repair and copy pipkin stores
#[derive(Debug, Parser)]
#[command(
    name = "pipkin",
    version,
    long_about = LONG_ABOUT,
    after_long_help = AFTER_HELP,
    after_help = "Exit codes, the JSON form and examples: pipkin --help",
    max_term_width = 120
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Store a value under a key
    Put(put::PutArgs),
    /// Write the value of a key to stdout
    Get(get::GetArgs),
    /// Remove keys
    Rm(rm::RmArgs),
    /// Show how long a record still lives
    Ttl(ttl::TtlOfArgs),
    /// Let records live for ever that would expire
    Persist(persist::PersistArgs),
    /// Forget the records that have expired
    Sweep(sweep::SweepArgs),
    /// List records
    Scan(scan::ScanArgs),
    /// Show how many records a store holds and what they cost
    Stats(stats::StatsArgs),
    /// Check every byte of a store and list what is damaged
    Verify(verify::VerifyArgs),
    /// Copy everything that is not damaged into a new store
    Salvage(salvage::SalvageArgs),
    /// Give the space of removed and overwritten records back
    Compact(compact::CompactArgs),
    /// Copy a store into a new file
    Backup(backup::BackupArgs),
    /// Fill a store from NDJSON, from CSV or from a directory tree
    Import(import::ImportArgs),
    /// Write the records of a store as NDJSON, as CSV or as a directory tree
    Export(export::ExportArgs),
    /// Print a SHA-256 over all records, the same for equal content
    Digest(digest::DigestArgs),
    /// Print what has changed since a position, commit by commit
    Watch(watch::WatchArgs),
    /// Append to event streams, and read them
    Events(events::EventsArgs),
    /// List namespaces, say how they keep their records, or drop them
    Namespaces(namespaces::NamespacesArgs),
    /// List or change what opens a sealed store
    Keys(keys::KeysArgs),
    /// Seal a plain store under a key or a passphrase
    Encrypt(reseal::EncryptArgs),
    /// Make a sealed store a plain one
    Decrypt(reseal::DecryptArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages
    Man(man::ManArgs),
}

/// Runs the verb of the command line.
pub(crate) fn run(cli: &Cli) -> Outcome {
    let global = cli.global;
    interrupt::install(global.json)?;
    unlock::read(&cli.key)?;
    match &cli.verb {
        Verb::Put(args) => put::run(global, args),
        Verb::Get(args) => get::run(global, args),
        Verb::Rm(args) => rm::run(global, args),
        Verb::Ttl(args) => ttl::run(global, args),
        Verb::Persist(args) => persist::run(global, args),
        Verb::Sweep(args) => sweep::run(global, args),
        Verb::Scan(args) => scan::run(global, args),
        Verb::Stats(args) => stats::run(global, args),
        Verb::Verify(args) => verify::run(global, args),
        Verb::Salvage(args) => salvage::run(global, args),
        Verb::Compact(args) => compact::run(global, args),
        Verb::Backup(args) => backup::run(global, args),
        Verb::Import(args) => import::run(global, args),
        Verb::Export(args) => export::run(global, args),
        Verb::Digest(args) => digest::run(global, args),
        Verb::Watch(args) => watch::run(global, args),
        Verb::Events(args) => events::run(global, args),
        Verb::Namespaces(args) => namespaces::run(global, args),
        Verb::Keys(args) => keys::run(global, args),
        Verb::Encrypt(args) => reseal::encrypt(global, args),
        Verb::Decrypt(args) => reseal::decrypt(global, args),
        Verb::Completions(args) => completions::run(global, args, Cli::command()),
        Verb::Man(args) => man::run(global, args, Cli::command()),
    }
}

const SECRET_ARGUMENT: &str = "a passphrase is not an argument, which other users of this machine can see: choose another one, and give it \
                               with --passphrase-file, or let --passphrase or --new-passphrase ask for it";

/// True for an option that asks for a passphrase, with one behind it: nothing repeats that.
fn is_secret(argument: &std::ffi::OsStr) -> bool {
    let argument = argument.as_encoded_bytes();
    [&b"--passphrase="[..], b"--new-passphrase="].iter().any(|option| argument.starts_with(option))
}

/// Parses the command line. `Err` is the exit code after help, version or a usage error was printed.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let is_json = || std::env::args_os().any(|argument| argument == "--json");
    if std::env::args_os().take_while(|argument| argument != "--").any(|argument| is_secret(&argument)) {
        return Err(exit::finish(Err(Failure::usage(SECRET_ARGUMENT)), is_json()));
    }
    Cli::try_parse().map_err(|error| {
        let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if !asked_for && is_json() {
            let text = error.render().to_string();
            let message = text.trim().trim_start_matches("error: ");
            return exit::finish(Err(Failure::usage(message)), true);
        }
        match error.print() {
            // Help goes to stdout; a closed pipe there is not a failure.
            Err(failed) if asked_for => exit::finish(Err(Failure::stdout(&failed)), false),
            _ if asked_for => Exit::Done.into(),
            _ => Exit::Usage.into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
