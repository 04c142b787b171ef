//! Checks that a program still works: it starts, serves every judging workload, passes the target's own check, and still runs
//! then.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_load::{LoadError, smoke_test};
use hone_record::{SmokeTest, Workload};
use hone_tool::{StopSignal, Stopped, ToolError, interrupt};

use super::provoke;
use crate::job::Job;
use hone_experiment::arm::{Arm, Place};
use hone_experiment::ending::{NotItsOwn, Usage};
use hone_experiment::variants::BASELINE;

/// Batches per partition for the smoke test.
const SMOKE_BATCHES: u32 = 10;

/// The target's own check may put load on it for a while.
pub(super) const CHECK_LIMIT: Duration = Duration::from_secs(600);

impl Job<'_> {
    /// Checks a program. The inner error is its failure, in words.
    ///
    /// # Errors
    /// Fails if the check itself fails, which says nothing about the program.
    pub(super) fn check(&self, name: &str, program: &Path) -> Result<Result<SmokeTest, String>> {
        match self.checked(name, program) {
            Ok(found) => Ok(match found.difference.clone() {
                None => Ok(found),
                Some(difference) => Err(difference),
            }),
            Err(error) => trouble_of(error).map(Err),
        }
    }

    /// Checks a program that BOLT made, and provokes it, too.
    pub(super) fn check_hard(&self, name: &str, program: &Path) -> Result<Result<SmokeTest, String>> {
        let checked = match self.check(name, program)? {
            Ok(checked) => checked,
            Err(trouble) => return Ok(Err(trouble)),
        };
        Ok(self.provoked(name, program)?.map(|provoked| match provoked {
            Some(provoked) => {
                SmokeTest { what: format!("{}; {}", checked.what, provoke::words(&provoked)), ..checked }
            }
            None => checked,
        }))
    }

    /// Repeats the check: an intermittent failure can pass one check, and this program is the result of the run.
    pub(super) fn soak(
        &self,
        name: &str,
        program: &Path,
        checked: SmokeTest,
    ) -> Result<Result<SmokeTest, String>> {
        let limit = Duration::from_secs_f64(self.experiment.soak_s);
        let passed =
            again_and_again(limit, || self.check_hard(name, program).map(|found| found.map(|_| ())))?;
        Ok(passed
            .map(|times| SmokeTest { what: format!("{}; {} times", checked.what, times + 1), ..checked }))
    }

    fn checked(&self, name: &str, program: &Path) -> Result<SmokeTest> {
        let arm = self.arm(name, program, BTreeMap::new());
        let mut all = SmokeTest { what: String::new(), records: 0, passed: true, difference: None };
        for workload in &self.experiment.judging {
            let (what, records, difference, stopped) = self.loaded(&arm, workload)?;
            self.has_ended_well(name, stopped, |plain| Ok(self.loaded(plain, workload)?.3))
                .with_context(|| format!("workload `{}`", workload.name))?;
            let comma = if all.what.is_empty() { "" } else { "; " };
            all.what.push_str(&format!("{comma}{}: {what}", workload.name));
            all.records += records;
            if let Some(difference) = difference {
                all.passed = false;
                all.difference = Some(format!("workload `{}`: {difference}", workload.name));
                return Ok(all);
            }
        }
        if let Some(words) = &self.target().check {
            let stopped = self.own_check(&arm, words)?;
            self.has_ended_well(name, stopped, |plain| self.own_check(plain, words))?;
            all.what.push_str("; the target's own check");
        }
        Ok(all)
    }

    /// One load from start to stop. Returns what was done, the records that were read back, their differences, and the
    /// stop.
    fn loaded(
        &self,
        arm: &Arm,
        workload: &Workload,
    ) -> Result<(String, u64, Option<String>, Option<Stopped>)> {
        match workload.engine.operations() {
            None => self.read_back(arm, workload),
            Some(operations) => {
                let (_, stopped) = self.bench().alone_to_the_end(arm, workload)?;
                Ok((format!("{} operations done", hone_format::count(operations)), 0, None, stopped))
            }
        }
    }

    /// For a Kafka-API broker: the written records come back, byte for byte.
    fn read_back(
        &self,
        arm: &Arm,
        workload: &Workload,
    ) -> Result<(String, u64, Option<String>, Option<Stopped>)> {
        let mut running = arm.start(self.runner, &self.folder.scratch())?;
        let tested = smoke_test(&running.address, workload, SMOKE_BATCHES);
        // If the program has ended, that explains why nothing came back.
        running.check_alive().with_context(|| format!("workload `{}`", workload.name))?;
        let tested = tested.with_context(|| format!("workload `{}`", workload.name))?;
        let stopped = running.stop(self.runner)?;
        Ok((tested.what, tested.records, tested.difference, stopped))
    }

    /// A stop that fails is a failure of the program, unless the baseline's stop fails as well: `plain` does the same with the
    /// baseline.
    pub(super) fn has_ended_well(
        &self,
        name: &str,
        stopped: Option<Stopped>,
        plain: impl FnOnce(&Arm) -> Result<Option<Stopped>>,
    ) -> Result<()> {
        let Some(trouble) = stopped.as_ref().and_then(trouble_at_stop) else { return Ok(()) };
        if name != BASELINE {
            let program = self.kept_program(BASELINE);
            let of_plain = plain(&self.arm(BASELINE, &program, BTreeMap::new()))?;
            if of_plain.as_ref().and_then(trouble_at_stop).is_some() {
                return Ok(());
            }
        } else if stopped.as_ref().is_some_and(was_killed) {
            // The unchanged program fails in the same way.
            return Ok(());
        }
        bail!(Trouble(trouble));
    }

    /// The target's own command. The program must outlive it.
    fn own_check(&self, arm: &Arm, words: &[String]) -> Result<Option<Stopped>> {
        let Place::Program(program) = &arm.place else { return Ok(None) };
        let words = provoke::with_program(words, &program.path);
        if !self.serves() {
            let (_, filling, _data) =
                program.made_ready("check", &[], self.runner, &self.folder.scratch())?;
            self.runner.run(&program.ways.call("check", &words, &filling)?.limit(CHECK_LIMIT))?;
            return Ok(None);
        }
        let mut running = arm.start(self.runner, &self.folder.scratch())?;
        let call = running.call("check", &words, &[])?.limit(CHECK_LIMIT);
        let checked = self.runner.run(&call);
        // If the program has ended, that explains why its check failed.
        running.check_alive().context("at the target's own check")?;
        checked.context("the target's own check")?;
        running.stop(self.runner)
    }
}

/// The check runs at least this many further times. A program that fails every second time then passes with a
/// probability of 3 %.
const LEAST_CHECKS: u32 = 4;

/// Repeats a check for this long, and [`LEAST_CHECKS`] times at least. Returns the number of passes, or the first
/// failure.
fn again_and_again(
    limit: Duration,
    mut check: impl FnMut() -> Result<Result<(), String>>,
) -> Result<Result<u32, String>> {
    let begun = Instant::now();
    let mut times = 0;
    while times < LEAST_CHECKS || begun.elapsed() < limit {
        times += 1;
        if let Err(trouble) = check()? {
            return Ok(Err(format!("{trouble} (in check {} of the same program)", times + 1)));
        }
    }
    Ok(Ok(times))
}

/// The failure of a stop: a crash, or a program that did not end.
fn trouble_at_stop(stopped: &Stopped) -> Option<String> {
    if is_crash(stopped) {
        return Some(format!("it crashed when Hone stopped it ({})", stopped.status));
    }
    was_killed(stopped).then(|| {
        format!(
            "it did not end when Hone stopped it, so Hone killed it after {:.0} s",
            stopped.took.as_secs_f64()
        )
    })
}

fn was_killed(stopped: &Stopped) -> bool {
    stopped.signal == StopSignal::Kill || stopped.status.signal() == Some(libc::SIGKILL)
}

/// A signal that Hone's stops never send.
fn is_crash(stopped: &Stopped) -> bool {
    let crashes = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGFPE, libc::SIGTRAP];
    stopped.status.signal().is_some_and(|signal| crashes.contains(&signal))
}

/// A failure of the program itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Trouble(String);

/// The failure of a program, in words: it did not start, did not serve, gave wrong answers, or failed in its window.
///
/// # Errors
/// Returns the error if it says nothing about the program: an interrupt, a full disk, an invalid setting.
pub(super) fn trouble_of(error: anyhow::Error) -> Result<String> {
    use LoadError::{Broken, Connect, Garbage, Mute, Refused, Slow, WarmUp};
    if interrupt::requested() {
        return Err(error);
    }
    let is_its_own = if let Some(error) = error.downcast_ref::<ToolError>() {
        matches!(error, ToolError::Died { .. } | ToolError::TimedOut { .. } | ToolError::Failed { .. })
    } else if let Some(error) = error.downcast_ref::<LoadError>() {
        matches!(
            error,
            Connect { .. }
                | Broken { .. }
                | Garbage { .. }
                | Mute { .. }
                | Refused { .. }
                | Slow { .. }
                | WarmUp { .. }
        )
    } else {
        // For a window that failed, only its words are shown.
        let is_of_hone = error.downcast_ref::<Usage>().is_some()
            || error.downcast_ref::<NotItsOwn>().is_some()
            || error.downcast_ref::<std::io::Error>().is_some()
            || error.downcast_ref::<serde_json::Error>().is_some()
            || crate::outcome::refused(&error).is_some();
        !is_of_hone
    };
    if is_its_own { Ok(crate::outcome::in_a_line(&error)) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_tool::{Call, Runner as _, System};

    /// A shell that does this when it is asked to end.
    fn stopped(at_its_end: &str) -> Stopped {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let ready = dir.path().join("ready");
        let script =
            format!("trap '{at_its_end}' TERM; : > {}; while :; do sleep 0.01; done", ready.display());
        let session = system.start(&Call::new("start", "/bin/sh", dir.path()).args(["-c", &script])).unwrap();
        while !ready.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        session.stop(Duration::from_millis(300)).unwrap()
    }

    #[test]
    fn what_happens_around_a_program_is_no_trouble_of_its_own() {
        let of = |error: anyhow::Error| trouble_of(error.context("pgo did not start")).is_ok();
        assert!(of(anyhow::anyhow!("no records came back")), "words alone");
        assert!(!of(NotItsOwn("there is no free port".to_owned()).into()));
        assert!(!of(Usage("the command is empty".to_owned()).into()));
        assert!(!of(std::io::Error::other("the disk is full").into()));
    }

    #[test]
    fn what_breaks_now_and_then_does_not_get_through() {
        let mut left = 3;
        let mut breaks = || {
            left -= 1;
            Ok(if left == 0 { Err("it crashed".to_owned()) } else { Ok(()) })
        };
        let found = again_and_again(Duration::ZERO, &mut breaks).unwrap();
        assert_eq!(found, Err("it crashed (in check 4 of the same program)".to_owned()));
        assert_eq!(again_and_again(Duration::ZERO, || Ok(Ok(()))).unwrap(), Ok(LEAST_CHECKS));
        let passes = || {
            std::thread::sleep(Duration::from_millis(2));
            Ok(Ok(()))
        };
        assert!(again_and_again(Duration::from_millis(40), passes).unwrap().unwrap() > LEAST_CHECKS);
    }

    #[test]
    fn a_crash_and_a_hang_at_the_stop_are_troubles_and_an_orderly_end_is_none() {
        let trouble = |at_its_end: &str| trouble_at_stop(&stopped(at_its_end));
        assert_eq!(trouble("exit 0"), None);
        assert_eq!(trouble("trap - TERM; kill -TERM $$"), None, "of the signal that was sent");
        assert!(trouble("kill -SEGV $$").unwrap().contains("crashed when Hone stopped it"));
        assert!(trouble("sleep 9").unwrap().contains("did not end when Hone stopped it"));
    }
}
