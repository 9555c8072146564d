//! Names for the kinds of files, for messages.

use std::fs::FileType;

/// The kind with its article: `a directory`.
pub(crate) fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        kind => special(kind),
    }
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn special(_kind: FileType) -> &'static str {
    "a device or a pipe"
}
