//! What each verb does.

use crate::edit::edit;
use crate::exit::Outcome;
use crate::run::RunArgs;
use crate::sandbox::{Read, Sandbox, Store};
use clap::Subcommand;
use pipkin_wasi_host::Options;
use std::io::{self, Read as _, Write};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Write the value of a key to stdout
    Get {
        #[command(flatten)]
        at: Read,
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
        at: Read,
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
    Run(RunArgs),
    /// Show how many records a store holds and what they cost
    Stats {
        #[command(flatten)]
        at: Read,
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

/// The store is there already.
fn changing() -> Options {
    Options { create: false, ..Options::default() }
}

impl Verb {
    /// Carries it out and says with which code the command ends.
    pub(crate) fn run(&self, sandbox: &Sandbox) -> Outcome {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let code = match self {
            Self::Get { at, key } => get(sandbox, at, key, &mut out),
            Self::Put { at, key, value } => put(sandbox, at, key, value.as_deref()),
            Self::Rm { at, keys } => rm(sandbox, at, keys),
            Self::Scan { at, prefix, keys_only } => scan(sandbox, at, prefix, *keys_only, &mut out),
            Self::Edit { at } => edit_lines(sandbox, at, &mut out),
            // What ended a program stands at the end of the chain of causes.
            Self::Run(args) => args.run(sandbox.memory_bytes()).map_err(|error| format!("{error:#}").into()),
            Self::Stats { at } => stats(sandbox, at, &mut out),
            Self::Verify { at } => verify(sandbox, at, &mut out),
            Self::Compact { at } => compact(sandbox, at, &mut out),
        }?;
        out.flush()?;
        Ok(code)
    }
}

fn get(sandbox: &Sandbox, at: &Read, key: &str, out: &mut dyn Write) -> Outcome {
    let Some(value) = sandbox.read(at)?.get(key.as_bytes())? else { return Ok(1) };
    out.write_all(&value)?;
    Ok(0)
}

fn put(sandbox: &Sandbox, at: &Store, key: &str, value: Option<&str>) -> Outcome {
    let mut bytes = Vec::new();
    match value {
        Some(value) => bytes.extend_from_slice(value.as_bytes()),
        None => drop(io::stdin().read_to_end(&mut bytes)?),
    }
    let mut db = sandbox.open(at, Options::default())?;
    db.insert(key.as_bytes(), &bytes)?;
    db.flush()?;
    db.close()?;
    Ok(0)
}

fn rm(sandbox: &Sandbox, at: &Store, keys: &[String]) -> Outcome {
    let mut db = sandbox.open(at, changing())?;
    let mut code = 0;
    for key in keys {
        code |= u8::from(!db.remove(key.as_bytes())?);
    }
    db.flush()?;
    db.close()?;
    Ok(code)
}

fn scan(sandbox: &Sandbox, at: &Read, prefix: &str, keys_only: bool, out: &mut dyn Write) -> Outcome {
    let mut db = sandbox.read(at)?;
    for entry in db.scan(prefix.as_bytes())? {
        let entry = entry?;
        match keys_only {
            true => writeln!(out, "{}", entry.key.escape_ascii())?,
            false => writeln!(out, "{}\t{}", entry.key.escape_ascii(), entry.value.escape_ascii())?,
        }
    }
    Ok(0)
}

fn edit_lines(sandbox: &Sandbox, at: &Store, out: &mut dyn Write) -> Outcome {
    let mut db = sandbox.open(at, Options::default())?;
    let changes = edit(&mut db, io::stdin().lock())?;
    db.flush()?;
    db.close()?;
    writeln!(out, "{changes} changes")?;
    Ok(0)
}

fn stats(sandbox: &Sandbox, at: &Read, out: &mut dyn Write) -> Outcome {
    let stats = sandbox.read(at)?.stats()?;
    writeln!(out, "records       {}\nnamespaces    {}", stats.records, stats.namespaces)?;
    writeln!(out, "file bytes    {}\nlive bytes    {}\ndead bytes    {}", stats.file_bytes, stats.live_bytes, stats.dead_bytes)?;
    writeln!(out, "index bytes   {}\nsegments      {}", stats.index_bytes, stats.segments)?;
    Ok(0)
}

fn verify(sandbox: &Sandbox, at: &Store, out: &mut dyn Write) -> Outcome {
    let (host, name) = sandbox.host(&at.store)?;
    let report = host.verify(&name)?;
    for damage in &report.damage {
        writeln!(out, "byte {}: {}", damage.offset, damage.what)?;
    }
    writeln!(out, "{} records, {} bytes checked, {} damaged places", report.records, report.bytes, report.damage.len())?;
    Ok(if report.damage.is_empty() { 0 } else { 3 })
}

fn compact(sandbox: &Sandbox, at: &Store, out: &mut dyn Write) -> Outcome {
    let mut db = sandbox.open(at, changing())?;
    let mut freed = 0;
    while let Some(step) = db.compact_step()? {
        freed += step.bytes_freed;
    }
    db.close()?;
    writeln!(out, "{freed} bytes freed")?;
    Ok(0)
}
