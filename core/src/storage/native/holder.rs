//! What `/proc` tells of the process that has a store open.

use super::LockHolder;
use rustix::param::clock_ticks_per_second;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Describes a process, if it is seen to have the file open. Another user's processes show nothing.
pub(super) fn look(file: &File, pid: u32) -> Option<LockHolder> {
    let wanted = file.metadata().ok()?;
    let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.filter_map(Result::ok);
    let is_it = |open: fs::Metadata| (open.dev(), open.ino()) == (wanted.dev(), wanted.ino());
    // Of this process the descriptor of `file` itself is one of them; then the note is right in any case.
    descriptors.find(|descriptor| fs::metadata(descriptor.path()).is_ok_and(is_it))?;
    Some(LockHolder {
        pid,
        program: fs::read_link(format!("/proc/{pid}/exe")).ok(),
        host: fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().into()),
        since: begin_of(pid),
    })
}

/// When a process began.
fn begin_of(pid: u32) -> Option<SystemTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may itself contain spaces and parentheses. The 20th field after it is the begin, in
    // ticks since the system was started.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let started: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let milliseconds = ticks.checked_mul(1000)?.checked_div(clock_ticks_per_second())?;
    UNIX_EPOCH.checked_add(Duration::from_secs(started))?.checked_add(Duration::from_millis(milliseconds))
}
