//! Whether the values of a namespace are compressed: the option of a namespace, and of a store.

use crate::ttl::{option, with_option};
use alloc::vec::Vec;

/// Why a sealed store does not compress.
pub(crate) const NOT_ASKED_FOR: &str = "a sealed store compresses only where that is asked for (`Builder::compress_sealed`, `--compress-sealed`): lengths then tell something of what is in the values";

/// When values are compressed. Every build with the feature `compress` reads them, whatever is set.
///
/// ```
/// use pipkin::{Compression, Db};
///
/// let db = Db::builder().compression(Compression::OnCompaction).in_memory()?;
/// for number in 0..2000 {
///     db.insert(format!("user-{number}"), format!(r#"{{"name":"user {number}","kind":"person","state":"active"}}"#))?;
/// }
/// let before = db.stats()?.live_bytes;
/// db.compact()?;
/// assert!(db.stats()?.live_bytes < before);
/// assert!(db.get("user-7")?.is_some_and(|value| value.starts_with(b"{\"name\":\"user 7\"")));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Never. What is compressed stays so until it is written again.
    #[default]
    Off,
    /// By compaction: writes are as fast as without. [`Db::compact`](crate::Db::compact) compresses everything that is not yet; automatic
    /// compaction what it copies anyway.
    OnCompaction,
    /// By writes, too, which takes some 1.5 us for 190 bytes. Only compaction trains dictionaries.
    OnWrite,
}

/// Kind of the option of a namespace that says when its values are compressed.
const OPTION: u8 = 3;

impl Compression {
    const fn code(self) -> u8 {
        match self {
            Self::Off => 1,
            Self::OnCompaction => 2,
            Self::OnWrite => 3,
        }
    }
}

/// What the options of a namespace say; `None` if they do not. What a later version says is not to compress.
pub(crate) fn compression_of(options: &[u8]) -> Option<Compression> {
    match option(options, OPTION)? {
        [2] => Some(Compression::OnCompaction),
        [3] => Some(Compression::OnWrite),
        _ => Some(Compression::Off),
    }
}

/// The options that say this; `None`: nothing.
pub(crate) fn with_compression(options: &[u8], compression: Option<Compression>) -> Vec<u8> {
    let value = compression.map(|compression| [compression.code()]);
    with_option(options, OPTION, value.as_ref().map_or(&[], |value| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_of_a_namespace_leaves_its_others_alone() {
        let other = [1, 6, 1, 2, 3, 4, 5, 6, 9, 1, 7];
        for compression in [Compression::Off, Compression::OnCompaction, Compression::OnWrite] {
            let with = with_compression(&other, Some(compression));
            assert_eq!((compression_of(&with), compression_of(&other)), (Some(compression), None));
            assert_eq!(with_compression(&with, None), other);
        }
        assert_eq!(compression_of(&[3, 1, 77]), Some(Compression::Off), "of a later version");
        assert_eq!(compression_of(&[3, 0]), Some(Compression::Off));
    }
}
