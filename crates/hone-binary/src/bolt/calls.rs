//! The calls of BOLT's tools, as values, and the tools themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_record::ToolReceipt;
use hone_tool::{Call, Tool, Version};
use serde::{Deserialize, Serialize};

use super::refusal::BoltRefusal;
use super::samples::Samples;
use crate::perf::Event;

/// Known majors, best first. Their messages and options were recorded from 19 and 22.
const MAJORS: [&str; 4] = ["llvm-bolt-22", "llvm-bolt-21", "llvm-bolt-20", "llvm-bolt-19"];

/// The oldest BOLT with known messages.
const OLDEST: u32 = 19;

/// A large program takes minutes, on a small machine many.
const LIMIT: Duration = Duration::from_secs(3600);

/// BOLT's tools, all of one version, in their real folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoltTools {
    /// The rewriter.
    pub bolt: PathBuf,
    /// Turns samples into profiles. It is the same program under another name, so the name must stay.
    pub perf2bolt: PathBuf,
    /// Major version.
    pub major: u32,
    /// The receipts of these tools.
    pub receipts: Vec<ToolReceipt>,
}

impl BoltTools {
    /// Finds BOLT of this LLVM, or the newest known one, and the tools next to it.
    ///
    /// BOLT 19 looks for its runtime next to the link by which it was called and not next to itself, so links are resolved first.
    ///
    /// # Errors
    /// Fails when a tool is missing, too old, or prints no version; with the command that installs it.
    pub fn find(major: Option<u32>) -> anyhow::Result<Self> {
        let wanted = major.map(|major| format!("llvm-bolt-{major}"));
        let package = format!("bolt-{}", major.unwrap_or(22));
        let names: Vec<&str> = match &wanted {
            Some(name) => vec![name],
            None => MAJORS.into_iter().chain(["llvm-bolt"]).collect(),
        };
        let locate = |name: &&str| Tool::new(name, "HONE_LLVM_BOLT").debian(&package).locate(&[]);
        let found = match names.iter().find_map(|name| locate(name).ok()) {
            Some(found) => found,
            None => locate(&names[0])?,
        };
        let real = found.path().canonicalize()?;
        let folder = [real.parent().unwrap_or(Path::new("/")).to_path_buf()];
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bolt = Tool::new(&name, "").at_least(OLDEST, 0, 0).debian(&package).locate_beside(&folder)?;
        let perf2bolt = Tool::new("perf2bolt", "").debian(&package).locate_beside(&folder)?;
        let receipt = bolt.receipt()?;
        let major = Version::first_in(&receipt.version).map_or(0, |version| version.0);
        Ok(Self {
            bolt: bolt.path().to_path_buf(),
            perf2bolt: perf2bolt.path().to_path_buf(),
            major,
            receipts: vec![receipt],
        })
    }

    /// The commands that instrument and rewrite a program, for a plan; nothing is examined, and the functions that this BOLT fails on are
    /// still unknown.
    pub fn plan(&self, program: &Path, work: &Path) -> [Call; 2] {
        let name = |ending: &str| {
            let mut name = program.file_name().unwrap_or_default().to_owned();
            name.push(ending);
            work.join(name)
        };
        let (counting, output, profile) = (name(".counting"), name(""), name(".fdata"));
        let paths = |output| Paths { input: program, output, profile: &profile, skip_file: None, cwd: work };
        let writes = Writes::AtExit { for_each_process: true };
        [instrument(self, paths(&counting), writes), optimize(self, paths(&output), &Wish::new(Rung::Full))]
    }

    /// The commands that turn perf's data into a profile, for a plan.
    ///
    /// # Errors
    /// [`BoltRefusal::TooOld`].
    pub fn plan_conversion(
        &self,
        program: &Path,
        event: Event,
        data: &Path,
        work: &Path,
    ) -> Result<Call, crate::refusal::Refusal> {
        let mut profile = work.join(program.file_name().unwrap_or_default()).into_os_string();
        profile.push(".fdata");
        let kind = if event == Event::Branches { Samples::Branches } else { Samples::Plain };
        Ok(convert(self, program, data, kind, Path::new(&profile), work)?)
    }

    /// The library for instrumented programs, at the path where BOLT will look for it.
    pub fn runtime(&self) -> PathBuf {
        let prefix = self.bolt.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        prefix.join("lib/libbolt_rt_instr.a")
    }

    /// Whether BOLT accepts plain samples as a list of addresses: 19 takes only branches and fall-throughs.
    pub fn takes_sampled_addresses(&self) -> bool {
        self.major >= 22
    }
}

/// When an instrumented program writes its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writes {
    /// When it ends by `exit` or a return from `main`; not by a signal.
    AtExit {
        /// One file for each process, `FILE.PID.fdata`.
        for_each_process: bool,
    },
    /// Every few seconds, and therefore also if it is killed. BOLT refuses a separate file per process in addition.
    Every {
        /// Seconds between.
        seconds: u32,
    },
}

/// Files of one run of BOLT.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paths<'a> {
    /// The program.
    pub(crate) input: &'a Path,
    /// The new program.
    pub(crate) output: &'a Path,
    /// The profile that is read, or that the new program will write.
    pub(crate) profile: &'a Path,
    /// The functions to skip, if any.
    pub(crate) skip_file: Option<&'a Path>,
    /// Working directory.
    pub(crate) cwd: &'a Path,
}

impl Paths<'_> {
    fn call(&self, step: &str, tools: &BoltTools) -> Call {
        let call = Call::new(step, &tools.bolt, self.cwd).arg(self.input).arg("-o").arg(self.output);
        let call = call.limit(LIMIT).produces(self.output);
        match self.skip_file {
            Some(file) => call.arg(joined("-skip-funcs-file=", file)),
            None => call,
        }
    }
}

/// Instruments a program.
pub(crate) fn instrument(tools: &BoltTools, paths: Paths<'_>, writes: Writes) -> Call {
    let call = paths.call("bolt-instrument", tools).arg("-instrument");
    let call = call.arg(joined("--instrumentation-file=", paths.profile));
    match writes {
        Writes::AtExit { for_each_process: true } => call.arg("--instrumentation-file-append-pid"),
        Writes::AtExit { for_each_process: false } => call,
        // Without the second option, each write overwrites the file with the counts of the last interval only.
        Writes::Every { seconds } => call
            .arg(format!("--instrumentation-sleep-time={}", seconds.max(1)))
            .arg("--instrumentation-no-counters-clear"),
    }
}

/// How much BOLT may do, from all to least. If a rewritten program does not work, the next level is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rung {
    /// Blocks, functions, splitting with exception handlers, folding.
    Full,
    /// Handlers of exceptions stay where they are.
    WithoutSplitEh,
    /// Functions with switch tables stay as they are, too.
    WithoutJumpTables,
    /// Blocks and functions are moved, nothing is split, folded or rewritten.
    LayoutOnly,
}

impl Rung {
    /// All, in order.
    pub const LADDER: [Self; 4] =
        [Self::Full, Self::WithoutSplitEh, Self::WithoutJumpTables, Self::LayoutOnly];

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::WithoutSplitEh => "without-split-eh",
            Self::WithoutJumpTables => "without-jump-tables",
            Self::LayoutOnly => "layout-only",
        }
    }

    fn flags(self, major: u32) -> Vec<&'static str> {
        let mut flags = vec!["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort"];
        if self < Self::LayoutOnly {
            flags.extend(["-split-functions", "-split-all-cold"]);
            // Up to 19 it is a switch, and folds all equal functions; later versions skip functions whose address is taken.
            flags.push(if major >= 20 { "-icf=safe" } else { "-icf=1" });
        }
        if self == Self::Full {
            flags.push("-split-eh");
        }
        if self >= Self::WithoutJumpTables {
            flags.push("-jump-tables=none");
        }
        // A table of the origin of each place, for users who sample the program in production, or evaluate a layout. It is not loaded.
        flags.extend(["-use-gnu-stack", "-dyno-stats", "--enable-bat"]);
        flags
    }
}

/// The request: what to optimise, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The level.
    pub rung: Rung,
    /// Functions to skip, by their name in the program.
    pub skip: Vec<String>,
    /// More options, such as `--no-huge-pages`, `--use-old-text` for a small file, or `--no-threads` for little memory.
    pub extra: Vec<String>,
}

impl Wish {
    /// Everything that a level does.
    pub fn new(rung: Rung) -> Self {
        Self { rung, skip: Vec::new(), extra: Vec::new() }
    }
}

/// The text of a file of functions to skip; BOLT takes each line for a regular expression. Local symbols end with `/N`.
pub(crate) fn skip_text(names: &[String]) -> String {
    names.iter().map(|name| format!("{}(/[0-9]+)?\n", escaped(name))).collect()
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Rewrites a program by a profile.
pub(crate) fn optimize(tools: &BoltTools, paths: Paths<'_>, wish: &Wish) -> Call {
    paths
        .call("bolt-optimize", tools)
        .arg(joined("-data=", paths.profile))
        .args(wish.rung.flags(tools.major))
        .args(wish.extra.iter().cloned())
}

/// Turns samples into a profile. perf2bolt leaves tens of megabytes of temporary files when it fails, so it gets its own folder.
///
/// # Errors
/// [`BoltRefusal::TooOld`] for a kind that this version does not read.
pub(crate) fn convert(
    tools: &BoltTools,
    program: &Path,
    samples: &Path,
    kind: Samples,
    profile: &Path,
    scratch: &Path,
) -> Result<Call, BoltRefusal> {
    if kind == Samples::AddedUpAddresses && !tools.takes_sampled_addresses() {
        return Err(BoltRefusal::TooOld { major: tools.major, what: "read sampled addresses", needed: 22 });
    }
    let flags: &[&str] = match kind {
        Samples::Branches => &[],
        Samples::Plain => &["-nl"],
        Samples::AddedUpBranches => &["--pa"],
        Samples::AddedUpAddresses => &["--pa", "-nl"],
    };
    Ok(Call::new("perf2bolt", &tools.perf2bolt, scratch)
        .arg(program)
        .arg("-p")
        .arg(samples)
        .arg("-o")
        .arg(profile)
        .args(flags.iter().copied())
        .env("TMPDIR", scratch)
        .limit(LIMIT))
}

fn joined(flag: &str, path: &Path) -> std::ffi::OsString {
    let mut arg = std::ffi::OsString::from(flag);
    arg.push(path);
    arg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(major: u32) -> BoltTools {
        let bin = PathBuf::from("/llvm/bin");
        BoltTools { bolt: bin.join("llvm-bolt"), perf2bolt: bin.join("perf2bolt"), major, receipts: vec![] }
    }

    #[test]
    fn a_writing_program_keeps_its_counters_and_has_one_file() {
        let line = |writes| {
            let [input, output, profile, cwd] = ["/p/x", "/w/x.i", "/w/x.fdata", "/w"].map(Path::new);
            let paths = Paths { input, output, profile, skip_file: None, cwd };
            instrument(&tools(19), paths, writes).to_string()
        };
        let start =
            "cd /w && /llvm/bin/llvm-bolt /p/x -o /w/x.i -instrument --instrumentation-file=/w/x.fdata";
        assert_eq!(line(Writes::AtExit { for_each_process: false }), start);
        let each = format!("{start} --instrumentation-file-append-pid");
        assert_eq!(line(Writes::AtExit { for_each_process: true }), each);
        let every = format!("{start} --instrumentation-sleep-time=2 --instrumentation-no-counters-clear");
        assert_eq!(line(Writes::Every { seconds: 2 }), every);
    }

    #[test]
    fn the_ladder_takes_away_one_thing_after_the_other() {
        let flags: Vec<String> = Rung::LADDER.iter().map(|rung| rung.flags(22).join(" ")).collect();
        let both = "-reorder-blocks=ext-tsp -reorder-functions=cdsort";
        let end = "-use-gnu-stack -dyno-stats --enable-bat";
        assert_eq!(flags[0], format!("{both} -split-functions -split-all-cold -icf=safe -split-eh {end}"));
        assert_eq!(flags[1], format!("{both} -split-functions -split-all-cold -icf=safe {end}"));
        assert_eq!(
            flags[2],
            format!("{both} -split-functions -split-all-cold -icf=safe -jump-tables=none {end}")
        );
        assert_eq!(flags[3], format!("{both} -jump-tables=none {end}"));
        assert!(Rung::Full.flags(19).contains(&"-icf=1"));
    }

    #[test]
    fn functions_to_skip_are_names_and_not_patterns() {
        let names = ["_ZL4stepmm".to_owned(), "f.llvm.12$x".to_owned()];
        assert_eq!(skip_text(&names), "_ZL4stepmm(/[0-9]+)?\nf\\.llvm\\.12\\$x(/[0-9]+)?\n");
    }

    #[test]
    fn samples_are_told_apart_and_old_tools_are_asked_for_what_they_know() {
        let line = |major, kind| {
            let (program, samples, profile) = (Path::new("/p/x"), Path::new("/d"), Path::new("/w/f"));
            convert(&tools(major), program, samples, kind, profile, Path::new("/t"))
                .map(|call| call.to_string())
        };
        let start = "cd /t && TMPDIR=/t /llvm/bin/perf2bolt /p/x -p /d -o /w/f";
        assert_eq!(line(19, Samples::Branches).unwrap(), start);
        assert_eq!(line(19, Samples::Plain).unwrap(), format!("{start} -nl"));
        assert_eq!(line(22, Samples::AddedUpAddresses).unwrap(), format!("{start} --pa -nl"));
        assert_eq!(line(19, Samples::AddedUpBranches).unwrap(), format!("{start} --pa"));
        assert!(matches!(line(19, Samples::AddedUpAddresses), Err(BoltRefusal::TooOld { needed: 22, .. })));
    }
}
