//! The guard of a change, and a change that lasts for a window.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use hone_host::change::ChangeError;
use hone_host::commit::{self, Applied, CommitError, Order, TakenBack};
use hone_host::journal::FOLDER;
use hone_tool::Call;

use super::candidate::Candidate;
use crate::ending::{NotItsOwn, Usage};
use crate::progress::alarm;

/// The guard is a unit of systemd where that runs the machine, since the end of a login session may end all processes that
/// began in it; else a process with a session of its own.
///
/// # Errors
/// When it can't be started, in words.
pub(crate) fn start(root: &Path, id: &str, ledger: Option<&Path>) -> Result<(), String> {
    let text = |path: &Path, what: &str| {
        path.to_str().map(str::to_owned).ok_or_else(|| Usage(format!("the {what} is no UTF-8")).to_string())
    };
    let root_text = text(root, "root")?;
    let ledger = ledger.map(std::path::absolute).transpose().map_err(|error| error.to_string())?;
    let ledger = ledger.map(|path| text(&path, "ledger's path")).transpose()?;
    let mut arguments = vec!["host", "guard", id, "--root", &root_text];
    arguments.extend(ledger.iter().flat_map(|path| ["--ledger", path]));
    if root == Path::new("/") && Path::new("/run/systemd/system").is_dir() {
        return start_unit(id, &arguments);
    }
    let log = root.join(FOLDER).join(format!("{id}.log"));
    hone_tool::detach_self(&arguments, &log).map(|_| ()).map_err(|error| error.to_string())
}

fn start_unit(id: &str, arguments: &[&str]) -> Result<(), String> {
    use hone_tool::{Runner as _, System, Tool};
    let told = |error: hone_tool::ToolError| error.to_string();
    let found = Tool::new("systemd-run", "HONE_SYSTEMD_RUN").locate(&[]).map_err(told)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let logs = tempfile::tempdir().map_err(|error| error.to_string())?;
    let runner = System::new(logs.path()).map_err(told)?;
    runner.run(&unit(found.path(), id, &program, arguments)).map(|_| ()).map_err(told)
}

/// systemd starts a guard again that was killed, which keeps its time then, and for as long as it does not end in order.
fn unit(systemd_run: &Path, id: &str, program: &Path, arguments: &[&str]) -> Call {
    let name = format!("--unit=hone-guard-{id}");
    Call::new("systemd-run", systemd_run, "/")
        .args(["--quiet", "--collect", &name])
        .args(["--property=Restart=on-failure", "--property=RestartSec=5s"])
        .args([format!("--property=OOMScoreAdjust={SPARED}").as_str(), "--"])
        .args([program.as_os_str()])
        .args(arguments.iter().copied())
        .limit(Duration::from_secs(20))
}

/// A kernel without memory ends other processes first. -1000 would be never, which is not ours to ask for.
const SPARED: i32 = -900;

/// Makes the kernel spare this process. Whoever may not ask for that is a guard all the same.
pub(crate) fn outlive_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", SPARED.to_string());
}

/// A candidate that is in force, with an armed guard. Taken back when dropped; [`Held::end`] says when that fails.
#[derive(Debug)]
pub(crate) struct Held {
    root: PathBuf,
    /// The change, until it is taken back.
    open: Option<String>,
    pub(crate) applied: Applied,
}

/// Why a candidate is not in force.
pub(crate) enum NotSet {
    /// The kernel does not take it: that is an answer.
    Refused(String),
    /// Nothing can be tried.
    Stops(anyhow::Error),
}

impl Held {
    /// Sets a candidate for `within`, in the name of a run.
    pub(crate) fn set(
        root: &Path,
        candidate: &Candidate,
        run: &str,
        within: Duration,
    ) -> Result<Self, NotSet> {
        let order = Order {
            profile: run.to_owned(),
            steps: candidate.steps(),
            disks: candidate.disks.clone(),
            confirm_within: Some(within),
        };
        match commit::make(root, &order, &mut |id| start(root, id, None)) {
            Ok(applied) => Ok(Self { root: root.to_owned(), open: Some(applied.id.clone()), applied }),
            Err(CommitError::TakenBack { source, outcomes, unkept: None })
                if matches!(*source, ChangeError::Refused { .. })
                    && outcomes.iter().all(|outcome| outcome.is_back()) =>
            {
                Err(NotSet::Refused(source.to_string()))
            }
            Err(error) => Err(NotSet::Stops(error.into())),
        }
    }

    /// Takes it back, and answers what was done meanwhile.
    ///
    /// # Errors
    /// Those of what was done; and when something is not as it was before, or the guard was quicker.
    pub(crate) fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.take_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => Err(error.context(format!("{problem:#}; this happened after"))),
        }
    }

    fn take_back(&mut self) -> Result<()> {
        let Some(id) = self.open.take() else { return Ok(()) };
        match commit::take_one_back(&self.root, &id)? {
            None => bail!(NotItsOwn(format!(
                "the guard took change {id} back inside of its window, which is then none: give a longer --guard, or shorter windows"
            ))),
            Some(back) if back.is_whole() => Ok(()),
            Some(back) => Err(anyhow!(not_whole(&back))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of a panic; nobody else would tell.
        if let Err(problem) = self.take_back() {
            alarm(&format!("{problem:#}"));
        }
    }
}

/// What was not taken back, and what to do about it.
fn not_whole(back: &TakenBack) -> String {
    let left = back.outcomes.iter().filter(|outcome| !outcome.is_back());
    let told: Vec<String> = left
        .map(|outcome| {
            let says = |text: &Option<String>| text.as_deref().map_or("nothing", str::trim).to_owned();
            let why = outcome.why.as_deref().unwrap_or("the kernel does not take it");
            format!(
                "/{} is `{}` and was `{}` before ({why})",
                outcome.path,
                says(&outcome.now),
                says(&outcome.before)
            )
        })
        .chain(back.unkept.clone())
        .collect();
    format!(
        "change {} is not taken back as a whole, so nothing more is tried: {}; `hone host revert --force` writes over what others set",
        back.id,
        told.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_started_again_and_spared() {
        let call = unit(Path::new("/bin/systemd-run"), "00007", Path::new("/bin/hone"), &["host", "guard"]);
        let words: Vec<String> =
            call.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let expected = "--quiet --collect --unit=hone-guard-00007 --property=Restart=on-failure --property=RestartSec=5s --property=OOMScoreAdjust=-900 -- /bin/hone host guard";
        assert_eq!(words.join(" "), expected);
    }
}
