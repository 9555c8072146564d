//! Programs that import a store, run with the provider or composed with the component.

#[path = "ctx.rs"]
mod ctx;

use ctx::{Ctx, view};
use pipkin::Db;
use pipkin_wasi_host::keyvalue::{self, SyncPolicy, WasiKeyValueCtx};
use std::path::Path;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::p2;
use wasmtime_wasi::p2::bindings::sync::Command;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

/// A program, compiled.
pub(crate) struct Program {
    engine: Engine,
    component: Component,
}

impl Program {
    pub(crate) fn new(path: &Path) -> Self {
        Self::of(&std::fs::read(path).unwrap())
    }

    pub(crate) fn of(wasm: &[u8]) -> Self {
        let engine = pipkin_wasi_host::engine().unwrap();
        let component = Component::new(&engine, wasm).unwrap();
        Self { engine, component }
    }

    /// Which text of the standard it was built for.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn speaks_spin(&self) -> bool {
        keyvalue::speaks_spin(&self.component)
    }

    /// Runs it with stores of the host. What it printed; on failure with what it said of that.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn run(&self, keyvalue: &WasiKeyValueCtx, args: &[&str]) -> Result<String, String> {
        self.start(keyvalue.clone(), WasiCtx::builder(), args, keyvalue::speaks_spin(&self.component), None)
    }

    /// The same with the text of the standard that is asked for, which may not be its own.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn run_as(&self, keyvalue: &WasiKeyValueCtx, spin: bool) -> Result<String, String> {
        self.start(keyvalue.clone(), WasiCtx::builder(), &[], spin, None)
    }

    /// The same with input, and a limit to what it may hand over in a call.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn run_with_fuel(
        &self,
        keyvalue: &WasiKeyValueCtx,
        args: &[&str],
        input: &str,
        fuel: usize,
    ) -> Result<String, String> {
        let mut wasi = WasiCtx::builder();
        wasi.stdin(MemoryInputPipe::new(input.to_owned()));
        self.start(keyvalue.clone(), wasi, args, keyvalue::speaks_spin(&self.component), Some(fuel))
    }

    /// Runs it with a directory, and nothing else.
    pub(crate) fn run_in(&self, directory: &Path, args: &[&str]) -> Result<String, String> {
        let mut wasi = WasiCtx::builder();
        wasi.allow_blocking_current_thread(true);
        wasi.preopened_dir(directory, "/", FsPerms::ReadWrite).unwrap();
        self.start(WasiKeyValueCtx::builder().build(), wasi, args, false, None)
    }

    fn start(
        &self,
        keyvalue: WasiKeyValueCtx,
        mut wasi: WasiCtxBuilder,
        args: &[&str],
        spin: bool,
        fuel: Option<usize>,
    ) -> Result<String, String> {
        let mut linker = Linker::<Ctx>::new(&self.engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
        if spin {
            keyvalue::add_spin_to_linker(&mut linker, view).unwrap();
        } else {
            keyvalue::add_to_linker(&mut linker, view).unwrap();
        }
        keyvalue::add_client_to_linker(&mut linker, view).unwrap();
        keyvalue::add_admin_to_linker(&mut linker, view).unwrap();
        let (out, words) = (MemoryOutputPipe::new(1 << 20), MemoryOutputPipe::new(1 << 20));
        let wasi = wasi.arg("program").args(args).stdout(out.clone()).stderr(words.clone()).build();
        let mut store = Store::new(&self.engine, Ctx { wasi, table: ResourceTable::new(), keyvalue });
        if let Some(fuel) = fuel {
            store.set_hostcall_fuel(fuel);
        }
        let ended = Command::instantiate(&mut store, &self.component, &linker)
            .and_then(|command| command.wasi_cli_run().call_run(&mut store));
        let text = |pipe: MemoryOutputPipe| String::from_utf8(pipe.contents().to_vec()).unwrap();
        match ended {
            Ok(Ok(())) => Ok(text(out)),
            failed => Err(format!("{}{}{failed:?}", text(out), text(words))),
        }
    }

    /// Runs it in a task of a runtime of one thread, and counts how often another task of that thread runs meanwhile, of 200 times a second.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn ticks_while(&self, keyvalue: &WasiKeyValueCtx, args: &[&str], leaves_the_thread: bool) -> u32 {
        let mut ticks = 0;
        let tick = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                ticks += 1;
            }
        };
        let add = if leaves_the_thread { keyvalue::add_to_linker_async } else { keyvalue::add_to_linker };
        self.beside(keyvalue, args, |linker| add(linker, view), tick);
        ticks
    }

    /// Runs it in a task of a runtime of one thread, with `pipkin:kv` by functions that leave the thread, beside another task of it.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn run_beside(&self, keyvalue: &WasiKeyValueCtx, args: &[&str], other: impl Future<Output = ()>) {
        let add = |linker: &mut Linker<Ctx>| {
            keyvalue::add_client_to_linker_async(linker, view)?;
            keyvalue::add_admin_to_linker_async(linker, view)
        };
        self.beside(keyvalue, args, add, other);
    }

    /// Until it, or the other task, has ended.
    fn beside(
        &self,
        keyvalue: &WasiKeyValueCtx,
        args: &[&str],
        add: impl FnOnce(&mut Linker<Ctx>) -> wasmtime::Result<()>,
        other: impl Future<Output = ()>,
    ) {
        let mut linker = Linker::<Ctx>::new(&self.engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        add(&mut linker).unwrap();
        let wasi = WasiCtx::builder().arg("program").args(args).inherit_stderr().build();
        let mut store = Store::new(&self.engine, Ctx { wasi, table: ResourceTable::new(), keyvalue: keyvalue.clone() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let run = async {
                let command = p2::bindings::Command::instantiate_async(&mut store, &self.component, &linker).await.unwrap();
                command.wasi_cli_run().call_run(&mut store).await.unwrap().unwrap();
            };
            tokio::select! {
                () = run => {}
                () = other => {}
            }
        });
    }
}

/// A context with the store `s` of this folder, which the test has open itself, and with other ones.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn shared(folder: &Path, others: &[&str]) -> (Db, WasiKeyValueCtx) {
    let db = Db::open(folder.join("s.pipkin")).unwrap();
    let context = WasiKeyValueCtx::builder().directory(folder).engine("s", db.clone(), SyncPolicy::Manual);
    (db, others.iter().fold(context, |context, name| context.store(*name)).build())
}
