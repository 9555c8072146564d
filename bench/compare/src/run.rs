//! A whole run: a process for each engine, set of phases and round. Engines take turns within a round, and each round begins with
//! another one, so that what the machine does meanwhile meets all of them alike.

use crate::args::{Child, Options};
use crate::cgroup::Group;
use crate::engine::Facts;
use crate::phases::{self, SETS, reopen};
use crate::process::{drop_cached, write_back};
use crate::report::Log;
use crate::rows::{self, Row};
use crate::sample::Sample;
use crate::shapes::Shape;
use crate::{Result, engines, facts, report};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Stands for all sets with limited memory.
const ALL_LIMITED: &str = "limited";

/// Says whether every engine did what it had to.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let engines = chosen(options.peers.as_deref())?;
    let sets = chosen_sets(options.sets.as_deref())?;
    fs::create_dir_all(&options.out)?;
    let rows = rows::all(&options.scale);
    let mut log = Log::create(&options.out)?;
    log.facts(&facts::machine(&engines, &options.dir, &options.scale)?)?;
    let start = Instant::now();
    let mut well = true;
    for round in 0..options.scale.rounds {
        for set in &sets {
            let mut turn = engines.clone();
            turn.rotate_left(round % engines.len().max(1));
            for engine in turn {
                let seconds = start.elapsed().as_secs();
                println!("{seconds:>5} s  round {} of {}  {set:<8} {}", round + 1, options.scale.rounds, engine.name);
                let turn = Turn { options, engine, set, round, rows: &rows };
                well &= turn.run(&mut log)?;
            }
        }
    }
    for engine in &engines {
        log.add(&crate::facts::program_size(engine))?;
    }
    let _ = fs::remove_dir(&options.dir); // stays if somebody else has something in it
    report::from_file(&options.out, options.before.as_deref())?;
    println!("{:>5} s  done: {}", start.elapsed().as_secs(), options.out.join("table.md").display());
    Ok(well)
}

fn chosen(peers: Option<&[String]>) -> Result<Vec<Facts>> {
    let all = engines::all();
    let Some(peers) = peers else { return Ok(all) };
    if let Some(unknown) = peers.iter().find(|peer| !all.iter().any(|facts| facts.name == peer.as_str())) {
        let names: Vec<&str> = all.iter().map(|facts| facts.name).collect();
        return Err(format!("there is no peer named {unknown}; there are {}", names.join(", ")).into());
    }
    Ok(all.into_iter().filter(|facts| !facts.peer || peers.iter().any(|peer| peer == facts.name)).collect())
}

fn chosen_sets(wanted: Option<&[String]>) -> Result<Vec<&'static str>> {
    let Some(wanted) = wanted else { return Ok(SETS.to_vec()) };
    if let Some(unknown) = wanted.iter().find(|set| !SETS.contains(&set.as_str()) && *set != ALL_LIMITED) {
        return Err(format!("there is no set of phases named {unknown}; there are {}, {ALL_LIMITED}", SETS.join(", ")).into());
    }
    let is_wanted = |set: &&str| wanted.iter().any(|name| name == set || name == ALL_LIMITED && Shape::of(set).is_some());
    Ok(SETS.into_iter().filter(is_wanted).collect())
}

/// One engine, one set, one round.
struct Turn<'a> {
    options: &'a Options,
    engine: Facts,
    set: &'static str,
    round: usize,
    rows: &'a [Row],
}

impl Turn<'_> {
    fn run(&self, log: &mut Log) -> Result<bool> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.set == self.set).collect();
        let mut open = BTreeSet::new();
        for row in rows {
            match phases::absent(&self.engine, row) {
                Some(why) => log.add(&self.note(&row.id, &why))?,
                None => drop(open.insert(row.id.clone())),
            }
        }
        if open.is_empty() {
            return Ok(true);
        }
        let group = match self.group() {
            Ok(group) => group,
            Err(why) => {
                open.iter().try_for_each(|row| log.add(&self.note(row, &why.to_string())))?;
                return Ok(true);
            }
        };
        let folder = self.options.dir.join(format!("{}-{}", self.engine.name, self.set));
        fresh(&folder)?;
        let outcome = self.processes(&folder, group.as_ref(), |sample| {
            open.remove(&sample.row);
            log.add(sample)
        });
        let _ = fs::remove_dir_all(&folder);
        // What this engine has left to be written back must not slow the next one.
        write_back(&self.options.dir)?;
        let Err(why) = outcome else { return Ok(true) };
        println!("         {} has failed in {}: {why}", self.engine.name, self.set);
        for row in open {
            log.add(&self.note(&row, &format!("failed: {why}")))?;
        }
        Ok(group.is_some()) // an engine that cannot live with so little memory has shown just that
    }

    fn group(&self) -> Result<Option<Group>> {
        if Shape::of(self.set).is_some() { Group::new(self.options.scale.memory_limit).map(Some) } else { Ok(None) }
    }

    fn processes(&self, folder: &Path, group: Option<&Group>, mut each: impl FnMut(&Sample) -> Result<()>) -> Result<()> {
        for step in phases::steps(self.set, &self.engine) {
            if step.limited {
                drop_cached(folder)?;
            }
            let child = Child {
                engine: self.engine.name.to_owned(),
                set: step.name,
                round: self.round,
                folder: folder.to_owned(),
                scale: self.options.scale.clone(),
                cgroup: group.filter(|_| step.limited).map(|group| group.folder.clone()),
            };
            self.process(&child, &mut each)?;
        }
        Ok(())
    }

    fn process(&self, child: &Child, each: &mut impl FnMut(&Sample) -> Result<()>) -> Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(child.arguments()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("RUST_BACKTRACE", "0");
        let mut process = command.spawn()?;
        let errors = process.stderr.take();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            errors.map(|mut errors| errors.read_to_string(&mut text));
            text
        });
        let mut killed = false;
        for line in process.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
            let line = line?;
            if line == reopen::READY {
                process.kill()?; // SIGKILL: nothing in the process gets to tidy up
                killed = true;
            } else if line.starts_with('{') {
                each(&serde_json::from_str(&line)?)?;
            }
        }
        let status = process.wait()?;
        let errors = errors.join().unwrap_or_default();
        if killed || status.success() {
            return Ok(());
        }
        let last = errors.lines().rfind(|line| !line.trim().is_empty() && !line.starts_with("note:")).unwrap_or_default();
        let last = last.trim_start_matches("pipkin-compare: ");
        Err(format!("{status} {last}").trim().to_owned().into())
    }

    fn note(&self, row: &str, why: &str) -> Sample {
        let unit = self.rows.iter().find(|known| known.id == row).map_or(crate::sample::Unit::Ms, |known| known.unit);
        Sample::absent(self.engine.name, row, self.round, unit, why)
    }
}

fn fresh(folder: &PathBuf) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}
