//! Every maximum of the store; the relations between them are checked at compile time.

/// Longest key, in bytes.
pub const KEY_LEN_MAX: usize = 64 * 1024;
/// Longest value, in bytes.
pub const VALUE_LEN_MAX: usize = 1024 * 1024 * 1024;
/// Longest name of a namespace, in bytes of UTF-8.
pub const NAMESPACE_NAME_LEN_MAX: usize = 1024;
/// Keys that [`get_many`](crate::Namespace::get_many) reads as of one moment.
pub const KEYS_OF_ONE_MOMENT: usize = 128;
/// Smallest segment, in bytes. Tests use it; real stores use [`SEGMENT_SIZE_DEFAULT`].
pub const SEGMENT_SIZE_MIN: u32 = 4 * 1024;
/// Largest segment, in bytes.
pub const SEGMENT_SIZE_MAX: u32 = 256 * 1024 * 1024;
/// Segment size of a new store, in bytes.
pub const SEGMENT_SIZE_DEFAULT: u32 = 4 * 1024 * 1024;
/// File offset of the first segment. A multiple of every page size in use, so that holes and maps line up.
pub const DATA_START: u64 = 16 * 1024;
/// Bits of a file offset that an index slot can hold: a store file is at most 4 TiB.
pub const OFFSET_BITS: u32 = 42;
/// The latest expiry that a record can have, in milliseconds since 1970: it stands for never.
pub const EXPIRY_MAX: u64 = (1 << 48) - 1;
/// Longest store file, in bytes.
pub const FILE_LEN_MAX: u64 = 1 << OFFSET_BITS;
/// Largest log position, in bytes ever appended: four exbibytes. A file that names a larger one is damaged. The sum of two never overflows
/// a `u64`.
pub(crate) const LOG_POSITION_MAX: u64 = 1 << 62;
/// Log position at which the first segment of a store begins.
pub(crate) const LOG_POSITION_FIRST: u64 = DATA_START;
/// Room kept below the largest log position and the largest generation: writing stops that far below them, so that what is written stays
/// readable.
pub(crate) const LOG_POSITION_SPARE: u64 = 1 << 48;
/// Bytes of log, and segment headers, that no session writes between two superblocks: four times the longest file, and more headers than that
/// has bytes.
pub(crate) const AHEAD_MAX: u64 = 1 << 44;
/// Largest first extent of a file.
pub(crate) const EXTENT_FIRST_MAX: u32 = 16 * 1024;
/// Largest number of a namespace: the two above it have other meanings.
pub(crate) const NAMESPACE_NUMBER_MAX: u32 = u32::MAX - 2;
/// Bytes of memory for what is written while a transaction lives: a transaction during which more than that is written conflicts. A write
/// takes 16 bytes, and in a store with the ordered index its key.
pub const RECENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Log bytes after the newest checkpoint from which a new one is due. It bounds the work of a reopen after a crash.
pub const REPLAY_DEBT_MAX_DEFAULT: u64 = 32 * 1024 * 1024;

const _: () = assert!(SEGMENT_SIZE_MIN.is_power_of_two() && SEGMENT_SIZE_MAX.is_power_of_two());
const _: () = assert!(SEGMENT_SIZE_DEFAULT.is_power_of_two());
const _: () = assert!(SEGMENT_SIZE_MIN <= SEGMENT_SIZE_DEFAULT && SEGMENT_SIZE_DEFAULT <= SEGMENT_SIZE_MAX);
const _: () = assert!(DATA_START.is_multiple_of(SEGMENT_SIZE_MIN as u64));
const _: () = assert!((VALUE_LEN_MAX as u64) < u32::MAX as u64);
const _: () = assert!(LOG_POSITION_MAX.checked_mul(2).is_some());
