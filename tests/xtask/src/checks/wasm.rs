//! The two WebAssembly hosts.

use super::Check;
use crate::component::{WASMTIME_PACKAGES, built, host_command, shipped};
use crate::native::pipkin_command;
use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::sizes::is_nightly;
use crate::tools::Tools;
use std::sync::{Mutex, PoisonError};
use std::thread;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::slow("wasi", "the component as it is shipped under Wasmtime, and wasi:keyvalue out of the engine", wasi)
            .installing(Tools::node),
        Check::slow("wasi-javascript", "a guest in JavaScript counts its runs in a store of the host", wasi_javascript)
            .at_night(),
        Check::slow("web", "OPFS passes the storage suite in a worker of headless Chromium", web)
            .installing(Tools::chromium_driver),
        Check::slow("web-wasm-pack", "wasm-pack runs the same tests, and makes a package that works", web_wasm_pack).at_night(),
        Check::slow("web-npm", "the built npm package in Chromium: several tabs, kills, files from and to the command", web_npm),
        Check::slow(
            "web-bundlers",
            "an app with the packed npm package, from Vite, webpack, esbuild, rollup and none",
            web_bundlers,
        ),
        Check::slow(
            "web-firefox",
            "the built npm package in Firefox: several tabs, kills, files from and to the command",
            web_firefox,
        )
        .installing(Tools::firefox),
        Check::slow(
            "web-webkit",
            "the built npm package in WebKitGTK, which lacks what it needs: typed errors, and memory",
            web_webkit,
        )
        .at_night(),
    ]
}

/// What the tests build by themselves unless they find it built, beside the component. Each is one unit of code, which takes one processor.
const GUESTS: [&[&str]; 5] = [
    &["-p", "pipkin-wasi-guest", "--features", "encrypt"],
    &["-p", "pipkin-wasi-guest", "--features", "proof"],
    &["-p", "pipkin-wasi-guest", "--features", "spin"],
    &["-p", "pipkin-wasi-programs", "--bins"],
    &["-p", "pipkin-wasi-programs", "--bin", "keeper", "--features", "encrypt"],
];

/// The guests are built while the tests are compiled.
fn wasi(tools: &Tools) -> Outcome {
    tools.rust_targets(&["wasm32-wasip2"])?;
    let tests = Step::new(&format!("cargo test {WASMTIME_PACKAGES}"));
    let component = thread::scope(|scope| {
        let guests = scope.spawn(|| {
            GUESTS.iter().try_for_each(|guest| built(guest).map(drop))?;
            shipped(tools)
        });
        tests.clone().arg("--no-run").run()?;
        guests.join().unwrap_or_else(|_| failed("building the guests panicked"))
    })?;
    let page = std::fs::read_to_string(root().join("wasi-host/README.md"))?;
    is_as_large_as_said(std::fs::metadata(&component)?.len(), &page)?;
    tests.env("PIPKIN_COMPONENT", component.display().to_string()).run()
}

/// The page of the host names the size of the component in kB: 2 % more or less, or somebody has not looked at it.
fn is_as_large_as_said(bytes: u64, page: &str) -> Outcome {
    let said = page.split_once("The component has ").and_then(|(_, rest)| rest.split_once(" kB"));
    let said = said.and_then(|(number, _)| number.parse::<u64>().ok()).unwrap_or(0) * 1000;
    if bytes.abs_diff(said) * 50 > bytes {
        return failed(format!("the component has {} kB, and wasi-host/README.md says {}", bytes / 1000, said / 1000));
    }
    Ok(())
}

/// The program is built by what its lock file names, and run twice over a new folder.
fn wasi_javascript(tools: &Tools) -> Outcome {
    const FOLDER: &str = "wasi-host/programs/javascript";
    tools.node()?;
    tools.npm_packages(FOLDER)?;
    Step::new("npm run build").dir(FOLDER).run()?;
    let command = host_command()?;
    let data = target_dir().join("javascript");
    if data.exists() {
        std::fs::remove_dir_all(&data)?;
    }
    let counter = std::path::Path::new(FOLDER).join("counter.wasm");
    let step = Step::new("").path(&command).args(["run", "--directory"]).path(&data).path(&counter);
    for expected in ["run 1\n", "run 2\n"] {
        println!("$ {step}");
        let said = step.output()?;
        if said != expected {
            return failed(format!("the program said {said:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Where the npm package is built.
const NPM: &str = "web/npm";

/// Builds the npm package into its `dist`, once in a run of this program.
pub(crate) fn npm_package(tools: &Tools) -> Outcome {
    static IS_BUILT: Mutex<bool> = Mutex::new(false);
    let mut is_built = IS_BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_built {
        tools.npm_build()?;
        tools.npm_packages(NPM)?;
        Step::new("npm run build").dir(NPM).run()?;
        *is_built = true;
    }
    Ok(())
}

/// By what wasm-pack calls, which takes less time to build than wasm-pack.
fn web(tools: &Tools) -> Outcome {
    tools.wasm_bindgen()?;
    tools.chromium_driver()?;
    Step::new("cargo test -p pipkin-web --target wasm32-unknown-unknown")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", "wasm-bindgen-test-runner")
        .env("CHROMEDRIVER", "chromedriver")
        .env("WASM_BINDGEN_TEST_TIMEOUT", "300")
        .run()
}

fn web_wasm_pack(tools: &Tools) -> Outcome {
    tools.wasm_pack()?;
    Step::new("wasm-pack test --headless --chrome --mode no-install web").env("WASM_BINDGEN_TEST_TIMEOUT", "300").run()?;
    // The package that wasm-pack makes works, too.
    tools.node()?;
    Step::new("wasm-pack build --target web --mode no-install web").run()?;
    Step::new("node web/npm/test/wasm-pack.mjs").run()
}

fn web_firefox(tools: &Tools) -> Outcome {
    const FOLDER: &str = "web/npm/test/firefox";
    tools.firefox()?;
    npm_package(tools)?;
    tools.npm_packages(FOLDER)?;
    // By day what tells the browsers apart; the rest is what Chromium has been asked already.
    let tests = if is_nightly() { "npm test" } else { "npm run test:day" };
    Step::new(tests).dir(FOLDER).env("PIPKIN", pipkin_command()?).run()
}

fn web_npm(tools: &Tools) -> Outcome {
    tools.chromium()?;
    npm_package(tools)?;
    Step::new("npm test").dir(NPM).env("PIPKIN", pipkin_command()?).run()
}

/// The package as others install it, through the bundlers that they use.
fn web_bundlers(tools: &Tools) -> Outcome {
    const FOLDER: &str = "web/npm/test/bundlers";
    tools.chromium()?;
    npm_package(tools)?;
    tools.npm_packages(FOLDER)?;
    Step::new("npm test").dir(FOLDER).run()
}

fn web_webkit(tools: &Tools) -> Outcome {
    tools.webkit()?;
    npm_package(tools)?;
    Step::new("node --test --test-timeout=600000 web/npm/test/webkit/webkit.test.mjs").run()
}

#[cfg(test)]
mod tests {
    use super::is_as_large_as_said;

    #[test]
    fn a_component_that_has_grown_is_seen() {
        let page = "The component has 464 kB, 159 kB compressed";
        assert!(is_as_large_as_said(464_257, page).is_ok());
        assert!(is_as_large_as_said(480_000, page).is_err());
        assert!(is_as_large_as_said(464_257, "Nothing of it").is_err());
    }
}
