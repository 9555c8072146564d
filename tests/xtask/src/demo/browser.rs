//! The page that shows the store in a browser.

use crate::checks::wasm::npm_package;
use crate::shell::{Outcome, Step};
use crate::tools::Tools;

/// A person looks at it for as long as they like.
const DAY_MINUTES: u64 = 24 * 60;

pub(super) fn serve(port: Option<&str>) -> Outcome {
    npm_package(&Tools::default())?;
    Step::new("node examples/web/serve.mjs").args(port).limit_minutes(DAY_MINUTES).run()
}
