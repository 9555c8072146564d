//! The npm package as somebody installs it.

use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::tools::Tools;
use std::fs;

const NPM: &str = "web/npm";

/// Runs in Node: the store is in memory there.
const PROGRAM: &str = r#"import assert from "node:assert/strict";
import { open } from "pipkin";

const db = await open("app", { memory: true });
await db.set("color", "green");
await db.setMany([["a", "1"], ["b", "2"]]);
assert.equal(await db.text().get("color"), "green");
assert.equal(await db.count(), 3);
await db.close();
console.log("3 records written and read");
"#;

/// The second call must be refused: types that allow everything check nothing.
const TYPED: &str = r#"import { open, type Store } from "pipkin";

export async function color(db: Store): Promise<string | undefined> {
  // @ts-expect-error a number is no key
  await db.get(7);
  return db.text().get("color");
}
export const opened: Promise<Store> = open("app", { memory: true });
"#;

const TYPESCRIPT: &str = r#"{
  "compilerOptions": { "strict": true, "noEmit": true, "target": "es2022", "module": "nodenext", "types": [], "lib": ["es2023", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"] },
  "files": ["typed.ts"]
}
"#;

/// Packs it, which builds it, and installs the tarball into a new app.
pub(super) fn check(tools: &Tools) -> Outcome {
    tools.npm_build()?;
    tools.npm_packages(NPM)?;
    let app = target_dir().join("rehearsal/app");
    let _ = fs::remove_dir_all(&app);
    fs::create_dir_all(&app)?;
    Step::new("npm pack --pack-destination").arg(app.display().to_string()).dir(NPM).run()?;
    let tarball = fs::read_dir(&app)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let Some(tarball) = tarball.into_iter().find(|name| name.ends_with(".tgz")) else {
        return failed("`npm pack` left no tarball");
    };
    fs::write(app.join("package.json"), "{ \"name\": \"app\", \"private\": true, \"type\": \"module\" }\n")?;
    fs::write(app.join("program.js"), PROGRAM)?;
    fs::write(app.join("typed.ts"), TYPED)?;
    fs::write(app.join("tsconfig.json"), TYPESCRIPT)?;
    Step::new("npm install --no-audit --no-fund --offline").arg(format!("./{tarball}")).dir(app.clone()).run()?;
    Step::new("node program.js").dir(app.clone()).run()?;
    let compiler = root().join(NPM).join("node_modules/typescript/bin/tsc");
    Step::new("node").arg(compiler.display().to_string()).args(["--project", "."]).dir(app.clone()).run()?;
    for wanted in ["README.md", "dist/LICENSE-MIT", "dist/LICENSE-APACHE"] {
        if !fs::exists(app.join("node_modules/pipkin").join(wanted))? {
            return failed(format!("the npm package lacks {wanted}"));
        }
    }
    Ok(())
}
