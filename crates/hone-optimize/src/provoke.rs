//! Covers rare paths that no load exercises: BOLT may have broken an error path that runs once a day. So Hone provokes each candidate under
//! load, with the target's own command, or for a Kafka-API broker with its own requests. It does the same with the baseline first, as the
//! reference.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_load::provoke;
use hone_record::{Engine, Workload};
use hone_tool::{Call, Runner, Stopped, ToolError};
use serde::{Deserialize, Serialize};

use super::beside::beside;
use super::check::trouble_of;
use super::steps::Told;
use crate::job::Job;
use hone_experiment::arm::Arm;
use hone_experiment::variants::BASELINE;

/// The baseline's result.
const NOTE: &str = "provoked-baseline.json";

/// The number of provocations of all other programs.
const OTHERS_NOTE: &str = "provoked-others.json";

/// Before Hone blames a program, it has provoked the baseline this many times as often as all other programs together. A command that
/// sometimes fails by itself has then failed with the baseline first in three of four cases. Each further failure requires more runs of the
/// baseline.
const AS_OFTEN: u64 = 3;

/// A load may end before the first answer to a provocation.
const LEAST_TIMES: u64 = 3;

/// Time limit of one provocation.
const LIMIT: Duration = Duration::from_secs(60);

/// How a target is provoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way<'a> {
    Command(&'a [String]),
    /// Malformed requests, unknown topics, cut connections.
    Kafka,
}

/// The result of provocations during one load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Provoked {
    /// Commands executed, or connections made.
    pub(super) times: u64,
    /// Commands that exited with another code than 0.
    pub(super) failed: u64,
}

/// The reference: the baseline's result, or why the baseline failed.
pub(super) type Yardstick = Result<Provoked, String>;

impl Job<'_> {
    fn way(&self) -> Option<Way<'_>> {
        match &self.target().provoke {
            Some(words) => Some(Way::Command(words)),
            None if self.is_broker() => Some(Way::Kafka),
            None => None,
        }
    }

    /// The load that runs meanwhile.
    fn load_beside(&self) -> Option<&Workload> {
        self.experiment.judging.iter().find(|workload| !matches!(workload.engine, Engine::Exits { .. }))
    }

    /// The provocation, in words; nothing if there is none.
    pub(super) fn provoked_by(&self) -> Option<String> {
        self.load_beside()?;
        Some(match self.way()? {
            Way::Command(words) => words.join(" "),
            Way::Kafka => "malformed requests, unknown topics, cut connections".to_owned(),
        })
    }

    pub(super) fn can_be_provoked(&self) -> bool {
        self.provoked_by().is_some()
    }

    /// Provokes the baseline once. If it fails under the target's own command, the run ends. If it fails under Hone's own requests, Hone
    /// reports that and provokes no other program.
    pub(super) fn provoke_baseline(&self, program: &Path) -> Result<Told<Yardstick>> {
        let yardstick = match self.provoked_once(BASELINE, program) {
            Ok(provoked) => Ok(provoked),
            Err(error) => Err(trouble_of(error)?),
        };
        let note = match (&yardstick, self.way()) {
            (Ok(provoked), _) => words(provoked),
            (Err(trouble), Some(Way::Command(_))) => bail!(
                "the baseline fails under its `provoke` command: {trouble}\n  next: use a command that the \
                 plain program survives, or remove it; Hone can't blame a variant for a failure of the plain \
                 program"
            ),
            (Err(trouble), _) => {
                format!("Hone provokes no variant, because the baseline itself fails: {trouble}")
            }
        };
        self.folder.write_note(NOTE, &yardstick)?;
        Ok(Told { note, command: None, result: yardstick })
    }

    /// Loads a program and provokes it meanwhile. The inner error is its failure, in words. The inner `None` means that there is no way to
    /// provoke it.
    ///
    /// # Errors
    /// Returns errors that say nothing about the program.
    pub(super) fn provoked(&self, name: &str, program: &Path) -> Result<Result<Option<Provoked>, String>> {
        if !self.can_be_provoked() {
            return Ok(Ok(None));
        }
        let Some(Ok(plain)) = self.folder.read_note::<Yardstick>(NOTE)? else { return Ok(Ok(None)) };
        let found = match self.provoked_once(name, program) {
            Ok(found) => found,
            Err(error) => return Ok(Err(format!("provoked under load: {}", trouble_of(error)?))),
        };
        let others = self.folder.read_note::<u64>(OTHERS_NOTE)?.unwrap_or_default() + found.times;
        self.folder.write_note(OTHERS_NOTE, &others)?;
        let of_all = known_better(plain, others, found, || self.baseline_once_more())?;
        if of_all != plain {
            self.folder.write_note(NOTE, &Yardstick::Ok(of_all))?;
        }
        Ok(compared(of_all, found).map(Some))
    }

    /// A program that fails this time fails intermittently.
    fn baseline_once_more(&self) -> Result<Provoked> {
        let program = self.kept_program(BASELINE);
        self.provoked_once(BASELINE, &program).or_else(|error| {
            trouble_of(error)?;
            Ok(Provoked { times: 1, failed: 1 })
        })
    }

    fn provoked_once(&self, name: &str, program: &Path) -> Result<Provoked> {
        let arm = self.arm(name, program, BTreeMap::new());
        let (provoked, stopped) = self.provoked_to_the_end(&arm, program)?;
        self.has_ended_well(name, stopped, |plain| {
            let baseline = self.kept_program(BASELINE);
            Ok(self.provoked_to_the_end(plain, &baseline)?.1)
        })?;
        Ok(provoked)
    }

    /// From the start over one load and the target's own check to the stop.
    fn provoked_to_the_end(&self, arm: &Arm, program: &Path) -> Result<(Provoked, Option<Stopped>)> {
        let workload = crate::outcome::short(self.load_beside().context("no load for a server")?);
        let way = self.way().context("no way to provoke this target")?;
        let bench = self.bench();
        let mut subject = bench.subject(arm, &workload)?;
        let running = subject.running()?;
        let provoker = match way {
            Way::Kafka => Provoker::Kafka { address: running.address.clone(), seed: workload.seed },
            Way::Command(words) => {
                let words = with_program(words, program);
                Provoker::Command(Box::new(running.call("provoke", &words, &[])?.limit(LIMIT)))
            }
        };
        let provokes = |is_over: &AtomicBool| provoker.until(self.runner, is_over);
        let (window, provoked) = beside(provokes, || bench.window(&mut subject, &workload));
        let provoked = provoked.unwrap_or_else(|_| Err(anyhow::anyhow!("the provoking thread panicked")));
        // If the program has ended, that explains every other failure.
        subject.running()?.check_alive().context("while Hone provoked it")?;
        let provoked = provoked?;
        hone_experiment::bench::of_use(window?)?;
        if let Some(check) = &self.target().check {
            let call = subject.running()?.call("check", &with_program(check, program), &[])?;
            let checked = self.runner.run(&call.limit(super::check::CHECK_LIMIT));
            subject.running()?.check_alive().context("at the target's own check")?;
            checked.context("the target's own check, after Hone provoked it")?;
        }
        Ok((provoked, bench.end(subject)?))
    }
}

pub(super) fn with_program(words: &[String], program: &Path) -> Vec<String> {
    let path = program.display().to_string();
    words.iter().map(|word| word.replace("{program}", &path)).collect()
}

enum Provoker {
    Command(Box<Call>),
    Kafka { address: String, seed: u64 },
}

impl Provoker {
    /// Repeats until the load is over, and [`LEAST_TIMES`] at least.
    fn until(&self, runner: &dyn Runner, is_over: &AtomicBool) -> Result<Provoked> {
        let goes_on = || !is_over.load(Ordering::Relaxed);
        let call = match self {
            Self::Kafka { address, seed } => {
                let times = provoke(address, *seed, goes_on)?.connections;
                return Ok(Provoked { times, failed: 0 });
            }
            Self::Command(call) => call,
        };
        let mut provoked = Provoked::default();
        while provoked.times < LEAST_TIMES || goes_on() {
            provoked.times += 1;
            match runner.run(call) {
                Ok(_) => {}
                // The command provokes an error, so it may well report one.
                Err(ToolError::Failed { .. }) => provoked.failed += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(provoked)
    }
}

/// The reference, repeated until it can prove a fault. `others` is the number of all other provocations so far.
fn known_better(
    mut plain: Provoked,
    others: u64,
    found: Provoked,
    mut once_more: impl FnMut() -> Result<Provoked>,
) -> Result<Provoked> {
    while found.failed > 0 && plain.failed == 0 && plain.times < others.saturating_mul(AS_OFTEN) {
        let more = once_more()?;
        plain.times += more.times.max(1);
        plain.failed += more.failed;
    }
    Ok(plain)
}

/// A command that always succeeded with the plain program must do so with every other program.
fn compared(plain: Provoked, found: Provoked) -> Result<Provoked, String> {
    if plain.failed == 0 && found.failed > 0 {
        return Err(format!(
            "its `provoke` command failed {} of {} times, but 0 of {} times with the baseline: the program \
             answers differently",
            found.failed, found.times, plain.times
        ));
    }
    Ok(found)
}

pub(super) fn words(provoked: &Provoked) -> String {
    let failed = match provoked.failed {
        0 => String::new(),
        failed => format!(", {failed} of them failed"),
    };
    format!("provoked {} times under load{failed}", provoked.times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_tool::System;

    #[test]
    fn an_answer_counts_where_the_baseline_always_gave_it() {
        let of = |times, failed| Provoked { times, failed };
        assert_eq!(compared(of(5, 0), of(9, 0)), Ok(of(9, 0)));
        assert_eq!(compared(of(5, 2), of(9, 9)), Ok(of(9, 9)), "the command says nothing");
        assert!(compared(of(5, 0), of(9, 1)).unwrap_err().contains("failed 1 of 9 times"));
        assert_eq!(words(&of(5, 2)), "provoked 5 times under load, 2 of them failed");
    }

    /// A command that fails at the same rate with both variants.
    #[test]
    fn what_the_baseline_does_as_well_when_it_is_asked_as_often_is_no_fault() {
        let of = |times, failed| Provoked { times, failed };
        let mut loads = 0;
        let mut with_luck_of = |good: u32| {
            loads = 0;
            known_better(of(5, 0), 40, of(8, 1), || {
                loads += 1;
                Ok(of(10, u64::from(loads > good)))
            })
        };
        let seldom = with_luck_of(3).unwrap();
        assert_eq!(seldom, of(45, 1), "no more than it takes");
        assert_eq!(compared(seldom, of(8, 1)), Ok(of(8, 1)));
        let never = with_luck_of(u32::MAX).unwrap();
        assert_eq!(never, of(125, 0), "three times as often as all others");
        assert!(compared(never, of(8, 1)).unwrap_err().contains("0 of 125 times with the baseline"));

        let nobody = || panic!("there is nothing to know");
        assert_eq!(known_better(of(5, 0), 40, of(8, 0), nobody).unwrap(), of(5, 0));
        assert_eq!(known_better(of(5, 1), 40, of(8, 8), nobody).unwrap(), of(5, 1));
        assert_eq!(known_better(of(120, 0), 40, of(8, 8), nobody).unwrap(), of(120, 0));
    }

    #[test]
    fn a_load_that_is_over_at_once_is_provoked_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let over = AtomicBool::new(true);
        let found = |script: &str| {
            let call = Call::new("provoke", "/bin/sh", dir.path()).args(["-c", script]);
            Provoker::Command(Box::new(call)).until(&system, &over)
        };
        assert_eq!(found("exit 0").unwrap(), Provoked { times: LEAST_TIMES, failed: 0 });
        assert_eq!(found("exit 3").unwrap(), Provoked { times: LEAST_TIMES, failed: LEAST_TIMES });
    }
}
