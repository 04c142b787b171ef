//! A diagnosis from executed code: the model's figures by thread, and the conclusions.

pub mod branched;
pub(crate) mod found;
pub mod gate;
pub mod gate_text;
mod jcmd;
mod live;
pub mod purpose;
pub mod reading;
pub(crate) mod sampled;
pub mod tail;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_diagnose::aggregated::{self, Aggregated};
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::model::{self, Part, Run};
use hone_diagnose::moved::{Moved, NotMoved};
use hone_diagnose::trace::TraceFolder;
use hone_diagnose::verdict;
use hone_host::uses::Uses;
use hone_record::{CodeLayout, Diagnosed, Diagnosis, Evidence, Foretelling, ObjectShare};
use hone_tool::{Call, Runner, interrupt};

use crate::emulated::Traced;
use crate::heat;
use found::notes_of;
use hone_experiment::arm::find_program;
use hone_experiment::emulated::{can_be_emulated, does_not_stand_it, image, left_of, notes_of_traces};
use hone_experiment::folder::RunFolder;

pub use found::Found;
pub use live::{Process, of_process};
pub use sampled::{notes_of_samples, of_data, read as read_samples};

/// Threads with a smaller share of the work appear only in the total.
const LEAST_SHARE: f64 = 0.05;
/// The most threads in a report.
const MOST_THREADS: usize = 5;
/// A smaller share of the execution is not worth a note.
const TOLD_SHARE: f64 = 0.005;
/// Less CPU time does not separate user from kernel time (ticks are 10 ms).
const USER_SHARE_NEEDS_S: f64 = 0.1;

/// The model of a trace.
pub fn run_of(traced: &Traced) -> Run {
    model::of_traces(&traced.left.traces, image)
}

/// Time limit of a user's command.
const COMMAND_LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// Writes a diagnosis.
pub fn found(folder: &RunFolder, diagnosis: Diagnosis, traced: &Traced) -> Result<Found> {
    let record = folder.write_record("diagnosis.json", diagnosis.clone())?;
    Ok(Found { diagnosis, is_whole: traced.broke.is_none(), operations: traced.operations, record })
}

/// A command that ends by itself, and its tracer.
pub struct Command<'a> {
    words: &'a [String],
    program: PathBuf,
    emulator: Emulator,
}

impl<'a> Command<'a> {
    /// Checks both.
    ///
    /// # Errors
    /// Fails when one of them does not exist, or when they do not match.
    pub fn look(words: &'a [String]) -> Result<Self> {
        let program = find_program(words.first().context("the command is empty")?)?;
        let emulator = Emulator::find()?;
        can_be_emulated(&program)?;
        Ok(Self { words, program, emulator })
    }

    /// The file name of the program on the command line.
    pub fn name(&self) -> String {
        let called = Path::new(&self.words[0]).file_name().or(self.program.file_name());
        called.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Runs a command to its end, without and with the emulator.
///
/// # Errors
/// Fails when the command fails, or leaves no trace.
pub fn of_command(runner: &dyn Runner, folder: &RunFolder, command: &Command<'_>) -> Result<Found> {
    let Command { words, program, emulator } = command;
    let arguments = &words[1..];
    let here = std::env::current_dir().context("the current folder does not exist")?;
    let call = |step: &str, path: &Path| Call::new(step, path, &here).limit(COMMAND_LIMIT);
    let native = runner.run(&call("native", program).args(arguments))?.usage;
    let total_s = native.total().as_secs_f64();
    let user_share = (total_s >= USER_SHARE_NEEDS_S).then(|| native.user.as_secs_f64() / total_s);
    let to = TraceFolder::create(&folder.join("trace"))?;
    let tracer = emulator.tracer(&folder.join("aids"))?;
    let (path, before) = emulator.around(&tracer, &to, TraceOptions::ALL, program);
    let ran = runner.run(&call("emulated", &path).args(before).args(arguments));
    let (at, broke) = match ran.map_err(anyhow::Error::from) {
        Ok(emulated) if total_s >= USER_SHARE_NEEDS_S => {
            (format!(", at {:.1} times the CPU", emulated.usage.total().as_secs_f64() / total_s), None)
        }
        Ok(_) => (String::new(), None),
        Err(error) if interrupt::requested() => return Err(error),
        Err(error) => (String::new(), Some(does_not_stand_it(&error, Uses::default()))),
    };
    let left = left_of(&to, emulator, program, broke.as_deref())?;
    let notes = notes_of_traces(&left);
    let traced = Traced { left, words: String::new(), operations: None, user_share, notes, broke };
    let source = format!("{}, under {}{at}", words.join(" "), emulator.receipt().version);
    found(folder, of_trace(&run_of(&traced), program, source, &traced), &traced)
}

/// Counts without an order: the memory that the code touches, and no verdict.
pub fn of_counts(run: &Run, source: String, user_share: Option<f64>) -> Diagnosis {
    let layout = model::layout(run, &run.whole());
    let part = Diagnosed { layout: Some(layout), ..Diagnosed::empty(None) };
    let mut notes = vec![
        "no verdict: the place of code says little about misses; only the order of execution does (hone \
         diagnose under the emulator, or counters)"
            .to_owned(),
    ];
    notes.extend(notes_of(run));
    Diagnosis {
        evidence: Evidence::Modelled,
        source,
        user_share,
        parts: vec![part],
        shifts: Vec::new(),
        watched: None,
        notes,
    }
}

/// The executed code of a program as a BOLT profile; `None` if none of it ran.
pub(crate) fn added_up(run: &Run, program: &Path) -> Option<Aggregated> {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let object = run.objects.iter().position(|object| Path::new(&object.path) == own)?;
    let found = aggregated::of_object(run, &run.whole(), u32::try_from(object).ok()?);
    (found.records > 0).then_some(found)
}

/// The code of an earlier diagnosis, on another layout of the file that the candidate comes from.
///
/// # Errors
/// Fails when there is no trace, or when the candidate does not come from the program.
pub fn of_replay(path: &Path, candidate: &Path) -> Result<Foretelling> {
    let heat::Source::Ran(ran) = heat::read(path, None)? else {
        bail!(
            "{} is a heatmap, which has no order of execution\n  next: name the run's folder of `hone \
             diagnose`",
            path.display()
        )
    };
    let mut why = None;
    for object in model::layout(&ran.run, &ran.run.whole()).objects {
        let Some(program) = object.path.filter(|path| Path::new(path).is_file()) else { continue };
        match foretold(&ran.run, ran.title.clone(), Path::new(&program), candidate) {
            Err(error) if error.downcast_ref() == Some(&NotMoved::Another) => why = why.or(Some(error)),
            found => return found,
        }
    }
    Err(why.unwrap_or_else(|| anyhow::anyhow!("no file that ran in {} exists any more", path.display())))
}

/// The predicted effect of a candidate's layout on the executed code of a program.
///
/// # Errors
/// Fails when the candidate does not come from the program, or when the trace has no order.
pub fn foretold(run: &Run, source: String, program: &Path, candidate: &Path) -> Result<Foretelling> {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let object = run.objects.iter().position(|object| Path::new(&object.path) == own);
    let object = object.with_context(|| format!("no code of {} ran in the trace", program.display()))?;
    let bytes = |path: &Path| fs::read(path).with_context(|| format!("{} can't be read", path.display()));
    let moved = Moved::between(&bytes(program)?, &bytes(candidate)?)
        .with_context(|| format!("Hone can't predict {}", candidate.display()))?;
    moved.predict(run, object as u32, source).context(
        "the trace has no windows with the order of execution\n  next: trace it for more than a few \
         milliseconds of CPU",
    )
}

/// The results of a simulation: the busiest threads first, the total last.
pub(crate) fn of_trace(run: &Run, program: &Path, source: String, traced: &Traced) -> Diagnosis {
    let whole = run.whole();
    let layout = model::layout(run, &whole);
    let user_share = traced.user_share.map(|user| user * share_of(&layout, program));
    let all = layout.instructions.max(1) as f64;
    let mut parts = Vec::new();
    for part in run.parts.iter().take(MOST_THREADS).filter(|_| run.parts.len() > 1) {
        let share = part.instructions(run) as f64 / all;
        if share >= LEAST_SHARE {
            parts.push(diagnosed(scope(part, share), model::layout(run, part), user_share));
        }
    }
    let scope = if parts.is_empty() { None } else { Some("all threads".to_owned()) };
    // The total follows from its threads. Without threads, the total itself is judged.
    let verdict = if parts.is_empty() { verdict::of_layout(&layout, user_share) } else { None };
    parts.push(Diagnosed { layout: Some(layout), verdict, ..Diagnosed::empty(scope) });
    let broke =
        traced.broke.iter().map(|why| format!("the trace ends some seconds before the program's end; {why}"));
    let mut notes: Vec<String> = broke.chain(traced.notes.iter().cloned()).collect();
    notes.extend(notes_of(run));
    let made = whole_share(&parts, |object| object.path.is_none());
    if made >= TOLD_SHARE {
        notes.push(format!(
            "{:.0} % of the execution is code of a just-in-time compiler, which no file holds: Hone counts \
             it, but can't name it or change its layout",
            100.0 * made
        ));
    }
    Diagnosis {
        evidence: Evidence::Simulated,
        source,
        user_share,
        parts,
        shifts: Vec::new(),
        watched: None,
        notes,
    }
}

fn diagnosed(scope: Option<String>, layout: CodeLayout, user_share: Option<f64>) -> Diagnosed {
    let verdict = verdict::of_layout(&layout, user_share);
    Diagnosed { layout: Some(layout), verdict, ..Diagnosed::empty(scope) }
}

/// The total of all threads, which comes last.
fn whole_share(parts: &[Diagnosed], of: impl Fn(&ObjectShare) -> bool) -> f64 {
    let whole = parts.last().and_then(|part| part.layout.as_ref());
    whole.map_or(0.0, |layout| {
        layout.objects.iter().filter(|object| of(object)).map(|object| object.share).sum()
    })
}

/// Threads without their own name have the emulator's.
fn scope(part: &Part, share: f64) -> Option<String> {
    let name = if part.name.starts_with("qemu-") || part.name.is_empty() { "main" } else { &part.name };
    let threads = if part.threads == 1 { String::new() } else { format!("{} threads, ", part.threads) };
    Some(format!("{name} ({threads}{:.0} %)", 100.0 * share))
}

/// The share of the execution in the program itself, without libraries.
fn share_of(layout: &CodeLayout, program: &Path) -> f64 {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let is_own = |path: &&str| Path::new(path) == own;
    let objects = layout.objects.iter();
    objects.filter(|object| object.path.as_deref().filter(is_own).is_some()).map(|object| object.share).sum()
}
