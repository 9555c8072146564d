//! The first host: the release build of the `pipkin` command on a native file.

use super::data::Record;
use super::digest;
use super::plan::{Plan, payload};
use super::watch::Watcher;
use crate::shell::{Outcome, Step, Stop, failed, target_dir};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tinyjson::JsonValue;

/// So many keys go into one `pipkin rm`: command lines are limited, on Windows to 32 KiB.
const KEYS_PER_COMMAND: usize = 400;

/// A store gives space in the middle of its file back as holes, so its length says only half of it.
#[derive(Clone, Copy)]
struct Size {
    length: u64,
    on_disk: u64,
}

#[cfg(unix)]
fn on_disk(file: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(file) * 512
}

#[cfg(not(unix))]
fn on_disk(file: &fs::Metadata) -> u64 {
    file.len()
}

/// The store, and the command that looks into it.
pub(super) struct Stage {
    program: PathBuf,
    pub(super) store: PathBuf,
    pub(super) folder: PathBuf,
}

/// Plays the plan; the stage is left as it is then.
pub(super) fn run(folder: &Path, plan: &Plan) -> Outcome<Stage> {
    println!("\n=== the pipkin command, release build");
    Step::new("cargo build --release -p pipkin-cli").run()?;
    let program = target_dir().join("release").join(format!("pipkin{}", std::env::consts::EXE_SUFFIX));
    let stage = Stage { program, store: folder.join("demo.pipkin"), folder: folder.to_owned() };
    if stage.store.exists() {
        fs::remove_file(&stage.store)?;
    }
    stage.play(plan)?;
    Ok(stage)
}

impl Stage {
    /// The last act.
    pub(super) fn close(self, keep: bool) -> Outcome {
        if keep {
            println!("\nthe store stays in {}", self.store.display());
        } else {
            fs::remove_file(&self.store)?;
        }
        Ok(())
    }

    fn play(&self, plan: &Plan) -> Outcome {
        println!("\n=== load");
        let source = self.write_records("load.ndjson", &plan.records)?;
        let took = self.timed(self.import(&source))?;
        tell_rate("loaded", plan.records.len(), took);
        let loaded = self.size()?;
        self.compare("after loading", &plan.loaded)?;

        let mut watcher = Watcher::start(&self.verb("watch"))?;
        println!("\n=== overwrite and remove");
        let source = self.write_records("overwrite.ndjson", &plan.overwritten)?;
        let took = self.timed(self.import(&source))?;
        tell_rate("overwritten", plan.overwritten.len(), took);
        let took = self.remove(&plan.removed)?;
        tell_rate("removed", plan.removed.len(), took);
        let overwritten = plan.overwritten.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
        watcher.tells(overwritten.chain(plan.removed.iter().map(|key| (key.as_str(), None))))?;
        watcher.tells_nothing_more()?;
        let edited = self.size()?;

        println!("\n=== compact, reopen, verify");
        self.verb("compact").run()?;
        let compacted = self.size()?;
        let took = self.timed(self.verb("stats"))?;
        println!("reopened (a new process, until its end) in {:.1} ms", took.as_secs_f64() * 1000.0);
        self.verb("verify").run()?;
        self.compare("after overwriting, removing, compacting and reopening", &plan.edited)?;

        println!("\n=== sizes");
        tell_size("after loading", payload(&plan.loaded), loaded);
        tell_size("after overwriting and removing", payload(&plan.edited), edited);
        tell_size("after compacting", payload(&plan.edited), compacted);
        if compacted.on_disk >= edited.on_disk {
            return failed(format!(
                "compacting gave no space back: {} bytes on disk before, {} after",
                edited.on_disk, compacted.on_disk
            ));
        }
        Ok(())
    }

    pub(super) fn command(&self) -> Step {
        Step::new("").path(&self.program)
    }

    pub(super) fn verb(&self, verb: &str) -> Step {
        self.command().arg(verb).path(&self.store)
    }

    /// With a bar even where there is no terminal: as lines there.
    fn import(&self, source: &Path) -> Step {
        self.verb("import").path(source).arg("--progress").arg("always")
    }

    fn timed(&self, step: Step) -> Outcome<Duration> {
        let start = Instant::now();
        step.run()?;
        Ok(start.elapsed())
    }

    fn size(&self) -> Outcome<Size> {
        let file = fs::metadata(&self.store)?;
        Ok(Size { length: file.len(), on_disk: on_disk(&file) })
    }

    fn remove(&self, keys: &[String]) -> Outcome<Duration> {
        let all = keys.chunks(KEYS_PER_COMMAND);
        println!("$ {} -- KEY... ({} commands)", self.verb("rm"), all.len());
        let start = Instant::now();
        for keys in all {
            self.verb("rm").arg("--").args(keys).run_quietly()?;
        }
        Ok(start.elapsed())
    }

    /// Exports the store and holds it against the expected state, record by record and by digest.
    pub(super) fn compare(&self, when: &str, expected: &BTreeMap<String, String>) -> Outcome {
        let export = self.folder.join("export.ndjson");
        if export.exists() {
            fs::remove_file(&export)?;
        }
        self.verb("export").path(&export).run()?;
        let found = read_records(&export)?;
        let expected_digest = digest::of_records(expected);
        let exported_digest = digest::of_records(&found);
        let told = self.verb("digest").output()?;
        let told_digest = told.split_whitespace().next().unwrap_or_default();
        println!("SHA-256 over the {} records {when}:", expected.len());
        println!("  computed from the source   {expected_digest}");
        println!("  computed from the export   {exported_digest}");
        println!("  told by `pipkin digest`    {told_digest}");
        if expected_digest == exported_digest && expected_digest == told_digest {
            return Ok(());
        }
        failed(format!("the store is not what the source says, {when}: {}", difference(expected, &found)))
    }

    fn write_records(&self, name: &str, records: &[Record]) -> Outcome<PathBuf> {
        let path = self.folder.join(name);
        let mut file = BufWriter::new(File::create(&path)?);
        for (key, value) in records {
            writeln!(file, "{{\"key\":{},\"value\":{}}}", json(key)?, json(value)?)?;
        }
        file.flush()?;
        Ok(path)
    }
}

pub(super) fn json(text: &str) -> Outcome<String> {
    JsonValue::from(text.to_owned()).stringify().map_err(|error| Stop::Failed(error.to_string()))
}

fn read_records(path: &Path) -> Outcome<BTreeMap<String, String>> {
    let mut records = BTreeMap::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let Some((key, value)) = record(&line) else {
            return failed(format!("{}: not a record of text: {line}", path.display()));
        };
        if let Some(other) = records.insert(key, value) {
            return failed(format!("{}: a key came twice, before with {other}: {line}", path.display()));
        }
    }
    Ok(records)
}

fn record(line: &str) -> Option<Record> {
    let mut fields: HashMap<String, JsonValue> = line.parse::<JsonValue>().ok()?.try_into().ok()?;
    let key = fields.remove("key")?.try_into().ok()?;
    let value = fields.remove("value")?.try_into().ok()?;
    fields.is_empty().then_some((key, value))
}

/// The first record on which the two do not agree.
fn difference(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> String {
    let lost = expected.iter().find(|(key, value)| found.get(*key) != Some(*value));
    let extra = found.iter().find(|(key, _)| !expected.contains_key(*key));
    match (lost, extra) {
        (Some((key, value)), _) => format!("{key} should be {value}, is {:?}", found.get(key)),
        (None, Some((key, value))) => format!("{key} should not be there, is {value}"),
        (None, None) => "no record differs, the digest itself is wrong".to_owned(),
    }
}

pub(super) fn tell_rate(what: &str, records: usize, took: Duration) {
    let seconds = took.as_secs_f64();
    println!("{what}: {records} records in {seconds:.2} s, {:.0} a second", records as f64 / seconds.max(1e-9));
}

fn tell_size(when: &str, payload: u64, size: Size) {
    let share = size.on_disk as f64 / payload.max(1) as f64;
    println!(
        "{when:<31} payload {payload:>10} bytes, file {:>10}, of it on disk {:>10} = {share:.2} x payload",
        size.length, size.on_disk
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() -> Outcome {
        let (key, value) = ("CH/\"Zürich\"", "a\\b\tc");
        let line = format!("{{\"key\":{},\"value\":{}}}", json(key)?, json(value)?);
        assert_eq!(record(&line), Some((key.to_owned(), value.to_owned())));
        assert_eq!(record(r#"{"key":"AA==","key_encoding":"base64","value":""}"#), None);
        Ok(())
    }

    #[test]
    fn the_difference_names_a_record() {
        let state = |text: &str| BTreeMap::from([("k".to_owned(), text.to_owned())]);
        assert!(difference(&state("v"), &state("w")).contains("k should be v"));
        assert!(difference(&BTreeMap::new(), &state("w")).contains("should not be there"));
    }
}
