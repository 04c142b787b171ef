//! Runs a program under a tracing emulator with the usual load. The trace serves a diagnosis, and is a profile that needs no counters,
//! no branch records and no second build.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hone_binary::capture::SlowDown;
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::trace::{Left, TraceFolder};
use hone_host::uses::{self, Uses};
use hone_record::{Engine, Workload};
use hone_tool::interrupt;

use crate::job::Job;
use crate::outcome::short;
use hone_experiment::arm::Arm;
use hone_experiment::emulated::{
    around, can_be_emulated, does_not_stand_it, left_of, notes_of_traces, running_outside,
};
use hone_experiment::slow;

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
        let arm = self.arm(&format!("{name}-emulated"), program, BTreeMap::new());
        let tracer = emulator.tracer(&self.folder.join("aids"))?;
        around(arm, emulator, &tracer, folder, wanted, slow.map_or(1.0, SlowDown::factor))
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
