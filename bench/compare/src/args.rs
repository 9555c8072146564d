//! The command line.

use crate::phases::Job;
use crate::sample::Sink;
use crate::scale::Scale;
use crate::{Result, cgroup, engines};
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Measures pipkin and its peers side by side.

pipkin-compare [--quick] [--peers a,b] [--sets a,b] [--out DIR] [--dir DIR] [--before DIR]
    --quick  a small scale, once: a first impression
    --peers  only these peers, beside pipkin and the row of limits
    --sets   only these sets of phases: main, ranges, group, ycsb, large, events,
             events-mixed, events-streams, reopen, limited (or one shape, limited-4-150)
    --out    where the report goes, by default target/compare
    --dir    where the stores lie while they are measured, by default DIR/stores; not on tmpfs
    --before the folder of an earlier run, such as that of the last release: a column says how pipkin has changed
pipkin-compare report [--out DIR] [--before DIR]
    writes the tables again from DIR/results.jsonl
PIPKIN_BENCH_RECORDS and others of README.md set the scale.";

pub(crate) enum Command {
    Help,
    Run(Options),
    Report { out: PathBuf, before: Option<PathBuf> },
    Child(Child),
}

/// A whole run.
pub(crate) struct Options {
    pub(crate) scale: Scale,
    /// All of them, unless named.
    pub(crate) peers: Option<Vec<String>>,
    pub(crate) sets: Option<Vec<String>>,
    pub(crate) out: PathBuf,
    /// The folder of a run whose figures of pipkin stand beside those of this one.
    pub(crate) before: Option<PathBuf>,
    pub(crate) dir: PathBuf,
}

/// One engine and one set of phases: what the processes do that a run starts.
pub(crate) struct Child {
    pub(crate) engine: String,
    pub(crate) set: String,
    pub(crate) round: usize,
    pub(crate) folder: PathBuf,
    pub(crate) scale: Scale,
    /// The control group to enter first.
    pub(crate) cgroup: Option<PathBuf>,
}

impl Child {
    /// As arguments; the inverse of [`parse`].
    pub(crate) fn arguments(&self) -> Result<Vec<String>> {
        let mut out =
            vec!["child".to_owned(), "--engine".to_owned(), self.engine.clone(), "--phase-set".to_owned(), self.set.clone()];
        out.extend(["--round".to_owned(), self.round.to_string(), "--dir".to_owned(), self.folder.display().to_string()]);
        out.extend(["--scale".to_owned(), serde_json::to_string(&self.scale)?]);
        if let Some(cgroup) = &self.cgroup {
            out.extend(["--cgroup".to_owned(), cgroup.display().to_string()]);
        }
        Ok(out)
    }

    pub(crate) fn run(self) -> Result<()> {
        if let Some(cgroup) = &self.cgroup {
            cgroup::enter(cgroup)?;
        }
        let sink = Sink { engine: self.engine.clone(), round: self.round, gap: None };
        engines::run(&self.engine, Job { set: self.set, folder: self.folder, scale: self.scale, sink })
    }
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Command> {
    let mut word = args.next();
    let verb = word.take_if(|word| !word.starts_with('-'));
    let mut args = word.into_iter().chain(args);
    let (mut quick, mut peers, mut sets) = (false, None, None);
    let (mut out, mut dir, mut before) = (PathBuf::from("target/compare"), None, None);
    let (mut engine, mut set, mut round, mut scale, mut cgroup) = (None, None, 0, None, None);
    while let Some(name) = args.next() {
        if matches!(name.as_str(), "--help" | "-h") {
            return Ok(Command::Help);
        }
        if name == "--quick" {
            quick = true;
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{name} wants a value\n\n{HELP}"))?;
        match name.as_str() {
            "--peers" => peers = Some(list(&value)),
            "--sets" => sets = Some(list(&value)),
            "--out" => out = value.into(),
            "--before" => before = Some(PathBuf::from(value)),
            "--dir" => dir = Some(PathBuf::from(value)),
            "--engine" => engine = Some(value),
            "--phase-set" => set = Some(value),
            "--round" => round = value.parse()?,
            "--scale" => scale = Some(serde_json::from_str(&value)?),
            "--cgroup" => cgroup = Some(value.into()),
            other => return Err(format!("{other} is not known\n\n{HELP}").into()),
        }
    }
    match verb.as_deref() {
        None => {
            let dir = dir.unwrap_or_else(|| out.join("stores"));
            Ok(Command::Run(Options { scale: Scale::from_environment(quick)?, peers, sets, out, before, dir }))
        }
        Some("help") => Ok(Command::Help),
        Some("report") => Ok(Command::Report { out, before }),
        Some("child") => {
            let missing = || "a child wants --engine, --phase-set, --dir and --scale";
            let (engine, set) = engine.zip(set).ok_or_else(missing)?;
            let (folder, scale) = dir.zip(scale).ok_or_else(missing)?;
            Ok(Command::Child(Child { engine, set, round, folder, scale, cgroup }))
        }
        Some(other) => Err(format!("there is no command {other}\n\n{HELP}").into()),
    }
}

fn list(names: &str) -> Vec<String> {
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_reads_what_its_parent_writes() {
        let scale = Scale::from_environment(true).unwrap_or_else(|error| unreachable!("{error}"));
        let (folder, cgroup) = ("a folder".into(), Some("g".into()));
        let child = Child { engine: "redb".into(), set: "main".into(), round: 2, folder, scale: scale.clone(), cgroup };
        let parsed = child.arguments().and_then(|words| parse(words.into_iter()));
        let Ok(Command::Child(parsed)) = parsed else { unreachable!("not a child") };
        assert_eq!((parsed.engine.as_str(), parsed.set.as_str(), parsed.round), ("redb", "main", 2));
        assert_eq!((parsed.folder, parsed.scale, parsed.cgroup), ("a folder".into(), scale, Some("g".into())));
    }
}
