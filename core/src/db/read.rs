//! `get` and its relatives: find in the index, read from the log, check, hand out.

use super::store::{Store, check_key};
use super::value::Value;
use crate::engine::GROUP;
use crate::error::Result;
use crate::log::{Frame, ValueBytes};
use crate::names::Name;
use crate::pins::Pin;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

impl Store {
    #[inline]
    pub(super) fn frame<'a>(&'a self, pin: &Pin<'_>, name: &Name, key: &[u8]) -> Result<Option<Frame<'a>>> {
        check_key(key)?;
        let Some(number) = name.number() else {
            return Ok(None);
        };
        let Some(frame) = self.engine.find(pin, self.engine.full_key(number, key))? else {
            return Ok(None);
        };
        if self.engine.log.verify_on_read && !is(Bug::ReadUnchecked) {
            frame.check()?;
        }
        Ok(Some(frame))
    }

    pub(super) fn get(&self, name: &Name, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let pin = self.engine.pin();
        let frame = self.frame(&pin, name, key)?;
        Ok(frame.map(|frame| match frame.into_value() {
            ValueBytes::Mapped(bytes) => bytes.to_vec(),
            ValueBytes::Copied(bytes) => bytes,
        }))
    }

    pub(super) fn get_zerocopy(&self, name: &Name, key: &[u8]) -> Result<Option<Value<'_>>> {
        let pin = self.engine.pin();
        let frame = self.frame(&pin, name, key)?;
        Ok(frame.map(|frame| Value::new(frame.into_value(), pin)))
    }

    pub(super) fn get_many<K: AsRef<[u8]>>(
        &self,
        name: &Name,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        self.get_many_with(name, keys, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    /// Looks keys up in groups, so that the waits for memory of a group overlap: all slots of the index are asked for, then all
    /// records, then each is read.
    pub(super) fn get_many_with<K: AsRef<[u8]>>(
        &self,
        name: &Name,
        keys: impl IntoIterator<Item = K>,
        mut each: impl FnMut(K, Option<&[u8]>),
    ) -> Result<()> {
        let mut keys = keys.into_iter();
        let mut group: Vec<K> = Vec::with_capacity(GROUP);
        loop {
            group.extend(keys.by_ref().take(GROUP));
            if group.is_empty() {
                return Ok(());
            }
            let pin = self.engine.pin();
            if let Some(number) = name.number() {
                self.engine.prefetch(&pin, group.iter().map(|key| self.engine.full_key(number, key.as_ref()).hash));
            }
            for key in group.drain(..) {
                let frame = self.frame(&pin, name, key.as_ref())?;
                each(key, frame.as_ref().map(Frame::value));
            }
        }
    }

    pub(super) fn contains_key(&self, name: &Name, key: &[u8]) -> Result<bool> {
        Ok(self.frame(&self.engine.pin(), name, key)?.is_some())
    }

    pub(super) fn len(&self, name: &Name) -> Result<u64> {
        name.number().map_or(Ok(0), |number| self.engine.count(number))
    }
}
