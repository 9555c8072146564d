//! The value of an event, as an engine reads and writes it (`view`), and as tests do, in parts that they own (`owned`).

#[cfg(any(test, feature = "testing"))]
mod owned;
#[cfg(feature = "events")]
mod view;

#[cfg(any(test, feature = "testing"))]
pub use owned::{Event, Tag};
#[cfg(feature = "events")]
pub(crate) use view::{EventView, encode_event, event_version, jump_version, own_tags};

use super::varint;
use alloc::vec::Vec;

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::encode(bytes.len() as u32, |byte| out.push(byte));
    out.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(front)
}

#[cfg_attr(not(target_family = "wasm"), inline)]
fn number_of(rest: &mut &[u8]) -> Option<u32> {
    let (value, taken) = varint::decode(rest)?;
    take(rest, taken)?;
    Some(value)
}

#[cfg_attr(not(target_family = "wasm"), inline)]
fn long_number_of(rest: &mut &[u8]) -> Option<u64> {
    let (value, taken) = varint::decode_u64(rest)?;
    take(rest, taken)?;
    Some(value)
}

#[cfg_attr(not(target_family = "wasm"), inline)]
fn piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = number_of(rest)?;
    take(rest, len as usize)
}
