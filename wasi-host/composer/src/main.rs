//! `pipkin-wasi-composer PROGRAM COMPONENT OUT`: one component of a program that imports a store and of the component that has one.
//!
//! What comes out imports files, a clock and randomness, and nothing of a store: any host of WASI 0.2 runs it over a folder. `wac plug` does
//! the same.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, plug};

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [program, component, out] = paths.as_slice() else {
        eprintln!(
            "usage: pipkin-wasi-composer PROGRAM COMPONENT OUT\n\nPROGRAM imports wasi:keyvalue or pipkin:kv, COMPONENT exports them."
        );
        return ExitCode::from(2);
    };
    match compose(program, component).and_then(|bytes| Ok(std::fs::write(out, bytes)?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} and {} cannot be composed: {error}", program.display(), component.display());
            ExitCode::FAILURE
        }
    }
}

fn compose(program: &Path, component: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut graph = CompositionGraph::new();
    let mut package = |name, path| -> Result<_, Box<dyn Error>> {
        let package = Package::from_file(name, None, path, graph.types_mut())?;
        Ok(graph.register_package(package)?)
    };
    let (socket, component) = (package("program", program)?, package("component", component)?);
    plug(&mut graph, vec![component], socket)?;
    Ok(graph.encode(EncodeOptions::default())?)
}
