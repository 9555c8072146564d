//! A sealed store goes from host to host with its key: each finds what the one before has left. The program under Wasmtime never sees the key, and nothing in
//! the file tells what is in it.

use super::journey::in_browser;
use super::native::Stage;
use crate::component::{built, host_command};
use crate::shell::{Outcome, Step, failed};
use std::fs;

/// Text that each host writes, as a part of a key.
const SECRET: &str = "visit.";

pub(super) fn run(stage: &Stage) -> Outcome {
    println!("\n=== a sealed store, from host to host");
    let (store, key) = (stage.folder.join("secrets.pipkin"), stage.folder.join("secrets.key"));
    if store.exists() {
        fs::remove_file(&store)?;
    }
    fs::write(&key, "07".repeat(32))?;
    let pipkin = |verb: &str| stage.command().arg(verb).arg("--key-file").path(&key).path(&store);
    let put = |what: &str, value: &str| pipkin("put").args([format!("{SECRET}native.{what}").as_str(), value]);
    put("name", "native").run()?;
    put("session", "s").args(["--ttl", "1h"]).run()?;
    put("code", "c").args(["--ttl", "1s"]).run()?;

    let program = built(&["-p", "pipkin-wasi-programs", "--bin", "visitor"])?.join("visitor.wasm");
    let host = Step::new("").path(&host_command()?).args(["run", "--key-file"]).path(&key);
    let served = host.args(["--store", "secrets", "--directory"]).path(&stage.folder).path(&program);
    served.args(["--", "relay", "secrets", "native", "served"]).run()?;

    let last = if in_browser(stage, &store, "sealed")? { "browser" } else { "served" };
    let left = pipkin("get").arg(format!("{SECRET}{last}.name")).output()?;
    println!("the last host was {left}");
    if left.trim() != last {
        return failed(format!("{last} should have left its name"));
    }
    if stage.command().arg("get").path(&store).arg(format!("{SECRET}{last}.name")).succeeds() {
        return failed("the sealed store opens without its key");
    }
    let bytes = fs::read(&store)?;
    if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
        return failed("the file of the sealed store tells a key");
    }
    stage.command().arg("verify").path(&store).run()?;
    pipkin("verify").run()?;
    fs::remove_file(&key)?;
    Ok(fs::remove_file(&store)?)
}
