//! What opens a sealed store, as `npm/src/secret.ts` hands it over. Without the feature `sealed` nothing does.

/// What opens a store: its kind, and the bytes of it.
///
/// | kind | bytes |
/// |---|---|
/// | 0 | none: the store is not sealed |
/// | 1 | a key of 32 bytes |
/// | 2 | a passphrase |
/// | 3 | the id of a new store (16), then for each salt (16) what a key of WebCrypto has derived from it (32); the last one is for a new slot |
///
/// Bit 7 of the kind, where it opens a store: that may compress its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret<'a> {
    pub(crate) kind: u8,
    pub(crate) bytes: &'a [u8],
}

#[cfg(feature = "sealed")]
pub(crate) use sealed::{change, check, open, opens, verified};

#[cfg(not(feature = "sealed"))]
pub(crate) use plain::{change, check, open, opens, verified};

#[cfg(feature = "sealed")]
mod sealed {
    use alloc::boxed::Box;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use pipkin::storage::MemoryStorage;
    use pipkin::{Builder, Db, Error, KeyProvider, KeyRotation, KeySlotKind, Storage, verify_storage};

    use super::Secret;
    use crate::failure::{Code, Failure};
    use crate::json;

    /// The bit of the kind that says that values may be compressed.
    const COMPRESSES: u8 = 0x80;
    /// The bit of the kind that says that the store is to be plain.
    const DISABLES: u8 = 0x40;

    /// What a key of WebCrypto has derived, by salts.
    struct Table(Vec<([u8; 16], [u8; 32])>);

    impl KeyProvider for Table {
        fn derive(&self, salt: &[u8; 16], _: &[u8]) -> Result<[u8; 32], String> {
            let found = self.0.iter().find(|(of, _)| of == salt);
            found
                .map(|&(_, derived)| derived)
                .ok_or_else(|| String::from("the keys of the store have changed meanwhile; open it again"))
        }

        fn new_salt(&self) -> Option<[u8; 16]> {
            self.0.last().map(|&(salt, _)| salt)
        }
    }

    /// The id of a new store, and the table.
    fn table(bytes: &[u8]) -> Result<([u8; 16], Table), Failure> {
        let senseless = || Failure::new(Code::Usage, "a key that makes no sense");
        let (id, rest) = bytes.split_first_chunk::<16>().ok_or_else(senseless)?;
        let (pairs, []) = rest.as_chunks::<48>() else { return Err(senseless()) };
        let pair = |pair: &[u8; 48]| Some((*pair.first_chunk()?, *pair.last_chunk()?));
        Ok((*id, Table(pairs.iter().map(pair).collect::<Option<_>>().ok_or_else(senseless)?)))
    }

    fn key(bytes: &[u8]) -> Result<[u8; 32], Failure> {
        bytes.try_into().map_err(|_| Failure::new(Code::Usage, "a key has 32 bytes"))
    }

    /// The builder of a store that this opens, or seals if it is new. `entropy` is for a new one.
    pub(crate) fn opens(builder: Builder, secret: Secret<'_>, entropy: [u8; 32]) -> Result<Builder, Failure> {
        let builder = builder.compress_sealed(secret.kind & COMPRESSES != 0);
        Ok(match secret.kind & !(COMPRESSES | DISABLES) {
            1 => builder.entropy(entropy).encryption_key(key(secret.bytes)?),
            2 => builder.entropy(entropy).encryption_passphrase(secret.bytes),
            3 => {
                let (id, table) = table(secret.bytes)?;
                let mut entropy = entropy;
                entropy.iter_mut().zip(id).for_each(|(place, byte)| *place = byte);
                builder.entropy(entropy).encryption_key_provider(table)
            }
            _ => builder.entropy(entropy),
        })
    }

    /// Opens the store in a file, and makes it plain if that is asked for.
    pub(crate) fn open(builder: Builder, secret: Secret<'_>, storage: Box<dyn Storage>) -> Result<Db, Error> {
        if secret.kind & DISABLES == 0 { builder.open_storage(storage) } else { builder.disable_encryption_in(storage) }
    }

    /// Verifies the store in a file that is not open, and that this opens it. Returns a report as JSON.
    pub(crate) fn verified(file: impl Storage + 'static, secret: Secret<'_>) -> Result<String, Failure> {
        let file = Arc::new(file);
        let found = verify_storage(&*file);
        let is_sealed = found.as_ref().is_ok_and(|report| report.unauthenticated);
        if secret.kind == 0 && !is_sealed {
            return Ok(json::verified(&found.map_err(|error| Failure::from(&error))?));
        }
        let builder = opens(Db::builder().read_only(true), secret, [0; 32])?;
        let verified = builder.open_storage(Box::new(file)).and_then(|db| db.verify());
        verified.map(|report| json::verified(&report)).map_err(|error| Failure::from(&error))
    }

    /// Whether this opens the store with this front of a file; fails if it does not. Nothing else of the file is looked at.
    pub(crate) fn check(front: &[u8], secret: Secret<'_>) -> Result<(), Failure> {
        let builder = opens(Db::builder().read_only(true), secret, [0; 32])?;
        match builder.open_storage(Box::new(MemoryStorage::from_vec(front.to_vec()))) {
            Err(error @ (Error::KeyNeeded | Error::WrongKey | Error::NotSealed | Error::KeyUnavailable { .. })) => {
                Err((&error).into())
            }
            // Said behind a look at the key: who asks for a plain store may join.
            Err(error @ Error::DisablingEncryption) if secret.kind & DISABLES == 0 => Err((&error).into()),
            // The log is not here.
            _ => Ok(()),
        }
    }

    /// Changes or lists what opens an open store: 0 lists it, 1 adds this, 2 removes the slot, 3 seals everything under a new key that only this opens, 4
    /// seals a plain store so, 5 finishes what 3, 4 and 6 have begun, 6 makes a sealed store plain.
    pub(crate) fn change(db: &Db, what: u8, slot: u8, secret: Secret<'_>) -> Result<String, Error> {
        let unfit = |_| Error::InvalidArgument("a key has 32 bytes");
        match (what, secret.kind) {
            (1, 1) => db.add_encryption_key(secret.bytes.try_into().map_err(unfit)?).map(|slot| slot.to_string()),
            (1, 2) => db.add_encryption_passphrase(secret.bytes).map(|slot| slot.to_string()),
            (1, _) => db.add_encryption_key_provider(given(secret)?).map(|slot| slot.to_string()),
            (2, _) => db.remove_key_slot(slot).map(|()| String::from("null")),
            (3, 1) => db.rotate_encryption_key(secret.bytes.try_into().map_err(unfit)?).map(come_to),
            (3, 2) => db.rotate_encryption_passphrase(secret.bytes).map(come_to),
            (3, _) => db.rotate_encryption_key_provider(given(secret)?).map(come_to),
            (4, 1) => db.enable_encryption(secret.bytes.try_into().map_err(unfit)?).map(come_to),
            (4, 2) => db.enable_encryption_passphrase(secret.bytes).map(come_to),
            (4, _) => db.enable_encryption_key_provider(given(secret)?).map(come_to),
            (5, _) => db.finish_key_rotation(|_| {}).map(come_to),
            (6, _) => db.disable_encryption().map(come_to),
            _ => {
                let slots = db.key_slots()?;
                let one = |slot: &pipkin::KeySlot| {
                    let kind = if slot.kind == KeySlotKind::Passphrase { "passphrase" } else { "key" };
                    format!("{{\"slot\":{},\"kind\":\"{kind}\"}}", slot.number)
                };
                Ok(format!("[{}]", slots.iter().map(one).collect::<Vec<_>>().join(",")))
            }
        }
    }

    /// What a new key has come to, as JSON.
    fn come_to(rotation: KeyRotation) -> String {
        format!("{{\"finished\":{},\"segmentsLeft\":{}}}", rotation.is_finished, rotation.segments_left)
    }

    fn given(secret: Secret<'_>) -> Result<Table, Error> {
        table(secret.bytes).map(|(_, table)| table).map_err(|_| Error::InvalidArgument("a key that makes no sense"))
    }
}

#[cfg(not(feature = "sealed"))]
mod plain {
    use alloc::boxed::Box;
    use alloc::string::String;

    use pipkin::{Builder, Db, Error, Storage, verify_storage};

    use super::Secret;
    use crate::failure::Failure;
    use crate::json;

    const SEALED: &str = "sealed stores need the module `pipkin-sealed.wasm`";

    pub(crate) fn opens(builder: Builder, secret: Secret<'_>, entropy: [u8; 32]) -> Result<Builder, Failure> {
        if secret.kind == 0 && secret.bytes.is_empty() {
            Ok(builder.entropy(entropy))
        } else {
            Err((&Error::InvalidArgument(SEALED)).into())
        }
    }

    pub(crate) fn open(builder: Builder, _: Secret<'_>, storage: Box<dyn Storage>) -> Result<Db, Error> {
        builder.open_storage(storage)
    }

    pub(crate) fn verified(file: impl Storage + 'static, _: Secret<'_>) -> Result<String, Failure> {
        Ok(json::verified(&verify_storage(&file).map_err(|error| Failure::from(&error))?))
    }

    pub(crate) fn check(_: &[u8], _: Secret<'_>) -> Result<(), Failure> {
        Err((&Error::InvalidArgument(SEALED)).into())
    }

    pub(crate) fn change(_: &Db, _: u8, _: u8, _: Secret<'_>) -> Result<String, Error> {
        Err(Error::InvalidArgument(SEALED))
    }
}
