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
    let _ = std::fs::remove_file(ready(folder));
    let mut child = start(folder, seed).map_err(|error| format!("the child did not start: {error}"))?;
    if rng.chance(1, 5) {
        // In the middle of opening.
        std::thread::sleep(Duration::from_micros(rng.below(12_000)));
    } else {
        for _ in 0..20_000 {
            if ready(folder).exists() || child.try_wait().ok().flatten().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        std::thread::sleep(Duration::from_micros(rng.below(90_000)));
    }
    if let Ok(Some(status)) = child.try_wait() {
        let words = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        return Err(format!("the child ended by itself ({status}): {words}"));
    }
    child.kill().and_then(|()| child.wait()).map_err(|error| format!("kill: {error}"))?;
    Ok(())
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
