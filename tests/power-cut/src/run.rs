//! The command: the run outside of its namespaces, the run inside, and the children.

use crate::child::{SESSION, Task, session};
use crate::life::{CUTS, Counts, LIVES, chain, flush_without_sync, forgetful_device, hold};
use crate::machine::{System, loop_devices, missing, own_folder, own_namespaces, rights_missing, sweep};
use pipkin_tests::parallel::for_each;
use pipkin_tests::quota::{Quota, env_u64};
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HELP: &str = "\
pipkin-power-cut [ext4] [xfs] [btrfs]
    Cuts the power under these file systems, or under all of them. As root.

pipkin-power-cut able
    Prints the file systems under which it can do so here, and on standard error why not under the others.

    PIPKIN_CUTS=1000          so many cuts, instead of 50
    PIPKIN_SEED=N             the chain of this seed alone
    PIPKIN_SYSTEM=NAME        under this file system, with PIPKIN_SEED";

/// Cuts that the normal run owes.
const CUTS_LEAST: u64 = 50;
/// How long the kernel may take to give back what a killed run had.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(20);

pub(crate) fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [SESSION, ..] => {
            Task::from_args(&args).ok_or_else(|| "a session without its task".to_owned()).and_then(|task| session(&task))
        }
        ["inside", run, systems @ ..] => inside(run, systems),
        ["hold", run, system] => run_of(run).and_then(|run| {
            let folder = own_folder().map_err(|error| error.to_string())?;
            hold(&folder, run, one_system(system)?).map_err(|bad| bad.to_string())
        }),
        ["able"] => able(),
        ["--help" | "-h" | "help"] => {
            println!("{HELP}");
            Ok(())
        }
        systems => outside(systems),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run_of(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is no process id"))
}

fn one_system(name: &str) -> Result<System, String> {
    System::ALL.into_iter().find(|system| system.name() == name).ok_or_else(|| format!("there is no {name} here\n\n{HELP}"))
}

fn systems(names: &[&str]) -> Result<Vec<System>, String> {
    if names.is_empty() { Ok(System::ALL.to_vec()) } else { names.iter().map(|name| one_system(name)).collect() }
}

fn able() -> Result<(), String> {
    if let Some(what) = rights_missing() {
        return Err(what);
    }
    for system in System::ALL {
        match missing(system) {
            None => println!("{}", system.name()),
            Some(what) => eprintln!("{what}"),
        }
    }
    Ok(())
}

/// Looks whether the machine has what the suite needs and whether a killed run gives everything back, then becomes the run inside.
fn outside(names: &[&str]) -> Result<(), String> {
    let systems = systems(names)?;
    if let Some(what) = rights_missing().or_else(|| systems.iter().find_map(|&system| missing(system))) {
        return Err(what);
    }
    sweep();
    systems.iter().try_for_each(|&system| killed_run(system))?;
    let mut args = vec!["inside".to_owned(), std::process::id().to_string()];
    args.extend(systems.iter().map(|system| system.name().to_owned()));
    let mut command = own_namespaces(&args).map_err(|error| error.to_string())?;
    // Only comes back if it cannot be started.
    Err(format!("unshare: {}", command.exec()))
}

/// Kills a run under load: its mounts and its loop device go with it.
fn killed_run(system: System) -> Result<(), String> {
    let run = std::process::id();
    let said = |error: std::io::Error| format!("a run to be killed: {error}");
    let mut command = own_namespaces(&["hold".to_owned(), run.to_string(), system.name().to_owned()]).map_err(said)?;
    let mut held = command.stdin(Stdio::null()).spawn().map_err(said)?;
    let left = || loop_devices().iter().any(|(_, of)| *of == run);
    let started = Instant::now();
    while !left() && started.elapsed() < GIVEN_BACK_MAX && held.try_wait().map_err(said)?.is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let was_held = left();
    std::thread::sleep(Duration::from_millis(200));
    held.kill().map_err(said)?;
    held.wait().map_err(said)?;
    if !was_held {
        return Err(format!("a run that was to be killed did not hold a disk with {}", system.name()));
    }
    let started = Instant::now();
    let mounted = || std::fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains("pipkin-power-cut"));
    while left() || mounted() {
        if started.elapsed() > GIVEN_BACK_MAX {
            return Err(format!("a killed run leaves a loop device or a mount of {}", system.name()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("a killed run gives {} and its loop device back within {:.2} s", system.name(), started.elapsed().as_secs_f64());
    Ok(())
}

fn inside(run: &str, names: &[&str]) -> Result<(), String> {
    let (run, systems) = (run_of(run)?, systems(names)?);
    let folder = own_folder().map_err(|error| format!("a folder of the run's own: {error}"))?;
    if std::env::var_os("PIPKIN_SEED").is_some() {
        let name = std::env::var("PIPKIN_SYSTEM").unwrap_or_else(|_| systems[0].name().to_owned());
        let quota = Quota::new("power cuts", 1);
        let counts = Counts::default();
        let seed = env_u64("PIPKIN_SEED", 0);
        chain(&folder, run, 0, one_system(&name)?, seed, &quota, &counts).map_err(|failure| failure.to_string())?;
        quota.finish(&counts);
        return Ok(());
    }
    controls(&folder, run, &systems)?;
    let least = env_u64("PIPKIN_CUTS", CUTS_LEAST);
    let chains = least.div_ceil(LIVES * CUTS * systems.len() as u64) * systems.len() as u64;
    let quota = Quota::new("power cuts", least);
    let counts = Counts::default();
    let each: Vec<_> = systems.iter().map(|_| Quota::new("", 0)).collect();
    for_each(0..chains, |number, watch| {
        let place = number as usize % systems.len();
        let seed = number + 1;
        watch.begin(format!("PIPKIN_SEED={seed} PIPKIN_SYSTEM={}", systems[place].name()));
        let before = Quota::new("", 0);
        let outcome = chain(&folder, run, number, systems[place], seed, &before, &counts);
        quota.add(before.count());
        each[place].add(before.count());
        outcome
    })
    .map_err(|failure| failure.to_string())?;
    let refused = counts.refused.load(Ordering::Relaxed);
    if refused * 10 > quota.count() {
        return Err(format!("{refused} of {} cuts left no file system: too few are tested", quota.count() + refused));
    }
    let shares: Vec<String> =
        systems.iter().zip(&each).map(|(system, quota)| format!("{} {}", system.name(), quota.count())).collect();
    quota.finish(format_args!("{}; {counts}", shares.join(", ")));
    Ok(())
}

/// What must be caught, is.
fn controls(folder: &std::path::Path, run: u32, systems: &[System]) -> Result<(), String> {
    let started = Instant::now();
    let caught = Mutex::new(Vec::new());
    let bugs: &[bool] = if cfg!(feature = "planted-bugs") { &[false, true] } else { &[false] };
    let jobs = systems.iter().enumerate().flat_map(|(place, &system)| bugs.iter().map(move |&bug| (place, system, bug)));
    for_each(jobs, |(place, system, bug), watch| {
        watch.begin(format!("a control on {}", system.name()));
        let number = 1_000_000 + place as u64 * 2 + u64::from(bug);
        let what = if bug {
            flush_without_sync(folder, run, number, system, 1)?
        } else {
            forgetful_device(folder, run, number, system, 1)?
        };
        let control = if bug { "a flush that does not sync" } else { "a device that forgets its flushes" };
        println!("control: {control} is caught on {what}");
        caught.lock().unwrap().push(what);
        Ok(())
    })
    .map_err(|failure| failure.to_string())?;
    println!(
        "controls: {} of {} caught in {:.1} s",
        caught.lock().unwrap().len(),
        systems.len() * bugs.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
