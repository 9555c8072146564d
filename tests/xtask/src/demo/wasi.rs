//! The second host: the same file, changed by the WebAssembly component in its sandbox, then by a program that knows nothing but the standard
//! `wasi:keyvalue`. What they leave is held against the source natively.

use super::native::{Stage, tell_rate};
use super::plan::{Edit, Plan};
use super::watch::Watcher;
use crate::component::{built, host_command};
use crate::shell::{Outcome, Step};
use crate::tools::Tools;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) fn run(stage: &Stage, plan: &Plan) -> Outcome {
    println!("\n=== the WebAssembly component under Wasmtime, and a program over wasi:keyvalue");
    Tools.rust_targets(&["wasm32-wasip2"])?;
    let component = built(&["-p", "pipkin-wasi-guest"])?.join("pipkin_wasi_guest.wasm");
    let editor = built(&["-p", "pipkin-wasi-programs", "--bin", "editor"])?.join("editor.wasm");
    // What the component does is optimised in any case; an optimised Wasmtime would take three times as long to build.
    let program = host_command()?;
    println!("the component has {} bytes", fs::metadata(&component)?.len());

    let mut watcher = Watcher::start(&stage.verb("watch"))?;
    println!("\n=== changed in the component");
    let command = Step::new("").path(&program).arg("--component").path(&component).arg("edit").path(&stage.store);
    change(stage, "component.tsv", &plan.in_component, &command)?;
    watcher.tells(plan.in_component.told())?;
    Step::new("").path(&program).arg("--component").path(&component).arg("verify").path(&stage.store).run()?;
    stage.compare("after changes in the component", &plan.in_component.state)?;

    println!("\n=== changed by a program over wasi:keyvalue");
    let name = stage.store.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let command = Step::new("").path(&program).args(["run", "--store", &name, "--directory"]).path(&stage.folder);
    let command = command.path(&editor).args(["--", &name]);
    change(stage, "program.tsv", &plan.by_program, &command)?;
    // The program makes sets and removals in calls of their own, and counts them in the store meanwhile.
    watcher.tells_in_some_order(plan.by_program.told(), "editor: changes")?;
    watcher.tells_nothing_more()?;
    stage.verb("verify").run()?;
    stage.compare("after changes by the program", &plan.by_program.state)
}

/// Writes the changes down and has them made.
fn change(stage: &Stage, file: &str, edit: &Edit, command: &Step) -> Outcome {
    let path = write(&stage.folder.join(file), edit)?;
    let start = Instant::now();
    command.clone().stdin(&path).run()?;
    tell_rate("changed", edit.changes.len(), start.elapsed());
    Ok(())
}

fn write(path: &Path, edit: &Edit) -> Outcome<PathBuf> {
    let mut file = BufWriter::new(File::create(path)?);
    for (key, value) in &edit.changes {
        match value {
            Some(value) => writeln!(file, "{}\t{}", key.as_bytes().escape_ascii(), value.as_bytes().escape_ascii())?,
            None => writeln!(file, "{}", key.as_bytes().escape_ascii())?,
        }
    }
    file.flush()?;
    Ok(path.to_owned())
}
