//! Payloads as types, through serde and postcard.

use super::{Event, EventRef, NewEvent};
use crate::db::typed::{of_value, to_value};
use crate::error::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl NewEvent<'static> {
    /// An event whose payload is a value, as [postcard](https://docs.rs/postcard) writes it. Needs the feature `typed`.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    /// struct Paid {
    ///     cents: u64,
    /// }
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// orders.append("order-7", Expected::Any, [NewEvent::typed("Paid", &Paid { cents: 1200 })?])?;
    /// let event = orders.get("order-7", 1)?.unwrap();
    /// assert_eq!(event.decode::<Paid>()?, Paid { cents: 1200 });
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when serde cannot write it.
    pub fn typed<T: Serialize>(kind: impl Into<alloc::borrow::Cow<'static, str>>, payload: &T) -> Result<Self> {
        Ok(Self::new(kind, to_value(payload)?))
    }
}

impl EventRef<'_> {
    /// The payload as a value; see [`NewEvent::typed`].
    ///
    /// # Errors
    ///
    /// [`Error::NotOfType`](crate::Error::NotOfType).
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        of_value(self.payload())
    }
}

impl Event {
    /// The payload as a value; see [`NewEvent::typed`].
    ///
    /// # Errors
    ///
    /// [`Error::NotOfType`](crate::Error::NotOfType).
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        of_value(self.payload())
    }
}
