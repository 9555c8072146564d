//! A copy of a store's files: some engines open their files only to write.

use crate::engine::Engine;
use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Copy {
    folder: TempDir,
}

impl Copy {
    /// Copies a file, or a folder with everything in it.
    pub(crate) fn of(engine: Engine, path: &Path) -> Result<Self> {
        let copy = || {
            let folder = TempDir::new()?;
            copy_into(path, &folder.path().join("copy"))?;
            Ok(Self { folder })
        };
        copy().map_err(|error: io::Error| Error::Failed {
            engine,
            detail: format!("its files cannot be copied to read them: {error}"),
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("copy")
    }
}

fn copy_into(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    fs::read_dir(from)?.try_for_each(|entry| {
        let entry = entry?;
        copy_into(&entry.path(), &to.join(entry.file_name()))
    })
}
