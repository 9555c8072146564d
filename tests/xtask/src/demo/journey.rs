//! A log of events goes from host to host, in a store of its own: each reads what the one before has appended, behind a cursor that is in the file, and
//! notes it, appends an event and acknowledges in one commit.

use super::native::Stage;
use crate::checks::wasm::npm_package;
use crate::component::{built, host_command};
use crate::shell::{Outcome, Step, Stop, failed, root};
use crate::tools::{Tools, must_run};
use std::fs;
use std::path::Path;

pub(super) fn run(stage: &Stage) -> Outcome {
    println!("\n=== a log of events, from host to host");
    let store = stage.folder.join("journey.pipkin");
    if store.exists() {
        fs::remove_file(&store)?;
    }
    let events = |verb: &str| stage.command().args(["events", verb]).path(&store).arg("journey");
    events("append").args(["letters", "Passed", "native", "--expect", "none"]).run()?;

    let program = built(&["-p", "pipkin-wasi-programs", "--bin", "chronicler"])?.join("chronicler.wasm");
    let host = || Ok::<_, Stop>(Step::new("").path(&host_command()?).arg("run"));
    let relay = |step: Step, name: &str, who: &str| step.args(["--", "relay", name, who]).run();
    let served = host()?.args(["--store", "journey", "--directory"]).path(&stage.folder).path(&program);
    relay(served, "journey", "served")?;
    let composed = host()?.arg("--root").path(&stage.folder).path(&composed(&stage.folder, "journey.wasm", &program)?);
    relay(composed, "journey.pipkin", "component")?;

    let (passed, last) = if in_browser(stage, &store, "relay")? {
        ("native served component ", "browser")
    } else {
        ("native served ", "component")
    };
    let note = stage.command().arg("get").path(&store).arg("journey").output()?;
    let left = events("follow").args(["--cursor", "traveller"]).output()?;
    println!("noted on the way: {note}\nbehind the cursor: {left}");
    if note.trim_end() != passed.trim_end() {
        return failed(format!("the note should be {passed:?}"));
    }
    if left.lines().count() != 1 || !left.contains(&format!("\"payload\":\"{last}\"")) {
        return failed(format!("only the event of {last} should be left"));
    }
    stage.command().arg("verify").path(&store).run()?;
    Ok(fs::remove_file(&store)?)
}

/// The program with the component in it, as a file of that name.
pub(super) fn composed(folder: &Path, name: &str, program: &Path) -> Outcome<std::path::PathBuf> {
    let component = built(&["-p", "pipkin-wasi-guest"])?.join("pipkin_wasi_guest.wasm");
    let out = folder.join(name);
    let composer = Step::new("cargo run --quiet -p pipkin-wasi-composer --target-dir").path(&root().join("target/guest"));
    composer.arg("--").path(program).path(&component).path(&out).run()?;
    Ok(out)
}

/// Takes the store through a browser, by the script of that name. False where there is no browser to be had; with `CI=true` that is a failure.
pub(super) fn in_browser(stage: &Stage, store: &Path, script: &str) -> Outcome<bool> {
    let tools = Tools;
    match tools.chromium().and_then(|()| npm_package(&tools)) {
        Err(Stop::CannotRun(why)) if !must_run() => {
            println!("skipped: {why}");
            return Ok(false);
        }
        other => other?,
    }
    let exported = stage.folder.join(format!("{script}.pipkin"));
    Step::new(&format!("node web/npm/test/{script}.mjs")).path(store).path(&exported).run()?;
    fs::rename(&exported, store)?;
    Ok(true)
}
