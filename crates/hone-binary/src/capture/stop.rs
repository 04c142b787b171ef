//! The steps that stop a trained target.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use hone_tool::{Call, Ended, Runner, Session};
use serde::{Deserialize, Serialize};

use super::ended::HowEnded;
use super::files::{FileChange, ProfileFiles, ProfileKind, Snapshot, changes};
use super::refusal::{CaptureRefusal, NAME_TOO_LARGE, runtime_said};
use crate::refusal::Refusal;

/// Interval of the checks for written files.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// After this many checks without a change, a program that writes every second or so has written once.
const QUIET_LOOKS: u32 = 4;

/// A dump may pause between two of its files, of which a large gcc program has thousands, on a busy machine. It is over after this time
/// without a change, and after [`PAUSES`] times the longest pause so far.
const LEAST_REST: Duration = Duration::from_secs(1);

/// See [`LEAST_REST`]. Both are choices, not constants of nature.
const PAUSES: u32 = 4;

/// How to get a profile from a running target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dump {
    /// In no way.
    None,
    /// The target's own command for it.
    Command(Box<Call>),
    /// A signal: SIGUSR2 for the dump object, or one that the target handles. Only processes that receive it get it.
    Signal(i32),
    /// BOLT writes by itself: wait for the next write.
    Every {
        /// Seconds between.
        seconds: u32,
    },
}

/// How to stop a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopPlan {
    /// The first step, because it needs a running process.
    pub dump: Dump,
    /// The target's own way to stop.
    pub command: Option<Call>,
    /// Time limit of each step: the dump until files exist, a stop until the target has ended; and the limit for the target's other
    /// processes after it.
    pub grace: Duration,
    /// The place of the profile.
    pub files: ProfileFiles,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Requests the profile.
    Dump,
    /// The target's own command to stop.
    Command,
    /// SIGTERM to the first process, and to those that outlive it.
    Term,
    /// SIGKILL to all.
    Kill,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The target ended.
    Ended(HowEnded),
    /// It still ran at the end of the time limit, or should continue.
    Runs,
    /// The command failed, or no process receives the signal; with the reason.
    Failed(String),
}

/// One step, and the files that it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Which.
    pub step: Step,
    /// What it did.
    pub outcome: Outcome,
    /// Seconds.
    pub took_s: f64,
    /// Profile files that changed since before it.
    pub files: Vec<FileChange>,
}

/// The missing part of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Lost {
    /// Nothing: the program wrote as it ended.
    Nothing,
    /// The time after the dump, whose age at the end this is, in seconds.
    SinceDump {
        /// Seconds.
        age_s: f64,
    },
    /// The counts of the first process: it did not end in order, but others of its group did.
    OfFirst {
        /// How it ended.
        ended: HowEnded,
    },
    /// The counts of this number of processes, which outlived the first one and had to be killed.
    OfProcesses {
        /// Processes.
        killed: usize,
    },
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => formatter.write_str("nothing is lost: the target wrote its profile as it ended"),
            Self::SinceDump { age_s } => {
                write!(formatter, "the profile lacks the last {age_s:.1} s, between the dump and the end")
            }
            Self::OfFirst { ended } => {
                write!(
                    formatter,
                    "the counts of the first process are lost, because it ended ({ended}); its children \
                     wrote theirs"
                )
            }
            Self::OfProcesses { killed } => {
                write!(
                    formatter,
                    "the counts of {killed} processes are lost, because they outlived the first and were \
                     killed"
                )
            }
        }
    }
}

/// A stopped target, with a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The executed steps.
    pub rungs: Vec<Rung>,
    /// How the first process ended.
    pub ended: HowEnded,
    /// The profile files, all with contents.
    pub files: Vec<PathBuf>,
    /// The missing part.
    pub lost: Lost,
}

/// Stops a trained target: dump, its own command, SIGTERM, SIGKILL, as far as necessary. The dump comes first because only a running
/// process can write one.
///
/// # Errors
/// [`CaptureRefusal`] (through [`Refusal`]) if the target had ended before or no profile was written; the target is ended in any case.
/// Otherwise when files or processes can't be checked.
pub fn stop(runner: &dyn Runner, session: Session, plan: &StopPlan) -> anyhow::Result<Stop> {
    let mut ladder = Ladder { runner, session, plan, rungs: Vec::new(), written_at: None };
    if let Some(status) = ladder.session.try_exit()? {
        return Err(Refusal::from(ended_before(status.into(), plan)).into());
    }
    let end = ladder.climb()?;
    ladder.judge(end)
}

struct Ladder<'a> {
    runner: &'a dyn Runner,
    session: Session,
    plan: &'a StopPlan,
    rungs: Vec<Rung>,
    /// The time of a write while the target continued.
    written_at: Option<Instant>,
}

/// The end of the target, and its time.
struct End {
    ended: HowEnded,
    killed: usize,
    at: Instant,
}

impl End {
    fn new(ended: Ended, at: Instant) -> Self {
        Self { ended: ended.status.into(), killed: ended.killed, at }
    }
}

/// The result of a step, and the end of the target if the step caused it.
type Climbed = anyhow::Result<(Outcome, Option<End>)>;

impl Ladder<'_> {
    fn climb(&mut self) -> anyhow::Result<End> {
        if self.plan.dump != Dump::None
            && let Some(end) = self.rung(Step::Dump, Self::dump)?
        {
            return Ok(end);
        }
        if self.plan.command.is_some()
            && let Some(end) = self.rung(Step::Command, Self::command)?
        {
            return Ok(end);
        }
        if let Some(end) = self.rung(Step::Term, Self::term)? {
            return Ok(end);
        }
        let end = self.rung(Step::Kill, Self::kill)?;
        end.context("the target was killed and has not ended")
    }

    /// One step between two checks of the files.
    fn rung(&mut self, step: Step, act: fn(&mut Self, &Snapshot) -> Climbed) -> anyhow::Result<Option<End>> {
        let before = self.look()?;
        let start = Instant::now();
        let (outcome, end) = act(self, &before)?;
        let took_s = start.elapsed().as_secs_f64();
        let files = changes(&before, &self.look()?);
        if end.is_none() && files.iter().any(FileChange::wrote) {
            self.written_at = Some(Instant::now());
        }
        self.rungs.push(Rung { step, outcome, took_s, files });
        Ok(end)
    }

    fn look(&self) -> anyhow::Result<Snapshot> {
        let folder = &self.plan.files.folder;
        let looked = self.plan.files.snapshot();
        looked.with_context(|| {
            format!("can't look for profiles in {}\n  next: check its permissions", folder.display())
        })
    }

    fn dump(&mut self, before: &Snapshot) -> Climbed {
        let limit = match &self.plan.dump {
            Dump::None => return Ok((Outcome::Runs, None)),
            Dump::Command(call) => {
                if let Err(error) = self.runner.run(call) {
                    return self.after_failure(error.to_string());
                }
                self.plan.grace
            }
            Dump::Signal(signal) => {
                let told = self.session.tell(*signal, self.plan.grace);
                if told.took.is_empty() {
                    return self.after_failure(format!("no process of the target handles signal {signal}"));
                }
                self.plan.grace
            }
            // Two writes: the first may have begun before the last request was answered.
            Dump::Every { seconds } => Duration::from_secs(u64::from(*seconds) * 2 + 3),
        };
        if self.wait_for_writing(before, limit)? {
            return self.still_there();
        }
        self.after_failure("no profile file was written".to_owned())
    }

    /// Waits until files have been written and no longer change. For BOLT it waits twice.
    fn wait_for_writing(&mut self, before: &Snapshot, limit: Duration) -> anyhow::Result<bool> {
        let deadline = Instant::now() + limit;
        let (mut known, mut quiet, mut written) = (before.clone(), 0, 0);
        let is_again = matches!(self.plan.dump, Dump::Every { .. });
        let needed = if is_again { 2 } else { 1 };
        let mut rest_looks = if is_again { QUIET_LOOKS } else { looks_in(LEAST_REST) };
        while Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
            let now = self.look()?;
            if now != known {
                if !is_again && known != *before {
                    rest_looks = rest_looks.max(PAUSES * (quiet + 1));
                }
                known = now;
                quiet = 0;
                continue;
            }
            quiet += 1;
            if quiet == rest_looks && changes(before, &known).iter().any(FileChange::wrote) {
                written += 1;
            }
            if written >= needed {
                return Ok(true);
            }
            if self.session.try_exit()?.is_some() {
                break;
            }
        }
        Ok(written > 0)
    }

    fn command(&mut self, _: &Snapshot) -> Climbed {
        let Some(call) = &self.plan.command else { return self.still_there() };
        // A server that ends at once may cut off the connection of the command that stopped it.
        let failure = self.runner.run(call).err().map(|error| error.to_string());
        let limit =
            if failure.is_some() { self.plan.grace.min(Duration::from_secs(2)) } else { self.plan.grace };
        let (outcome, end) = self.wait(limit)?;
        Ok(match (end, failure) {
            (None, Some(reason)) => (Outcome::Failed(reason), None),
            (end, _) => (outcome, end),
        })
    }

    fn term(&mut self, _: &Snapshot) -> Climbed {
        self.session.signal(libc::SIGTERM);
        self.wait(self.plan.grace)
    }

    fn kill(&mut self, _: &Snapshot) -> Climbed {
        let ended = self.session.kill()?.into();
        Ok((Outcome::Ended(ended), Some(End { ended, killed: 0, at: Instant::now() })))
    }

    fn wait(&mut self, limit: Duration) -> Climbed {
        let ended = self.session.wait_end(limit, self.plan.grace)?;
        let end = ended.map(|ended| End::new(ended, Instant::now()));
        Ok((end.as_ref().map_or(Outcome::Runs, |end| Outcome::Ended(end.ended)), end))
    }

    fn still_there(&mut self) -> Climbed {
        self.wait(Duration::ZERO)
    }

    fn after_failure(&mut self, reason: String) -> Climbed {
        let (outcome, end) = self.still_there()?;
        Ok(if end.is_some() { (outcome, end) } else { (Outcome::Failed(reason), None) })
    }

    /// The line of the target's standard error with a failure of the profile's runtime.
    fn runtime_said(&self) -> Option<String> {
        let mut file = File::open(self.session.stderr_path()).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES))).ok()?;
        let mut log = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut log).ok()?;
        runtime_said(&String::from_utf8_lossy(&log)).map(str::to_owned)
    }

    fn judge(self, end: End) -> anyhow::Result<Stop> {
        let after = self.look()?;
        let verdict = verdict(&self.rungs, &end, self.written_at, self.plan.files.kind, &after);
        let said = self.runtime_said();
        let lost = match (verdict, said) {
            (Err(CaptureRefusal::NothingWritten { .. } | CaptureRefusal::SomeEmpty { .. }), Some(said)) => {
                Err(CaptureRefusal::RuntimeFailed { said })
            }
            // A file exists, but it is incomplete.
            (Ok(_), Some(said)) if said.contains(NAME_TOO_LARGE) => {
                Err(CaptureRefusal::RuntimeFailed { said })
            }
            (verdict, _) => verdict,
        };
        let lost = lost.map_err(Refusal::from)?;
        Ok(Stop { rungs: self.rungs, ended: end.ended, files: after.into_keys().collect(), lost })
    }
}

/// Limit of the end of a log.
const LOG_BYTES: u64 = 1 << 20;

/// The evidence of the files about the end.
fn verdict(
    rungs: &[Rung],
    end: &End,
    written_at: Option<Instant>,
    kind: ProfileKind,
    after: &Snapshot,
) -> Result<Lost, CaptureRefusal> {
    // A file that changes while its process is killed was not written at its end.
    let wrote_at_end =
        rungs.last().is_some_and(|rung| rung.step != Step::Kill && rung.files.iter().any(FileChange::wrote));
    let empty: Vec<PathBuf> =
        after.iter().filter(|(_, state)| state.bytes == 0).map(|(path, _)| path.clone()).collect();
    if !wrote_at_end && written_at.is_none() {
        let what = nothing(kind, &empty);
        return Err(CaptureRefusal::NothingWritten { ended: end.ended, what, kind });
    }
    if !empty.is_empty() {
        let written = after.len() - empty.len();
        return Err(CaptureRefusal::SomeEmpty { files: empty, written, ended: end.ended, kind });
    }
    let in_order = wrote_at_end && matches!(end.ended, HowEnded::Code(_));
    Ok(match written_at {
        _ if in_order && end.killed == 0 => Lost::Nothing,
        Some(written) => Lost::SinceDump { age_s: end.at.saturating_duration_since(written).as_secs_f64() },
        None if in_order => Lost::OfProcesses { killed: end.killed },
        None => Lost::OfFirst { ended: end.ended },
    })
}

fn nothing(kind: ProfileKind, empty: &[PathBuf]) -> String {
    match empty {
        [] => format!("no .{} file", kind.ending()),
        [one] => format!("only {} of 0 bytes", one.display()),
        [first, ..] => format!("only {} files of 0 bytes, the first is {}", empty.len(), first.display()),
    }
}

/// The refusal for a target that had already ended.
fn ended_before(ended: HowEnded, plan: &StopPlan) -> CaptureRefusal {
    let found = plan.files.snapshot().unwrap_or_default();
    let written = found.values().filter(|state| state.bytes > 0).count();
    let left = match (written, found.len() - written) {
        (0, 0) => format!("; it left no .{} file", plan.files.kind.ending()),
        (written, empty) => format!("; it left {written} profile files and {empty} of 0 bytes"),
    };
    CaptureRefusal::EndedInTraining { ended, left }
}

fn looks_in(time: Duration) -> u32 {
    time.as_millis().div_ceil(LOOK_EVERY.as_millis()).try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::files::FileState;

    fn rung(step: Step, wrote: bool) -> Rung {
        let after = wrote.then_some(8);
        let files = vec![FileChange { path: "a.profraw".into(), before: None, after }];
        Rung { step, outcome: Outcome::Runs, took_s: 0.0, files }
    }

    fn judged(last: Rung, ended: HowEnded, killed: usize, dumped: bool) -> Result<Lost, CaptureRefusal> {
        let at = Instant::now();
        let after = Snapshot::from([("a.profraw".into(), FileState { bytes: 8, modified: None })]);
        verdict(&[last], &End { ended, killed, at }, dumped.then_some(at), ProfileKind::Llvm, &after)
    }

    #[test]
    fn what_is_lost_follows_from_who_wrote_and_who_was_killed() {
        let (code, term, kill) = (HowEnded::Code(0), HowEnded::Signal(15), HowEnded::Signal(9));
        let since = Ok(Lost::SinceDump { age_s: 0.0 });
        assert_eq!(judged(rung(Step::Term, true), code, 0, false), Ok(Lost::Nothing));
        assert_eq!(judged(rung(Step::Term, true), code, 0, true), Ok(Lost::Nothing));
        assert_eq!(judged(rung(Step::Command, true), code, 2, false), Ok(Lost::OfProcesses { killed: 2 }));
        assert_eq!(judged(rung(Step::Command, true), code, 2, true), since);
        assert_eq!(judged(rung(Step::Term, true), term, 0, false), Ok(Lost::OfFirst { ended: term }));
        assert_eq!(judged(rung(Step::Term, false), term, 0, true), since);
        assert_eq!(judged(rung(Step::Kill, true), kill, 0, true), since);
        let refused = judged(rung(Step::Kill, true), kill, 0, false);
        assert!(matches!(refused, Err(CaptureRefusal::NothingWritten { .. })), "{refused:?}");
        let refused = judged(rung(Step::Term, false), code, 0, false);
        assert!(matches!(refused, Err(CaptureRefusal::NothingWritten { .. })), "{refused:?}");
    }
}
