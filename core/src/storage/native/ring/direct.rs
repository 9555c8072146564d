//! A second way to the open file, for the rings.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// File systems whose direct reads are known to see what was written through the cache or a map before: the kernel writes out the pages of the
/// range first. A list, because network file systems and those in user space have rules of their own.
const COHERENT: [(rustix::fs::FsWord, &str); 5] =
    [(0xef53, "ext4"), (0x5846_5342, "XFS"), (0x9123_683e, "Btrfs"), (0xf2f5_2010, "F2FS"), (0x0102_1994, "tmpfs")];

/// Opens the file once more, for the rings: past the system's cache or through it. Or says why that cannot be.
///
/// The rings never read by the descriptor that has the lock: the kernel keeps what a ring uses until some time after the end of a process, and the
/// lock with it.
pub(super) fn open(file: &File, path: &Path, direct: bool) -> Result<File, String> {
    let refused = |error: io::Error| match direct {
        true => format!("the file system refuses direct reads (O_DIRECT): {error}"),
        false => format!("the file cannot be opened once more: {error}"),
    };
    if direct {
        check_kind(file)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(if direct { libc::O_DIRECT } else { 0 });
    // By its number, for the path may name another file by now; where `/proc` is not mounted, by the path.
    let opened = options.open(format!("/proc/self/fd/{}", file.as_raw_fd())).or_else(|_| options.open(path)).map_err(refused)?;
    let identity = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    if identity(&opened).map_err(refused)? != identity(file).map_err(refused)? {
        return Err("the path names another file by now".to_owned());
    }
    Ok(opened)
}

fn check_kind(file: &File) -> Result<(), String> {
    let kind = rustix::fs::fstatfs(file).map_err(|error| format!("the kind of file system is not known: {error}"))?.f_type;
    if COHERENT.iter().any(|&(known, _)| known == kind) {
        return Ok(());
    }
    let names: Vec<&str> = COHERENT.iter().map(|&(_, name)| name).collect();
    Err(format!("direct reads are used on {} only; this file system is 0x{kind:x}", names.join(", ")))
}
