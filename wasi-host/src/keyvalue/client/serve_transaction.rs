//! Implements the transactions of the interface `store` for Wasmtime: looks handles up in the resource table of the embedder.

use super::wit::pipkin::kv::store;
use super::wit::pipkin::kv::types::{Durability, Error, KeyRange, Packed, PackedValues, Position, Ttl};
use super::{ClientNamespace, ClientSavepoint, ClientScan, ClientTransaction, lost, over_quota};
use crate::keyvalue::view::WasiKeyValue;
use pipkin::Namespace;
use wasmtime::Result as Outcome;
use wasmtime::component::Resource;

type Own = Resource<ClientTransaction>;
type Space = Resource<ClientNamespace>;

impl WasiKeyValue<'_> {
    /// A transaction, and the namespace that a call of it works in.
    fn in_transaction(&mut self, transaction: &Own, namespace: &Space) -> Result<(&mut ClientTransaction, Namespace), Error> {
        let records = self.namespace(namespace)?.records()?;
        Ok((self.table.get_mut(transaction).map_err(lost)?, records))
    }
}

impl store::HostTransaction for WasiKeyValue<'_> {
    fn get(&mut self, transaction: Own, namespace: Space, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.read(|transaction| transaction.get_in(&records, key))
    }

    fn get_many(&mut self, transaction: Own, namespace: Space, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.get_many(&records, keys)
    }

    fn get_packed(&mut self, transaction: Own, namespace: Space, keys: Packed) -> Result<PackedValues, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.get_packed(&records, &keys)
    }

    fn contains(&mut self, transaction: Own, namespace: Space, key: Vec<u8>) -> Result<bool, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.read(|transaction| transaction.contains_key_in(&records, key))
    }

    fn put(&mut self, transaction: Own, namespace: Space, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.put(&records, &key, &value)
    }

    fn put_with_ttl(&mut self, transaction: Own, namespace: Space, key: Vec<u8>, value: Vec<u8>, ttl: Ttl) -> Result<(), Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.put_with_ttl(&records, &key, &value, ttl.into())
    }

    fn delete(&mut self, transaction: Own, namespace: Space, key: Vec<u8>) -> Result<bool, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        transaction.delete(&records, &key)
    }

    fn scan(&mut self, transaction: Own, namespace: Space, prefix: Vec<u8>) -> Result<Resource<ClientScan>, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        let (walk, engine) = transaction.scan(&records, prefix)?;
        let kept = self.ctx.keep(walk.kept_bytes()).map_err(over_quota)?;
        self.table.push(ClientScan::new(walk, engine, kept)).map_err(lost)
    }

    fn range(&mut self, transaction: Own, namespace: Space, range: KeyRange) -> Result<Resource<ClientScan>, Error> {
        let (transaction, records) = self.in_transaction(&transaction, &namespace)?;
        let walk = transaction.range(&records, range)?;
        self.walk(walk)
    }

    fn savepoint(&mut self, transaction: Own) -> Result<Resource<ClientSavepoint>, Error> {
        let kept = self.ctx.keep(0).map_err(over_quota)?;
        let transaction = self.table.get_mut(&transaction).map_err(lost)?;
        let place = transaction.read(|transaction| Ok(transaction.savepoint()))?;
        self.table.push(ClientSavepoint::new(place, kept)).map_err(lost)
    }

    fn rollback_to(&mut self, transaction: Own, savepoint: Resource<ClientSavepoint>) -> Result<(), Error> {
        let place = self.table.get(&savepoint).map_err(lost)?.place.clone();
        self.table.get_mut(&transaction).map_err(lost)?.rollback_to(&place)
    }

    fn commit(&mut self, transaction: Own) -> Result<Position, Error> {
        self.table.delete(transaction).map_err(lost)?.commit()
    }

    fn commit_durably(&mut self, transaction: Own) -> Result<Durability, Error> {
        self.table.delete(transaction).map_err(lost)?.commit_durably()
    }

    fn rollback(&mut self, transaction: Own) -> Outcome<()> {
        self.table.delete(transaction)?;
        Ok(())
    }

    fn drop(&mut self, transaction: Own) -> Outcome<()> {
        self.table.delete(transaction)?;
        Ok(())
    }
}

impl store::HostSavepoint for WasiKeyValue<'_> {
    fn drop(&mut self, savepoint: Resource<ClientSavepoint>) -> Outcome<()> {
        self.table.delete(savepoint)?;
        Ok(())
    }
}
