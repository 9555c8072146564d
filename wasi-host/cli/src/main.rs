//! The command `pipkin-host`: the main verbs of `pipkin`, done by the WebAssembly component. Nothing but the folder of the store is within
//! its reach, so it is the command for files from strangers.

mod escape;
mod run;

use clap::{Args, Parser, Subcommand};
use pipkin_wasi_host::{Db, Durability, Error, Host, Op, Options, Reason};
use std::error::Error as AnyError;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads, fills and checks pipkin stores inside a WebAssembly sandbox
#[derive(Debug, Parser)]
#[command(name = "pipkin-host", version, max_term_width = 120, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes are those of `pipkin`: 0 done, 1 no such key, 2 usage, 3 damage, 4 locked, 5 no space, 6 no store, 7 other failures."
)]
struct Cli {
    /// The component; by default `pipkin_wasi_guest.wasm` beside this program
    #[arg(long, env = "PIPKIN_COMPONENT", value_name = "FILE", global = true)]
    component: Option<PathBuf>,
    /// Keep the compiled component in this folder; only you may be able to write there
    #[arg(long, env = "PIPKIN_CACHE", value_name = "FOLDER", global = true)]
    cache: Option<PathBuf>,
    /// The most memory that the component, or the program that runs, may have, in MiB
    #[arg(long, value_name = "MIB", global = true)]
    memory: Option<usize>,
    #[command(subcommand)]
    verb: Verb,
}

/// The store.
#[derive(Debug, Args)]
struct Store {
    /// Path of the store
    store: PathBuf,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the value of a key to stdout
    Get {
        #[command(flatten)]
        at: Store,
        /// The key
        key: String,
    },
    /// Store a value under a key
    Put {
        #[command(flatten)]
        at: Store,
        /// The key
        key: String,
        /// The value; stdin if there is none
        value: Option<String>,
    },
    /// Remove keys
    Rm {
        #[command(flatten)]
        at: Store,
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// List records, key TAB value, as escaped text
    Scan {
        #[command(flatten)]
        at: Store,
        /// Only keys that begin so
        #[arg(long, default_value = "")]
        prefix: String,
        /// Without the values
        #[arg(long)]
        keys_only: bool,
    },
    /// Put and remove many records: lines of stdin, `key TAB value` or a key alone, in the form that `scan` writes; empty lines are skipped
    ///
    /// The lines become commits of 1000, or of fewer where they are long, and at the end one sync. A line of another form ends the
    /// command: the commits before it stay, without word of whether the device has them, and the lines behind the last of them are not
    /// written.
    Edit {
        #[command(flatten)]
        at: Store,
    },
    /// Run a component with stores behind its `wasi:keyvalue`
    Run(run::RunArgs),
    /// Show how many records a store holds and what they cost
    Stats {
        #[command(flatten)]
        at: Store,
    },
    /// Check every byte of a store and list what is damaged
    Verify {
        #[command(flatten)]
        at: Store,
    },
    /// Give the space of removed and overwritten records back
    Compact {
        #[command(flatten)]
        at: Store,
    },
}

type Outcome<T = u8> = Result<T, Box<dyn AnyError>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(code) => code.into(),
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr is gone; the exit code still says it.
            let _ = writeln!(io::stderr(), "pipkin-host: {error}");
            exit_code(&*error).into()
        }
    }
}

fn is_closed_pipe(error: &(dyn AnyError + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What `pipkin` would say to it.
fn exit_code(error: &(dyn AnyError + 'static)) -> u8 {
    use pipkin_wasi_host::NativeError as Native;
    match error.downcast_ref::<Error>() {
        Some(Error::Store(error)) => match error.reason {
            Reason::KeyTooLong(_) | Reason::ValueTooLong(_) | Reason::InvalidArgument => 2,
            Reason::Corrupt(_) => 3,
            Reason::Locked | Reason::Fenced => 4,
            Reason::NoSpace | Reason::Quota => 5,
            Reason::NotFound | Reason::NotAStore | Reason::NewerVersion(_) | Reason::Unsupported(_) => 6,
            _ => 7,
        },
        Some(Error::Lock(Native::Locked { .. })) => 4,
        Some(Error::Lock(Native::NoSpace)) => 5,
        // The last one is a pipe or a device: the lock has no other argument.
        Some(Error::Lock(Native::NotFound { .. } | Native::IsDirectory { .. } | Native::InvalidArgument(_))) => 6,
        Some(Error::Missing(_) | Error::Component(_)) => 2,
        _ if is_full(error) => 5,
        _ => 7,
    }
}

/// What stdout goes to has no more room.
fn is_full(error: &(dyn AnyError + 'static)) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    error.downcast_ref::<io::Error>().is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded))
}

impl Cli {
    fn host(&self, store: &Path) -> Outcome<(Host, String)> {
        let name = store
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or(Error::Missing("the path of a store ends in the name of a file, in Unicode"));
        let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = || std::env::current_exe().map(|program| program.with_file_name("pipkin_wasi_guest.wasm"));
        let component = self.component.clone().map_or_else(beside, Ok)?;
        let mut builder = Host::builder().component(component).directory(folder);
        if let Some(cache) = &self.cache {
            builder = builder.cache(cache);
        }
        if let Some(bytes) = self.memory_bytes() {
            builder = builder.memory_limit(bytes);
        }
        Ok((builder.build()?, name?.to_owned()))
    }

    fn memory_bytes(&self) -> Option<usize> {
        self.memory.map(|mib| mib.saturating_mul(1 << 20))
    }

    fn open(&self, at: &Store, options: Options) -> Outcome<Db> {
        let (host, name) = self.host(&at.store)?;
        Ok(host.open_with(&name, options)?)
    }

    fn run(&self) -> Outcome {
        let reading = Options { create: false, read_only: true, ..Options::default() };
        let changing = Options { create: false, ..Options::default() };
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut code = 0;
        match &self.verb {
            Verb::Get { at, key } => match self.open(at, reading)?.get(key.as_bytes())? {
                Some(value) => out.write_all(&value)?,
                None => code = 1,
            },
            Verb::Put { at, key, value } => {
                let mut bytes = Vec::new();
                match value {
                    Some(value) => bytes.extend_from_slice(value.as_bytes()),
                    None => drop(io::stdin().read_to_end(&mut bytes)?),
                }
                let mut db = self.open(at, Options::default())?;
                db.insert(key.as_bytes(), &bytes)?;
                db.flush()?;
                db.close()?;
            }
            Verb::Rm { at, keys } => {
                let mut db = self.open(at, changing)?;
                for key in keys {
                    code |= u8::from(!db.remove(key.as_bytes())?);
                }
                db.flush()?;
                db.close()?;
            }
            Verb::Scan { at, prefix, keys_only } => {
                let mut db = self.open(at, reading)?;
                for entry in db.scan(prefix.as_bytes())? {
                    let entry = entry?;
                    match keys_only {
                        true => writeln!(out, "{}", entry.key.escape_ascii())?,
                        false => writeln!(out, "{}\t{}", entry.key.escape_ascii(), entry.value.escape_ascii())?,
                    }
                }
            }
            Verb::Edit { at } => {
                let mut db = self.open(at, Options::default())?;
                let changes = edit(&mut db, io::stdin().lock())?;
                db.flush()?;
                db.close()?;
                writeln!(out, "{changes} changes")?;
            }
            // What ended a program stands at the end of the chain of causes.
            Verb::Run(args) => code = args.run(self.memory_bytes()).map_err(|error| format!("{error:#}"))?,
            Verb::Stats { at } => {
                let stats = self.open(at, reading)?.stats()?;
                writeln!(out, "records       {}\nnamespaces    {}", stats.records, stats.namespaces)?;
                writeln!(
                    out,
                    "file bytes    {}\nlive bytes    {}\ndead bytes    {}",
                    stats.file_bytes, stats.live_bytes, stats.dead_bytes
                )?;
                writeln!(out, "index bytes   {}\nsegments      {}", stats.index_bytes, stats.segments)?;
            }
            Verb::Verify { at } => {
                let (host, name) = self.host(&at.store)?;
                let report = host.verify(&name)?;
                for damage in &report.damage {
                    writeln!(out, "byte {}: {}", damage.offset, damage.what)?;
                }
                writeln!(
                    out,
                    "{} records, {} bytes checked, {} damaged places",
                    report.records,
                    report.bytes,
                    report.damage.len()
                )?;
                code = if report.damage.is_empty() { 0 } else { 3 };
            }
            Verb::Compact { at } => {
                let mut db = self.open(at, changing)?;
                let mut freed = 0;
                while let Some(step) = db.compact_step()? {
                    freed += step.bytes_freed;
                }
                db.close()?;
                writeln!(out, "{freed} bytes freed")?;
            }
        }
        out.flush()?;
        Ok(code)
    }
}

/// A commit ends at either: the component has all of it in its memory, more than once.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// Makes the changes that the lines tell, in commits.
fn edit(db: &mut Db, lines: impl BufRead) -> Outcome<usize> {
    let (mut ops, mut changes, mut bytes) = (Vec::new(), 0, 0);
    for line in lines.split(b'\n') {
        let line = line?;
        bytes += line.len();
        if line.is_empty() {
            // Blank lines get into files by themselves, and would remove the record of the empty key.
            continue;
        }
        let mut fields = line.splitn(2, |byte| *byte == b'\t').map(escape::unescape);
        let (key, value) = (fields.next().flatten(), fields.next());
        let (Some(key), false) = (key, value == Some(None)) else {
            return Err(format!(
                "no record: {}; a line is `key TAB value` or a key, with a backslash as \\\\",
                line.escape_ascii()
            )
            .into());
        };
        ops.push(Op { namespace: None, key, value: value.flatten() });
        changes += 1;
        if ops.len() == BATCH || bytes >= BATCH_BYTES {
            db.write(&ops, Durability::Written)?;
            ops.clear();
            bytes = 0;
        }
    }
    db.write(&ops, Durability::Written)?;
    Ok(changes)
}
