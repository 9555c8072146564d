//! `pipkin:kv/admin`, served by the native engine.

use super::add_async::methods;
use super::wit::pipkin::kv::admin::{self, Report, Stats, Step};
use super::wit::pipkin::kv::types::Error;
use super::{ClientDb, access_denied, lost};
use crate::keyvalue::context::Entry;
use crate::keyvalue::off_thread::{Later, off_thread};
use crate::keyvalue::quota::Admitted;
use crate::keyvalue::view::{View, WasiKeyValue};
use pipkin::storage::{NativeOptions, NativeStorage};
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};

pub(in crate::keyvalue) fn add_admin_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    admin::add_to_linker::<_, View>(linker, view)
}

/// Replaces the functions that wait for the device by ones that wait in another thread.
pub(in crate::keyvalue) fn add_async_admin_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    let mut instance = linker.instance("pipkin:kv/admin@0.1.0")?;
    methods!(instance, view, ClientDb:
        "get-stats"() -> Stats, |_| true, |db| db.stats();
        "verify"() -> Report, |_| true, |db| db.verify();
        "compact-step"() -> Option<Step>, |_| true, |db| db.compact_step();
        "checkpoint"() -> (), |_| true, |db| db.checkpoint();
        "sweep-expired"() -> u64, |_| true, |db| db.sweep_expired();
        "reset-clock"() -> u64, |_| true, |db| db.reset_clock();
    );
    instance.func_wrap_async(
        "verify-closed",
        move |mut store: StoreContextMut<'_, T>, (name,): (String,)| -> Later<'_, (Result<Report, Error>,)> {
            let entry = view(store.data_mut()).listed(&name).cloned();
            Box::new(async move { Ok((off_thread(true, move || verify_closed(&entry?)).await,)) })
        },
    )?;
    instance.func_wrap_async(
        "backup",
        move |mut store: StoreContextMut<'_, T>, (db, name): (Resource<ClientDb>, String)| -> Later<'_, (Result<u64, Error>,)> {
            let view = view(store.data_mut());
            let both = view.db(&db).cloned().and_then(|db| Ok((db, view.listed(&name)?.clone())));
            Box::new(async move {
                let work = move || {
                    let (db, target) = both?;
                    db.backup(&target, &name)
                };
                Ok((off_thread(true, work).await,))
            })
        },
    )
}

fn verify_closed(entry: &Entry) -> Result<Report, Error> {
    let store = entry.store();
    match (store.path(), store.opened()) {
        (_, Some(engine)) => Ok(engine.call()?.verify()?.into()),
        (Some(path), None) => {
            let options = NativeOptions { read_only: true, create: false, ..NativeOptions::default() };
            Ok(pipkin::verify_storage(&NativeStorage::open(path, options)?)?.into())
        }
        (None, None) => Err(pipkin::Error::Closed.into()),
    }
}

impl ClientDb {
    fn stats(&self) -> Result<Stats, Error> {
        Ok(self.engine.call()?.stats()?.into())
    }

    fn verify(&self) -> Result<Report, Error> {
        Ok(self.engine.call()?.verify()?.into())
    }

    fn compact_step(&self) -> Result<Option<Step>, Error> {
        let step = self.write(self.durability, |_| Ok(Admitted::none()), |db| db.compact_step())?;
        Ok(step.map(Into::into))
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.write(self.durability, |_| Ok(Admitted::none()), |db| db.checkpoint())
    }

    fn sweep_expired(&self) -> Result<u64, Error> {
        Ok(self.engine.call()?.sweep_expired()?)
    }

    fn reset_clock(&self) -> Result<u64, Error> {
        self.write(self.durability, |_| Ok(Admitted::none()), |db| db.reset_clock())
    }

    fn backup(&self, target: &Entry, name: &str) -> Result<u64, Error> {
        if target.store().path().is_none() {
            return Err(access_denied(format!("the store {name:?} belongs to the host; choose another name that it lists")));
        }
        if target.is_read_only() {
            return Err(access_denied(format!("the host lets this component only read the store {name:?}; choose another name")));
        }
        Ok(target.store().copy_from(&self.engine)?)
    }
}

impl admin::Host for WasiKeyValue<'_> {
    fn get_stats(&mut self, db: Resource<ClientDb>) -> Result<Stats, Error> {
        self.db(&db)?.stats()
    }

    fn verify(&mut self, db: Resource<ClientDb>) -> Result<Report, Error> {
        self.db(&db)?.verify()
    }

    fn verify_closed(&mut self, name: String) -> Result<Report, Error> {
        verify_closed(self.listed(&name)?)
    }

    fn compact_step(&mut self, db: Resource<ClientDb>) -> Result<Option<Step>, Error> {
        self.db(&db)?.compact_step()
    }

    fn checkpoint(&mut self, db: Resource<ClientDb>) -> Result<(), Error> {
        self.db(&db)?.checkpoint()
    }

    fn sweep_expired(&mut self, db: Resource<ClientDb>) -> Result<u64, Error> {
        self.db(&db)?.sweep_expired()
    }

    fn reset_clock(&mut self, db: Resource<ClientDb>) -> Result<u64, Error> {
        self.db(&db)?.reset_clock()
    }

    fn backup(&mut self, db: Resource<ClientDb>, name: String) -> Result<u64, Error> {
        self.db(&db)?.backup(self.listed(&name)?, &name)
    }
}
