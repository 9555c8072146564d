//! What the system knows about this process and its files.

use crate::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that this process has sent towards the device, stores into maps included.
pub(crate) fn written() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// Bytes that the device under a folder has been given since the machine started, by everybody. `None` where it does not count.
pub(crate) fn device_written(folder: &Path) -> Option<u64> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    Some(text.split_whitespace().nth(6)?.parse::<u64>().ok()? * 512)
}

/// Bytes of memory of this process that are not pages of files.
pub(crate) fn own_memory() -> Result<u64> {
    Ok(field("/proc/self/status", "RssAnon:")? * 1024)
}

/// The number behind a name, in a file of lines `name: number unit`.
fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("{file} has no {name}").into())
}

/// The files under a folder: their lengths, and what they take on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) length: u64,
    pub(crate) allocated: u64,
}

pub(crate) fn size(folder: &Path) -> Result<Size> {
    let mut size = Size::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Ok(data) = fs::symlink_metadata(&path) else {
            continue; // gone: a store that cleans up in the background
        };
        if data.is_dir() {
            let inner = self::size(&path)?;
            size.length += inner.length;
            size.allocated += inner.allocated;
        } else {
            size.length += data.len();
            size.allocated += data.blocks() * 512;
        }
    }
    Ok(size)
}
