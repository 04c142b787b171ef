//! The rollback watchdog of a change of kernel settings: a process that rolls the change back if nobody confirms it.

use std::path::Path;
use std::time::Duration;

use hone_host::journal::FOLDER;
use hone_tool::Call;

use crate::ending::Usage;

/// The watchdog is a systemd unit where systemd runs the machine, since the end of a login session may end all its processes.
/// Otherwise it is a process in its own session.
///
/// # Errors
/// When it can't be started, in words.
pub fn start(root: &Path, id: &str, ledger: Option<&Path>) -> Result<(), String> {
    let text = |path: &Path, what: &str| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Usage(format!("the {what} is not valid UTF-8")).to_string())
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

/// systemd restarts a killed watchdog, which keeps its time limit, until it exits in order.
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

/// When memory runs out, the kernel ends other processes first. -1000 would be never, which Hone does not request.
const SPARED: i32 = -900;

/// Asks the kernel to spare this process. Without that right the watchdog works all the same.
pub fn outlive_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", SPARED.to_string());
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
