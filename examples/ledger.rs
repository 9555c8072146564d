//! Event streams: a bank whose accounts are streams of events, and a projection of their balances that is right after any crash.
//! `cargo run -p pipkin-examples --example ledger`; with `-- --kill` it kills a process of itself again and again, and checks what is left.

use pipkin::{Db, Error, Events, Expected, NewEvent, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const ACCOUNTS: [&str; 3] = ["ada", "bob", "eve"];

fn number(bytes: Option<&[u8]>) -> i64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_le_bytes)
}

/// The balance by the events of the account, and the version that this is: a decision holds as long as the stream is at it.
fn replay(bank: &Events, account: &str) -> Result<(i64, u64)> {
    let (mut balance, mut version) = (0, 0);
    bank.stream(account).for_each(|event| (balance, version) = (balance + number(Some(event.payload())), event.version()))?;
    Ok((balance, version))
}

/// Moves money: both accounts, or none. Nobody can take more than there is, however many try at once.
fn transfer(db: &Db, bank: &Events, from: &str, to: &str, sum: i64) -> Result<()> {
    loop {
        let (balance, version) = replay(bank, from)?;
        if balance < sum {
            return Err(Error::InvalidArgument("there is too little on the account"));
        }
        let taken = [NewEvent::new("Taken", (-sum).to_le_bytes())];
        let paid = [NewEvent::new("Paid", sum.to_le_bytes())];
        let moved = db.batch().append(bank, from, Expected::Version(version), taken).append(bank, to, Expected::Any, paid);
        match moved.commit() {
            Err(Error::AppendRefused { .. }) => {} // somebody was faster: decide again
            result => return result,
        }
    }
}

/// Brings the balances, which are records, up to the events. The cursor moves in the commit that an event has led to, so each counts once.
fn project(db: &Db, bank: &Events) -> Result<()> {
    let mut events = bank.all().cursor("balances")?;
    while let Some(event) = events.try_next()? {
        db.transaction(|tx| {
            let balance = number(tx.get(event.stream())?.as_deref());
            tx.insert(event.stream(), (balance + number(Some(event.payload()))).to_le_bytes())?;
            tx.ack(&events, event.number())
        })?;
    }
    Ok(())
}

/// What must always be true.
fn check(db: &Db, bank: &Events) -> Result<()> {
    db.flush()?; // a subscription hands out only what no power cut can take
    project(db, bank)?;
    let mut all = 0;
    for account in ACCOUNTS {
        let (balance, _) = replay(bank, account)?;
        assert_eq!(balance, number(db.get(account)?.as_deref()), "the projection of {account}");
        assert!(balance >= 0, "{account} has {balance}");
        all += balance;
    }
    assert!(all == 0 || all == 300, "{all} of 300 coins are there");
    Ok(())
}

/// Works until the process ends, or so many times.
fn work(db: &Db, bank: &Events, times: u64) -> Result<()> {
    if bank.last_number()? == 0 {
        let opened = ACCOUNTS.iter().fold(db.batch(), |batch, account| {
            batch.append(bank, *account, Expected::NoStream, [NewEvent::new("Paid", 100_i64.to_le_bytes())])
        });
        opened.commit()?;
    }
    for turn in (0..times).map(|turn| turn as usize) {
        let mut accounts = ACCOUNTS.iter().cycle().skip(turn % 3);
        let (Some(from), Some(to)) = (accounts.next(), accounts.nth(turn / 3 % 2)) else { break };
        match transfer(db, bank, from, to, (turn % 40) as i64) {
            Ok(()) | Err(Error::InvalidArgument(_)) => {}
            Err(error) => return Err(error),
        }
        if turn % 5 == 0 {
            db.flush()?;
            project(db, bank)?;
        }
    }
    Ok(())
}

fn kill(path: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    for round in 0..20_u64 {
        let mut child = Command::new(std::env::current_exe()?).arg("--work").arg(path).stdout(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(3 + round * 37 % 60));
        child.kill()?;
        child.wait()?;
        let db = Db::open(path)?;
        check(&db, &db.events("bank")?)?;
        db.close()?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("--work") => {
            let db = Db::open(args.next().ok_or("the path of the store is missing")?)?;
            work(&db, &db.events("bank")?, u64::MAX)?;
        }
        Some("--kill") => {
            let folder = tempfile::tempdir()?;
            kill(&folder.path().join("bank.pipkin"))?;
            println!("killed 20 times, and no coin was lost or counted twice");
        }
        _ => {
            let db = Db::open_in_memory()?;
            let bank = db.events("bank")?;
            work(&db, &bank, 300)?;
            check(&db, &bank)?;
            println!("{} events, and every balance is the sum of its own", bank.last_number()?);
        }
    }
    Ok(())
}
