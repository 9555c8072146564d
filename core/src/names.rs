//! The namespaces of a store: names and numbers. A number is never given out twice; clearing a namespace gives its name a new number, and
//! all records under the old one are dead.

use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::ttl::default_of;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The name of the default namespace; callers cannot open a namespace by it.
pub(crate) const DEFAULT: &str = "";
/// Prefix of the names of system namespaces, which pipkin and its hosts use internally. They are not listed, and callers cannot open them
/// by name.
pub(crate) const SYSTEM: char = '\0';
/// The system namespace of dictionaries of compressed values.
pub(crate) const DICTIONARIES: &str = "\0dictionaries";
/// The number of a dropped namespace: no real namespace has it.
const DROPPED: u32 = NAMESPACE_NUMBER_MAX + 1;

/// How many numbers are remembered that names had before.
const ENDED_MAX: usize = 1024;

/// One namespace, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) name: String,
    number: AtomicU32,
    /// Milliseconds that its records live if the write does not say, 0: for ever; and when its values are compressed.
    rules: AtomicU64,
}

/// The bits of [`Name::rules`] that say when values are compressed: by compaction, and by writes.
const ON_COMPACTION: u64 = 1 << 62;
const ON_WRITE: u64 = 1 << 63;

impl Default for Name {
    fn default() -> Self {
        Self { name: DEFAULT.into(), number: AtomicU32::new(0), rules: AtomicU64::new(0) }
    }
}

impl Name {
    /// Milliseconds that its records live if the write does not say; 0: for ever.
    #[inline]
    pub(crate) fn default_ttl(&self) -> u64 {
        self.rules.load(Ordering::Acquire) & !(ON_COMPACTION | ON_WRITE)
    }

    /// True if a write that does not say how long its record lives stores it for ever, and as it is.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.rules.load(Ordering::Acquire) & !ON_COMPACTION == 0
    }

    /// When its values are compressed.
    #[cfg(feature = "compress")]
    pub(crate) fn compression(&self) -> crate::compression::Compression {
        use crate::compression::Compression;
        match self.rules.load(Ordering::Acquire) {
            rules if rules & ON_WRITE != 0 => Compression::OnWrite,
            rules if rules & ON_COMPACTION != 0 => Compression::OnCompaction,
            _ => Compression::Off,
        }
    }

    /// Its current number; `None` once it has been dropped.
    pub(crate) fn number(&self) -> Option<u32> {
        let number = self.number.load(Ordering::Acquire);
        (number != DROPPED).then_some(number)
    }
}

/// A block with more names than this is split, so that inserting a name moves few others.
const BLOCK_NAMES_MAX: usize = 512;

/// All namespaces of a store, sorted by name.
#[derive(Debug)]
pub(crate) struct Names {
    /// Blocks of names, sorted. Only the first block may be empty.
    blocks: Vec<Vec<Arc<Name>>>,
    /// Options: the bytes after the number in a name record. Those of later versions are preserved.
    options: Vec<(String, Box<[u8]>)>,
    /// Numbers that names had before they were cleared or dropped, newest last: the latest ones, for those who read the log.
    ended: VecDeque<(u32, String)>,
    pub(crate) next: u32,
    /// Milliseconds that records live where a namespace does not say; 0: for ever.
    store_ttl: u64,
    /// When values are compressed where a namespace does not say.
    #[cfg(feature = "compress")]
    store_compression: crate::compression::Compression,
    /// Values may be compressed at all.
    #[cfg(feature = "compress")]
    may_compress: bool,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            blocks: alloc::vec![Vec::new()],
            options: Vec::new(),
            ended: VecDeque::new(),
            next: 1,
            store_ttl: 0,
            #[cfg(feature = "compress")]
            store_compression: crate::compression::Compression::Off,
            #[cfg(feature = "compress")]
            may_compress: true,
        };
        names.set(DEFAULT, 0, &[]);
        names
    }
}

impl Names {
    /// The block of a name, and its index there, or the index at which to insert it.
    fn place(&self, name: &str) -> (usize, Result<usize, usize>) {
        let begins_at_most = |block: &Vec<Arc<Name>>| block.first().is_none_or(|first| first.name.as_str() <= name);
        let block = self.blocks.partition_point(begins_at_most).saturating_sub(1);
        let find = |names: &Vec<Arc<Name>>| names.binary_search_by(|other| other.name.as_str().cmp(name));
        (block, self.blocks.get(block).map_or(Err(0), find))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Name>> {
        let (block, place) = self.place(name);
        self.blocks.get(block)?.get(place.ok()?).cloned()
    }

    /// Sets the number and options of a name; creates it if there is none.
    pub(crate) fn set(&mut self, name: &str, number: u32, options: &[u8]) -> Arc<Name> {
        self.next = self.next.max(number.saturating_add(1));
        self.set_options(name, options);
        let rules = self.rules(name, options);
        if let Some(known) = self.get(name) {
            if let Some(old) = known.number().filter(|&old| old != number) {
                self.end_number(old, name);
            }
            known.rules.store(rules, Ordering::Release);
            known.number.store(number, Ordering::Release);
            return known;
        }
        let entry = Arc::new(Name { name: name.into(), number: AtomicU32::new(number), rules: AtomicU64::new(rules) });
        if let (index, Err(place)) = self.place(name)
            && let Some(block) = self.blocks.get_mut(index)
        {
            block.insert(place, entry.clone());
            if block.len() > BLOCK_NAMES_MAX {
                let rest = block.split_off(BLOCK_NAMES_MAX / 2);
                self.blocks.insert(index + 1, rest);
            }
        }
        entry
    }

    /// The rules of a namespace with these options.
    fn rules(&self, name: &str, options: &[u8]) -> u64 {
        let ttl = match default_of(options) {
            0 => self.store_ttl,
            own => own,
        };
        ttl | self.compression_rule(name, options)
    }

    #[cfg(not(feature = "compress"))]
    #[expect(clippy::unused_self, reason = "a build with the feature needs it")]
    const fn compression_rule(&self, _: &str, _: &[u8]) -> u64 {
        0
    }

    #[cfg(feature = "compress")]
    fn compression_rule(&self, name: &str, options: &[u8]) -> u64 {
        use crate::compression::{Compression, compression_of};
        // Whoever reads a system namespace reads its records as they stand.
        let is_none = name.starts_with(SYSTEM) || !self.may_compress;
        let compression = if is_none { None } else { compression_of(options).or(Some(self.store_compression)) };
        match compression {
            None | Some(Compression::Off) => 0,
            Some(Compression::OnCompaction) => ON_COMPACTION,
            Some(Compression::OnWrite) => ON_WRITE,
        }
    }

    /// Sets what counts where a namespace does not say how long its records live, in milliseconds; 0: for ever.
    pub(crate) fn set_store_ttl(&mut self, ms: u64) {
        self.store_ttl = ms;
        self.set_rules();
    }

    /// Sets what counts where a namespace does not say when its values are compressed, and whether what they say counts at all.
    #[cfg(feature = "compress")]
    pub(crate) fn set_store_compression(&mut self, compression: crate::compression::Compression, may_compress: bool) {
        (self.store_compression, self.may_compress) = (compression, may_compress);
        self.set_rules();
    }

    /// True if values may be compressed.
    #[cfg(feature = "compress")]
    pub(crate) const fn may_compress(&self) -> bool {
        self.may_compress
    }

    fn set_rules(&self) {
        for name in self.all() {
            name.rules.store(self.rules(&name.name, self.options(&name.name)), Ordering::Release);
        }
    }

    /// The namespaces whose values are compressed.
    #[cfg(feature = "compress")]
    pub(crate) fn compressed(&self) -> Vec<(Arc<Name>, u32)> {
        let is_compressed = |name: &&Arc<Name>| name.compression() != crate::compression::Compression::Off;
        self.all().filter(is_compressed).filter_map(|name| Some((name.clone(), name.number()?))).collect()
    }

    /// The options of a name.
    pub(crate) fn options(&self, name: &str) -> &[u8] {
        self.options.iter().find(|(other, _)| other == name).map_or(&[], |(_, options)| options)
    }

    fn set_options(&mut self, name: &str, options: &[u8]) {
        if self.options(name) != options {
            self.options.retain(|(other, _)| other != name);
            self.options.push((name.into(), options.into()));
        }
    }

    /// Removes a name; `number()` of its handles is `None` from then on.
    pub(crate) fn drop_name(&mut self, name: &str) {
        self.options.retain(|(other, _)| other != name);
        if let Some(number) = self.get(name).and_then(|name| name.number()) {
            self.end_number(number, name);
        }
        if let (index, Ok(place)) = self.place(name)
            && let Some(block) = self.blocks.get_mut(index)
        {
            block.remove(place).number.store(DROPPED, Ordering::Release);
            if block.is_empty() && index > 0 {
                self.blocks.remove(index);
            }
        }
    }

    fn end_number(&mut self, number: u32, name: &str) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((number, name.into()));
    }

    /// The name that has this number, or had it before it was cleared or dropped. A number never belongs to two names.
    pub(crate) fn name_of(&self, number: u32) -> Option<&str> {
        let live = self.pairs().find(|(_, other)| *other == number).map(|(name, _)| name);
        live.or_else(|| self.ended.iter().rev().find(|(other, _)| *other == number).map(|(_, name)| name.as_str()))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Name>> {
        self.blocks.iter().flatten()
    }

    /// Named namespaces in order of their names, without system namespaces.
    pub(crate) fn list(&self) -> Vec<String> {
        self.all().map(|entry| entry.name.clone()).filter(|name| name != DEFAULT && !name.starts_with(SYSTEM)).collect()
    }

    /// The ends of the names that begin with `prefix`, in order.
    #[cfg(feature = "events")]
    pub(crate) fn with_prefix(&self, prefix: &str) -> Vec<String> {
        self.pairs().filter_map(|(name, _)| name.strip_prefix(prefix)).map(String::from).collect()
    }

    /// Numbers and options of the namespaces with this prefix that have any.
    #[cfg(feature = "events")]
    pub(crate) fn with_options(&self, prefix: &str) -> impl Iterator<Item = (u32, &[u8])> {
        let named = self.options.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.filter_map(|(name, options)| Some((self.get(name)?.number()?, &**options)))
    }

    /// Numbers of the system namespaces.
    pub(crate) fn system_numbers(&self) -> Vec<u32> {
        self.pairs().filter(|(name, _)| name.starts_with(SYSTEM)).map(|(_, number)| number).collect()
    }

    /// `(name, number)` of all namespaces, the default one included.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.all().filter_map(|entry| Some((entry.name.as_str(), entry.number()?)))
    }

    /// Bytes of all options together.
    pub(crate) fn options_bytes(&self) -> usize {
        self.options.iter().map(|(_, options)| options.len()).sum()
    }

    /// Number of namespaces, the default one included.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// Bytes of all names together.
    pub(crate) fn bytes(&self) -> usize {
        self.all().map(|entry| entry.name.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::format;

    #[test]
    fn thousands_of_names_stay_in_order_while_they_come_and_go() {
        let (mut names, mut expected) = (Names::default(), BTreeSet::new());
        for step in 0..20_000_u32 {
            let number = step.wrapping_mul(0x9e37_79b9) >> 18;
            let name = format!("name-{number}");
            if step % 4 == 3 {
                names.drop_name(&name);
                expected.remove(&name);
            } else {
                assert_eq!(names.set(&name, step, &[]).number(), Some(step));
                expected.insert(name.clone());
            }
            assert_eq!(names.get(&name).is_some(), expected.contains(&name));
        }
        assert!(names.list().iter().eq(&expected));
        assert_eq!((names.len(), names.next), (expected.len() + 1, 19_999));
        assert!(names.blocks.len() > 8 && names.blocks.iter().all(|block| (1..=BLOCK_NAMES_MAX).contains(&block.len())));
        expected.iter().for_each(|name| names.drop_name(name));
        assert_eq!((names.list(), names.len(), names.get(DEFAULT).is_some()), (Vec::new(), 1, true));
    }
}
