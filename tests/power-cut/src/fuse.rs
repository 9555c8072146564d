//! A file system in user space of two files: a disk, and a witness beside it. Everything that arrives for either is noted in the order in
//! which it arrives: the kernel's requests come one after the other, so an acknowledgement that a program writes into the witness has its
//! place among the writes and syncs of the device.
//!
//! The protocol is the kernel's (`include/uapi/linux/fuse.h`); what is not needed here answers `ENOSYS`.

use crate::disk::{Acked, Entry, Image, Record};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What the largest request carries.
const WRITE_MAX: usize = 1 << 20;
const HEADER: usize = 40;

const ROOT: u64 = 1;
const DISK: u64 = 2;
const WITNESS: u64 = 3;
const WITNESS_NAME: &str = "witness";

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
const PUNCH_OR_ZERO: u32 = PUNCH_HOLE | ZERO_RANGE;

/// A disk whose every write is on record.
pub(crate) struct Recorder {
    folder: PathBuf,
    pub(crate) disk_name: String,
    state: Arc<Mutex<Record>>,
    server: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Mounts the two files in `folder`, the disk as `disk_name`, and serves them from a thread.
    pub(crate) fn mount(folder: &Path, disk_name: &str) -> io::Result<Recorder> {
        std::fs::create_dir_all(folder)?;
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).map_err(io::Error::other)?;
        mount("pipkin-power-cut", folder, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        let state = Arc::new(Mutex::new(Record::default()));
        let server = Server { device, disk_name: disk_name.to_owned(), state: Arc::clone(&state) };
        let server = std::thread::spawn(move || server.serve());
        Ok(Recorder { folder: folder.to_owned(), disk_name: disk_name.to_owned(), state, server: Some(server) })
    }

    /// Another disk in the place of the one that was there, with an empty record. Nobody may have it open.
    pub(crate) fn insert(&self, image: Image) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Record::new(image);
    }

    /// The record so far.
    pub(crate) fn record(&self) -> Record {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the disk is.
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join(&self.disk_name)
    }

    /// Where acknowledgements are written.
    pub(crate) fn witness(&self) -> PathBuf {
        self.folder.join(WITNESS_NAME)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Whoever writes the witness's file from outside of this process.
pub(crate) fn acknowledge(witness: &File, acked: &Acked) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    witness.write_all_at(&acked.to_bytes(), 0)
}

struct Server {
    device: File,
    disk_name: String,
    state: Arc<Mutex<Record>>,
}

enum Reply {
    Data(Vec<u8>),
    Error(i32),
    Nothing,
}

impl Server {
    fn serve(mut self) {
        let mut buffer = vec![0; WRITE_MAX + 4096];
        loop {
            match self.device.read(&mut buffer) {
                Ok(len) => {
                    let Some(reply) = self.request(&buffer[..len]) else { return };
                    let unique = &buffer[8..16];
                    let (error, data) = match reply {
                        Reply::Data(data) => (0, data),
                        Reply::Error(error) => (-error, Vec::new()),
                        Reply::Nothing => continue,
                    };
                    let mut out = Vec::with_capacity(16 + data.len());
                    out.extend_from_slice(&(16 + data.len() as u32).to_le_bytes());
                    out.extend_from_slice(&i32::to_le_bytes(error));
                    out.extend_from_slice(unique);
                    out.extend_from_slice(&data);
                    // The caller may have given up meanwhile; then nobody wants the answer.
                    let _ = self.device.write(&out);
                }
                // An interrupted caller, or one that gave up.
                Err(error) if matches!(error.raw_os_error(), Some(ENOENT | 4 | 11)) => {}
                // It was unmounted.
                Err(_) => return,
            }
        }
    }

    /// `None`: the file system ends.
    fn request(&self, bytes: &[u8]) -> Option<Reply> {
        let (node, body) = (u64_at(bytes, 16), &bytes[HEADER..]);
        Some(match u32_at(bytes, 4) {
            1 => self.look_up(node, body),
            // Forgotten nodes stay what they are.
            2 | 36 | 42 => Reply::Nothing,
            3 | 4 => Reply::Data([0; 16].into_iter().chain(self.attributes(node)).collect()),
            14 | 27 => Reply::Data(opened(node)),
            15 => self.read(node, body),
            16 => self.write(node, body),
            17 => Reply::Data(statistics()),
            // Closed files and folders.
            18 | 29 | 30 => Reply::Data(Vec::new()),
            20 => self.sync(node),
            26 => introduction(body),
            28 => Reply::Data(Vec::new()),
            38 => return None,
            43 => self.allocate(node, body),
            _ => Reply::Error(ENOSYS),
        })
    }

    fn look_up(&self, node: u64, name: &[u8]) -> Reply {
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let found = match name {
            _ if node != ROOT => return Reply::Error(ENOENT),
            name if name == self.disk_name.as_bytes() => DISK,
            name if name == WITNESS_NAME.as_bytes() => WITNESS,
            _ => return Reply::Error(ENOENT),
        };
        let mut out = found.to_le_bytes().to_vec();
        out.extend_from_slice(&[0; 32]);
        out.extend_from_slice(&self.attributes(found));
        Reply::Data(out)
    }

    /// `struct fuse_attr`.
    fn attributes(&self, node: u64) -> [u8; 88] {
        const FOLDER: u32 = 0o040_755;
        const FILE: u32 = 0o100_600;
        let size = if node == DISK { self.record().disk.len() } else { 0 };
        let mut out = [0; 88];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &node.to_le_bytes());
        put(8, &size.to_le_bytes());
        put(16, &(size / 512).to_le_bytes());
        put(60, &(if node == ROOT { FOLDER } else { FILE }).to_le_bytes());
        put(64, &1u32.to_le_bytes());
        put(80, &4096u32.to_le_bytes());
        out
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, node: u64, body: &[u8]) -> Reply {
        let (offset, size) = (u64_at(body, 8), u32_at(body, 16));
        if node != DISK {
            return Reply::Data(Vec::new());
        }
        let record = self.record();
        let len = u64::from(size).min(record.disk.len().saturating_sub(offset));
        let mut out = vec![0; len as usize];
        record.disk.read(offset, &mut out);
        Reply::Data(out)
    }

    fn write(&self, node: u64, body: &[u8]) -> Reply {
        const FIELDS: usize = 40;
        let (offset, size) = (u64_at(body, 8), u32_at(body, 16));
        let data = &body[FIELDS..FIELDS + size as usize];
        let entry = match node {
            DISK => Entry::Write { offset, data: data.into() },
            WITNESS => match Acked::from_bytes(data) {
                Some(acked) => Entry::Acked(acked),
                None => return Reply::Error(EINVAL),
            },
            _ => return Reply::Error(EINVAL),
        };
        self.record().add(entry);
        Reply::Data([size.to_le_bytes(), [0; 4]].concat())
    }

    fn sync(&self, node: u64) -> Reply {
        if node == DISK {
            self.record().add(Entry::Sync);
        }
        Reply::Data(Vec::new())
    }

    /// What the block layer calls discarding and writing zeros.
    fn allocate(&self, node: u64, body: &[u8]) -> Reply {
        let (offset, len, mode) = (u64_at(body, 8), u64_at(body, 16), u32_at(body, 24));
        if node != DISK || (mode != 0 && mode & PUNCH_OR_ZERO == 0) {
            return Reply::Error(EOPNOTSUPP);
        }
        if mode & PUNCH_OR_ZERO != 0 {
            self.record().add(Entry::Zero { offset, len });
        }
        Reply::Data(Vec::new())
    }
}

/// `struct fuse_open_out`. What a program writes into the witness comes at once; the disk may be read from the page cache, which opening
/// empties.
fn opened(node: u64) -> Vec<u8> {
    const DIRECT: u32 = 1;
    let mut out = vec![0; 16];
    out[8..12].copy_from_slice(&(if node == WITNESS { DIRECT } else { 0 }).to_le_bytes());
    out
}

/// `struct fuse_init_out`: no cache of writes, so each is on record before it is done.
fn introduction(body: &[u8]) -> Reply {
    const MINOR: u32 = 31;
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let mut out = [0; 64];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &7u32.to_le_bytes());
    put(4, &MINOR.to_le_bytes());
    put(8, &u32_at(body, 8).to_le_bytes());
    put(12, &(u32_at(body, 12) & (ASYNC_READ | BIG_WRITES | MAX_PAGES)).to_le_bytes());
    put(16, &16u16.to_le_bytes());
    put(18, &12u16.to_le_bytes());
    put(20, &(WRITE_MAX as u32).to_le_bytes());
    put(24, &1u32.to_le_bytes());
    put(28, &((WRITE_MAX / 4096) as u16).to_le_bytes());
    Reply::Data(out.to_vec())
}

/// `struct fuse_kstatfs`: room for everything.
fn statistics() -> Vec<u8> {
    let mut out = vec![0; 80];
    for (at, value) in [(0, 1u64 << 24), (8, 1 << 24), (16, 1 << 24), (24, 16), (32, 16)] {
        out[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in [(40, 4096u32), (44, 255), (48, 4096)] {
        out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|field| field.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|field| field.first_chunk()).map_or(0, |field| u64::from_le_bytes(*field))
}
