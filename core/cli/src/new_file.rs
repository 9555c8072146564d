//! A file that gets its name only when it is complete, and never replaces another by accident.

use crate::exit::{Exit, Failure, Outcome};
use crate::file_kind;
use crate::interrupt;
use pipkin::Error;
use pipkin::storage::native::publish;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is being written. It has a temporary name in the target's folder until [`NewFile::finish`]; dropping it before removes it.
pub(crate) struct NewFile {
    part: PathBuf,
    target: PathBuf,
    replace: bool,
    /// The store whose rights (mode) the file will get.
    source: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Prepares `target` as a copy of `source`, whose rights it will get. With `replace`, an existing file, or the one that a link leads
    /// to, is replaced by [`Self::finish`]; without it, an existing `target` is refused now.
    pub(crate) fn new(target: &Path, source: &Path, replace: bool) -> Outcome<Self> {
        let target = match fs::symlink_metadata(target) {
            Err(_) => target.to_path_buf(),
            Ok(found) if replace => replaceable(target, &found)?,
            Ok(_) => return Err(already_exists(target)),
        };
        let Some(name) = target.file_name() else {
            return Err(Failure::usage(format!("{} does not name a file", target.display())));
        };
        let mut part_name = name.to_os_string();
        part_name.push(format!(".{}.part", std::process::id()));
        let part = target.with_file_name(part_name);
        // Create and remove the file now, so that a missing or read-only folder is reported before the work, not after.
        let claimed = interrupt::make_unfinished(&part, |part| fs::File::create_new(part));
        drop(claimed.map_err(|error| Failure::io("create", &target, &error))?);
        let new_file = Self { part, target, replace, source: source.to_path_buf(), finished: false };
        fs::remove_file(&new_file.part).map_err(|error| Failure::io("write in the folder of", &new_file.target, &error))?;
        Ok(new_file)
    }

    /// Lets `make` create the file under its temporary name, which is free.
    pub(crate) fn make<T, E>(&self, make: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
        interrupt::make_unfinished(&self.part, make)
    }

    /// The final name.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its final name. The caller must have synced its bytes.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        let rights = copy_rights(&self.source, &self.part);
        rights.map_err(|error| Failure::io("set the rights of", &self.target, &error))?;
        if self.replace {
            fs::rename(&self.part, &self.target).map_err(|error| Failure::io("create", &self.target, &error))?;
            sync_folder(&self.target);
        } else {
            publish(&self.part, &self.target).map_err(|error| match error {
                // Another process has created a file of this name meanwhile.
                Error::InvalidArgument(_) => already_exists(&self.target),
                error => Failure::store(&self.target, &error),
            })?;
        }
        self.finished = true;
        interrupt::set_finished();
        Ok(())
    }
}

/// Creates a file that only this user can read while it is written.
pub(crate) fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Gives `target` the rights of the store `source`, so that a copy is as private as the store.
#[cfg(unix)]
pub(crate) fn copy_rights(source: &Path, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // Only read and write bits. The owner of a copy may do both, even if the store is read-only.
    let mode = fs::metadata(source)?.permissions().mode() & 0o666 | 0o600;
    fs::set_permissions(target, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn copy_rights(_source: &Path, _target: &Path) -> io::Result<()> {
    Ok(())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.part);
            interrupt::set_finished();
        }
    }
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(Exit::Usage, "exists", format!("{} exists already and was left as it is; choose a new name", path.display()))
        .with("path", path.display().to_string())
}

/// The file to replace: the one at `target`, or the one that a link there leads to. The link itself is kept. Anything else is refused,
/// because a rename would replace a device or a pipe by a file.
fn replaceable(target: &Path, found: &fs::Metadata) -> Outcome<PathBuf> {
    if found.is_file() {
        return Ok(target.to_path_buf());
    }
    let what = match fs::metadata(target) {
        Ok(named) if named.is_file() => {
            return fs::canonicalize(target).map_err(|error| Failure::io("follow the link", target, &error));
        }
        Ok(named) => file_kind::name(named.file_type()),
        Err(_) => "a link that leads to no file",
    };
    let what = format!(
        "{} is {what} and was left as it is, for --force replaces files only; choose another name, or - for stdout",
        target.display()
    );
    Err(Failure::new(Exit::Usage, "exists", what).with("path", target.display().to_string()))
}

/// Makes the new name survive a power cut, where the host can sync folders. Errors are ignored: the file itself is complete in any case.
fn sync_folder(file: &Path) {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
}
