//! A diagnosis out of what ran: the model's figures by thread, and what may be said of them.

pub mod branched;
pub(crate) mod found;
pub mod gate;
pub mod gate_text;
mod live;
pub mod purpose;
pub mod reading;
pub(crate) mod sampled;

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

use crate::emulated::{Traced, can_be_emulated, does_not_stand_it, left_of, notes_of_traces};
use crate::heat;
use found::notes_of;
use hone_experiment::arm::find_program;
use hone_experiment::folder::RunFolder;

pub use found::Found;
pub use found::image;
pub use live::{Process, of_process};
pub use sampled::{notes_of_samples, of_data, read as read_samples};

/// Threads that did less than this of the work are told in the whole alone.
const LEAST_SHARE: f64 = 0.05;
/// As many of them are told.
const MOST_THREADS: usize = 5;
/// Less of the execution is not worth a note.
const TOLD_SHARE: f64 = 0.005;
/// Less CPU than this does not tell user from kernel (ticks are of 10 ms).
const USER_SHARE_NEEDS_S: f64 = 0.1;

/// The model of what was traced.
pub fn run_of(traced: &Traced) -> Run {
    model::of_traces(&traced.left.traces, image)
}

/// No command of a user's is waited for longer.
const COMMAND_LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// Writes a diagnosis down.
pub fn found(folder: &RunFolder, diagnosis: Diagnosis, traced: &Traced) -> Result<Found> {
    folder.write_record("diagnosis.json", diagnosis.clone())?;
    Ok(Found { diagnosis, is_whole: traced.broke.is_none(), operations: traced.operations })
}

/// A command that ends by itself, and what traces it.
pub struct Command<'a> {
    words: &'a [String],
    program: PathBuf,
    emulator: Emulator,
}

impl<'a> Command<'a> {
    /// Looks at both.
    ///
    /// # Errors
    /// When one of them is not there, or they do not fit.
    pub fn look(words: &'a [String]) -> Result<Self> {
        let program = find_program(words.first().context("the command is empty")?)?;
        let emulator = Emulator::find()?;
        can_be_emulated(&program)?;
        Ok(Self { words, program, emulator })
    }

    /// The file name of the program as it was called.
    pub fn name(&self) -> String {
        let called = Path::new(&self.words[0]).file_name().or(self.program.file_name());
        called.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Runs a command to its end, as it is and under the emulator.
///
/// # Errors
/// When the command fails, or leaves no trace.
pub fn of_command(runner: &dyn Runner, folder: &RunFolder, command: &Command<'_>) -> Result<Found> {
    let Command { words, program, emulator } = command;
    let arguments = &words[1..];
    let here = std::env::current_dir().context("there is no current folder")?;
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

/// Counts without an order: how much memory the code touches, and no verdict.
pub fn of_counts(run: &Run, source: String, user_share: Option<f64>) -> Diagnosis {
    let layout = model::layout(run, &run.whole());
    let part = Diagnosed { layout: Some(layout), ..Diagnosed::empty(None) };
    let mut notes = vec![
        "no verdict: where code lies says little of what is missed; only the order in which it runs does (hone diagnose under the \
         emulator, or counters)"
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

/// What ran of a program as a profile for BOLT; `None` where nothing did.
pub(crate) fn added_up(run: &Run, program: &Path) -> Option<Aggregated> {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let object = run.objects.iter().position(|object| Path::new(&object.path) == own)?;
    let found = aggregated::of_object(run, &run.whole(), u32::try_from(object).ok()?);
    (found.records > 0).then_some(found)
}

/// What ran in an earlier diagnosis, on another layout of the one of its files that the candidate was made of.
///
/// # Errors
/// When there is no trace, or the candidate was not made of the program.
pub fn of_replay(path: &Path, candidate: &Path) -> Result<Foretelling> {
    let heat::Source::Ran(ran) = heat::read(path, None)? else {
        bail!(
            "{} is a heatmap, and has no order in which code ran\n  next: name the run's folder of hone diagnose",
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
    Err(why.unwrap_or_else(|| anyhow::anyhow!("no file that ran in {} is there any more", path.display())))
}

/// What a candidate's layout would do to what ran of a program.
///
/// # Errors
/// When the candidate was not made of it, or no order was recorded.
pub fn foretold(run: &Run, source: String, program: &Path, candidate: &Path) -> Result<Foretelling> {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let object = run.objects.iter().position(|object| Path::new(&object.path) == own);
    let object =
        object.with_context(|| format!("nothing of {} ran in what was traced", program.display()))?;
    let bytes = |path: &Path| fs::read(path).with_context(|| format!("{} can't be read", path.display()));
    let moved = Moved::between(&bytes(program)?, &bytes(candidate)?)
        .with_context(|| format!("nothing can be said of {} before it runs", candidate.display()))?;
    moved.predict(run, object as u32, source).context(
        "the trace has no windows of the order in which code ran\n  next: trace it for longer than some milliseconds of CPU",
    )
}

/// What a simulation says, the busiest threads first, all of it last.
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
    // What the whole is like follows from its threads; alone it is what is judged.
    let verdict = if parts.is_empty() { verdict::of_layout(&layout, user_share) } else { None };
    parts.push(Diagnosed { layout: Some(layout), verdict, ..Diagnosed::empty(scope) });
    let broke =
        traced.broke.iter().map(|why| format!("of what it did until some seconds before its end; {why}"));
    let mut notes: Vec<String> = broke.chain(traced.notes.iter().cloned()).collect();
    notes.extend(notes_of(run));
    let made = whole_share(&parts, |object| object.path.is_none());
    if made >= TOLD_SHARE {
        notes.push(format!(
            "{:.0} % of it is code that no file holds (a just-in-time compiler's): it is counted, and can't be named or laid out anew",
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

/// Of all threads, which are told last.
fn whole_share(parts: &[Diagnosed], of: impl Fn(&ObjectShare) -> bool) -> f64 {
    let whole = parts.last().and_then(|part| part.layout.as_ref());
    whole.map_or(0.0, |layout| {
        layout.objects.iter().filter(|object| of(object)).map(|object| object.share).sum()
    })
}

/// Threads that have no name of their own have that of the emulator.
fn scope(part: &Part, share: f64) -> Option<String> {
    let name = if part.name.starts_with("qemu-") || part.name.is_empty() { "main" } else { &part.name };
    let threads = if part.threads == 1 { String::new() } else { format!("{} threads, ", part.threads) };
    Some(format!("{name} ({threads}{:.0} %)", 100.0 * share))
}

/// How much of the execution is in the program itself, and not in a library.
fn share_of(layout: &CodeLayout, program: &Path) -> f64 {
    let own = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let is_own = |path: &&str| Path::new(path) == own;
    let objects = layout.objects.iter();
    objects.filter(|object| object.path.as_deref().filter(is_own).is_some()).map(|object| object.share).sum()
}
