//! A target under a tracing emulator: how it starts, what it leaves, and why it may fail.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::image::Image;
use hone_diagnose::trace::{Left, TraceFolder};
use hone_host::uses::Uses;

use crate::arm::{Arm, Place};

/// Until its slowdown is known, a program under an emulator gets this many times its start-up time.
const TO_BE_READY: f64 = 20.0;

/// An arm whose program runs under the emulator. Its time limits are for a program that is `times` slower.
///
/// # Errors
/// Fails when the arm is not a program, or a path is not valid UTF-8.
pub fn around(
    mut arm: Arm,
    emulator: &Emulator,
    tracer: &Path,
    folder: &TraceFolder,
    wanted: TraceOptions,
    times: f64,
) -> Result<Arm> {
    let Place::Program(started) = &mut arm.place else { bail!("only a program can be emulated") };
    let own = std::path::absolute(&started.path)?;
    let (path, words) = emulator.around(tracer, folder, wanted, &own);
    let mut arguments = Vec::new();
    for word in words {
        let word =
            word.into_string().map_err(|word| anyhow::anyhow!("{} is not valid UTF-8", word.display()))?;
        arguments.push(word);
    }
    arguments.append(&mut started.args);
    (started.path, started.args) = (path, arguments);
    started.ready_timeout = started.ready_timeout.mul_f64(times.max(TO_BE_READY));
    started.stop_timeout = started.stop_timeout.mul_f64(times);
    Ok(arm)
}

/// An emulator runs only programs of this machine's architecture.
///
/// # Errors
/// Fails for any other file.
pub fn can_be_emulated(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("{} can't be read", program.display()))?;
    match Image::parse(&bytes) {
        Ok(_) => Ok(()),
        Err(fault) => bail!(
            "{} can't be traced: {fault}\n  next: if this is a script, name the program that it starts",
            program.display()
        ),
    }
}

/// Reads the file at the kernel's path. `None` if it was removed or can't be read.
pub fn image(path: &str) -> Option<Image> {
    Image::parse(&fs::read(path).ok()?).ok()
}

/// The traces.
///
/// # Errors
/// Fails if there are none.
pub fn left_of(
    folder: &TraceFolder,
    emulator: &Emulator,
    program: &Path,
    broke: Option<&str>,
) -> Result<Left> {
    let left = folder.left()?;
    let ran = |trace: &hone_diagnose::trace::Trace| {
        trace.threads.iter().any(|thread| !thread.transitions.is_empty())
    };
    match broke {
        _ if left.traces.iter().any(ran) => Ok(left),
        Some(why) => bail!("{why}"),
        None => bail!(
            "{} ran under {} ({}) but left no trace\n  next: check that this qemu has plugins; if the \
             program replaces itself by another one (exec), name that one",
            program.display(),
            emulator.receipt().path,
            emulator.receipt().version
        ),
    }
}

/// Processes of the target that no emulator runs. The kernel itself starts a program that replaces another one (exec).
pub fn running_outside(emulator: &Emulator, processes: &[u32]) -> Vec<String> {
    let program = |process: &u32| fs::read_link(format!("/proc/{process}/exe")).ok();
    let others = processes.iter().filter_map(program).filter(|path| !emulator.is(path));
    let mut names: Vec<String> = others.map(|path| path.display().to_string()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!("the target started processes that were not traced: {}", names.join(", "))]
}

/// Notes about what the traces leave out.
pub fn notes_of_traces(left: &Left) -> Vec<String> {
    let mut notes = Vec::new();
    let broken = left
        .traces
        .iter()
        .filter(|trace| trace.facts.get("unseen").is_some_and(|unseen| unseen != "0"))
        .count();
    if broken > 0 {
        notes.push(format!(
            "{broken} processes had more than 65,536 threads at a time; the trace omits the further threads"
        ));
    }
    if left.left_out > 0 {
        notes.push(format!(
            "{} processes were not traced: Hone keeps at most 2,000 processes and 2 GiB of traces",
            hone_format::count(left.left_out)
        ));
    }
    for (path, fault) in &left.broken {
        notes.push(format!("the trace {} can't be read: {fault}", path.display()));
    }
    notes
}

/// Why a program may fail under an emulator, and what to do then.
pub fn does_not_stand_it(error: &anyhow::Error, uses: Uses) -> String {
    let mut why = Vec::new();
    if uses.io_uring {
        why.push("it uses io_uring, which the emulator does not support");
    }
    if uses.aio {
        why.push("it uses the kernel's asynchronous I/O, which the emulator does not support");
    }
    let error = format!("{error:#}");
    if error.contains("unknown option 'plugin'") {
        return "this qemu takes no tracer: it was built without plugins, like that of Debian 13\n  next: \
                build one with plugins (three lines, in docs/diagnose.md), and name it in HONE_QEMU"
            .to_owned();
    }
    if uses.avx512 || error.contains("Illegal instruction") {
        why.push("the emulated core has no AVX-512, and perhaps lacks other instructions of this machine");
    }
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    format!(
        "the program fails under the emulator{why}: {error}\n  next: use hardware counters if the machine \
         has them (`hone diagnose --read`), or callgrind, which supports other system calls (`valgrind \
         --tool=callgrind --dump-instr=yes`, then `hone diagnose --read callgrind.out.PID`)"
    )
}
