//! A folder to work in and the binary to run there.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The store of every test.
pub(crate) const STORE: &str = "test.pipkin";

pub(crate) struct Folder(TempDir);

/// What a run of the command left: exit code, stdout, stderr.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The command in this folder.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipkin"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Run {
        let output = self.command(args).output().unwrap();
        Run { code: output.status.code().unwrap_or(-1), out: output.stdout, err: String::from_utf8(output.stderr).unwrap() }
    }

    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let stdin = stdin.to_vec();
        // The command may end before it has read everything.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run { code: output.status.code().unwrap_or(-1), out: output.stdout, err: String::from_utf8(output.stderr).unwrap() }
    }

    /// Runs and expects success; returns stdout.
    pub(crate) fn ok(&self, args: &[impl AsRef<OsStr>]) -> Vec<u8> {
        self.run(args).success().out
    }

    /// Runs with `--json` and expects success; returns the object.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        let out = self.ok(&args);
        serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", String::from_utf8_lossy(&out)))
    }

    /// Fills the store with records that are hard on text formats.
    pub(crate) fn fill(&self, store: &str) -> Records {
        let records = awkward_records();
        for (key, value) in &records {
            let run = self.run_with_stdin(&["put", store, "--hex", &hex(key), "-"], value);
            run.success();
        }
        records
    }

    pub(crate) fn digest(&self, store: &str) -> String {
        self.json(&["digest", store])["sha256"].as_str().unwrap().to_owned()
    }
}

impl Run {
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        let out: String = String::from_utf8_lossy(&self.out).chars().take(1000).collect();
        assert_eq!(self.code, code, "stdout: {out}\nstderr: {}", self.err);
        self
    }

    /// The error object that `--json` puts on stderr.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let object: Value = serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err));
        assert_eq!(object["error"]["exit_code"], self.code);
        object["error"].clone()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Empty keys and values, separators, quotes, line breaks, control characters, and bytes that are no text.
pub(crate) fn awkward_records() -> Records {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let texts: [(&[u8], &[u8]); 12] = [
        (b"plain", b"text"),
        (b"", b"of the empty key"),
        (b"no value", b""),
        (b"comma,\"quote\"", b"a,b\n\"c\"\r\n"),
        (b"line\nbreak\r", b"\n"),
        (b"tab\tkey", b"\t"),
        (b"back\\slash", b"\\n"),
        (b"\xff\xfe", b"\x80"),
        (b"nul\0", b"\0"),
        ("\u{e4}\u{1f600}".as_bytes(), "\u{feff}mark".as_bytes()),
        (b" space ", b" "),
        (b"{\"key\":1}", b"{\"value\":[1,2]}"),
    ];
    let mut records: Records = texts.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    records.insert(all_bytes.clone(), all_bytes);
    records
}

/// The digest as `pipkin digest --help` defines it, computed without the store.
pub(crate) fn digest_of(records: &Records) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in records {
        for bytes in [key, value] {
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    }
    hex(hasher.finalize().as_slice())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
