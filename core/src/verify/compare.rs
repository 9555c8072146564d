//! Compares the index snapshot with the log: a store in which they differ returns wrong results, though every checksum is right.

use super::checks::damage;
use super::shown::{Audit, Shown};
use super::{VerifyReport, names};
use crate::error::Result;
use crate::frame::{Kind, NAMESPACE_OF_NAMES};
use crate::log::{SuperblockPair, Window};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::recover::Chain;
use crate::scan::{Found, Stretch, scan};
use crate::sorted::{AreHashes, Set};
use crate::storage::Storage;
use hashbrown::HashMap;

/// Compares only if no other damage was found.
pub(super) fn compare(storage: &dyn Storage, pair: &SuperblockPair, chain: &Chain, report: &mut VerifyReport) -> Result<()> {
    let Some(shown) = Shown::load(storage, &pair.current)?.filter(|_| report.is_ok() && !is(Bug::VerifyTrustsSnapshot)) else {
        return Ok(());
    };
    let geometry = pair.current.geometry();
    let segments = chain.counting_segments();
    let zones = segments.iter().map(|segment| (segment.first_frame(geometry)..segment.end, segment.base)).collect();
    let mut audit = Audit::new(&shown, zones);
    // Records that the snapshot does not have and that no later record has replaced so far: by the hash of their key.
    let mut missing: HashMap<u64, (u32, u64), AreHashes> = HashMap::default();
    for segment in &segments {
        let stretch = Stretch { salt: segment.salt, from: segment.first_frame(geometry), to: segment.end, full: true };
        let mut window = Window::new(storage, segment.end);
        scan(storage, stretch, &mut |found| {
            let Found::Frame { offset, header } = found else { return Ok(()) };
            if matches!(header.kind, Kind::Put | Kind::Tombstone) {
                let front = window.bytes(offset, header.header_len() + header.key_len())?;
                let key = header.key(front).unwrap_or_default();
                // A swept record is in no snapshot, and is a tombstone of what it had replaced.
                let may_be_swept =
                    header.expires() && header.meta(front).expiry().is_some_and(|expiry| expiry <= pair.current.clock);
                let hash = shown.hash(header.namespace, key);
                missing.remove(&hash.bits());
                if header.kind == Kind::Put && !audit.put(hash, offset) && !may_be_swept {
                    missing.insert(hash.bits(), (header.namespace, offset));
                }
            }
            Ok(())
        })?;
    }
    if !audit.agrees() {
        damage(report, shown.directory, 1, "an index snapshot that does not point at the records of its keys");
    }
    let mut named = Names::default();
    for one in &shown.names {
        named.set(&one.name, one.number, &[]);
    }
    let mut window = Window::new(storage, storage.len()?);
    for op in &chain.ops {
        missing.remove(&op.hash.bits());
        if op.namespace == NAMESPACE_OF_NAMES {
            let header = window.header(op.offset)?;
            let record = names::Record::read(storage, op.offset, &header)?;
            match record {
                Some(record) if header.kind == Kind::Put => drop(named.set(&record.name, record.number, &[])),
                Some(record) => named.drop_name(&record.name),
                None => {}
            }
        }
    }
    let living = Set::collect(named.pairs().map(|(_, number)| number).chain([NAMESPACE_OF_NAMES]).map(u64::from));
    if let Some(&(_, offset)) = missing.values().find(|(number, _)| living.contains((*number).into())) {
        damage(report, offset, 1, "a record that counts, and that the index snapshot does not have");
    }
    Ok(())
}
