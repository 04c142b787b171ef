//! Whether a program still does what it should: it starts, serves every judging workload, satisfies the target's own check, and
//! still runs then.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_load::{LoadError, smoke_test};
use hone_record::{SmokeTest, Workload};
use hone_tool::{ToolError, interrupt};

use super::Job;
use crate::Usage;
use crate::arm::{Arm, Place};
use crate::show;

/// Batches a partition for the smoke test.
const SMOKE_BATCHES: u32 = 10;

/// A check of the target's own may load it for a while.
const CHECK_LIMIT: Duration = Duration::from_secs(600);

impl Job<'_> {
    /// Checks a program. The inner error is its trouble, in words.
    ///
    /// # Errors
    /// When the check itself can't be carried out, which says nothing of the program.
    pub(super) fn check(&self, name: &str, program: &Path) -> Result<Result<SmokeTest, String>> {
        match self.checked(name, program) {
            Ok(found) => Ok(match found.difference.clone() {
                None => Ok(found),
                Some(difference) => Err(difference),
            }),
            Err(error) => trouble_of(error).map(Err),
        }
    }

    fn checked(&self, name: &str, program: &Path) -> Result<SmokeTest> {
        let arm = self.arm(name, program, BTreeMap::new());
        let mut all = SmokeTest { what: String::new(), records: 0, passed: true, difference: None };
        for workload in &self.experiment.judging {
            let (what, records, difference) = match workload.engine.operations() {
                None => self.read_back(&arm, workload)?,
                Some(operations) => {
                    self.bench().alone(&arm, workload)?;
                    (format!("{} operations done", show::number(operations as f64)), 0, None)
                }
            };
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
            self.own_check(&arm, words)?;
            all.what.push_str("; the target's own check");
        }
        Ok(all)
    }

    /// Of a Kafka-API broker: what was written comes back, byte for byte.
    fn read_back(&self, arm: &Arm, workload: &Workload) -> Result<(String, u64, Option<String>)> {
        let running = arm.start(self.runner, &self.folder.scratch())?;
        let tested = smoke_test(&running.address, workload, SMOKE_BATCHES)
            .with_context(|| format!("workload `{}`", workload.name))?;
        running.stop(self.runner)?;
        Ok((tested.what, tested.records, tested.difference))
    }

    /// The command of the target's own; the program must outlive it.
    fn own_check(&self, arm: &Arm, words: &[String]) -> Result<()> {
        let Place::Program(program) = &arm.place else { return Ok(()) };
        let path = program.path.display().to_string();
        let words: Vec<String> = words.iter().map(|word| word.replace("{program}", &path)).collect();
        if !self.serves() {
            let (_, filling, _data) = program.made_ready("check", &[], &self.folder.scratch())?;
            self.runner.run(&program.ways.call("check", &words, &filling)?.limit(CHECK_LIMIT))?;
            return Ok(());
        }
        let mut running = arm.start(self.runner, &self.folder.scratch())?;
        let call = running.call("check", &words, &[])?.limit(CHECK_LIMIT);
        let checked = self.runner.run(&call);
        // One that has ended is the reason why its check failed.
        running.check_alive().context("at the target's own check")?;
        checked.context("the target's own check")?;
        let Some(stopped) = running.stop(self.runner)? else { return Ok(()) };
        if !stopped.ended_by_itself() && is_crash(&stopped) {
            bail!(Trouble(format!("it crashed as it was stopped ({})", stopped.status)));
        }
        Ok(())
    }
}

/// A signal that no stop sends.
fn is_crash(stopped: &hone_tool::Stopped) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    let crashes = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGFPE, libc::SIGTRAP];
    stopped.status.signal().is_some_and(|signal| crashes.contains(&signal))
}

/// A trouble of the program itself.
#[derive(Debug)]
struct Trouble(String);

impl std::fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// What a program did wrong, in words: it did not start, did not serve, gave wrong answers, or failed in its window.
///
/// # Errors
/// With the error when it says nothing of the program: an interrupt, a full disk, a setting that can't be used.
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
        // A window that failed is told in words alone.
        let is_of_hone = error.downcast_ref::<Usage>().is_some()
            || error.downcast_ref::<std::io::Error>().is_some()
            || error.downcast_ref::<serde_json::Error>().is_some()
            || super::refused(&error).is_some();
        !is_of_hone
    };
    if is_its_own { Ok(super::in_a_line(&error)) } else { Err(error) }
}
