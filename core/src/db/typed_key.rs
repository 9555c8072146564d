//! Keys of a typed view, as bytes whose order is that of the keys.

use alloc::borrow::Borrow;
use alloc::string::String;
use alloc::vec::Vec;

/// A type of keys for [`TypedNamespace`](crate::TypedNamespace). The bytes of two keys compare as the keys do, so that a range of the keys is
/// one of the bytes.
///
/// Integers are stored with the highest byte first, of signed ones with the sign bit flipped; texts and bytes as they are; a pair as one
/// after the other, so its first part has to be of a [fixed length](FixedKey).
///
/// A type of your own, such as the number of a user, implements it through one of these:
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// use pipkin::TypedKey;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct UserId(u64);
///
/// impl TypedKey for UserId {
///     type Ref = Self;
///
///     fn encode(key: &Self, bytes: &mut Vec<u8>) {
///         u64::encode(&key.0, bytes);
///     }
///
///     fn decode(bytes: &[u8]) -> Option<Self> {
///         u64::decode(bytes).map(Self)
///     }
/// }
///
/// # let db = pipkin::Db::open_in_memory()?;
/// let names = db.typed::<UserId, String>();
/// names.insert(&UserId(7), &"Ada".to_string())?;
/// assert_eq!(names.get(&UserId(7))?.as_deref(), Some("Ada"));
/// # Ok(())
/// # }
/// ```
pub trait TypedKey: Sized + Borrow<Self::Ref> {
    /// The type of references to it in calls: `str` for `String`, `[u8]` for `Vec<u8>`, itself for the others.
    type Ref: ?Sized;

    /// Appends the key's bytes.
    fn encode(key: &Self::Ref, bytes: &mut Vec<u8>);

    /// The key of these bytes; `None` if they are none.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A key whose bytes always have the same length: it can be the first part of a pair.
pub trait FixedKey: TypedKey<Ref = Self> {
    /// That length.
    const LEN: usize;
}

impl TypedKey for u32 {
    type Ref = Self;

    fn encode(key: &Self, bytes: &mut Vec<u8>) {
        bytes.extend(key.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl FixedKey for u32 {
    const LEN: usize = 4;
}

impl TypedKey for u64 {
    type Ref = Self;

    fn encode(key: &Self, bytes: &mut Vec<u8>) {
        bytes.extend(key.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl FixedKey for u64 {
    const LEN: usize = 8;
}

impl TypedKey for u128 {
    type Ref = Self;

    fn encode(key: &Self, bytes: &mut Vec<u8>) {
        bytes.extend(key.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl FixedKey for u128 {
    const LEN: usize = 16;
}

impl TypedKey for i64 {
    type Ref = Self;

    fn encode(key: &Self, bytes: &mut Vec<u8>) {
        // With the sign bit flipped, negative numbers come before the others.
        bytes.extend((key ^ Self::MIN).to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self::from_be_bytes(bytes) ^ Self::MIN)
    }
}

impl FixedKey for i64 {
    const LEN: usize = 8;
}

impl<const N: usize> TypedKey for [u8; N] {
    type Ref = Self;

    fn encode(key: &Self, bytes: &mut Vec<u8>) {
        bytes.extend(key);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl<const N: usize> FixedKey for [u8; N] {
    const LEN: usize = N;
}

impl TypedKey for String {
    type Ref = str;

    fn encode(key: &str, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.into()).ok()
    }
}

impl TypedKey for Vec<u8> {
    type Ref = [u8];

    fn encode(key: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.into())
    }
}

impl<A: FixedKey, B: TypedKey> TypedKey for (A, B) {
    type Ref = Self;

    fn encode((first, second): &Self, bytes: &mut Vec<u8>) {
        A::encode(first, bytes);
        B::encode(second.borrow(), bytes);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_at_checked(A::LEN)?;
        Some((A::decode(first)?, B::decode(second)?))
    }
}

impl<A: FixedKey, B: FixedKey> FixedKey for (A, B) {
    const LEN: usize = A::LEN + B::LEN;
}
