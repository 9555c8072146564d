//! A commit over namespaces that are given by name.

use alloc::vec::Vec;
use core::time::Duration;
use pipkin::limits::{KEY_LEN_MAX, NAMESPACE_NAME_LEN_MAX, VALUE_LEN_MAX};
use pipkin::{Db, Error, Namespace, Ttl};

/// Whole milliseconds of a time that a record lives.
pub fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// One change of a commit.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The name of the namespace; `None` for the default one.
    pub namespace: Option<&'a str>,
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` removes the key.
    pub value: Option<&'a [u8]>,
    /// How long the record lives.
    pub ttl: Ttl,
}

impl Change<'_> {
    fn check(&self) -> Result<(), Error> {
        let name = self.namespace.map_or(1, str::len);
        if !(1..=NAMESPACE_NAME_LEN_MAX).contains(&name) {
            return Err(Error::NamespaceName { len: name });
        }
        if self.key.len() > KEY_LEN_MAX {
            return Err(Error::KeyTooLong { len: self.key.len() });
        }
        match self.value.map(<[u8]>::len) {
            Some(len) if len > VALUE_LEN_MAX => Err(Error::ValueTooLong { len }),
            _ => Ok(()),
        }
    }
}

/// Writes the changes as one commit. Missing namespaces that they store into are created; if the commit fails, those are dropped again.
/// `create` is called before each is created, and may refuse it. The caller must ensure that nobody else uses a namespace that this has
/// created before it returns.
///
/// # Errors
///
/// Those of `create` and of [`Batch::commit`](pipkin::Batch::commit).
pub fn commit<E: From<Error>>(db: &Db, changes: &[Change<'_>], create: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    changes.iter().try_for_each(Change::check)?;
    let mut created = Vec::new();
    let written = write(db, changes, create, &mut created);
    if written.is_err() {
        for name in created {
            // If dropping fails, an empty namespace is left; the first error is the one to report.
            let _ = db.drop_namespace(name);
        }
    }
    written
}

fn write<'a, E: From<Error>>(
    db: &Db,
    changes: &[Change<'a>],
    mut create: impl FnMut(&str) -> Result<(), E>,
    created: &mut Vec<&'a str>,
) -> Result<(), E> {
    let unnamed = db.default_namespace();
    let mut places: Vec<Option<Namespace>> = Vec::with_capacity(changes.len());
    for change in changes {
        places.push(match change.namespace {
            None => Some(unnamed.clone()),
            Some(name) => match db.find_namespace(name) {
                None if change.value.is_some() => {
                    create(name)?;
                    let place = db.namespace(name)?;
                    created.push(name);
                    Some(place)
                }
                found => found,
            },
        });
    }
    let mut batch = db.batch();
    for (place, change) in places.iter().zip(changes) {
        batch = match (place, change.value) {
            (Some(place), Some(value)) => batch.insert_in_with_ttl(place, change.key, value, change.ttl),
            (Some(place), None) => batch.remove_in(place, change.key),
            // Removing from a namespace that does not exist changes nothing.
            (None, _) => batch,
        };
    }
    Ok(batch.commit()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use alloc::vec;

    fn change<'a>(namespace: &'a str, key: &'a [u8], value: Option<&'a [u8]>) -> Change<'a> {
        Change { namespace: Some(namespace), key, value, ttl: Ttl::Default }
    }

    /// A write of two records whose second key was too long left the new namespace of the first one in the store, and so did one for which
    /// the medium had no space: a guest could fill a store with names by writes that all failed.
    #[test]
    fn a_failed_commit_leaves_no_new_namespace() {
        let db = Db::open_in_memory().unwrap();
        let any = |_: &str| Ok::<(), Error>(());
        let long = vec![0; KEY_LEN_MAX + 1];
        let failed = commit(&db, &[change("new", b"k", Some(b"v")), change("other", &long, Some(b"v"))], any);
        assert!(matches!(failed, Err(Error::KeyTooLong { .. })));
        assert!(db.list_namespaces().is_empty());

        let refusing = |name: &str| if name == "b" { Err(Error::NoSpace) } else { Ok(()) };
        let both = [change("a", b"k", Some(b"v")), change("b", b"k", Some(b"v"))];
        assert!(matches!(commit(&db, &both, refusing), Err(Error::NoSpace)));
        assert!(db.list_namespaces().is_empty(), "the first one was created by then");

        commit(&db, &both, any).unwrap();
        assert!(commit(&db, &[change("a", b"l", Some(b"v")), change("c", &long, None)], any).is_err());
        assert_eq!(db.list_namespaces(), ["a", "b"], "namespaces of before stay");
        assert_eq!(db.find_namespace("a").unwrap().len().unwrap(), 1);
    }

    #[test]
    fn a_removal_creates_no_namespace() {
        let db = Db::open_in_memory().unwrap();
        commit(&db, &[change("none", b"k", None)], |_| Ok::<(), Error>(())).unwrap();
        assert!(db.list_namespaces().is_empty());
    }
}
