//! A control group with a limit of memory, which counts the page cache, too.
//!
//! It is made below the group that `PIPKIN_BENCH_CGROUP` names (version 1 or 2), or else beside this process where version 2 lets this
//! user do that. No other group is touched.

use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "PIPKIN_BENCH_CGROUP";
const MOUNTED: &str = "/sys/fs/cgroup";
const LIMIT: &str = "memory.max";
const LIMIT_OF_VERSION_1: &str = "memory.limit_in_bytes";

/// A group that ends with this value.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
}

impl Group {
    /// Fails where this user may not make one.
    pub(crate) fn new(memory: u64) -> Result<Self> {
        let parent =
            parent().ok_or_else(|| format!("no control group of version 2 counts memory here; {VARIABLE} can name one"))?;
        let folder = parent.join(format!("pipkin-compare-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("no control group for memory can be made here: {error}"))?;
        let group = Self { folder };
        let limit = if parent.join(LIMIT_OF_VERSION_1).exists() { LIMIT_OF_VERSION_1 } else { LIMIT };
        fs::write(group.folder.join(limit), memory.to_string()).map_err(|error| format!("{limit} cannot be set: {error}"))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder); // empty by now: its processes have ended
    }
}

fn parent() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return Some(folder.into());
    }
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A group with processes of its own cannot hand controllers to children: the new one stands beside it.
    let parent = Path::new(MOUNTED).join(own).parent()?.to_owned();
    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
    controllers.split_whitespace().any(|name| name == "memory").then_some(parent)
}

/// Moves this process into a group.
pub(crate) fn enter(folder: &Path) -> Result<()> {
    Ok(fs::write(folder.join("cgroup.procs"), std::process::id().to_string())?)
}
