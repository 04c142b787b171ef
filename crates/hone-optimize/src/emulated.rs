//! Runs a program under a tracing emulator with the usual load. The trace serves a diagnosis, and is a profile that needs no counters,
//! no branch records and no second build.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_binary::capture::SlowDown;
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::image::Image;
use hone_diagnose::trace::{Left, TraceFolder};
use hone_host::uses::{self, Uses};
use hone_record::{Engine, Workload};
use hone_tool::interrupt;

use crate::job::Job;
use crate::outcome::short;
use hone_experiment::arm::{Arm, Place};
use hone_experiment::slow;

/// Until its slowdown is known, a program under an emulator gets this many times its start-up time.
const TO_BE_READY: f64 = 20.0;

/// A program that was traced while it was loaded.
pub struct Traced {
    /// The files that its processes left.
    pub left: Left,
    /// The load, in words.
    pub words: String,
    /// Completed operations or requests of its load. `None` if it has no load, or did not finish.
    pub operations: Option<u64>,
    /// The user share of its CPU time outside the emulator, under the same load.
    pub user_share: Option<f64>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Why it did not finish. The traces then end some seconds before that.
    pub broke: Option<String>,
}

/// A program outside the emulator.
struct Native {
    user_share: Option<f64>,
    uses: Uses,
}

impl Job<'_> {
    /// Runs a program under the emulator with a load, at rates that it can sustain. The trace excludes the time before the load, unless
    /// the program exits by itself. The tracers' files stay in `to`.
    ///
    /// # Errors
    /// Fails without an emulator, and when the program fails under it. The error then names the features that the emulator lacks.
    pub fn traced(
        &self,
        name: &str,
        program: &Path,
        workload: &Workload,
        wanted: TraceOptions,
        to: &Path,
    ) -> Result<Traced> {
        let emulator = Emulator::find()
            .map_err(|error| crate::outcome::Left(crate::outcome::in_a_line(&error.into())))?;
        can_be_emulated(program)?;
        let native = self.native(name, program, workload)?;
        let mut notes = notes_of(native.uses);
        self.progress.detail(&format!("{name} under {}", emulator.receipt().name));
        let plain = self.arm(name, program, BTreeMap::new());
        let trial = TraceFolder::create(&self.folder.scratch().join("trial"))?;
        let arm =
            |folder: &TraceFolder, slow| self.emulated_arm(&emulator, name, program, folder, wanted, slow);
        let slow = slow::slow_down(&self.bench(), &plain, &arm(&trial, None)?, workload)?;
        fs::remove_dir_all(trial.path())
            .with_context(|| format!("{} can't be removed", trial.path().display()))?;
        let load = fitted(workload, slow);
        let folder = TraceFolder::create(to)?;
        let mut outside = Vec::new();
        let done = match &load.engine {
            Engine::Exits { .. } => {
                self.bench().alone(&arm(&folder, slow)?, &load).map(|window| window.facts.acked_requests)
            }
            _ => {
                let begin =
                    |running: &hone_experiment::arm::Running| Ok(folder.forget(&running.processes())?);
                let end = |_, processes: &[u32]| {
                    outside = running_outside(&emulator, processes);
                    folder.save(processes)?;
                    Ok(())
                };
                let watched = self.bench().watched(&arm(&folder, slow)?, &load, Duration::ZERO, begin, end);
                watched.map(|watched| watched.acked)
            }
        };
        let (acked, broke) = match done {
            Ok(acked) => (Some(acked), None),
            Err(error) if interrupt::requested() => return Err(error),
            Err(error) => (None, Some(does_not_stand_it(&error, native.uses))),
        };
        let left = left_of(&folder, &emulator, program, broke.as_deref())?;
        notes.extend(outside);
        notes.extend(notes_of_traces(&left));
        let what = if load.engine.operations().is_some() { "operations" } else { "requests" };
        let operations = acked;
        let acked = acked.map_or_else(|| "some".to_owned(), hone_format::count);
        let words = format!(
            "{acked} {what} of workload `{}` under {}{}",
            workload.name,
            emulator.receipt().version,
            slow::words(workload, slow)
        );
        Ok(Traced { left, words, operations, user_share: native.user_share, notes, broke })
    }

    /// Loads the unchanged program for a short time, to find the kernel's share of its CPU time, which no emulator sees,
    /// and the features that it uses.
    fn native(&self, name: &str, program: &Path, workload: &Workload) -> Result<Native> {
        let arm = self.arm(name, program, BTreeMap::new());
        let load = short(workload);
        if matches!(load.engine, Engine::Exits { .. }) {
            let window = self.bench().alone(&arm, &load)?;
            let user_share = window.facts.target_cpu.and_then(|cpu| cpu.user_share);
            return Ok(Native { user_share, uses: Uses::default() });
        }
        let mut found = Uses::default();
        let end = |(), processes: &[u32]| {
            found = processes.iter().map(|&process| uses::used_features(process)).fold(found, Uses::and);
            Ok(())
        };
        let watched = self.bench().watched(&arm, &load, Duration::ZERO, |_| Ok(()), end)?;
        Ok(Native { user_share: watched.first.facts.target_cpu.and_then(|cpu| cpu.user_share), uses: found })
    }

    fn emulated_arm(
        &self,
        emulator: &Emulator,
        name: &str,
        program: &Path,
        folder: &TraceFolder,
        wanted: TraceOptions,
        slow: Option<SlowDown>,
    ) -> Result<Arm> {
        let mut arm = self.arm(&format!("{name}-emulated"), program, BTreeMap::new());
        let Place::Program(started) = &mut arm.place else { bail!("only a program can be emulated") };
        let tracer = emulator.tracer(&self.folder.join("aids"))?;
        let own = std::path::absolute(&started.path)?;
        let (path, words) = emulator.around(&tracer, folder, wanted, &own);
        let mut arguments = Vec::new();
        for word in words {
            let word = word
                .into_string()
                .map_err(|word| anyhow::anyhow!("{} is not valid UTF-8", word.display()))?;
            arguments.push(word);
        }
        arguments.append(&mut started.args);
        (started.path, started.args) = (path, arguments);
        let times = slow.map_or(1.0, SlowDown::factor);
        started.ready_timeout = started.ready_timeout.mul_f64(times.max(TO_BE_READY));
        started.stop_timeout = started.stop_timeout.mul_f64(times);
        Ok(arm)
    }
}

/// An emulator runs only programs of this machine's architecture.
pub(crate) fn can_be_emulated(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("{} can't be read", program.display()))?;
    match Image::parse(&bytes) {
        Ok(_) => Ok(()),
        Err(fault) => bail!(
            "{} can't be traced: {fault}\n  next: if this is a script, name the program that it starts",
            program.display()
        ),
    }
}

/// A load of operations gets fewer of them, so that it takes as long as without an emulator.
fn fitted(workload: &Workload, slow: Option<SlowDown>) -> Workload {
    let load = slow::fitted(workload, slow);
    let fewer = slow.zip(load.engine.operations()).and_then(|(slow, operations)| {
        load.with_operations(((operations as f64 / slow.factor()) as u64).max(1))
    });
    fewer.unwrap_or(load)
}

/// Processes of the target that no emulator runs. The kernel itself starts a program that replaces another one (exec).
fn running_outside(emulator: &Emulator, processes: &[u32]) -> Vec<String> {
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

fn notes_of(uses: Uses) -> Vec<String> {
    let mut notes = Vec::new();
    if uses.io_uring || uses.aio {
        notes.push(format!(
            "outside the emulator the program uses {}, which the emulator does not support: the trace shows \
             the program's fallback",
            if uses.io_uring { "io_uring" } else { "the kernel's asynchronous I/O" }
        ));
    }
    if uses.avx512 {
        notes.push(
            "outside the emulator the program or one of its libraries uses AVX-512, which the emulated core \
             does not have: the trace shows other code"
                .to_owned(),
        );
    }
    notes
}

pub(crate) fn notes_of_traces(left: &Left) -> Vec<String> {
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

/// The traces.
///
/// # Errors
/// Fails if there are none.
pub(crate) fn left_of(
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

/// Why a program may fail under an emulator, and what to do then.
pub(crate) fn does_not_stand_it(error: &anyhow::Error, uses: Uses) -> String {
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
