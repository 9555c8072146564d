//! Streams over the records of a namespace, or of a snapshot.

use super::groups::Groups;
use super::handle::AsyncNamespace;
use super::snapshot::AsyncSnapshot;
use crate::cursor::Cursor;
use crate::db::handle::Namespace;
#[cfg(feature = "ordered")]
use crate::db::in_order::Order;
#[cfg(feature = "ordered")]
use crate::db::key_range::KeyRange;
#[cfg(feature = "ordered")]
use crate::db::range::{Bounds, bounds, bounds_of_prefix};
use crate::db::snapshot::SnapshotNamespace;
use crate::error::Result;
use futures_core::Stream;
use std::fmt;
#[cfg(feature = "ordered")]
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Most records of a group, and the bytes with which one ends. The first one is small, for who wants only a few.
const GROUP_MAX: usize = 256;
const GROUP_FIRST: usize = 16;
const GROUP_BYTES: usize = 256 * 1024;

type Record = (Vec<u8>, Vec<u8>);

/// Records, as a stream. From [`AsyncNamespace::iter`], [`AsyncNamespace::range`] and their like.
///
/// It reads when it is polled, up to 256 records or 256 KiB at a time in a thread of the pool, and nothing ahead of that: a task that takes its
/// time holds up nobody. It holds no lock and no segment between two polls; like the iterators that block, one that is not of a snapshot
/// may or may not show what is written meanwhile. Damage is an error, and the stream goes on after it where it can.
///
/// ```
/// use futures_lite::StreamExt;
///
/// # let db = pipkin::Db::builder().ordered(true).in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// db.insert_many([("a", "1"), ("ab", "2"), ("b", "3")]).await?;
/// let mut records = db.range_prefix("a")?;
/// while let Some((key, value)) = records.try_next().await? {
///     println!("{key:?} {value:?}");
/// }
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct RecordStream(Groups<Walk, Result<Record>>);

/// Keys, as a stream; see [`RecordStream`].
pub struct KeyStream(RecordStream);

impl fmt::Debug for RecordStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStream").finish_non_exhaustive()
    }
}

impl Stream for RecordStream {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl Stream for KeyStream {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.0.poll_next(cx).map(|record| record.map(|record| record.map(|(key, _)| key)))
    }
}

/// What is read.
enum Source {
    Now(Namespace),
    At(SnapshotNamespace),
}

impl Source {
    /// Fails at once where a range cannot be read; of a snapshot only where no namespace is in order: the walk looks at its own.
    #[cfg(feature = "ordered")]
    fn has_order(&self) -> Result<()> {
        let is_ordered = match self {
            Self::Now(namespace) => namespace.is_ordered(),
            Self::At(namespace) => namespace.taken.engine().ordered.get().is_some(),
        };
        if is_ordered { Ok(()) } else { Err(crate::Error::NotOrdered) }
    }
}

enum Rest {
    /// In pages, in no order.
    Pages(Cursor),
    #[cfg(feature = "ordered")]
    Range(Bounds, Order),
}

/// What is left to read.
struct Walk {
    source: Source,
    rest: Rest,
    /// Values are left out.
    keys_only: bool,
    group: usize,
}

impl Walk {
    fn stream(self, home: &AsyncNamespace) -> RecordStream {
        RecordStream(Groups::new(home, self, Self::fetch))
    }

    fn fetch(self) -> (Option<Self>, Vec<Result<Record>>) {
        let Self { source, rest, keys_only, group } = self;
        let mut records = Vec::with_capacity(group);
        let mut bytes = 0;
        let mut takes_more = |records: &mut Vec<Result<Record>>, record: Result<Record>| {
            bytes += record.as_ref().map_or(0, |(key, value)| key.len() + value.len());
            records.push(record);
            records.len() < group && bytes < GROUP_BYTES
        };
        let rest = match rest {
            Rest::Pages(cursor) => {
                let each = |key: &[u8], value: &[u8]| {
                    let value = if keys_only { Vec::new() } else { value.to_vec() };
                    takes_more(&mut records, Ok((key.to_vec(), value)))
                };
                let page = match &source {
                    Source::Now(namespace) => namespace.page(cursor, each),
                    Source::At(snapshot) => snapshot.page(cursor, each),
                };
                match page {
                    Ok(next) => next.map(Rest::Pages),
                    Err(error) => {
                        let next = error.next_page();
                        records.push(Err(error));
                        next.map(Rest::Pages)
                    }
                }
            }
            #[cfg(feature = "ordered")]
            Rest::Range(bounds, order) => {
                let range = match &source {
                    Source::Now(namespace) => namespace.range(bounds),
                    Source::At(snapshot) => snapshot.range(bounds),
                };
                match range {
                    Ok(range) => {
                        let range = range.in_groups_of(group);
                        let mut range = if keys_only { range.without_values() } else { range };
                        let bounds = loop {
                            let Some(record) = range.step(order) else { break None };
                            if !takes_more(&mut records, record) {
                                break Some(range.rest());
                            }
                        };
                        bounds.map(|bounds| Rest::Range(bounds, order))
                    }
                    Err(error) => {
                        records.push(Err(error));
                        None
                    }
                }
            }
        };
        let group = (group * 4).min(GROUP_MAX);
        (rest.map(|rest| Self { source, rest, keys_only, group }), records)
    }
}

#[cfg(feature = "ordered")]
fn after(key: &[u8], is_in: bool) -> Bounds {
    (if is_in { Bound::Included(key.to_vec()) } else { Bound::Excluded(key.to_vec()) }, Bound::Unbounded)
}

macro_rules! walks {
    ($of:ty, $self:ident, $source:expr, $home:expr, $blocking:literal) => {
        impl $of {
            #[doc = concat!("All records, in no order; see [`", $blocking, "::iter`](crate::", $blocking, "::iter).")]
            pub fn iter(&$self) -> RecordStream {
                $self.walk(Rest::Pages(Cursor::default()), false)
            }

            #[doc = concat!("All keys, in no order; see [`", $blocking, "::keys`](crate::", $blocking, "::keys).")]
            pub fn keys(&$self) -> KeyStream {
                KeyStream($self.walk(Rest::Pages(Cursor::default()), true))
            }

            fn walk(&$self, rest: Rest, keys_only: bool) -> RecordStream {
                Walk { source: $source, rest, keys_only, group: GROUP_FIRST }.stream($home)
            }
        }

        #[cfg(feature = "ordered")]
        impl $of {
            #[doc = concat!("Records in the order of their keys; see [`", $blocking, "::range`](crate::", $blocking, "::range).")]
            ///
            /// # Errors
            ///
            /// As there.
            pub fn range(&$self, range: impl KeyRange) -> Result<RecordStream> {
                $self.in_order(bounds(&range), Order::Rising)
            }

            /// [`Self::range`] in descending order.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn range_rev(&$self, range: impl KeyRange) -> Result<RecordStream> {
                $self.in_order(bounds(&range), Order::Falling)
            }

            /// The records whose keys begin with a prefix, in their order.
            ///
            /// # Errors
            ///
            /// Those of [`Self::range`].
            pub fn range_prefix(&$self, prefix: impl AsRef<[u8]>) -> Result<RecordStream> {
                $self.in_order(bounds_of_prefix(prefix.as_ref()), Order::Rising)
            }

            /// The keys of a range, in their order.
            ///
            /// # Errors
            ///
            /// Those of [`Self::range`].
            pub fn range_keys(&$self, range: impl KeyRange) -> Result<KeyStream> {
                $self.has_order()?;
                Ok(KeyStream($self.walk(Rest::Range(bounds(&range), Order::Rising), true)))
            }

            /// The records from a key on, in their order.
            ///
            /// # Errors
            ///
            /// Those of [`Self::range`].
            pub fn iter_from(&$self, key: impl AsRef<[u8]>) -> Result<RecordStream> {
                $self.in_order(after(key.as_ref(), true), Order::Rising)
            }

            /// The records after a key, in their order.
            ///
            /// # Errors
            ///
            /// Those of [`Self::range`].
            pub fn iter_after(&$self, key: impl AsRef<[u8]>) -> Result<RecordStream> {
                $self.in_order(after(key.as_ref(), false), Order::Rising)
            }

            fn in_order(&$self, bounds: Bounds, order: Order) -> Result<RecordStream> {
                $self.has_order()?;
                Ok($self.walk(Rest::Range(bounds, order), false))
            }

            fn has_order(&$self) -> Result<()> {
                let source: Source = $source;
                source.has_order()
            }
        }
    };
}

walks!(AsyncNamespace, self, Source::Now(self.namespace.clone()), self, "Namespace");
walks!(AsyncSnapshot, self, Source::At(self.at.clone()), &self.home, "SnapshotNamespace");

impl AsyncNamespace {
    /// The records of a group of keys: those whose keys are `name`, a dot and more. See [`Namespace::group`]. Their keys are whole. In no order, unless
    /// the store has the ordered index.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn group(&self, name: impl AsRef<[u8]>) -> Result<Vec<Record>> {
        let name = name.as_ref().to_vec();
        self.on(&super::pool::LONG, move |namespace| namespace.group(name)?.collect()).await
    }
}

#[cfg(feature = "ordered")]
impl AsyncNamespace {
    /// [`Namespace::first_key_value`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn first_key_value(&self) -> Result<Option<Record>> {
        self.call(Namespace::first_key_value).await
    }

    /// [`Namespace::last_key_value`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn last_key_value(&self) -> Result<Option<Record>> {
        self.call(Namespace::last_key_value).await
    }

    /// [`Namespace::pop_first`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn pop_first(&self) -> Result<Option<Record>> {
        let written = self.in_lane(Namespace::pop_first).await;
        self.settled(written).await
    }

    /// [`Namespace::pop_last`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn pop_last(&self) -> Result<Option<Record>> {
        let written = self.in_lane(Namespace::pop_last).await;
        self.settled(written).await
    }
}
