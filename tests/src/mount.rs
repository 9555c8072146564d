//! A small file system of its own, where the machine lets the test have one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs, taken away again when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts a tmpfs of `kib` KiB; `None`, with a message, where only root may and the test is not root.
    pub fn tmpfs(kib: u64) -> Option<Self> {
        let unique = format!("pipkin-mount-{}-{kib}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
        std::fs::create_dir_all(&path).ok()?;
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(&path).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self { path }),
            other => {
                println!("skipped: no tmpfs could be mounted ({other:?})");
                let _ = std::fs::remove_dir(&path);
                None
            }
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts it again, with other options. Says whether that worked.
    pub fn remount(&self, options: &str) -> bool {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.path).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
        let _ = std::fs::remove_dir(&self.path);
    }
}
