//! The default namespace and the named ones, in one type.

use crate::tape::ns_name;
use pipkin::{Db, Error, Namespace, Value};

/// The records of one namespace, whichever it is.
pub enum Space<'a> {
    /// The default one.
    Default(&'a Db),
    /// A named one.
    Named(Namespace),
}

macro_rules! forward {
    ($(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the namespace.")]
        pub fn $name(&self $(, $arg: $type)*) -> $out {
            match self {
                Self::Default(db) => db.$name($($arg),*),
                Self::Named(ns) => ns.$name($($arg),*),
            }
        }
    )*};
}

impl<'a> Space<'a> {
    /// The namespace by number; creates it.
    pub fn open(db: &'a Db, ns: u8) -> pipkin::Result<Self> {
        if ns == 0 { Ok(Self::Default(db)) } else { db.namespace(&ns_name(ns)).map(Self::Named) }
    }

    forward! {
        fn insert(&self, key: &[u8], value: &[u8]) -> pipkin::Result<()>;
        fn get(&self, key: &[u8]) -> pipkin::Result<Option<Vec<u8>>>;
        fn get_zerocopy(&self, key: &[u8]) -> pipkin::Result<Option<Value<'_>>>;
        fn remove(&self, key: &[u8]) -> pipkin::Result<bool>;
        fn contains_key(&self, key: &[u8]) -> pipkin::Result<bool>;
        fn insert_many(&self, records: Vec<(Vec<u8>, Vec<u8>)>) -> pipkin::Result<()>;
        fn get_many(&self, keys: Vec<Vec<u8>>) -> pipkin::Result<Vec<Option<Vec<u8>>>>;
        fn compare_and_swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> pipkin::Result<bool>;
        fn clear(&self) -> pipkin::Result<()>;
        fn len(&self) -> pipkin::Result<u64>;
        fn is_empty(&self) -> pipkin::Result<bool>;
    }

    /// `update` of the namespace.
    pub fn update(&self, key: &[u8], change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.update(key, change),
            Self::Named(ns) => ns.update(key, change),
        }
    }

    /// Every record, as `iter` gives it.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.iter().try_for_each(|record| record.map(|(key, value)| each(&key, &value))),
            Self::Named(ns) => ns.iter().try_for_each(|record| record.map(|(key, value)| each(&key, &value))),
        }
    }

    /// Every record, as `range_with` gives it; false when the store keeps no order. That `range_rev_with` gives the same is seen to here.
    pub fn for_each_in_order(&self, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<bool> {
        let mut keys = Vec::new();
        let all = |key: &[u8], value: &[u8]| {
            each(key, value);
            keys.push(key.to_vec());
            true
        };
        let result = match self {
            Self::Default(db) => db.range_with::<&[u8]>(.., all),
            Self::Named(ns) => ns.range_with::<&[u8]>(.., all),
        };
        match result {
            Err(Error::NotOrdered) => return Ok(false),
            result => result?,
        }
        let back = |key: &[u8], _: &[u8]| {
            assert_eq!(keys.pop().as_deref(), Some(key), "walked back");
            true
        };
        match self {
            Self::Default(db) => db.range_rev_with::<&[u8]>(.., back),
            Self::Named(ns) => ns.range_rev_with::<&[u8]>(.., back),
        }?;
        assert!(keys.is_empty(), "walked back past {} keys", keys.len());
        Ok(true)
    }

    /// Every key, as `keys` gives it.
    pub fn for_each_key(&self, mut each: impl FnMut(Vec<u8>)) -> pipkin::Result<()> {
        match self {
            Self::Default(db) => db.keys().try_for_each(|key| key.map(&mut each)),
            Self::Named(ns) => ns.keys().try_for_each(|key| key.map(&mut each)),
        }
    }
}
