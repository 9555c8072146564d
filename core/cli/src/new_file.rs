//! A file that appears under its name only when it is whole, and never replaces another by accident.

use crate::exit::{Exit, Failure, Outcome};
use crate::file_kind;
use crate::interrupt;
use pipkin::Error;
use pipkin::storage::native::publish;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file in the making. It has a name of its own beside the final one until [`NewFile::finish`]; a drop before that removes it.
pub(crate) struct NewFile {
    part: PathBuf,
    target: PathBuf,
    replace: bool,
    /// The store that it is a copy of.
    source: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Claims `target` for a copy of `source`, whose rights it will have. With `replace` an existing file, or the one that a link leads to,
    /// is replaced in the end; else whatever exists is refused now.
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
        // Claims the name now: a folder that is missing or not ours is told before the work, not after.
        let claimed = interrupt::make_unfinished(&part, |part| fs::File::create_new(part));
        drop(claimed.map_err(|error| Failure::io("create", &target, &error))?);
        let new_file = Self { part, target, replace, source: source.to_path_buf(), finished: false };
        fs::remove_file(&new_file.part).map_err(|error| Failure::io("write in the folder of", &new_file.target, &error))?;
        Ok(new_file)
    }

    /// Lets `make` create the file where it is written meanwhile. Nothing is there yet.
    pub(crate) fn make<T, E>(&self, make: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
        interrupt::make_unfinished(&self.part, make)
    }

    /// The name that it will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its final name. The caller has synced its bytes.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        let rights = copy_rights(&self.source, &self.part);
        rights.map_err(|error| Failure::io("set the rights of", &self.target, &error))?;
        if self.replace {
            fs::rename(&self.part, &self.target).map_err(|error| Failure::io("create", &self.target, &error))?;
            sync_folder(&self.target);
        } else {
            publish(&self.part, &self.target).map_err(|error| match error {
                // The name was taken meanwhile.
                Error::InvalidArgument(_) => already_exists(&self.target),
                error => Failure::store(&self.target, &error),
            })?;
        }
        self.finished = true;
        interrupt::set_finished();
        Ok(())
    }
}

/// Creates a file that nobody but this user may look into while it is written.
pub(crate) fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What is made of a store is as private as the store.
#[cfg(unix)]
pub(crate) fn copy_rights(source: &Path, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // Nothing but reading and writing: and the owner of a copy may do both, whatever has been taken from the store.
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

/// The file to replace: the one at `target`, or the one that a link there leads to. Whoever made the link wants it to stay. Anything else
/// is refused, for a rename would put the file in the place of a device or of a pipe.
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

/// Makes the new name survive a power cut, where the host lets a folder be synced. The file itself is whole in any case.
fn sync_folder(file: &Path) {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
}
