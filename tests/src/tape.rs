//! A tape is a list of operations in plain text. It names keys and values by small numbers, so that a failing one can be
//! read, cut down by hand and replayed.

use crate::rng::{Choices, Rng, derive, index};
use pipkin::testing::TestClock;
use std::fmt;
use std::str::FromStr;

/// A value by name: `len` bytes that depend on `tag` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Val {
    /// Length in bytes.
    pub len: u32,
    /// What the bytes are made of; every put of a tape has its own, so that a stale value is told from a fresh one.
    pub tag: u32,
}

impl Val {
    /// The bytes. One value in five is zeros behind its tag: real values contain zeros, and no recovery may guess from them.
    pub fn bytes(self) -> Vec<u8> {
        let mut out = vec![0; self.len as usize];
        if self.tag % 5 == 4 {
            let tag = self.tag.to_le_bytes();
            let n = out.len().min(4);
            out[..n].copy_from_slice(&tag[..n]);
        } else {
            derive(u64::from(self.tag), 0x76_61_6c).fill(&mut out);
        }
        out
    }
}

/// A key by number. 0 is the empty key; some are long, so that a key alone can cross a segment's end.
pub fn key_bytes(id: u16) -> Vec<u8> {
    let mut key = match id {
        0 => return Vec::new(),
        _ => format!("k{id}").into_bytes(),
    };
    match id % 32 {
        7 => key.resize(300, b'.'),
        23 => key.resize(1500, b'~'),
        _ => {}
    }
    key
}

/// The name of a namespace by number; 0 is the default one, which has none.
pub fn ns_name(ns: u8) -> String {
    format!("ns{ns}")
}

/// One record of a batch or transaction.
pub type Edit = (u8, u16, Option<Val>);

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `insert`.
    Put(u8, u16, Val),
    /// `remove`.
    Del(u8, u16),
    /// `insert_many` into one namespace.
    Many(u8, Vec<(u16, Val)>),
    /// `transaction`; rolled back when the flag is false.
    Txn(bool, Vec<Edit>),
    /// `compare_and_swap`; the flag says whether the expectation is the true one.
    Cas(u8, u16, bool, Option<Val>),
    /// `update`.
    Update(u8, u16, Option<Val>),
    /// `clear`.
    Clear(u8),
    /// `drop_namespace`.
    Drop(u8),
    /// `flush`.
    Flush,
    /// `checkpoint`.
    Checkpoint,
    /// `compact_step`.
    Step,
    /// `compact`.
    Compact,
    /// `close`, then open.
    Reopen,
    /// The process dies and the store is opened again; nothing written is lost.
    Kill,
    /// `backup_to_storage`, and the backup answers like the store.
    Backup,
    /// `verify` finds nothing.
    Verify,
    /// A put that expires after so many milliseconds, in one of the ways that there are.
    Until(u8, u16, Val, u64),
    /// `persist`.
    Persist(u8, u16),
    /// `set_default_ttl` of a named namespace, in milliseconds; 0: none.
    Default(u8, u64),
    /// So many milliseconds go by. With the flag everything is looked at then, so that whatever has expired is acted on.
    Wait(u64, bool),
}

/// A list of operations.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tape(pub Vec<Op>);

/// What a generated tape is made of.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Operations.
    pub ops: usize,
    /// Keys are numbered below this.
    pub keys: u16,
    /// Namespaces besides the default one.
    pub namespaces: u8,
    /// Values are mostly shorter than this.
    pub value_len: u32,
    /// One value in twelve may be as long as this.
    pub large_len: u32,
    /// Reopen, kill and backup are among the operations.
    pub reopens: bool,
    /// Records that expire are, too.
    pub times: Times,
}

/// When the clocks of the stores begin.
pub const START: u64 = 1_700_000_000_000;

/// Whether records of a tape expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// None does.
    Unused,
    /// Some do, and time goes by.
    Forward,
    /// Some do, and the clock may be set back after a crash: whenever time has gone by, everything is looked at.
    Both,
}

impl Times {
    /// Records expire in every third trial.
    pub fn of(seed: u64) -> Self {
        match seed % 6 {
            0 => Self::Forward,
            3 => Self::Both,
            _ => Self::Unused,
        }
    }

    /// The clock of a store whose tapes are of this kind.
    pub fn clock(self) -> Option<TestClock> {
        (self != Self::Unused).then(|| TestClock::new(START))
    }
}

impl Tape {
    /// The tape of a seed. Tags start at `tag`, so that the tapes of several rounds share no value.
    pub fn generate(rng: &mut Rng, mix: &Mix, tag: &mut u32) -> Self {
        let mut ops = Vec::with_capacity(mix.ops);
        while ops.len() < mix.ops {
            ops.push(Op::generate(rng, mix, tag));
        }
        Self(ops)
    }
}

impl Op {
    /// One operation. The value that it puts has the next tag.
    pub fn generate<C: Choices>(rng: &mut C, mix: &Mix, tag: &mut u32) -> Self {
        let ns = if rng.chance(1, 2) { 0 } else { rng.below(u64::from(mix.namespaces) + 1) as u8 };
        let key = |rng: &mut C| rng.below(u64::from(mix.keys)) as u16;
        let mut val = |rng: &mut C| {
            *tag += 1;
            let len = match rng.below(24) {
                0 => 0,
                1 | 2 => rng.below(u64::from(mix.large_len) + 1) as u32,
                _ => rng.below(u64::from(mix.value_len)) as u32,
            };
            Val { len, tag: *tag }
        };
        if mix.times != Times::Unused && rng.chance(2, 5) {
            return match rng.below(12) {
                0..=5 => Self::Until(ns, key(rng), val(rng), 1 + rng.below(30_000)),
                6 => Self::Persist(ns, key(rng)),
                7 if mix.namespaces > 0 => {
                    let ns = 1 + rng.below(u64::from(mix.namespaces)) as u8;
                    Self::Default(ns, [0, 4_000, 25_000][index(rng, 3)])
                }
                _ => Self::Wait(1 + rng.below(16_000), mix.times == Times::Both || rng.chance(1, 2)),
            };
        }
        match rng.below(100) {
            0..=37 => Self::Put(ns, key(rng), val(rng)),
            38..=49 => Self::Del(ns, key(rng)),
            50..=57 => {
                let n = 1 + index(rng, 6);
                Self::Many(ns, (0..n).map(|_| (key(rng), val(rng))).collect())
            }
            58..=67 => {
                let n = 1 + index(rng, 6);
                let keep = !rng.chance(1, 4);
                let edit = |rng: &mut C| {
                    let ns = rng.below(u64::from(mix.namespaces) + 1) as u8;
                    (ns, key(rng), rng.chance(2, 3).then(|| val(rng)))
                };
                let mut edits = Vec::with_capacity(n);
                let mut edit = edit;
                for _ in 0..n {
                    edits.push(edit(rng));
                }
                Self::Txn(keep, edits)
            }
            68..=71 => Self::Cas(ns, key(rng), rng.chance(2, 3), rng.chance(3, 4).then(|| val(rng))),
            72..=75 => Self::Update(ns, key(rng), rng.chance(3, 4).then(|| val(rng))),
            76 => Self::Clear(ns),
            77 | 78 => Self::Drop(1 + rng.below(u64::from(mix.namespaces.max(1))) as u8),
            79..=86 => Self::Flush,
            87..=88 => Self::Checkpoint,
            89..=93 => Self::Step,
            94 => Self::Compact,
            95 => Self::Verify,
            96 if mix.reopens => Self::Backup,
            97 if mix.reopens => Self::Reopen,
            98 if mix.reopens => Self::Kill,
            _ => Self::Put(ns, key(rng), val(rng)),
        }
    }
}

struct Word<'a, T>(&'a T);

impl fmt::Display for Word<'_, Val> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.0.len, self.0.tag)
    }
}

impl fmt::Display for Word<'_, Option<Val>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(val) => Word(val).fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(ns, key, val) => write!(f, "put {ns} {key} {}", Word(val)),
            Self::Del(ns, key) => write!(f, "del {ns} {key}"),
            Self::Many(ns, records) => {
                write!(f, "many {ns}")?;
                records.iter().try_for_each(|(key, val)| write!(f, " {key} {}", Word(val)))
            }
            Self::Txn(keep, edits) => {
                f.write_str(if *keep { "txn commit" } else { "txn rollback" })?;
                edits.iter().try_for_each(|(ns, key, val)| write!(f, " {ns} {key} {}", Word(val)))
            }
            Self::Cas(ns, key, hit, val) => {
                write!(f, "cas {ns} {key} {} {}", if *hit { "hit" } else { "miss" }, Word(val))
            }
            Self::Update(ns, key, val) => write!(f, "upd {ns} {key} {}", Word(val)),
            Self::Clear(ns) => write!(f, "clear {ns}"),
            Self::Drop(ns) => write!(f, "drop {ns}"),
            Self::Flush => f.write_str("flush"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Step => f.write_str("step"),
            Self::Compact => f.write_str("compact"),
            Self::Reopen => f.write_str("reopen"),
            Self::Kill => f.write_str("kill"),
            Self::Backup => f.write_str("backup"),
            Self::Verify => f.write_str("verify"),
            Self::Until(ns, key, val, ms) => write!(f, "until {ns} {key} {} {ms}", Word(val)),
            Self::Persist(ns, key) => write!(f, "persist {ns} {key}"),
            Self::Default(ns, ms) => write!(f, "default {ns} {ms}"),
            Self::Wait(ms, looks) => write!(f, "wait {ms} {}", if *looks { "look" } else { "blind" }),
        }
    }
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, op) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            op.fmt(f)?;
        }
        Ok(())
    }
}

struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the operation ends too early".to_string())
    }
    fn number<N: FromStr>(&mut self) -> Result<N, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    }
    fn flag(&mut self, yes: &str, no: &str) -> Result<bool, String> {
        match self.word()? {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            word => Err(format!("`{word}` is neither `{yes}` nor `{no}`")),
        }
    }
    fn maybe(&mut self) -> Result<Option<Val>, String> {
        let word = self.word()?;
        if word == "-" {
            return Ok(None);
        }
        let (len, tag) = word.split_once('#').ok_or_else(|| format!("`{word}` is not LEN#TAG"))?;
        match (len.parse(), tag.parse()) {
            (Ok(len), Ok(tag)) => Ok(Some(Val { len, tag })),
            _ => Err(format!("`{word}` is not LEN#TAG")),
        }
    }
    fn val(&mut self) -> Result<Val, String> {
        self.maybe()?.ok_or_else(|| "a value is missing".to_string())
    }
    fn more(&self) -> bool {
        self.0.clone().next().is_some()
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words(text.split_whitespace());
        let op = match words.word()? {
            "put" => Self::Put(words.number()?, words.number()?, words.val()?),
            "del" => Self::Del(words.number()?, words.number()?),
            "many" => {
                let ns = words.number()?;
                let mut records = Vec::new();
                while words.more() {
                    records.push((words.number()?, words.val()?));
                }
                Self::Many(ns, records)
            }
            "txn" => {
                let keep = words.flag("commit", "rollback")?;
                let mut edits = Vec::new();
                while words.more() {
                    edits.push((words.number()?, words.number()?, words.maybe()?));
                }
                Self::Txn(keep, edits)
            }
            "cas" => Self::Cas(words.number()?, words.number()?, words.flag("hit", "miss")?, words.maybe()?),
            "upd" => Self::Update(words.number()?, words.number()?, words.maybe()?),
            "clear" => Self::Clear(words.number()?),
            "drop" => Self::Drop(words.number()?),
            "flush" => Self::Flush,
            "checkpoint" => Self::Checkpoint,
            "step" => Self::Step,
            "compact" => Self::Compact,
            "reopen" => Self::Reopen,
            "kill" => Self::Kill,
            "backup" => Self::Backup,
            "verify" => Self::Verify,
            "until" => Self::Until(words.number()?, words.number()?, words.val()?, words.number()?),
            "persist" => Self::Persist(words.number()?, words.number()?),
            "default" => Self::Default(words.number()?, words.number()?),
            "wait" => Self::Wait(words.number()?, words.flag("look", "blind")?),
            word => return Err(format!("`{word}` is no operation")),
        };
        match words.0.next() {
            None => Ok(op),
            Some(word) => Err(format!("`{word}` is left over behind `{op}`")),
        }
    }
}

impl FromStr for Tape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split([';', '\n']).map(str::trim).filter(|op| !op.is_empty()).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_reads_back_from_its_text() {
        for seed in 0..20 {
            let times = Times::of(seed);
            let mix = Mix { ops: 400, keys: 40, namespaces: 3, value_len: 90, large_len: 9000, reopens: true, times };
            let tape = Tape::generate(&mut Rng::new(seed), &mix, &mut 0);
            assert_eq!(tape.to_string().parse(), Ok(tape));
        }
    }
}
