//! Whether the keys of a namespace are kept in order.

use super::Namespace;
use crate::error::Result;
use crate::ordered::{order_of, with_order};

impl Namespace {
    /// Says whether the keys of this namespace are kept in order, whatever [`Builder::ordered`](crate::Builder::ordered) says; `None`: as that says. It stands in
    /// the file and counts whenever the store is opened from now on: in this session nothing changes, unless the namespace is
    /// [cleared](Self::clear). Other namespaces pay nothing for it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// db.namespace("events")?.set_ordered(Some(true))?;
    /// db.close()?;
    /// let db = pipkin::Db::open(&path)?;
    /// let events = db.namespace("events")?;
    /// events.insert_many([("2026-02", "b"), ("2026-01", "a")])?;
    /// assert!(events.is_ordered() && !db.is_ordered());
    /// assert_eq!((events.ordered(), db.ordered()), (Some(true), None));
    /// assert_eq!(events.range("2026"..)?.count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::set_default_ttl`], but for the clock.
    pub fn set_ordered(&self, ordered: Option<bool>) -> Result<()> {
        self.store.set_options(&self.name, &|options| with_order(options, ordered))
    }

    /// What [`Self::set_ordered`] has set; `None`: nothing, so that [`Builder::ordered`](crate::Builder::ordered) counts, or the namespace was
    /// dropped.
    pub fn ordered(&self) -> Option<bool> {
        let names = self.store.names.read();
        self.name.number().and_then(|_| order_of(names.options(&self.name.name)))
    }

    /// True when the keys of this namespace are kept in order in this session: [ranges](Self::range) can be read.
    pub fn is_ordered(&self) -> bool {
        let ordered = self.store.engine.ordered.get();
        ordered.is_some_and(|ordered| self.name.number().is_none_or(|number| ordered.choice.keeps(number)))
    }
}
