//! A directory tree: the key is the path within it with `/` between the names, the value the bytes of the file.

use crate::bytes::os_bytes;
use crate::exit::{Failure, Outcome};
use crate::verbs::import::batch::{Batch, Trouble, check_len};
use crate::verbs::import::source::RecordSource;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads records from files.
pub(crate) struct Tree {
    root: PathBuf,
    files: std::vec::IntoIter<(PathBuf, u64)>,
    position: u64,
}

/// The files that a walk through the tree has found.
pub(crate) struct Found {
    pub(crate) tree: Tree,
    /// Bytes of all files.
    pub(crate) total: u64,
    /// Links, pipes and devices, which are not imported.
    pub(crate) left_out: u64,
}

impl Tree {
    /// Lists all files below `root`, ordered by name. If the store itself is among them, it is left out.
    pub(crate) fn find(root: &Path, store: &Path) -> Outcome<Found> {
        let store = fs::canonicalize(store).ok();
        let mut walk = Walk { files: Vec::new(), total: 0, left_out: 0 };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            walk.folder(root, &folder, store.as_deref(), &mut folders)?;
        }
        walk.files.sort_unstable();
        let tree = Self { root: root.to_path_buf(), files: walk.files.into_iter(), position: 0 };
        Ok(Found { tree, total: walk.total, left_out: walk.left_out })
    }
}

struct Walk {
    files: Vec<(PathBuf, u64)>,
    total: u64,
    left_out: u64,
}

impl Walk {
    fn folder(&mut self, root: &Path, folder: &Path, store: Option<&Path>, folders: &mut Vec<PathBuf>) -> Outcome<()> {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).map_err(|error| Failure::io("list", &path, &error))? {
            let entry = entry.map_err(|error| Failure::io("list", &path, &error))?;
            // The metadata of the entry itself: links are not followed, as they may lead out of the tree or form a cycle.
            let about = entry.metadata().map_err(|error| Failure::io("look at", &entry.path(), &error))?;
            let relative = folder.join(entry.file_name());
            if about.is_dir() {
                folders.push(relative);
            } else if !about.is_file() {
                self.left_out = self.left_out.saturating_add(1);
            } else if !is_store(&entry.path(), store) {
                self.total = self.total.saturating_add(about.len());
                self.files.push((relative, about.len()));
            }
        }
        Ok(())
    }
}

/// Compares names before paths: resolving a path costs several system calls, and nearly all names differ.
fn is_store(path: &Path, store: Option<&Path>) -> bool {
    store.is_some_and(|store| path.file_name() == store.file_name() && fs::canonicalize(path).ok().as_deref() == Some(store))
}

impl RecordSource for Tree {
    fn next_into(&mut self, batch: &mut Batch) -> Result<bool, Trouble> {
        let Some((relative, len)) = self.files.next() else {
            return Ok(false);
        };
        let path = self.root.join(&relative);
        let in_path = |what: String| Trouble::Skippable(format!("{}: {what}", path.display()));
        self.position = self.position.saturating_add(len);
        let key = key_of(&relative).ok_or_else(|| in_path("its name is not valid Unicode".to_owned()))?;
        // Checked before the file is read: a file over the limit need not be loaded.
        check_len(key.len(), usize::try_from(len).unwrap_or(usize::MAX)).map_err(in_path)?;
        let read = batch.push_read(&key, |bytes| File::open(&path)?.read_to_end(bytes).map(drop));
        match read {
            Ok(Ok(())) => Ok(true),
            Ok(Err(what)) => Err(in_path(what)),
            Err(error) => Err(Trouble::Fatal(Failure::io("read", &path, &error))),
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// The key of a path: its names joined by `/`, whatever separator the host uses. `None` if a name has no byte form (not Unix).
fn key_of(relative: &Path) -> Option<Vec<u8>> {
    let names = relative.iter().map(os_bytes).collect::<Option<Vec<&[u8]>>>()?;
    Some(names.join(&b'/'))
}

/// The path of a key below an export's root; `None` if a name in it is empty, would lead out of the root, or cannot name a file.
pub(crate) fn path_of(key: &[u8]) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for name in key.split(|byte| *byte == b'/') {
        let name = os_name(name)?;
        let forbidden = |byte: &u8| *byte == 0 || (cfg!(windows) && (*byte < 32 || br#"\:*?"<>|"#.contains(byte)));
        if matches!(name.as_encoded_bytes(), b"" | b"." | b"..") || name.as_encoded_bytes().iter().any(forbidden) {
            return None;
        }
        path.push(name);
    }
    Some(path)
}

#[cfg(unix)]
fn os_name(bytes: &[u8]) -> Option<&OsStr> {
    Some(std::os::unix::ffi::OsStrExt::from_bytes(bytes))
}

#[cfg(not(unix))]
fn os_name(bytes: &[u8]) -> Option<&OsStr> {
    std::str::from_utf8(bytes).ok().map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paths_and_paths_become_the_same_keys() {
        for key in ["a", "a/b", "a b/.hidden/c.txt", "...", "\u{e4}"] {
            assert_eq!(path_of(key.as_bytes()).and_then(|path| key_of(&path)), Some(key.as_bytes().to_vec()), "{key}");
        }
    }

    #[test]
    fn keys_that_would_leave_the_folder_are_no_paths() {
        for key in ["", "/", "/etc/passwd", "a/", "a//b", ".", "..", "a/../b", "./a", "a/..", "nul\0"] {
            assert_eq!(path_of(key.as_bytes()), None, "{key}");
        }
    }
}
