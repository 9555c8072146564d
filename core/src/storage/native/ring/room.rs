//! How much memory this process may use.

use std::fs;
use std::path::{Path, PathBuf};

const MOUNTED: &str = "/sys/fs/cgroup";

/// In bytes; `None` where the system does not say.
pub(super) fn memory() -> Option<u64> {
    let machine = total(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(limit_file).flat_map(|(folder, file)| limits(&folder, file));
    Some(limits.fold(machine, u64::min))
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?;
    kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Folder of the control group that a line of `/proc/self/cgroup` names, if it is one that limits memory, and the file with the limit.
fn limit_file(line: &str) -> Option<(PathBuf, &'static str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
    if controllers.is_empty() {
        return Some((Path::new(MOUNTED).join(group), "memory.max"));
    }
    let counts_memory = controllers.split(',').any(|controller| controller == "memory");
    counts_memory.then(|| (Path::new(MOUNTED).join("memory").join(group), "memory.limit_in_bytes"))
}

/// The limits of a group and of those that it is part of.
fn limits<'a>(folder: &'a Path, file: &'a str) -> impl Iterator<Item = u64> + use<> {
    let groups = folder.ancestors().take_while(|folder| folder.starts_with(MOUNTED));
    let limits: Vec<u64> = groups.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).collect();
    limits.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_stands_where_the_system_says_it_does() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24669092 kB\n"), Some(24_669_092 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        let second = (PathBuf::from("/sys/fs/cgroup/user.slice/a"), "memory.max");
        assert_eq!(limit_file("0::/user.slice/a"), Some(second));
        let first = (PathBuf::from("/sys/fs/cgroup/memory/b"), "memory.limit_in_bytes");
        assert_eq!(limit_file("4:hugetlb,memory:/b"), Some(first));
        assert_eq!(limit_file("3:cpu,cpuacct:/b"), None);
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
