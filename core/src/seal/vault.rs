//! The keys of one open store: opens and seals its frames, and tags its superblocks and segment headers.

use super::keys::NONCE_LEN;
use super::keys::{TAG_LEN, derive, is_same, random, tag_of};
use super::listed::{self, LISTED_LEN, PlainDigest};
use super::ring::{KeyOf, KeySet, PlainSide, Ring};
use super::suite::{Cipher, Sealer};
use crate::error::{Error, Result};
use crate::frame::Parts;
use crate::planted::{Bug, is};
use crate::sorted::Map;
use crate::sync::RwLock;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of what is associated with nearly every frame.
const ROOM: usize = 96;
type Room = [u8; ROOM];

/// The first byte of the nonces of frames.
const DOMAIN_FRAMES: u8 = 1;

/// What seals a segment, as its header has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderSeal {
    pub(crate) key_id: [u8; 8],
    /// What the session drew that writes the segment.
    pub(crate) session: [u8; 32],
    /// The tag of the last frame of the segment before.
    pub(crate) chain: [u8; TAG_LEN],
    pub(crate) tag: [u8; TAG_LEN],
}

impl HeaderSeal {
    /// Its length in bytes.
    pub(crate) const LEN: usize = 8 + 32 + 2 * TAG_LEN;
    /// Of which so many stand in front of the tag.
    pub(crate) const UNTAGGED: usize = Self::LEN - TAG_LEN;

    /// Writes it to the front of `out`.
    pub(crate) fn put_into(&self, out: &mut [u8]) {
        let fields = self.key_id.iter().chain(&self.session).chain(&self.chain).chain(&self.tag);
        out.iter_mut().zip(fields).for_each(|(place, byte)| *place = *byte);
    }

    /// Reads it from the front of `bytes`; `None` where there are zeros.
    pub(crate) fn take_from(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::LEN }>().filter(|bytes| bytes.iter().any(|&byte| byte != 0))?;
        Some(Self {
            key_id: *bytes.first_chunk()?,
            session: *bytes.get(8..)?.first_chunk()?,
            chain: *bytes.get(40..)?.first_chunk()?,
            tag: *bytes.last_chunk()?,
        })
    }
}

/// What its writer drew, and its number.
type Session = ([u8; 32], u64);

/// What the tag of a segment header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authentic {
    Yes,
    /// Somebody without the key has made or changed it.
    No,
    /// It is under a key that was rotated away: nothing that counts.
    Gone,
}

/// A segment whose header was checked.
struct Place {
    /// The id of its key.
    key: [u8; 8],
    session: Session,
    /// The log position of offset 0, if the segment began there.
    shift: u64,
    sealer: Arc<Sealer>,
}

#[derive(Default)]
pub(super) struct Known {
    /// The sealed ones.
    by_salt: Map<u64, Place>,
    /// The salt of the newest header at an offset.
    by_start: Map<u64, u64>,
    /// The plain segments of a store that is being sealed, by salt; with the digest of those that a list names.
    pub(super) plain: Map<u64, Option<PlainDigest>>,
    /// One for each session, with what the session is known by.
    sealers: Vec<([u8; 8], Session, Arc<Sealer>)>,
}

impl Known {
    /// True for the salt of a sealed segment.
    pub(super) fn has(&self, salt: u64) -> bool {
        self.by_salt.get(salt).is_some()
    }
}

/// What a storage says of its store: it is sealed, and these are its keys, if they are known.
pub struct Vault(pub(crate) Option<Keys>);

impl Vault {
    /// Of a sealed store whose key is not at hand.
    pub(crate) const fn locked() -> Self {
        Self(None)
    }

    /// The keys; `None` where only checksums can be checked.
    pub(crate) const fn keys(&self) -> Option<&Keys> {
        self.0.as_ref()
    }
}

/// See the module. Never printed.
pub(crate) struct Keys {
    store_id: [u8; 16],
    cipher: Cipher,
    pub(super) ring: RwLock<Ring>,
    /// Version and bytes of the page of keys.
    page: RwLock<(u64, Vec<u8>)>,
    /// What this session has drawn.
    session: [u8; 32],
    pub(super) known: RwLock<Known>,
}

impl Keys {
    pub(crate) fn new(store_id: [u8; 16], cipher: Cipher, ring: Ring, page: (u64, Vec<u8>)) -> Result<Self> {
        let mut session = [0; 32];
        random(&mut session)?;
        let (ring, page, known) = (RwLock::new(ring), RwLock::new(page), RwLock::new(Known::default()));
        Ok(Self { store_id, cipher, ring, page, session, known })
    }

    /// The version of the page of keys.
    pub(crate) fn page_version(&self) -> u64 {
        self.page.read().0
    }

    /// The bytes of the page of keys, without the checksum.
    pub(crate) fn page(&self) -> Vec<u8> {
        self.page.read().1.clone()
    }

    /// The page of keys is this one from now on.
    pub(crate) fn set_page(&self, version: u64, bytes: Vec<u8>) {
        *self.page.write() = (version, bytes);
    }

    pub(crate) fn store_id(&self) -> &[u8; 16] {
        &self.store_id
    }

    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    pub(crate) fn current(&self) -> Arc<KeySet> {
        self.ring.read().current.clone()
    }

    /// The log position from which on everything is under the current key.
    pub(crate) fn border(&self) -> u64 {
        self.ring.read().border
    }

    /// True while segments may be under the key before the current one, or not all of them are sealed: neither is new ground for a rotation.
    pub(crate) fn is_rotating(&self) -> bool {
        let ring = self.ring.read();
        ring.previous.is_some() || ring.plain != PlainSide::Nowhere
    }

    /// Everything from the log position `border` on is sealed, and nothing in front of it: the store begins to be sealed.
    pub(crate) fn begin_at(&self, border: u64) {
        self.ring.write().border = border;
    }

    /// From the log position `border` on everything is sealed under `next`.
    pub(crate) fn rotate(&self, next: Arc<KeySet>, border: u64) {
        let mut ring = self.ring.write();
        let previous = core::mem::replace(&mut ring.current, next);
        (ring.previous, ring.border) = (Some(previous), border);
    }

    /// Forgets the key before the current one: no segment is under it any more, and none is plain.
    pub(crate) fn forget_previous(&self) {
        let mut ring = self.ring.write();
        (ring.previous, ring.plain) = (None, PlainSide::Nowhere);
        let id = ring.current.derived.id;
        let mut known = self.known.write();
        known.plain = Map::default();
        let gone = |(salt, place): (u64, &Place)| (place.key != id).then_some(salt);
        for salt in known.by_salt.iter().filter_map(gone).collect::<Vec<u64>>() {
            known.by_salt.remove(salt);
        }
        known.sealers.retain(|(key, ..)| *key == id);
    }

    /// The seal of a segment that this session begins, without its tag.
    pub(crate) fn new_seal(&self, chain: [u8; TAG_LEN]) -> HeaderSeal {
        HeaderSeal { key_id: self.current().derived.id, session: self.session, chain, tag: [0; TAG_LEN] }
    }

    /// The tag of a header at `start` of a segment that this session begins, whose fields in front of the tag are `fields`.
    pub(crate) fn tag_header(&self, fields: &[u8], start: u64) -> Result<[u8; TAG_LEN]> {
        tag_header(&self.current(), fields, start)
    }

    /// Checks the tag of a header of a segment that begins at the log position `base`.
    pub(crate) fn is_header(&self, seal: &HeaderSeal, fields: &[u8], start: u64, base: u64) -> Result<Authentic> {
        let found = match self.ring.read().of(&seal.key_id, base) {
            KeyOf::Known(set) => Some(set),
            KeyOf::Forged => None,
            KeyOf::Gone => return Ok(Authentic::Gone),
        };
        let is_its = found.map_or(Ok(false), |set| tag_header(&set, fields, start).map(|tag| is_same(&tag, &seal.tag)))?;
        Ok(if is_its { Authentic::Yes } else { Authentic::No })
    }

    /// Enters a segment: its header was checked, or is about to be written.
    pub(crate) fn enter(&self, salt: u64, (base, start): (u64, u64), key: [u8; 8], session: Session) -> Result<()> {
        let shift = base.wrapping_sub(start);
        if self.is_known(salt, shift) {
            return Ok(());
        }
        let Some(sealer) = self.sealer_of(key, session)? else { return Ok(()) };
        let mut known = self.known.write();
        let before = known.by_start.get(start).copied().filter(|&before| before != salt);
        if let Some(before) = before {
            known.by_salt.remove(before);
        }
        known.by_start.insert(start, salt);
        known.by_salt.insert(salt, Place { key, session, shift, sealer });
        Ok(())
    }

    /// What a list says of the seal of a segment that was entered, or of the bytes of a plain one.
    pub(crate) fn listed_seal(&self, salt: u64) -> Option<[u8; LISTED_LEN]> {
        let known = self.known.read();
        let Some(place) = known.by_salt.get(salt) else { return known.plain.get(salt)?.as_ref().map(listed::of_plain) };
        let (drawn, number) = place.session;
        let mut out = [0; LISTED_LEN];
        let fields = place.key.iter().chain(&drawn).copied().chain(number.to_le_bytes());
        out.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
        Some(out)
    }

    /// Enters a segment by what a list says of it: its header may be lost, or that of a later segment in the same place. False for a seal
    /// of another key. The bytes of a plain one are still to be compared with its digest, while the store is being sealed.
    pub(crate) fn enter_listed(&self, salt: u64, base: u64, start: u64, seal: &[u8; LISTED_LEN]) -> Result<bool> {
        if let Some(digest) = listed::digest_in(seal) {
            let counts = self.is_enabling() && base < self.border();
            if counts {
                self.enter_plain(salt, Some(digest));
            }
            return Ok(counts);
        }
        let shift = base.wrapping_sub(start);
        let [id, drawn, number] = [seal.get(..8), seal.get(8..40), seal.get(40..)].map(Option::unwrap_or_default);
        let number = number.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let session = (drawn.first_chunk().copied().unwrap_or_default(), number);
        let key = id.first_chunk().copied().unwrap_or_default();
        if !matches!(self.ring.read().of(&key, base), KeyOf::Known(_)) {
            return Ok(false);
        }
        if let Some(sealer) = self.sealer_of(key, session)?.filter(|_| !self.is_known(salt, shift)) {
            self.known.write().by_salt.insert(salt, Place { key, session, shift, sealer });
        }
        Ok(true)
    }

    fn is_known(&self, salt: u64, shift: u64) -> bool {
        self.known.read().by_salt.get(salt).is_some_and(|place| place.shift == shift)
    }

    /// The sealer of a session under the key with this id; made if there is none yet. `None` without the key.
    fn sealer_of(&self, key: [u8; 8], session: Session) -> Result<Option<Arc<Sealer>>> {
        let ring = self.ring.read();
        let Some(set) = ring.all().find(|set| set.derived.id == key) else { return Ok(None) };
        let mut known = self.known.write();
        if let Some((.., sealer)) = known.sealers.iter().find(|(of, other, _)| (*of, *other) == (key, session)) {
            return Ok(Some(sealer.clone()));
        }
        let number = session.1.to_le_bytes();
        let info: [&[u8]; 4] = [b"pipkin 1 session", &[self.cipher.code()], &self.store_id, &number];
        let sealer = Arc::new(Sealer::new(self.cipher, &derive(set.data.as_slice(), &session.0, &info)?)?);
        known.sealers.retain(|(.., other)| Arc::strong_count(other) > 1);
        known.sealers.push((key, session, sealer.clone()));
        Ok(Some(sealer))
    }

    fn place(&self, salt: u64, offset: u64) -> Result<(u64, Arc<Sealer>)> {
        let known = self.known.read();
        let place = known.by_salt.get(salt).ok_or_else(|| Error::corrupt(offset, "a record of a segment without a header"))?;
        Ok((offset.wrapping_add(place.shift), place.sealer.clone()))
    }

    /// What seals the segment with this salt, in which `offset` is.
    pub(super) fn sealer_at(&self, salt: u64, offset: u64) -> Result<Arc<Sealer>> {
        Ok(self.place(salt, offset)?.1)
    }

    /// Seals a frame in place: `frame` is its header without a checksum, key, value, and room for the tags.
    pub(crate) fn seal(&self, frame: &mut [u8], parts: &Parts, salt: u64, offset: u64) -> Result<()> {
        let (position, sealer) = self.place(salt, offset)?;
        let mut room = [0; ROOM];
        let associated = self.associated(frame, parts, salt, position, &mut room);
        let (texts, tags) = frame.split_at_mut_checked(frame.len() - parts.tags * TAG_LEN).ok_or_else(too_short)?;
        let mut text = texts.get_mut(parts.text()..).ok_or_else(too_short)?;
        for (number, tag) in (0_u32..).zip(tags.as_chunks_mut::<TAG_LEN>().0) {
            let (chunk, rest) = text.split_at_mut_checked(parts.chunk_len(number, text.len())).ok_or_else(too_short)?;
            *tag = sealer.seal(nonce(number, position), &associated, chunk)?;
            text = rest;
        }
        Ok(())
    }

    /// The header, key and value of a sealed frame, which begins with the bytes `frame`.
    ///
    /// # Errors
    ///
    /// [`Error::Forged`] if somebody without the key has made or moved it.
    pub(crate) fn open(&self, frame: &[u8], parts: &Parts, salt: u64, offset: u64) -> Result<Vec<u8>> {
        let forged = || Error::Forged { offset, what: "a record" };
        let (position, sealer) = self.place(salt, offset)?;
        let mut room = [0; ROOM];
        let associated = self.associated(frame, parts, salt, position, &mut room);
        let len = parts.header + parts.key + parts.value;
        let tags = frame.get(len..len + parts.tags * TAG_LEN).ok_or_else(forged)?;
        let mut plain = frame.get(..len).ok_or_else(forged)?.to_vec();
        let mut text = plain.get_mut(parts.text()..).ok_or_else(forged)?;
        for (number, tag) in (0_u32..).zip(tags.as_chunks::<TAG_LEN>().0) {
            let (chunk, rest) = text.split_at_mut_checked(parts.chunk_len(number, text.len())).ok_or_else(forged)?;
            if !sealer.open(nonce(number, position), &associated, chunk, tag) && !is(Bug::TagSkipped) {
                return Err(forged());
            }
            text = rest;
        }
        Ok(plain)
    }

    /// What a frame's tags cover beside its text.
    fn associated<'a>(&self, frame: &[u8], parts: &Parts, salt: u64, position: u64, room: &'a mut Room) -> Cow<'a, [u8]> {
        let readable = match (parts.is_control, parts.is_pad) {
            (true, false) => parts.header + parts.key + parts.value,
            _ => parts.header,
        };
        let from = if is(Bug::SealedHeadUncovered) { parts.header } else { 4 };
        let readable = frame.get(from..readable).unwrap_or_default();
        let (position, salt) = (position.to_le_bytes(), salt.to_le_bytes());
        let all: [&[u8]; 4] = [&self.store_id, &position, &salt, readable];
        let mut len = 0;
        for part in all {
            let Some(place) = room.get_mut(len..len + part.len()) else { return Cow::Owned(all.concat()) };
            place.copy_from_slice(part);
            len += part.len();
        }
        Cow::Borrowed(room.get(..len).unwrap_or_default())
    }

    /// The seed of the hashes as a superblock under the current key has it.
    pub(crate) fn mask_seed(&self, seed: [u8; 16]) -> [u8; 16] {
        mask(&self.current(), seed)
    }

    /// The tag of the superblock in the slot at `offset`, of which `fields` are the bytes in front of the tag.
    pub(crate) fn tag_superblock(&self, fields: &[u8], offset: u64) -> Result<[u8; TAG_LEN]> {
        tag_superblock(&self.current(), fields, offset)
    }

    /// The seed that a superblock has masked as `seed`, if its tag fits; and whether that is under the current key, not the one before.
    pub(crate) fn seed_of(
        &self,
        fields: &[u8],
        offset: u64,
        tag: &[u8; TAG_LEN],
        seed: [u8; 16],
    ) -> Result<Option<([u8; 16], bool)>> {
        let ring = self.ring.read();
        for set in ring.all() {
            if is_same(&tag_superblock(set, fields, offset)?, tag) {
                return Ok(Some((mask(set, seed), Arc::ptr_eq(set, &ring.current))));
            }
        }
        Ok(None)
    }
}

fn tag_header(set: &KeySet, fields: &[u8], start: u64) -> Result<[u8; TAG_LEN]> {
    tag_of(&set.derived.header, &[&start.to_le_bytes(), fields])
}

fn tag_superblock(set: &KeySet, fields: &[u8], offset: u64) -> Result<[u8; TAG_LEN]> {
    tag_of(&set.derived.front, &[&offset.to_le_bytes(), fields])
}

/// The seed of the hashes as a superblock has it, or the other way round.
fn mask(set: &KeySet, seed: [u8; 16]) -> [u8; 16] {
    (u128::from_le_bytes(seed) ^ u128::from_le_bytes(*set.derived.seed)).to_le_bytes()
}

fn nonce(chunk: u32, position: u64) -> [u8; NONCE_LEN] {
    let mut out = [0; NONCE_LEN];
    let (front, back) = out.split_at_mut(4);
    front.copy_from_slice(&(u32::from(DOMAIN_FRAMES) | chunk << 8).to_le_bytes());
    back.copy_from_slice(&position.to_le_bytes());
    out
}

fn too_short() -> Error {
    Error::Bug("a frame is shorter than its parts")
}
