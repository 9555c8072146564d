//! A file that appears under its name only when it is whole, and never replaces another by accident.

use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file in the making. It has a name of its own beside the final one until [`NewFile::finish`]; a drop before that removes it.
pub(crate) struct NewFile {
    part: PathBuf,
    target: PathBuf,
    replace: bool,
    finished: bool,
}

impl NewFile {
    /// Claims `target`. With `replace` an existing file is replaced in the end, else it is refused now.
    pub(crate) fn new(target: &Path, replace: bool) -> Outcome<Self> {
        let exists = fs::symlink_metadata(target).is_ok();
        if exists && (!replace || target.is_dir()) {
            return Err(already_exists(target));
        }
        let Some(name) = target.file_name() else {
            return Err(Failure::usage(format!("{} does not name a file", target.display())));
        };
        let mut part_name = name.to_os_string();
        part_name.push(format!(".{}.part", std::process::id()));
        let part = target.with_file_name(part_name);
        // Claims the name now: a folder that is missing or not ours is told before the work, not after.
        fs::OpenOptions::new().write(true).create_new(true).open(&part).map_err(|error| Failure::io("create", target, &error))?;
        fs::remove_file(&part).map_err(|error| Failure::io("write in the folder of", target, &error))?;
        interrupt::set_unfinished(Some(&part));
        Ok(Self { part, target: target.to_path_buf(), replace, finished: false })
    }

    /// Where to write meanwhile. Nothing is there yet.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// The name that it will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its final name. The caller has synced its bytes.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.rename()?;
        self.finished = true;
        interrupt::set_unfinished(None);
        sync_folder(&self.target);
        Ok(())
    }

    fn rename(&self) -> Outcome<()> {
        if !self.replace {
            // A hard link fails where the name is taken meanwhile; a rename would replace it without a word.
            match fs::hard_link(&self.part, &self.target) {
                Ok(()) => return fs::remove_file(&self.part).map_err(|error| Failure::io("remove", &self.part, &error)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(already_exists(&self.target)),
                // The file system has no hard links.
                Err(_) if fs::symlink_metadata(&self.target).is_ok() => return Err(already_exists(&self.target)),
                Err(_) => {}
            }
        }
        fs::rename(&self.part, &self.target).map_err(|error| Failure::io("create", &self.target, &error))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.part);
            interrupt::set_unfinished(None);
        }
    }
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(Exit::Usage, "exists", format!("{} exists already and was left as it is; choose a new name", path.display()))
        .with("path", path.display().to_string())
}

/// Makes the new name survive a power cut, where the host lets a folder be synced. The file itself is whole in any case.
fn sync_folder(file: &Path) {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
}
