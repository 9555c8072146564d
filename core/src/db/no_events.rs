//! Stands in for `events` in a build without the feature: a commit has none.

use crate::error::Result;
use crate::frame::FrameSpec;
use crate::log::{Log, Placed, Purpose};
use crate::store::Store;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// No events.
#[derive(Debug, Default)]
pub(super) struct Appends<'a>(PhantomData<&'a ()>);

impl Appends<'_> {
    #[expect(clippy::unused_self, reason = "as in a build with events")]
    pub(super) const fn is_empty(&self) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "as in a build with events")]
    pub(super) const fn count(&self) -> usize {
        0
    }
}

/// There is none.
#[expect(dead_code, reason = "there is none")]
pub(super) enum Staging<'s, 'a> {
    Never(core::convert::Infallible, PhantomData<(&'s (), &'a ())>),
}

impl Store {
    #[expect(clippy::unused_self, reason = "as in a build with events")]
    pub(super) const fn stage<'s, 'a>(&'s self, _: &Appends<'a>) -> Result<Option<Staging<'s, 'a>>> {
        Ok(None)
    }

    #[expect(clippy::unused_self, reason = "as in a build with events")]
    pub(super) const fn before_events(&self, _: &Appends<'_>) -> Result<()> {
        Ok(())
    }
}

impl Staging<'_, '_> {
    pub(super) fn frames(&self) -> core::iter::Empty<FrameSpec<'_>> {
        match *self {
            Self::Never(never, _) => match never {},
        }
    }

    pub(super) fn append(
        &self,
        _: &Log,
        _: &dyn Fn() -> Result<()>,
        _: &[FrameSpec<'_>],
        _: Purpose,
        _: &mut Vec<Placed>,
    ) -> Result<()> {
        match *self {
            Self::Never(never, _) => match never {},
        }
    }

    pub(super) fn publish(&self, _: &[Placed]) {
        match *self {
            Self::Never(never, _) => match never {},
        }
    }
}
