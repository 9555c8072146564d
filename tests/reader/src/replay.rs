//! What the records of the log add up to.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{Bytes, part};
use crate::frame::{Event, Frame, Kind, NAMES};
use crate::log::Stretch;
use crate::{Contents, Record, Refusal};

/// Numbers of namespaces above this one are not given out.
const NUMBER_MAX: u32 = 0xffff_fffd;

/// A record that counts, and the offset of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Living {
    pub(crate) record: Record,
    pub(crate) offset: u64,
}

/// The state of a store at some place of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// By namespace and key.
    pub(crate) records: BTreeMap<(u32, Vec<u8>), Living>,
    /// By number.
    pub(crate) events: BTreeMap<u64, Event>,
    /// Number and options.
    pub(crate) names: BTreeMap<String, (u32, Vec<u8>)>,
    /// Records of which the calendars of a snapshot know when they expire.
    pub(crate) calendar: usize,
    /// Records of which a snapshot says where they stand in the order of their keys.
    pub(crate) order: Option<usize>,
}

impl State {
    /// The state of an empty log: the default namespace has the number 0 until a record says otherwise.
    pub(crate) fn new() -> Self {
        Self { names: BTreeMap::from([(String::new(), (0, Vec::new()))]), ..Self::default() }
    }

    /// Applies the frames of a stretch, all of which check.
    pub(crate) fn apply(&mut self, file: &[u8], stretch: &Stretch) -> Result<(), Refusal> {
        let mut at = stretch.from;
        while at < stretch.to {
            let bytes = usize::try_from(stretch.to - at).ok().and_then(|len| part(file, at, len));
            let damaged = |what| Refusal::Damaged { offset: at, what };
            let Some(frame) = bytes.and_then(|bytes| Frame::decode(bytes.0, stretch.salt, at)) else {
                if bytes.is_some_and(|rest| rest.0.len() < 7 && rest.0.iter().all(|&byte| byte == 0)) {
                    return Ok(());
                }
                return Err(damaged("a record in front of the checkpoint"));
            };
            self.apply_frame(&frame, at).ok_or_else(|| damaged("a record that is not one of its kind"))?;
            at += frame.len as u64;
        }
        Ok(())
    }

    /// Leaves out the records that have expired at `now`: each is a tombstone of what it had replaced.
    pub(crate) fn expire(&mut self, now: u64) {
        self.records.retain(|_, living| living.record.fields.expiry.is_none_or(|expiry| expiry > now));
    }

    /// Applies one frame.
    pub(crate) fn apply_frame(&mut self, frame: &Frame<'_>, offset: u64) -> Option<()> {
        if frame.namespace == NAMES && matches!(frame.kind, Kind::Put | Kind::Tombstone) {
            self.apply_name(frame)?;
        }
        let place = || (frame.namespace, frame.key.to_vec());
        match frame.kind {
            Kind::Put => {
                let Frame { fields, value, copied, .. } = frame.clone();
                let record = Record { value: value.to_vec(), fields, copied };
                self.records.insert(place(), Living { record, offset });
            }
            Kind::Tombstone => drop(self.records.remove(&place())),
            Kind::Event | Kind::Stub => {
                let event = Event::decode(frame)?;
                self.events.insert(event.number, event);
            }
            _ => {}
        }
        Some(())
    }

    fn apply_name(&mut self, frame: &Frame<'_>) -> Option<()> {
        let name = String::from_utf8(frame.key.to_vec()).ok()?;
        let mut value = Bytes(frame.value);
        let number = value.u32().filter(|&number| number <= NUMBER_MAX)?;
        if frame.kind == Kind::Put {
            self.names.insert(name, (number, value.0.to_vec()));
            return Some(());
        }
        // The default namespace stays; a name that is not there went with what compaction left behind.
        self.names.remove(&name);
        (!name.is_empty()).then_some(())
    }

    /// The numbers that a name has, and that of the names themselves.
    pub(crate) fn numbers(&self) -> BTreeSet<u32> {
        self.names.values().map(|(number, _)| *number).chain([NAMES]).collect()
    }

    /// What a user sees: records under a number that no name has are dead.
    pub(crate) fn contents(self) -> Contents {
        let by_number: BTreeMap<u32, &String> = self.names.iter().map(|(name, (number, _))| (*number, name)).collect();
        let mut contents = Contents { events: self.events.into_values().collect(), ..Contents::default() };
        for (name, (_, options)) in &self.names {
            contents.namespaces.insert(name.clone(), options.clone());
        }
        for ((number, key), living) in self.records {
            if let Some(name) = by_number.get(&number) {
                contents.records.insert(((*name).clone(), key), living.record);
            }
        }
        contents
    }
}
