//! A child process that is killed: this test binary once more, told by its environment which of its tests to be.

use crate::quota::env_u64;
use crate::rng::Rng;
use pipkin::Db;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "PIPKIN_KILL_FOLDER";
const SEED: &str = "PIPKIN_KILL_SEED";
#[cfg(feature = "planted-bugs")]
const BUG: &str = "PIPKIN_KILL_BUG";

/// Folder and seed for the test `child`, if this process is the child. A bug that is planted in the process that has started it is planted here.
pub fn told() -> Option<(PathBuf, u64)> {
    #[cfg(feature = "planted-bugs")]
    if let Ok(name) = std::env::var(BUG) {
        pipkin::planted::set(pipkin::planted::Bug::ALL.iter().copied().find(|bug| format!("{bug:?}") == name));
    }
    Some((PathBuf::from(std::env::var_os(FOLDER)?), env_u64(SEED, 0)))
}

/// The child says that it is at work.
pub fn is_at_work(folder: &Path) -> std::io::Result<()> {
    std::fs::write(ready(folder), b"")
}

fn ready(folder: &Path) -> PathBuf {
    folder.join("ready")
}

fn start(folder: &Path, seed: u64) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    #[cfg(feature = "planted-bugs")]
    if let Some(bug) = pipkin::planted::planted() {
        command.env(BUG, format!("{bug:?}"));
    }
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("stderr"))?)
        .spawn()
}

/// Starts a child and kills it: one in five while it opens its store, the others at work.
pub fn kill_one(folder: &Path, seed: u64, rng: &mut Rng) -> Result<(), String> {
    if rng.chance(1, 5) {
        let mut child = Running::begin(folder, seed)?;
        // In the middle of opening.
        std::thread::sleep(Duration::from_micros(rng.below(12_000)));
        child.kill()
    } else {
        let mut child = Running::start(folder, seed)?;
        std::thread::sleep(Duration::from_micros(rng.below(90_000)));
        child.kill()
    }
}

/// A child that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    fn begin(folder: &Path, seed: u64) -> Result<Self, String> {
        let _ = std::fs::remove_file(ready(folder));
        let child = start(folder, seed).map_err(|error| format!("the child did not start: {error}"))?;
        Ok(Self { child, folder: folder.to_owned() })
    }

    /// Starts one, and waits until it is at work.
    pub fn start(folder: &Path, seed: u64) -> Result<Self, String> {
        let mut running = Self::begin(folder, seed)?;
        for _ in 0..20_000 {
            if ready(folder).exists() || running.child.try_wait().ok().flatten().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(running)
    }

    /// Kills it; an error if it has ended by itself.
    pub fn kill(&mut self) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.ended(status));
        }
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| format!("kill: {error}"))
    }

    /// Waits until it ends by itself, without a failure.
    pub fn end(&mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(self.ended(status)) }
    }

    fn ended(&self, status: std::process::ExitStatus) -> String {
        let words = std::fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        format!("the child ended by itself ({status}): {words}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compacts and checkpoints for ever, beside the writers of a child.
pub fn maintain(db: &Db) -> pipkin::Result<()> {
    for turn in 0..=u64::MAX {
        match turn % 8 {
            0 => drop(db.compact()?),
            1 | 5 => db.checkpoint()?,
            _ => drop(db.compact_step()?),
        }
        std::thread::sleep(Duration::from_millis(turn % 3));
    }
    Ok(())
}

/// Where the files of a child go: on the disk for even seeds, in memory for odd ones.
pub fn place(seed: u64) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if seed.is_multiple_of(2) || !memory.is_dir() { std::env::temp_dir() } else { memory }
}

/// Keeps the store of a failed trial; says where.
pub fn keep(folder: &Path, seed: u64) -> PathBuf {
    let kept = std::env::temp_dir().join(format!("pipkin-killed-{seed}"));
    let _ = std::fs::create_dir_all(&kept);
    let _ = std::fs::copy(folder.join("store.pipkin"), kept.join("store.pipkin"));
    kept
}
