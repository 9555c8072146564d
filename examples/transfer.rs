//! Namespaces and transactions: money moves between accounts, and the ledger moves with it. A transaction whose input somebody
//! else changed is run again. `cargo run -p pipkin-examples --example transfer`

use pipkin::{Db, Error, Namespace, Result};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn amount(bytes: Option<&[u8]>) -> u64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Says how often it had to be run again.
fn transfer(db: &Db, accounts: &Namespace, from: &str, to: &str, sum: u64) -> Result<u64> {
    let mut runs = 0;
    db.transaction(|tx| {
        runs += 1;
        let source = amount(tx.get_in(accounts, from)?.as_deref());
        let target = amount(tx.get_in(accounts, to)?.as_deref());
        let rest = source.checked_sub(sum).ok_or(Error::InvalidArgument("there is too little on the account"))?;
        tx.insert_in(accounts, from, rest.to_le_bytes())?;
        tx.insert_in(accounts, to, (target + sum).to_le_bytes())?;
        let transfers = amount(tx.get("transfers")?.as_deref());
        tx.insert("transfers", (transfers + 1).to_le_bytes())
    })?;
    Ok(runs - 1)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open_in_memory()?;
    let accounts = db.namespace("accounts")?;
    accounts.insert_many([("ada", 1_000u64.to_le_bytes()), ("bob", 1_000u64.to_le_bytes())])?;

    let done = AtomicBool::new(false);
    let (conflicts, paid_in) = thread::scope(|scope| -> Result<_> {
        // Pays in meanwhile, without a transaction: now and then between the reads of one and its end.
        let payer = scope.spawn(|| -> Result<u64> {
            let mut paid_in = 0;
            while !done.load(Ordering::Relaxed) {
                accounts.update("bob", |old| Some((amount(old) + 1).to_le_bytes().to_vec()))?;
                paid_in += 1;
            }
            Ok(paid_in)
        });
        let conflicts = (0..1_000).map(|_| transfer(&db, &accounts, "bob", "ada", 1)).sum::<Result<u64>>();
        done.store(true, Ordering::Relaxed);
        Ok((conflicts?, payer.join().unwrap_or_else(|panic| resume_unwind(panic))?))
    })?;

    assert!(transfer(&db, &accounts, "ada", "bob", 1_000_000).is_err(), "an error in the body: nothing is written");
    let balance = |name: &str| accounts.get(name).map(|bytes| amount(bytes.as_deref()));
    assert_eq!((balance("ada")?, balance("bob")?), (2_000, paid_in));
    assert_eq!(amount(db.get("transfers")?.as_deref()), 1_000);
    println!("1000 transfers, run again {conflicts} times; {paid_in} coins were paid in meanwhile, none was lost");
    Ok(())
}
