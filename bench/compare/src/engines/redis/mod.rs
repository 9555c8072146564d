//! Redis over loopback: what a server costs that a library does not. It takes part where `redis-server` is found.
//!
//! Tuning: an append-only file without rewrites and snapshots; `appendfsync always` for what must be durable (clients that come together share
//! a sync) and `no` for what need not be; `MSET`, `MGET` and `DEL` of a thousand keys for batches; a connection for each thread. It is another
//! process, so figures about this process say nothing of it, and nobody kills it.

mod client;

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use client::{Answer, Connection};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SERVER: &str = "redis-server";
const BATCH: usize = 1_000;
const START: Duration = Duration::from_secs(30);
/// A key that no record has.
const MARK: &[u8] = b"pipkin-compare";

/// Whether there is a server to measure.
pub(crate) fn is_there() -> bool {
    let asked = Command::new(SERVER).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

pub(crate) struct Redis {
    server: Mutex<Child>,
    port: u16,
    /// Connections that no thread uses.
    idle: Mutex<Vec<Connection>>,
}

impl Redis {
    fn with<T>(&self, body: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| Connection::open(self.port), Ok)?;
        let result = body(&mut connection);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }

    fn ask(&self, words: &[&[u8]]) -> Result<Answer> {
        self.with(|connection| connection.ask(words.iter().copied()))
    }

    /// One command, so one commit.
    fn set<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let words: Vec<&[u8]> =
            std::iter::once(b"MSET".as_slice()).chain(records.flat_map(|(key, value)| [key, value])).collect();
        self.ask(&words).map(|_| ())
    }

    fn wait(&self) -> Result<()> {
        let end = Instant::now() + START;
        loop {
            // While it reads its file it answers with an error.
            match Connection::open(self.port).and_then(|mut connection| connection.ask([b"PING".as_slice()].into_iter())) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Engine for Redis {
    const FACTS: Facts = Facts {
        package: None,
        alternative: true,
        ordered: false,
        compacts: false,
        served: true,
        unflushed: Unflushed::Kept("the server's append-only file, in the page cache of the system"),
        ..Facts::peer("redis", "", "over loopback; append-only file, appendfsync always or no, MSET and MGET of 1,000")
    };

    type Reader<'a> = View;

    fn open(folder: &Path, _: &OpenOptions) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port(); // free now, and nobody is in a hurry to take it
        let mut command = Command::new(SERVER);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(folder);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let engine = Self { server: Mutex::new(server), port, idle: Mutex::new(Vec::new()) };
        engine.wait()?;
        Ok(engine)
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.sync_commits(false)?;
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.set(records.by_ref().take(BATCH))?;
        }
        self.sync_commits(true)?;
        self.flush()
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.set(records)
    }

    fn sync_commits(&self, sync: bool) -> Result<()> {
        let when: &[u8] = if sync { b"always" } else { b"no" };
        self.ask(&[b"CONFIG", b"SET", b"appendfsync", when]).map(|_| ())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.ask(&[b"SET", key, value]).map(|_| ())
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for keys in keys.chunks(BATCH) {
            let words: Vec<&[u8]> = std::iter::once(b"DEL".as_slice()).chain(keys.iter().map(Key::as_slice)).collect();
            self.ask(&words)?;
        }
        Ok(())
    }

    /// A write that is synced takes everything in front of it along.
    fn flush(&self) -> Result<()> {
        self.put(MARK, b"")?;
        self.ask(&[b"DEL", MARK]).map(|_| ())
    }

    fn len(&self) -> Result<u64> {
        match self.ask(&[b"DBSIZE"])? {
            Answer::Number(records) => Ok(records),
            other => Err(format!("DBSIZE was answered with {other:?}").into()),
        }
    }

    fn reader(&self) -> Result<View> {
        Ok(View { connection: Connection::open(self.port)? })
    }

    fn get(&self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        self.with(|connection| get(connection, key, with))
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn each_event(&self, count: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let keys: Vec<[u8; 8]> = (0..count as u64).map(u64::to_be_bytes).collect();
        self.with(|connection| {
            let mut hits = 0;
            for keys in keys.chunks(BATCH) {
                hits += get_many(connection, keys.iter().map(<[u8; 8]>::as_slice), &mut each)?;
            }
            Ok(hits)
        })
    }

    fn close(self) -> Result<()> {
        // The answer to this is the end of the connection.
        let _ = self.ask(&[b"SHUTDOWN", b"NOSAVE"]);
        self.server.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // After an error nobody has closed it. Of one that has ended already there is nothing to kill.
        let server = self.server.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = server.kill();
        let _ = server.wait();
    }
}

fn get(connection: &mut Connection, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
    let found = connection.ask([b"GET".as_slice(), key].into_iter())? == Answer::Value;
    if found {
        with(connection.value());
    }
    Ok(found)
}

fn get_many<'a>(connection: &mut Connection, keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(&[u8])) -> Result<usize> {
    let words: Vec<&[u8]> = std::iter::once(b"MGET".as_slice()).chain(keys).collect();
    let Answer::List(answers) = connection.ask(words.into_iter())? else {
        return Err("MGET was not answered with a list".into());
    };
    let mut hits = 0;
    for _ in 0..answers {
        if connection.answer()? == Answer::Value {
            each(connection.value());
            hits += 1;
        }
    }
    Ok(hits)
}

/// A connection of its own.
pub(crate) struct View {
    connection: Connection,
}

impl Reader for View {
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        get(&mut self.connection, key, with)
    }

    fn get_many(&mut self, keys: &[Key], each: impl FnMut(&[u8])) -> Result<usize> {
        get_many(&mut self.connection, keys.iter().map(Key::as_slice), each)
    }
}
