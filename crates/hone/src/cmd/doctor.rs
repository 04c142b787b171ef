//! `hone doctor`: shows what this machine and its tools allow.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_host::doctor::examine;
use hone_host::tools::{KNOWN_TOOLS, KnownTool, Surroundings, ToolFinding, ToolFolders, rustc_llvm_major};
use hone_record::ToolReceipt;
use hone_tool::{Call, Runner as _, System, Tool};

use crate::cmd::context::CliContext;
use hone_document::doctor::Examination;
use hone_experiment::ending::Ending;

/// Check this machine and every tool that Hone can use.
///
/// For each tool, Hone shows the path, the version, whether the version fits, and how to install a missing tool. It changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

/// A tool that needs longer to print its version is not usable.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn run(_arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("checking the tools");
    let examination = look()?;
    cli.show_found("doctor", &examination, hone_document::doctor::text)?;
    // A warning is a result, not a failure.
    Ok(Ending::Done)
}

fn look() -> Result<Examination> {
    let root = Path::new("/");
    let machine = hone_host::observe::machine(root);
    let rustc = ask_rustc();
    let around = Surroundings {
        rustc_llvm: rustc.as_ref().and_then(|rustc| rustc_llvm_major(&rustc.version)),
        manager: hone_host::observe::package_manager(root),
        rustup: rustc
            .as_ref()
            // The folder `toolchains` marks rustup in every RUSTUP_HOME.
            .is_some_and(|rustc| rustc.sysroot.components().any(|part| part.as_os_str() == "toolchains")),
        // SAFETY: a question without side effects.
        as_root: unsafe { libc::geteuid() } == 0,
    };
    let beside: Vec<PathBuf> = rustc.iter().map(|rustc| rustc.tools.clone()).collect();
    let tools: Vec<ToolFinding> = KNOWN_TOOLS
        .iter()
        .map(|known| known.finding(locate(known, around.rustc_llvm, &beside), &around))
        .collect();
    // The tools have their own list with their purpose and how to install them, so they are not findings.
    let findings = examine(&machine, &[]);
    Ok(Examination { machine, tools, findings })
}

/// Returns the receipt of the first of a tool's names that exists and prints its version.
fn locate(known: &KnownTool, rustc_llvm: Option<u32>, beside: &[PathBuf]) -> Option<ToolReceipt> {
    let variable = format!("HONE_{}", known.name.to_uppercase().replace('-', "_"));
    let receipt = |program: &String| {
        let tool = Tool::new(program, &variable).version_args(known.version_args);
        let found = match known.place {
            ToolFolders::BesideRustc => tool.locate_beside(beside),
            ToolFolders::Path => tool.locate(&[]),
        };
        found.ok()?.receipt().ok()
    };
    known.programs(rustc_llvm).iter().find_map(receipt)
}

struct Rustc {
    version: String,
    sysroot: PathBuf,
    tools: PathBuf,
}

/// Asks rustc for its version and folders. Returns `None` without a working rustc.
fn ask_rustc() -> Option<Rustc> {
    let found = Tool::new("rustc", "HONE_RUSTC").locate(&[]).ok()?;
    let logs = tempfile::tempdir().ok()?;
    let ask = |args: &[&str]| {
        let runner = System::new(logs.path()).ok()?;
        let call = Call::new("rustc", found.path(), "/").args(args.iter().copied()).limit(VERSION_LIMIT);
        runner.run(&call).ok()?.stdout_text().ok()
    };
    let (version, sysroot) = (ask(&["-vV"]), ask(&["--print", "sysroot"]));
    let (version, sysroot) = (version?, PathBuf::from(sysroot?.trim()));
    let host = version.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned();
    let tools = sysroot.join("lib/rustlib").join(host).join("bin");
    Some(Rustc { version, sysroot, tools })
}
