//! Programs that are written from the specification alone, over another library of ciphers, agree with the engine.

use super::Check;
use crate::shell::{Outcome, Step};
use crate::tools::Tools;

pub(super) fn checks() -> Vec<Check> {
    let about = "sealed stores and their vectors, read and computed in Python from the specification alone";
    vec![Check::slow("format", about, format).installing(|tools| tools.python().map(drop))]
}

fn format(tools: &Tools) -> Outcome {
    let python = tools.python()?;
    Step::new(&python).arg("tests/vectors.py").run()?;
    Step::new(&python).arg("tests/sealed_reader.py").run()
}
