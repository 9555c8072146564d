//! Shards whose slots stay in the file: their bases are whole parts of the index snapshot, and the segments that hold them must not be used
//! again while a shard, or a reader that still uses its table from before, may read there.

#[cfg(feature = "std")]
pub(crate) use held::Bases;

#[cfg(feature = "std")]
mod heal;
#[cfg(feature = "std")]
mod held;
#[cfg(feature = "std")]
mod in_file;
#[cfg(all(test, feature = "std", not(shuttle)))]
mod tests;

/// Without the standard library every index is in memory, and nothing of this is compiled.
#[cfg(not(feature = "std"))]
impl crate::engine::Engine {
    pub(crate) const fn keeps_in_file(&self) -> bool {
        false
    }

    pub(crate) const fn is_over_newer_max(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "a build with the standard library needs it")]
    pub(crate) fn will_look_up(&self, _: &crate::pins::Pin<'_>, _: impl Iterator<Item = crate::index::KeyHash>) -> bool {
        false
    }

    pub(crate) const fn free_bases(&self) -> u64 {
        0
    }

    pub(crate) fn take_bases(
        &self,
        _: &crate::snapshot::Directory,
        _: &[crate::log::SnapshotSegment],
        _: bool,
    ) -> crate::Result<()> {
        Ok(())
    }

    pub(crate) fn load_image(
        &self,
        _: usize,
        shard: &mut crate::index::ShardGuard<'_>,
        image: crate::index::ShardImage,
        _: &[crate::snapshot::ShardPlace],
    ) -> crate::Result<()> {
        shard.load(&self.pins, image);
        Ok(())
    }
}

#[cfg(feature = "encrypt")]
impl crate::engine::Engine {
    /// A store whose slots stay in the file is not sealed while it is open.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument).
    pub(crate) const fn refuse_in_file(&self) -> crate::Result<()> {
        if self.keeps_in_file() {
            return Err(crate::Error::InvalidArgument(
                "a store that keeps its index in the file is not sealed while it is open; open it with `IndexMemory::Resident`",
            ));
        }
        Ok(())
    }
}
