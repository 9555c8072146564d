//! Payloads that rkyv reads in place.

use super::{Event, EventRef, NewEvent};
use crate::error::{Error, Result};
use rkyv::api::high::{HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Portable, Serialize};

impl NewEvent<'static> {
    /// An event whose payload is a value, as [rkyv](https://docs.rs/rkyv) archives it: readers use it in place. Needs the feature `rkyv`.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// #[derive(rkyv::Archive, rkyv::Serialize)]
    /// struct Paid {
    ///     cents: u64,
    ///     by: String,
    /// }
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// let paid = Paid { cents: 1200, by: "Ada".to_owned() };
    /// orders.append("order-7", Expected::Any, [NewEvent::archived("Paid", &paid)?])?;
    /// let mut sum = 0;
    /// orders.stream("order-7").try_for_each(|event| {
    ///     event.access::<Paid, _>(|paid| sum += paid.cents.to_native())
    /// })?;
    /// assert_eq!(sum, 1200);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when rkyv cannot write it.
    pub fn archived<T>(kind: impl Into<alloc::borrow::Cow<'static, str>>, payload: &T) -> Result<Self>
    where
        T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Failure>>,
    {
        let bytes = rkyv::to_bytes::<rancor::Failure>(payload);
        let bytes = bytes.map_err(|_| Error::InvalidArgument("rkyv cannot write this payload: its `Serialize` has failed"))?;
        Ok(Self::new(kind, bytes.into_vec()))
    }
}

fn access<T, R>(payload: &[u8], read: impl FnOnce(&T::Archived) -> R) -> Result<R>
where
    T: Archive,
    T::Archived: Portable + for<'a> CheckBytes<HighValidator<'a, rancor::Failure>>,
{
    if let Ok(archived) = rkyv::access::<T::Archived, rancor::Failure>(payload) {
        return Ok(read(archived));
    }
    // An event stands anywhere in the log: most are not aligned.
    let mut aligned: AlignedVec = AlignedVec::with_capacity(payload.len());
    aligned.extend_from_slice(payload);
    match rkyv::access::<T::Archived, rancor::Failure>(&aligned) {
        Ok(archived) => Ok(read(archived)),
        Err(_) => Err(Error::NotOfType { what: "payload", type_name: core::any::type_name::<T>() }),
    }
}

impl EventRef<'_> {
    /// What `read` makes of the payload, which is an archived value; see [`NewEvent::archived`]. It is checked first. Where it stands in the log as its type
    /// is aligned, nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::NotOfType`].
    pub fn access<T, R>(&self, read: impl FnOnce(&T::Archived) -> R) -> Result<R>
    where
        T: Archive,
        T::Archived: Portable + for<'a> CheckBytes<HighValidator<'a, rancor::Failure>>,
    {
        access::<T, R>(self.payload(), read)
    }
}

impl Event {
    /// What `read` makes of the payload, which is an archived value; see [`NewEvent::archived`].
    ///
    /// # Errors
    ///
    /// [`Error::NotOfType`].
    pub fn access<T, R>(&self, read: impl FnOnce(&T::Archived) -> R) -> Result<R>
    where
        T: Archive,
        T::Archived: Portable + for<'a> CheckBytes<HighValidator<'a, rancor::Failure>>,
    {
        access::<T, R>(self.payload(), read)
    }
}
