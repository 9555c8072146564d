//! Sealing a store that is plain, and the other way round: everything is copied into a new file, which takes the place of the old one in one step.

use crate::db::{Builder, Db};
use crate::error::{Error, Result};
use crate::salvage::{SalvageOptions, SalvageReport};
use crate::storage::Storage;
use crate::storage::native::{NativeOptions, NativeStorage, remove_leftover, replace};
use std::path::{Path, PathBuf};

impl Builder {
    /// Seals the plain store at the path of this builder under its key or passphrase, and opens it. [`Db::enable_encryption`] does so while it is open.
    ///
    /// The store must not be open anywhere. Every record, namespace and event is copied into a new file beside it, which takes its place once it is
    /// complete and durable: a crash leaves the one or the other. Then the old file is overwritten with zeros; what a medium, a file system or a
    /// backup keeps of it is beyond that. There must be room for both files.
    ///
    /// Numbers and versions of events stay. Positions in the log do not: those that somebody has kept are unknown in the new file, and
    /// consumers of changes begin anew. Values are not compressed any more.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let builder = || pipkin::Db::builder().path(folder.path().join("app.pipkin"));
    /// let db = builder().open()?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// let db = builder().encryption_key([7; 32]).enable_encryption()?;
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// db.close()?;
    /// assert!(matches!(builder().open(), Err(pipkin::Error::KeyNeeded)));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyNeeded`] without a key or passphrase; [`Error::InvalidArgument`] for a store that is sealed already; [`Error::Corrupt`] for one with
    /// damage: [`salvage`](crate::salvage) what is left of it into a new store first; else as for [`Db::open`]. The store is as it was then, but for an error of the very last step, the sync of the folder.
    pub fn enable_encryption(self) -> Result<Db> {
        if !self.has_secret() {
            return Err(Error::KeyNeeded);
        }
        let plain = self.clone().without_secret();
        rewrite(&plain, &self).map_err(|error| match error {
            Error::KeyNeeded => {
                Error::InvalidArgument("the store is sealed already; `rotate_encryption_key` seals it under another key")
            }
            error => error,
        })?;
        self.open()
    }

    /// Makes the sealed store at the path of this builder a plain one, with the key or passphrase of the builder, and opens it. As
    /// [`Self::enable_encryption`] in everything else. [`Db::disable_encryption`] does so while it is open.
    ///
    /// If that was cut short by a crash, this opens the store and goes on with it in its place: [`Db::key_rotation_pending`] says whether something holds it
    /// up. **What was written to such a store since it began is not authenticated**: who could write to the file meanwhile can have changed it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let builder = || pipkin::Db::builder().path(folder.path().join("app.pipkin"));
    /// let db = builder().encryption_key([7; 32]).open()?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// let db = builder().encryption_key([7; 32]).disable_encryption()?;
    /// db.close()?;
    /// assert_eq!(builder().open()?.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotSealed`], [`Error::WrongKey`], [`Error::KeyNeeded`]; else as for [`Self::enable_encryption`], or [`Db::disable_encryption`].
    pub fn disable_encryption(self) -> Result<Db> {
        if !self.has_secret() {
            return Err(Error::KeyNeeded);
        }
        let plain = self.clone().without_secret();
        match rewrite(&self, &plain) {
            Err(Error::DisablingEncryption) => self.create(false).becoming_plain().open()?.disable_as_far_as_it_can(),
            rewritten => rewritten.and_then(|()| plain.open()),
        }
    }
}

/// Puts a copy that `to` makes in the place of the store that `from` opens.
fn rewrite(from: &Builder, to: &Builder) -> Result<()> {
    if !from.may_write() {
        return Err(Error::ReadOnly);
    }
    // Through a link the file itself is replaced.
    let path = from.file_path()?;
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let segment_size = settled(from, &path)?;
    // Locked from here on until the new file has its name.
    let old = NativeStorage::open(&path, NativeOptions { create: false, ..NativeOptions::default() })?;
    let mut beside = path.clone().into_os_string();
    beside.push(".rewriting");
    let beside = PathBuf::from(beside);
    remove_leftover(&beside)?;
    let copied = copy(from, to, &old, segment_size, &beside).and_then(|()| put_in_place(old, &beside, &path));
    if copied.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    copied
}

/// Opens the store, so that what a crash has left is settled, and closes it; returns its segment size.
fn settled(from: &Builder, path: &Path) -> Result<u32> {
    let db = from.clone().at(path).create(false).background(false).open()?;
    let report = db.open_report();
    if report.stranded_records > 0 || report.unsure_at.is_some() {
        return Err(Error::corrupt(report.unsure_at.unwrap_or(0), "records; `salvage` what is left into a new store first"));
    }
    let segment_size = db.stats()?.segment_size;
    db.close()?;
    Ok(u32::try_from(segment_size).unwrap_or(u32::MAX))
}

fn copy(from: &Builder, to: &Builder, old: &dyn Storage, segment_size: u32, beside: &Path) -> Result<()> {
    let target = to.clone().at(beside).create(true).segment_size(segment_size).background(false).open()?;
    let report = from.salvage(old, &target, SalvageOptions::default(), &mut |_, _| ())?;
    if !is_whole(&report) {
        let at = report.damage.first().map_or(0, |damage| damage.offset);
        return Err(Error::corrupt(at, "records; `salvage` what is left into a new store first"));
    }
    target.close()
}

fn is_whole(report: &SalvageReport) -> bool {
    let left_out = report.undecoded + report.unfinished + report.superseded + report.revived + report.stranded + report.unsure;
    left_out == 0 && report.damage.is_empty() && !report.history_unproven
}

/// The new file takes the name of the old one, which is then overwritten with zeros.
fn put_in_place(old: NativeStorage, beside: &Path, path: &Path) -> Result<()> {
    if cfg!(windows) {
        // A file that is open cannot be replaced there. Whoever opens it in between makes this fail, and keeps what it had.
        drop(old);
        return replace(beside, path);
    }
    replace(beside, path)?;
    // The new store has its name: a failure here leaves bytes on the medium, and nothing else.
    let _ = old.wipe_unnamed();
    Ok(())
}
