//! What the suite takes of the machine, and how it gives it back.
//!
//! Nothing is mounted where another process could see it. A run has a mount namespace of its own, with a tmpfs and the recorders in it; each
//! session, which mounts what is under test, has another one below that; loop devices are freed with their last mount. So there is nothing
//! to tidy: when the processes end, however they end, mounts and loop devices go with them.
//!
//! It takes both namespaces. Who leaves a mount namespace last unmounts what is in it; if that were the process that serves the disk, it
//! would wait for itself.
//!
//! A run still looks for what an earlier one may have left. It touches loop devices over files with its own name only.

use rustix::mount::MountFlags;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Begins the name of every disk; the process id of its run follows.
pub(crate) const DISK_PREFIX: &str = "pipkin-power-cut-disk-";

/// No step of a trial takes longer.
const STEP_SECONDS_MAX: u64 = 60;

/// A file system that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Ext4,
    Xfs,
    Btrfs,
}

impl System {
    pub(crate) const ALL: [System; 3] = [System::Ext4, System::Xfs, System::Btrfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Ext4 => "ext4",
            System::Xfs => "xfs",
            System::Btrfs => "btrfs",
        }
    }

    /// Length of the disk: room for what a life writes faster than it compacts.
    pub(crate) fn disk_len(self) -> u64 {
        match self {
            System::Ext4 => 192 << 20,
            System::Xfs => 384 << 20,
            System::Btrfs => 320 << 20,
        }
    }

    fn mkfs(self) -> &'static str {
        match self {
            System::Ext4 => "mkfs.ext4 -q -F -E nodiscard",
            System::Xfs => "mkfs.xfs -q -f",
            System::Btrfs => "mkfs.btrfs -q -f",
        }
    }

    /// Ways to mount it; the default comes most often.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            System::Ext4 => &["", "", "data=writeback", "data=journal"],
            System::Xfs => &["", "discard"],
            System::Btrfs => &["", "", "compress=zstd"],
        }
    }

    /// Btrfs takes for granted that the device writes its superblock of 4 KiB whole: it mounts from the first copy alone.
    pub(crate) fn written_whole(self) -> &'static [Range<u64>] {
        match self {
            System::Btrfs => &[0x1_0000..0x1_1000, 0x400_0000..0x400_1000],
            System::Ext4 | System::Xfs => &[],
        }
    }
}

/// Why this machine cannot run the suite over a file system.
pub(crate) fn missing(system: System) -> Option<String> {
    let name = system.name();
    let known = || fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.lines().any(|line| line.trim().ends_with(name)));
    if !known() {
        let _ = Command::new("modprobe").arg(name).output();
    }
    if !known() {
        return Some(format!("the kernel has no {name}"));
    }
    let mkfs = system.mkfs().split(' ').next().unwrap_or_default();
    let found = Command::new(mkfs).arg("-V").stdin(Stdio::null()).output().is_ok();
    (!found).then(|| format!("there is no {mkfs}"))
}

/// Why it cannot run at all.
pub(crate) fn rights_missing() -> Option<String> {
    if !fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
        return Some("only root may mount".to_owned());
    }
    let device =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find(|device| fs::File::options().read(true).open(device).is_err());
    device.map(|device| format!("{device} cannot be opened"))
}

/// A run: in namespaces of its own for mounts and processes. All its descendants are killed when it ends, and when it is killed.
///
/// The shell is the first process there, which hears no signals: a Ctrl-C reaches the run itself.
pub(crate) fn own_namespaces(args: &[String]) -> io::Result<Command> {
    let mut command = Command::new("unshare");
    command.args("--mount --pid --fork --kill-child --mount-proc sh -c".split(' ')).arg("\"$0\" \"$@\"; exit $?");
    command.arg(std::env::current_exe()?).args(args);
    Ok(command)
}

/// An empty folder in memory, for this mount namespace alone.
pub(crate) fn own_folder() -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join("pipkin-power-cut");
    fs::create_dir_all(&folder)?;
    rustix::mount::mount("pipkin-power-cut", &folder, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None)?;
    Ok(folder)
}

/// Loop devices over disks of this suite, and the process ids of their runs.
pub(crate) fn loop_devices() -> Vec<(PathBuf, u32)> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter_map(|device| {
            let file = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
            let pid = file.split(DISK_PREFIX).nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
            Some((Path::new("/dev").join(device.file_name()), pid))
        })
        .collect()
}

/// Frees the loop devices of runs that are no more.
pub(crate) fn sweep() {
    for (device, pid) in loop_devices() {
        if !Path::new("/proc").join(pid.to_string()).exists() {
            println!("{} is left over from run {pid} and is detached", device.display());
            let _ = Command::new("losetup").arg("-d").arg(&device).status();
        }
    }
}

/// A command in another mount namespace, a copy of this one.
pub(crate) fn own_mounts(args: &[String]) -> io::Result<Command> {
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(std::env::current_exe()?).args(args);
    Ok(command)
}

/// Waits until no loop device is over `disk`: unmounting lets go of it a moment later.
pub(crate) fn wait_until_free(disk_name: &str) -> Result<(), String> {
    let holds = || {
        fs::read_dir("/sys/block").into_iter().flatten().flatten().any(|device| {
            fs::read_to_string(device.path().join("loop/backing_file")).is_ok_and(|file| file.trim_end().ends_with(disk_name))
        })
    };
    let end = Instant::now() + Duration::from_secs(STEP_SECONDS_MAX);
    while holds() {
        if Instant::now() > end {
            return Err(format!("a loop device holds {disk_name} after unmounting"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

pub(crate) fn make_file_system(system: System, disk: &Path) -> Result<(), String> {
    let mut words = system.mkfs().split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).arg(disk).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{}: {}", system.mkfs(), String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{}: {error}", system.mkfs())),
    }
}

/// Mounts a disk by a loop device, in the mount namespace of this process, which takes it away when it ends. The error is what `mount` says.
pub(crate) fn mount(system: System, options: &str, disk: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    if system == System::Btrfs {
        // It remembers devices by the identity of the file system, and would refuse an older state of one that it has seen.
        let _ = Command::new("btrfs").args(["device", "scan", "--forget"]).stdin(Stdio::null()).output();
    }
    let options = if options.is_empty() { "loop".to_owned() } else { format!("loop,{options}") };
    let mut mount = Command::new("mount");
    mount.args(["-n", "-t", system.name(), "-o", &options]).arg(disk).arg(folder).stdin(Stdio::null());
    for attempt in 0.. {
        let output = mount.output().map_err(|error| format!("mount: {error}"))?;
        if output.status.success() {
            break;
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // Somebody else took the device that was free a moment ago.
        if attempt > 9 || !words.contains("loop device") {
            return Err(words);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits for a child, or kills it when `limit` is over. `None` if it was killed.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The longest that a check may take.
pub(crate) fn step_limit() -> Duration {
    Duration::from_secs(STEP_SECONDS_MAX)
}
