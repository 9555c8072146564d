//! `pipkin:kv/admin`, served by the native engine.

use super::wit::pipkin::kv::admin::{self, Report, Stats, Step};
use super::wit::pipkin::kv::types::Error;
use super::{ClientDb, Entry, View, WasiKeyValue, access_denied};
use pipkin::storage::{NativeOptions, NativeStorage};
use wasmtime::Result as Outcome;
use wasmtime::component::{Linker, Resource};

pub(in crate::keyvalue) fn add_admin_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    admin::add_to_linker::<_, View>(linker, view)
}

impl admin::Host for WasiKeyValue<'_> {
    fn get_stats(&mut self, db: Resource<ClientDb>) -> Result<Stats, Error> {
        Ok(self.db(&db)?.engine.call()?.stats()?.into())
    }

    fn verify(&mut self, db: Resource<ClientDb>) -> Result<Report, Error> {
        Ok(self.db(&db)?.engine.call()?.verify()?.into())
    }

    fn verify_closed(&mut self, name: String) -> Result<Report, Error> {
        let Entry { store, .. } = self.listed(&name)?;
        match (store.path(), store.opened()) {
            (_, Some(engine)) => Ok(engine.call()?.verify()?.into()),
            (Some(path), None) => {
                let options = NativeOptions { read_only: true, create: false, ..NativeOptions::default() };
                Ok(pipkin::verify_storage(&NativeStorage::open(path, options)?)?.into())
            }
            (None, None) => Err(pipkin::Error::Closed.into()),
        }
    }

    fn compact_step(&mut self, db: Resource<ClientDb>) -> Result<Option<Step>, Error> {
        let db = self.db(&db)?;
        let step = db.write(|db| db.compact_step())?;
        Ok(step.map(Into::into))
    }

    fn checkpoint(&mut self, db: Resource<ClientDb>) -> Result<(), Error> {
        let db = self.db(&db)?;
        db.write(|db| db.checkpoint())
    }

    fn backup(&mut self, db: Resource<ClientDb>, name: String) -> Result<u64, Error> {
        let target = self.listed(&name)?;
        match target.store.path() {
            Some(path) => Ok(self.db(&db)?.engine.call()?.backup_to(path)?.bytes),
            None => Err(access_denied(format!("the store {name:?} belongs to the host; choose another name that it lists"))),
        }
    }
}
