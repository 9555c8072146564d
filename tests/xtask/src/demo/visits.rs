//! A group of keys goes from host to host, with a record that stays, one that lives for an hour and one that expires on the way. Each host finds the first
//! two, deletes the group of the host before as one commit, and leaves a group of its own.

use super::journey::{composed, in_browser};
use super::native::Stage;
use crate::component::{built, host_command};
use crate::shell::{Outcome, Step, Stop, failed};
use std::fs;
use std::time::Duration;

/// What is to expire at the next host has so long to live.
const MOMENT: &str = "1s";

pub(super) fn run(stage: &Stage) -> Outcome {
    println!("\n=== records that expire, and groups, from host to host");
    let store = stage.folder.join("visits.pipkin");
    if store.exists() {
        fs::remove_file(&store)?;
    }
    let put =
        |what: &str, value: &str| stage.command().arg("put").path(&store).args([format!("visit.native.{what}").as_str(), value]);
    put("name", "native").run()?;
    put("session", "s").args(["--ttl", "1h"]).run()?;
    put("code", "c").args(["--ttl", MOMENT]).run()?;

    let program = built(&["-p", "pipkin-wasi-programs", "--bin", "visitor"])?.join("visitor.wasm");
    let host = || Ok::<_, Stop>(Step::new("").path(&host_command()?).arg("run"));
    let served = host()?.args(["--store", "visits", "--directory"]).path(&stage.folder).path(&program);
    served.args(["--", "relay", "visits", "native", "served"]).run()?;
    let alone = composed(&stage.folder, "visits.wasm", &program)?;
    let component = host()?.arg("--root").path(&stage.folder).path(&alone);
    component.args(["--", "relay", "visits.pipkin", "served", "component"]).run()?;
    let last = if in_browser(stage, &store, "visit")? { "browser" } else { "component" };

    std::thread::sleep(Duration::from_secs(1));
    let group = format!("visit.{last}");
    let left = stage.command().arg("scan").path(&store).args(["--group", &group]).output()?;
    println!("left of {group}: {left}");
    if left.lines().count() != 2 || left.contains(".code") {
        return failed("the name and the session should be left, and the code has expired");
    }
    let ttl = stage.command().arg("ttl").path(&store).arg(format!("{group}.session")).output()?;
    println!("the session has left: {ttl}");
    stage.command().arg("rm").path(&store).args(["--group", &group]).run()?;
    let count = stage.command().arg("scan").path(&store).arg("--count").output()?;
    if count.trim() != "0" {
        return failed(format!("{} records should not be there", count.trim()));
    }
    stage.command().arg("verify").path(&store).run()?;
    Ok(fs::remove_file(&store)?)
}
