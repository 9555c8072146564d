//! The path of a store that is given by name only, and how a finished file gets its final name.

use super::open::explain_open;
use super::{NativeOptions, NativeStorage, platform, storage_error};
use crate::error::{Error, Result};
#[cfg(all(feature = "encrypt", feature = "salvage"))]
use crate::storage::Storage;
use crate::sync::{AtomicU32, Ordering};
use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Longest name, in bytes, so that the file name with its ending fits every file system (255 bytes).
const NAME_LEN_MAX: usize = 200;
/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The path of a database by its name: `root/app_name/database_name.pipkin`. Creates the folders, not the file.
///
/// Without a `data_root` that is the platform's folder for the data of this user: `$XDG_DATA_HOME` or `~/.local/share`,
/// `~/Library/Application Support` on Apple systems, `%LOCALAPPDATA%` on Windows.
///
/// A name is refused everywhere if any platform would refuse it or read it as another one, so that a folder of stores can be
/// copied between platforms.
pub fn data_path(app_name: &str, database_name: &str, data_root: Option<&Path>) -> Result<PathBuf> {
    check_name(app_name)?;
    check_name(database_name)?;
    let root = match data_root {
        Some(root) => root.to_path_buf(),
        None => platform_root().ok_or(Error::InvalidArgument(
            "this system does not say where the user's data belongs; give a data root, or a path",
        ))?,
    };
    let folder = root.join(app_name);
    create_folder(&folder)?;
    Ok(folder.join(format!("{database_name}.pipkin")))
}

/// Gives a finished and synced file its final name in the same folder, durably, and in one step: after a crash there is the whole
/// file or none. Never replaces a file.
pub fn publish(finished: &Path, path: &Path) -> Result<()> {
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::InvalidArgument("the file exists already; choose a new name"),
        _ => storage_error("rename", path, error).into(),
    };
    // A hard link fails where there is a file already; a plain rename would replace it.
    match fs::hard_link(finished, path) {
        Ok(()) => fs::remove_file(finished).map_err(|error| failed(&error))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(failed(&error)),
        // No hard links here (FAT). Between this check and the rename a file could be replaced only by a process that does so on purpose.
        Err(_) if fs::symlink_metadata(path).is_ok() => return Err(failed(&io::ErrorKind::AlreadyExists.into())),
        Err(_) => fs::rename(finished, path).map_err(|error| failed(&error))?,
    }
    platform::sync_parent(path).map_err(|error| storage_error("sync folder", path, &error).into())
}

/// Gives a finished and synced file in the same folder the name of another one, durably, and in one step: after a crash one of them is there,
/// whole. On Unix who has the other one open keeps it; on Windows nobody may have.
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(crate) fn replace(finished: &Path, path: &Path) -> Result<()> {
    let permissions = fs::metadata(path).map(|metadata| metadata.permissions());
    permissions
        .and_then(|permissions| fs::set_permissions(finished, permissions))
        .map_err(|error| storage_error("set permissions", finished, &error))?;
    fs::rename(finished, path).map_err(|error| storage_error("rename", path, &error))?;
    platform::sync_parent(path).map_err(|error| storage_error("sync folder", path, &error).into())
}

/// Removes what an earlier attempt has left.
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(crate) fn remove_leftover(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(storage_error("remove", path, &error).into()),
        _ => Ok(()),
    }
}

impl NativeStorage {
    /// Overwrites the file, which has no name any more, with zeros. Does nothing if another name leads to it, and where a file that is open
    /// cannot be told from one that has a name.
    #[cfg(all(feature = "encrypt", feature = "salvage"))]
    pub(crate) fn wipe_unnamed(&self) -> Result<()> {
        if platform::has_name(&self.file) {
            return Ok(());
        }
        let (len, zeros) = (self.len()?, &super::ZEROS);
        for from in (0..len).step_by(zeros.len()) {
            let part = zeros.get(..(len - from).min(zeros.len() as u64) as usize).unwrap_or_default();
            self.write_at(from, &[part])?;
        }
        self.sync()?;
        Ok(())
    }

    /// Creates and locks an empty file beside `path`, under an unused name. Once it is complete, [`publish`] makes it the file at `path`.
    pub(crate) fn create_unfinished(path: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if path.file_name().is_none() {
            return Err(Error::InvalidArgument("the path does not name a file; give one"));
        }
        let options = NativeOptions { create: false, mmap: false, ..NativeOptions::default() };
        loop {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            let unfinished = PathBuf::from(name);
            match platform::private(OpenOptions::new().write(true).create_new(true)).open(&unfinished) {
                // Left over from, or in use by, another process with the same number (in another container, for example): do not remove it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(explain_open(&unfinished, options, &error)),
                Ok(_) => {
                    return Self::open(&unfinished, options).inspect_err(|_| {
                        let _ = fs::remove_file(&unfinished);
                    });
                }
            }
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        return Err(Error::InvalidArgument("a name of an application or a database has 1 to 200 bytes"));
    }
    if name.chars().any(|char| char.is_control() || r#"/\:*?"<>|"#.contains(char)) {
        return Err(Error::InvalidArgument(
            r#"a name of an application or a database has no control characters and none of / \ : * ? " < > |"#,
        ));
    }
    if name.starts_with([' ', '.']) || name.ends_with([' ', '.']) {
        return Err(Error::InvalidArgument(
            "a name of an application or a database neither starts nor ends with a space or a dot",
        ));
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port = |port: &str| stem.strip_prefix(port).is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']));
    if DEVICES.contains(&stem.as_str()) || is_port("com") || is_port("lpt") {
        return Err(Error::InvalidArgument(
            "the name of an application or a database is a device on Windows; choose another one",
        ));
    }
    Ok(())
}

/// A folder from the environment. A relative path depends on the working directory of the process, so it counts as not set.
fn folder_from(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(all(unix, not(target_vendor = "apple")))]
fn platform_root() -> Option<PathBuf> {
    folder_from("XDG_DATA_HOME").or_else(|| Some(env::home_dir()?.join(".local/share")))
}

#[cfg(target_vendor = "apple")]
fn platform_root() -> Option<PathBuf> {
    let _ = folder_from;
    Some(env::home_dir()?.join("Library/Application Support"))
}

#[cfg(windows)]
fn platform_root() -> Option<PathBuf> {
    folder_from("LOCALAPPDATA").or_else(|| Some(env::home_dir()?.join("AppData").join("Local")))
}

/// Creates a folder and those above it, for this user alone, and makes their names durable.
fn create_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| storage_error("create folder", folder, &error))?;
    for created in missing {
        platform::sync_parent(created).map_err(|error| storage_error("sync folder", created, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_name, publish};
    use crate::error::Error;
    use std::fs;

    #[test]
    fn a_finished_file_takes_its_name_and_never_that_of_another() -> Result<(), Box<dyn core::error::Error>> {
        let folder = tempfile::tempdir()?;
        let (finished, path) = (folder.path().join("unfinished"), folder.path().join("store"));
        fs::write(&finished, b"new")?;
        publish(&finished, &path)?;
        assert!(!finished.exists() && fs::read(&path)? == b"new");
        fs::write(&finished, b"newer")?;
        assert!(matches!(publish(&finished, &path), Err(Error::InvalidArgument(_))));
        assert!(fs::read(&finished)? == b"newer" && fs::read(&path)? == b"new");
        assert!(matches!(publish(&folder.path().join("none"), &folder.path().join("other")), Err(Error::Storage(_))));
        Ok(())
    }

    #[test]
    fn names_that_some_platform_reads_otherwise_are_refused() {
        for name in ["app", "My App", "a.b", "größe", "com", "com10", "console", &"x".repeat(200)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in
            ["", ".", "..", "a/b", "a\\b", "c:", "a\0b", "a\nb", " a", "a ", "a.", ".a", "NUL", "nul.db", "Com1", "lpt9.x"]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&"x".repeat(201)).is_err());
    }
}
