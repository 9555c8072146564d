//! The third host: the npm package in headless Chromium, with the file on OPFS. And the page, for a person to look at.

use super::native::{Stage, json};
use super::plan::{Edit, Plan};
use crate::checks::wasm::npm_package;
use crate::shell::{Outcome, Step, Stop};
use crate::tools::{Tools, must_run};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// A person looks at it for as long as they like.
const DAY_MINUTES: u64 = 24 * 60;

pub(super) fn serve(port: Option<&str>) -> Outcome {
    npm_package(&Tools)?;
    Step::new("node examples/web/serve.mjs").args(port).limit_minutes(DAY_MINUTES).run()
}

/// Skips, and says so, where there is no browser to be had; with `CI=true` that is a failure.
pub(super) fn run(stage: &Stage, plan: &Plan) -> Outcome {
    println!("\n=== the npm package in headless Chromium, on its origin private file system");
    let tools = Tools;
    match tools.chromium().and_then(|()| npm_package(&tools)) {
        Err(Stop::CannotRun(why)) if !must_run() => {
            println!("skipped: {why}");
            return Ok(());
        }
        other => other?,
    }
    let changes = stage.folder.join("browser.ndjson");
    write(&changes, &plan.in_browser)?;
    let exported = stage.folder.join("browser.pipkin");
    let screenshot = stage.folder.join("browser.png");
    let files = [&stage.store, &changes, &exported, &screenshot];
    files.into_iter().fold(Step::new("node web/npm/test/carry.mjs"), |step, file| step.path(file)).run()?;
    fs::rename(&exported, &stage.store)?;
    stage.verb("verify").run()?;
    stage.compare("after changes in the browser", &plan.in_browser.state)?;
    println!("how the page looked with it: {}", screenshot.display());
    Ok(())
}

/// One change a line: a key, and its new value or null.
fn write(path: &Path, edit: &Edit) -> Outcome {
    let mut file = BufWriter::new(File::create(path)?);
    for (key, value) in &edit.changes {
        let value = value.as_deref().map_or_else(|| Ok("null".to_owned()), json)?;
        writeln!(file, "[{},{value}]", json(key)?)?;
    }
    Ok(file.flush()?)
}
