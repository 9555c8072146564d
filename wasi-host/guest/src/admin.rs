//! The interface `admin`.

use crate::Component;
use crate::bindings::exports::pipkin::kv::admin::{Guest, Report, Stats, Step};
use crate::bindings::exports::pipkin::kv::store::DbBorrow;
use crate::bindings::exports::pipkin::kv::types::{Durability, Error};
use crate::open::{Open, discard, storage};
use crate::storage::Access;
use crate::store::Handle;
use alloc::string::String;
use alloc::sync::Arc;

fn opened<'a>(db: &'a DbBorrow<'_>) -> &'a Arc<Open> {
    &db.get::<Handle>().open
}

impl Guest for Component {
    fn get_stats(db: DbBorrow<'_>) -> Result<Stats, Error> {
        Ok(opened(&db).db()?.stats()?.into())
    }

    fn verify(db: DbBorrow<'_>) -> Result<Report, Error> {
        let open = opened(&db);
        // Hand over gathered writes and forget cached blocks, so that the file itself is verified.
        open.settle(Durability::Written)?;
        open.storage.forget();
        Ok(open.db()?.verify()?.into())
    }

    fn verify_closed(name: String) -> Result<Report, Error> {
        Ok(pipkin::verify_storage(&storage(&name, Access::Read)?)?.into())
    }

    fn compact_step(db: DbBorrow<'_>) -> Result<Option<Step>, Error> {
        let open = opened(&db);
        let step = open.db()?.compact_step()?;
        open.settle(Durability::Written)?;
        Ok(step.map(Into::into))
    }

    fn checkpoint(db: DbBorrow<'_>) -> Result<(), Error> {
        let open = opened(&db);
        open.db()?.checkpoint()?;
        open.settle(Durability::Written)?;
        Ok(())
    }

    fn sweep_expired(db: DbBorrow<'_>) -> Result<u64, Error> {
        Ok(opened(&db).db()?.sweep_expired()?)
    }

    fn reset_clock(db: DbBorrow<'_>) -> Result<u64, Error> {
        let open = opened(&db);
        let living = open.db()?.reset_clock()?;
        open.settle(Durability::Written)?;
        Ok(living)
    }

    fn backup(db: DbBorrow<'_>, name: String) -> Result<u64, Error> {
        let target = storage(&name, Access::New)?;
        let open = opened(&db);
        // Forget cached blocks, so that the bytes that are copied are the ones whose checksums are checked: those of the file.
        open.storage.forget();
        let done = open.db()?.backup_to_storage(&target);
        if done.is_err() {
            discard(&name);
        }
        Ok(done?.bytes)
    }
}
