//! Running commands: each one is printed in the form that a person could type, from the root of the repository.

use crate::sizes;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Why a check ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It ran and found something wrong.
    Failed(String),
    /// It could not be run here; says what is missing.
    CannotRun(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Stop>;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Failed(why) | Stop::CannotRun(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

pub(crate) fn failed<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Stop::Failed(why.into()))
}

/// No step may hang a whole run; the long ones name a limit of their own.
const LIMIT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// One command line.
#[derive(Clone)]
pub(crate) struct Step {
    words: Vec<String>,
    env: Vec<(String, String)>,
    dir: Option<PathBuf>,
    stdin: Option<PathBuf>,
    limit: Duration,
}

impl Step {
    /// `line` is cut at white space; arguments that hold some go through [`Step::arg`].
    pub(crate) fn new(line: &str) -> Step {
        Step {
            words: line.split_whitespace().map(str::to_owned).collect(),
            env: Vec::new(),
            dir: None,
            stdin: None,
            limit: LIMIT_DEFAULT,
        }
    }

    pub(crate) fn arg(mut self, word: impl Into<String>) -> Step {
        self.words.push(word.into());
        self
    }

    pub(crate) fn args<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Step {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// For a command that runs at the root of the repository.
    pub(crate) fn path(self, path: &Path) -> Step {
        self.arg(from_root(path).display().to_string())
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Step {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// A file that the command reads as its standard input; otherwise there is none.
    pub(crate) fn stdin(mut self, file: &Path) -> Step {
        self.stdin = Some(file.to_owned());
        self
    }

    /// Relative to the root of the repository.
    pub(crate) fn dir(mut self, dir: impl Into<PathBuf>) -> Step {
        self.dir = Some(dir.into());
        self
    }

    pub(crate) fn limit_minutes(mut self, minutes: u64) -> Step {
        self.limit = Duration::from_secs(minutes * 60);
        self
    }

    /// Prints the command, runs it with its output shown, fails unless it succeeds within the limit.
    pub(crate) fn run(&self) -> Outcome {
        println!("$ {self}");
        self.finish(self.command()?)
    }

    /// The same for a command whose output only matters if it fails: it goes to a file.
    pub(crate) fn run_into(&self, log: &Path) -> Outcome {
        println!("$ {self} > {}", from_root(log).display());
        let file = File::create(log)?;
        let mut command = self.command()?;
        command.stdout(file.try_clone()?).stderr(file);
        let outcome = self.finish(command);
        if outcome.is_err() {
            print!("{}", std::fs::read_to_string(log).unwrap_or_default());
        }
        outcome
    }

    /// The same for one of many alike: says nothing unless it fails.
    pub(crate) fn run_quietly(&self) -> Outcome {
        self.output().map(|_| ())
    }

    /// Runs it and returns what it printed on standard output; for short questions, so neither printed nor limited.
    pub(crate) fn output(&self) -> Outcome<String> {
        let output = self.command()?.output().map_err(|error| self.not_started(&error))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return failed(format!("`{self}` ended with {}: {}", describe(output.status), errors.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Prints the command and starts it; the caller reads its standard output, and ends it.
    pub(crate) fn start(&self) -> Outcome<Child> {
        println!("$ {self} &");
        self.command()?.stdout(Stdio::piped()).spawn().map_err(|error| self.not_started(&error))
    }

    /// Whether it can be started and succeeds; says nothing.
    pub(crate) fn succeeds(&self) -> bool {
        self.output().is_ok()
    }

    fn finish(&self, mut command: Command) -> Outcome {
        let mut child = command.spawn().map_err(|error| self.not_started(&error))?;
        match wait(&mut child, self.limit * sizes::patience())? {
            Some(status) if status.success() => Ok(()),
            Some(status) => failed(format!("`{self}` ended with {}", describe(status))),
            None => failed(format!("`{self}` was stopped after its limit of {} s", (self.limit * sizes::patience()).as_secs())),
        }
    }

    fn not_started(&self, error: &io::Error) -> Stop {
        let program = self.words.first().map_or("", String::as_str);
        if error.kind() == io::ErrorKind::NotFound {
            return Stop::CannotRun(format!("`{program}` was not found on PATH"));
        }
        Stop::Failed(format!("`{program}` could not be started: {error}"))
    }

    fn command(&self) -> Outcome<Command> {
        let Some((program, args)) = self.words.split_first() else {
            return failed("an empty command line");
        };
        // A relative program together with another current folder means different files on different systems.
        let is_path = program.contains(['/', '\\']);
        let mut command = if is_path { Command::new(root().join(program)) } else { Command::new(program) };
        let stdin = self.stdin.as_ref().map_or_else(|| Ok(Stdio::null()), |file| File::open(file).map(Stdio::from))?;
        command.args(args).stdin(stdin).env("PATH", path_with_own_tools());
        forget_own_cargo_environment(&mut command);
        command.envs(sizes::settings());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.dir.as_ref().map_or_else(root, |dir| root().join(dir)));
        Ok(command)
    }
}

/// The command as a person would type it at the root of the repository.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let stdin = self.stdin.iter().map(|file| format!("< {}", quoted(&from_root(file).display().to_string())));
        let line = env.chain(self.words.iter().map(|word| quoted(word))).chain(stdin).collect::<Vec<_>>().join(" ");
        match &self.dir {
            Some(dir) => write!(f, "(cd {} && {line})", quoted(&from_root(dir).display().to_string())),
            None => f.write_str(&line),
        }
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn describe(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// The root of the repository: two folders above this crate.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// Shorter to read, and right for a person who stands at the root.
fn from_root(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}

/// Where build output, downloads and tools go: `target/`, or what `CARGO_TARGET_DIR` says.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Tools that `cargo xtask` installed are found before others of the same name.
fn path_with_own_tools() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = [target_dir().join("tools").join("bin")].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(dirs).unwrap_or(path)
}

/// `cargo run` describes this crate to us in the environment; a command typed by hand would not see that, and
/// `RUSTUP_TOOLCHAIN` would outweigh `rust-toolchain.toml` in `rustup` commands.
fn forget_own_cargo_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name_text.starts_with(prefix));
        if ours || matches!(&*name_text, "CARGO" | "RUSTUP_TOOLCHAIN") {
            command.env_remove(&name);
        }
    }
}

/// Waits at most `limit`; `None` means that the process and its descendants had to be killed.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            for pid in descendants(child.id()) {
                Command::new("kill").args(["-9", &pid.to_string()]).status()?;
            }
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(Duration::from_millis(20));
    }
}

/// All descendants of a process, from Linux's process table; elsewhere none are known.
///
/// Process groups would be the other way, but a group of its own would not hear the Ctrl-C of a person.
fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // "pid (name) state parent ...", and the name may hold blanks and brackets
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_like_a_typed_command() {
        let step = Step::new("cargo doc --no-deps").env("RUSTDOCFLAGS", "-D warnings").dir("web").arg("it's");
        assert_eq!(step.to_string(), r"(cd web && RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s')");
    }

    #[test]
    fn a_missing_program_is_no_failure_of_the_check() {
        assert!(matches!(Step::new("pipkin-no-such-program").run(), Err(Stop::CannotRun(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_step_that_outlives_its_limit_is_stopped_with_its_children() {
        let mut step = Step::new("sh -c").arg("sleep 31.4159 & wait");
        step.limit = Duration::from_millis(300);
        let start = Instant::now();
        assert!(matches!(step.run(), Err(Stop::Failed(_))));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
