//! LLVM profiles, through llvm-profdata. The format has a version; a tool reads those up to its own and writes only its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_record::ToolReceipt;
use hone_tool::{Call, Lack, Runner, Tool, ToolError, Version};

use super::fault::StoreFault;
use crate::profile::Profile;

/// Majors of the tools in the search of PATH by their Debian names, newest first.
const MAJORS: std::ops::RangeInclusive<u32> = 14..=30;

/// The environment variable overrides everything.
const OVERRIDE: &str = "HONE_LLVM_PROFDATA";

/// A tool that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profdata {
    pub(super) path: PathBuf,
    pub(super) receipt: ToolReceipt,
}

impl Profdata {
    fn version(&self) -> Version {
        Version::first_in(&self.receipt.version).unwrap_or(Version(0, 0, 0))
    }
}

/// All tools on this machine, newest first; only the one that [`OVERRIDE`] names, if it is set.
pub(super) fn tools(runner: &dyn Runner) -> Result<Vec<Profdata>> {
    if std::env::var_os(OVERRIDE).is_some_and(|value| !value.is_empty()) {
        let found = Tool::new("llvm-profdata", OVERRIDE).locate(&[])?;
        return Ok(vec![Profdata { path: found.path().to_path_buf(), receipt: found.receipt()? }]);
    }
    let names = MAJORS.rev().map(|major| format!("llvm-profdata-{major}"));
    let mut found: Vec<Profdata> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |located: Result<hone_tool::LocatedTool, ToolError>| {
        let Ok(located) = located else { return };
        let real = located.path().canonicalize().unwrap_or_else(|_| located.path().to_path_buf());
        // A tool without a readable version is ignored.
        if let (true, Ok(receipt)) = (seen.insert(real), located.receipt()) {
            found.push(Profdata { path: located.path().to_path_buf(), receipt });
        }
    };
    if let Some(folder) = of_rustc(runner) {
        add(Tool::new("llvm-profdata", "").locate_beside(&[folder]));
    }
    for name in names.chain(["llvm-profdata".to_owned()]) {
        add(Tool::new(&name, "").locate(&[]));
    }
    if found.is_empty() {
        return Err(StoreFault::NoTool.into());
    }
    found.sort_by_key(|tool| std::cmp::Reverse(tool.version()));
    Ok(found)
}

/// The folder of the Rust compiler's own tools, if there is one.
fn of_rustc(runner: &dyn Runner) -> Option<PathBuf> {
    let rustc = Tool::new("rustc", "HONE_RUSTC").locate(&[]).ok()?;
    let call = Call::new("ask-rustc-libdir", rustc.path(), "/").args(["--print", "target-libdir"]);
    let answer = runner.run(&call).ok()?.stdout_text().ok()?;
    Some(Path::new(answer.trim()).parent()?.join("bin"))
}

/// Reads a profile with every counter, by the newest tool.
pub(super) fn read(runner: &dyn Runner, scratch: &Path, file: &Path, format: Option<u32>) -> Result<Profile> {
    let tools = tools(runner)?;
    let Some(tool) = tools.first() else { return Err(StoreFault::NoTool.into()) };
    let text = scratch.join("profile.proftext");
    let _ = std::fs::remove_file(&text);
    let call = Call::new("read-profile", &tool.path, scratch)
        .args(["merge", "--text", "-o"])
        .arg(&text)
        .arg(absolute(file))
        .produces(&text);
    match runner.run(&call) {
        // The tool writes a profile without functions like this.
        Err(ToolError::NothingProduced { lack: Lack::Empty, .. }) => {}
        Err(error) => return Err(unreadable(error, file, format, tool)),
        Ok(_) => {}
    }
    let broken = |reason: String| StoreFault::Broken { file: file.to_path_buf(), reason };
    let bytes = std::fs::read(&text).map_err(|error| broken(error.to_string()))?;
    let _ = std::fs::remove_file(&text);
    Ok(Profile::parse(&String::from_utf8_lossy(&bytes)).map_err(broken)?)
}

fn unreadable(error: ToolError, file: &Path, format: Option<u32>, tool: &Profdata) -> anyhow::Error {
    let ToolError::Failed { scene, .. } = &error else { return error.into() };
    let said = scene.stderr.join("\n");
    if said.contains("unsupported instrumentation profile format version") {
        let tool = format!("{} ({})", tool.path.display(), tool.receipt.version);
        return StoreFault::TooNew { file: file.to_path_buf(), format: format.unwrap_or(0), tool }.into();
    }
    // The error shows its last lines; the log itself is removed.
    let scene = hone_tool::Scene { log: None, ..(**scene).clone() };
    let reason = format!("llvm-profdata can't read it\n{scene}");
    StoreFault::Broken { file: file.to_path_buf(), reason }.into()
}

/// Tools run in another folder.
pub(super) fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf())
}
