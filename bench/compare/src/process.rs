//! What the system knows about this process and its files.

use crate::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that this process has sent towards the device, stores into maps included.
pub(crate) fn written() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// What a device has read and written since the machine started, for everybody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// The bytes of the device under a folder. `None` where it does not count.
pub(crate) fn traffic(folder: &Path) -> Option<Traffic> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors = |field| text.split_whitespace().nth(field)?.parse::<u64>().ok();
    Some(Traffic { read: sectors(2)? * 512, written: sectors(6)? * 512 })
}

/// Writes back what the file system under a folder still has in memory.
pub(crate) fn write_back(folder: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(fs::File::open(folder)?)?)
}

/// Drops the files under a folder from the cache of the system: a process in a control group would find there what it need not pay for.
pub(crate) fn drop_cached(folder: &Path) -> Result<()> {
    write_back(folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_cached(&path)?;
        } else {
            rustix::fs::fadvise(fs::File::open(&path)?, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
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
