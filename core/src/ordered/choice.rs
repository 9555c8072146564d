//! Which namespaces are kept in order: those that say so, which is in the file, and, of those that do not say, all or none, as the store is opened.

use crate::sync::{AtomicBool, Ordering, RwLock};
use crate::ttl::{option, with_option};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Kind of the option of a namespace that says whether its keys are kept in order.
const OPTION: u8 = 7;

/// What the options of a namespace say; `None` if they do not.
pub(crate) fn order_of(options: &[u8]) -> Option<bool> {
    match option(options, OPTION)? {
        [1] => Some(true),
        [2] => Some(false),
        _ => None,
    }
}

/// The options that say this; `None`: nothing.
pub(crate) fn with_order(options: &[u8], ordered: Option<bool>) -> Vec<u8> {
    let value = ordered.map(|ordered| [if ordered { 1 } else { 2 }]);
    with_option(options, OPTION, value.as_ref().map_or(&[], |value| value))
}

/// The choice of a session. A number keeps what was chosen when it was given to its namespace, or the store was opened.
#[derive(Default)]
pub(crate) struct Choice {
    by_default: bool,
    /// There are others.
    has_others: AtomicBool,
    /// Numbers of the namespaces that say otherwise.
    others: RwLock<BTreeSet<u32>>,
}

impl Choice {
    /// What the store is opened with, and the numbers and options of its namespaces.
    pub(crate) fn new<'a>(by_default: bool, namespaces: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let choice = Self { by_default, ..Self::default() };
        namespaces.for_each(|(number, options)| choice.note(number, options));
        choice
    }

    /// A namespace has got this number, under which nothing has been stored.
    pub(crate) fn note(&self, number: u32, options: &[u8]) {
        if order_of(options).is_some_and(|own| own != self.by_default) {
            self.others.write().insert(number);
            self.has_others.store(true, Ordering::Release);
        }
    }

    /// Nobody can reach this number any more: a namespace that is cleared again and again would fill the memory with its numbers.
    pub(crate) fn forget(&self, number: u32) {
        if self.has_others.load(Ordering::Acquire) {
            self.others.write().remove(&number);
        }
    }

    /// True when the namespace of this number is kept in order.
    #[inline]
    pub(crate) fn keeps(&self, number: u32) -> bool {
        self.by_default != (self.has_others.load(Ordering::Acquire) && self.others.read().contains(&number))
    }

    /// True when all namespaces are, those that are created later, too, unless they say otherwise.
    pub(crate) fn keeps_all(&self) -> bool {
        self.by_default && !self.has_others.load(Ordering::Acquire)
    }

    /// True when none is.
    pub(crate) fn keeps_none(&self) -> bool {
        !self.by_default && !self.has_others.load(Ordering::Acquire)
    }

    /// Takes over what another session of the same file has chosen, which was opened in the same way.
    pub(crate) fn adopt(&self, other: &Self) {
        *self.others.write() = core::mem::take(&mut *other.others.write());
        self.has_others.store(other.has_others.load(Ordering::Acquire), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_says_otherwise_and_its_number_keeps_what_was_chosen() {
        let (yes, no) = (with_order(&[], Some(true)), with_order(&[9, 1, 7], Some(false)));
        assert_eq!((order_of(&yes), order_of(&no), order_of(&[9, 1, 7])), (Some(true), Some(false), None));
        assert_eq!(with_order(&no, None), [9, 1, 7]);
        assert_eq!(order_of(&[OPTION, 1, 3]), None, "of a later version");
        let some = Choice::new(false, [(0, &[][..]), (1, &yes), (2, &no)].into_iter());
        assert_eq!([0, 1, 2, 3].map(|number| some.keeps(number)), [false, true, false, false]);
        some.note(3, &yes);
        assert!(some.keeps(3) && !some.keeps_all() && !some.keeps_none());
        some.forget(3);
        assert!(some.keeps(1) && !some.keeps(3) && some.others.read().len() == 1);
        let most = Choice::new(true, [(1, &yes[..]), (2, &no)].into_iter());
        assert_eq!([0, 1, 2, 3].map(|number| most.keeps(number)), [true, true, false, true]);
        assert!(!most.keeps_all() && Choice::new(true, core::iter::empty()).keeps_all());
        assert!(Choice::new(false, [(2, &no[..])].into_iter()).keeps_none());
    }
}
