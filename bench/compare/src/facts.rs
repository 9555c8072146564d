//! The machine, the versions, and the sizes of programs: what a figure means nothing without.

use crate::Result;
use crate::engine::Facts;
use crate::sample::{Sample, Unit};
use crate::scale::Scale;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The lock file that this program was built with.
const LOCK: &str = include_str!("../Cargo.lock");

/// The first line of `results.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) engines: Vec<EngineFacts>,
    pub(crate) scale: Scale,
}

/// What the report says of an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineFacts {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) tuning: String,
    pub(crate) peer: bool,
    pub(crate) unflushed: String,
}

pub(crate) fn machine(engines: &[Facts], stores: &Path, scale: &Scale) -> Result<Machine> {
    fs::create_dir_all(stores)?;
    let file_system = file_system(stores);
    if file_system.starts_with("tmpfs") {
        eprintln!(
            "pipkin-compare: the stores lie in memory (tmpfs), so durable writes cost nothing; name another folder with --dir"
        );
    }
    let facts = [
        ("processor", line_after("/proc/cpuinfo", "model name")),
        ("cores", std::thread::available_parallelism().map_or_else(|_| "?".to_owned(), |cores| cores.to_string())),
        ("memory", line_after("/proc/meminfo", "MemTotal")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("file system", file_system),
        ("load before the run", read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")),
        ("two readings of the clock", format!("{} ns", clock_cost().as_nanos())),
        ("compiler", option_env!("RUSTC_VERSION").map_or_else(rustc, str::to_owned)),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Machine { facts, engines: engines.iter().map(EngineFacts::new).collect(), scale: scale.clone() })
}

impl EngineFacts {
    fn new(facts: &Facts) -> Self {
        use crate::engine::Unflushed::{Kept, Lost};
        let unflushed = match facts.unflushed {
            Kept(place) => format!("kept: {place}"),
            Lost(why) => format!("lost: {why}"),
        };
        let version = facts.package.map_or_else(String::new, |package| version(package, LOCK));
        Self {
            name: facts.name.to_owned(),
            version,
            tuning: facts.tuning.to_owned(),
            peer: facts.peer && !facts.alternative,
            unflushed,
        }
    }
}

/// The highest version of a package in a lock file: other packages may want an older one beside it.
fn version(package: &str, lock: &str) -> String {
    let name = format!("name = \"{package}\"");
    let versions = lock.split("[[package]]").filter(|entry| entry.lines().any(|line| line == name));
    let version = |entry: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix("version = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    versions.filter_map(version).last().unwrap_or_default()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

fn line_after(file: &str, name: &str) -> String {
    let text = read(file);
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Type and options of the mount with the longest path above `folder`.
fn file_system(folder: &Path) -> String {
    let Ok(folder) = folder.canonicalize() else { return String::new() };
    let mounts = read("/proc/self/mounts");
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        folder.starts_with(place).then(|| (place.len(), format!("{kind} ({options})")))
    });
    above.max_by_key(|(len, _)| *len).map_or_else(String::new, |(_, kind)| kind)
}

/// What the clock adds to each operation that is timed alone.
fn clock_cost() -> Duration {
    let mut costs: Vec<Duration> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            start.elapsed()
        })
        .collect();
    costs.sort_unstable();
    costs.get(500).copied().unwrap_or_default()
}

/// The program `minimal-NAME` beside this one, without symbols.
pub(crate) fn program_size(engine: &Facts) -> Sample {
    if engine.served {
        return Sample::absent(engine.name, "program", 0, Unit::Bytes, "a server of its own");
    }
    // A directory of files needs nothing that an empty program does not have.
    let name = engine.package.map_or("limits", |_| engine.name);
    match stripped(name) {
        Ok(bytes) => {
            Sample { value: Some(bytes as f64), note: None, ..Sample::absent(engine.name, "program", 0, Unit::Bytes, "") }
        }
        Err(why) => Sample::absent(engine.name, "program", 0, Unit::Bytes, &why.to_string()),
    }
}

fn stripped(name: &str) -> Result<u64> {
    let program = std::env::current_exe()?.with_file_name(format!("minimal-{name}"));
    if !program.exists() {
        return Err("not built: `cargo build --release --bins` does it".into());
    }
    let copy = program.with_extension("stripped");
    let done = Command::new("strip").arg("-o").arg(&copy).arg(&program).status();
    if !done.is_ok_and(|status| status.success()) {
        return Err("there is no `strip` here".into());
    }
    let size = fs::metadata(&copy)?.len();
    fs::remove_file(copy)?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_two_versions_is_reported() {
        let lock = "[[package]]\nname = \"heed\"\nversion = \"0.22.1\"\n\n[[package]]\nname = \"heed\"\nversion = \"0.23.1\"\n\n\
                    [[package]]\nname = \"heed-types\"\nversion = \"9\"\n";
        assert_eq!(version("heed", lock), "0.23.1");
        assert_eq!(version("sled", lock), "");
    }
}
