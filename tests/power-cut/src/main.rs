//! Power cuts on a real kernel and real file systems.
//!
//! ```text
//! store ── ext4, XFS or Btrfs ── loop device ── a file of our own file system (FUSE): every write, discard and flush is on record
//!   └ acknowledgements ────────────────────────── another file of it: on the same record
//! ```
//!
//! A cut is everything up to the last flush that the device completed, and of the later writes any of their sectors. It is mounted, so the
//! file system recovers; the store is opened and must verify, must hold everything that was acknowledged as `Device` before the cut, no
//! torn commit, and of all threads together a prefix of what they did. Then it is written on, closed, opened and judged again. The last cut
//! of a life is the disk of the next one, so there are cuts of recovering file systems and recovering stores, too.
//!
//! Linux only, as root: `cargo xtask test --only power-cut` runs it with what it needs.
#![cfg_attr(
    target_os = "linux",
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")
)]

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod fuse;
#[cfg(target_os = "linux")]
mod life;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("power cuts are simulated on Linux only");
}
