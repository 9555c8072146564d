//! The kinds of calls of a storage, and how many there were.

/// A kind of call. Kinds combine with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io(u8);

#[expect(non_upper_case_globals, reason = "they read as the variants that they stand for, and combine")]
impl Io {
    /// `read_at`.
    pub const Read: Self = Self(1);
    /// `write_at`.
    pub const Write: Self = Self(2);
    /// `sync`.
    pub const Sync: Self = Self(4);
    /// `set_len`.
    pub const SetLen: Self = Self(8);
    /// `reserve`.
    pub const Reserve: Self = Self(16);
    /// `discard`.
    pub const Discard: Self = Self(32);
    /// Every call that can change the file.
    pub const Change: Self = Self(2 | 4 | 8 | 16 | 32);
    /// Every call.
    pub const Any: Self = Self(63);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SetLen => "set length",
            Self::Reserve => "reserve",
            _ => "discard",
        }
    }
}

impl core::ops::BitOr for Io {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How many calls there were, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Changes of the length.
    pub set_lens: u64,
    /// Reservations.
    pub reserves: u64,
    /// Discards.
    pub discards: u64,
    /// Calls of any kind that failed because of an armed fault.
    pub failed: u64,
    /// Bytes of all reads.
    pub bytes_read: u64,
    /// Bytes of all writes.
    pub bytes_written: u64,
}

impl Counts {
    pub(super) fn add(&mut self, io: Io, bytes: u64) {
        match io {
            Io::Read => {
                self.reads += 1;
                self.bytes_read += bytes;
            }
            Io::Write => {
                self.writes += 1;
                self.bytes_written += bytes;
            }
            Io::Sync => self.syncs += 1,
            Io::SetLen => self.set_lens += 1,
            Io::Reserve => self.reserves += 1,
            _ => self.discards += 1,
        }
    }

    /// Number of calls that can change the file.
    pub fn changes(&self) -> u64 {
        self.writes + self.syncs + self.set_lens + self.reserves + self.discards
    }
}
