//! How much of a profile a program can still use.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_tool::Call;
use serde::Serialize;

use super::fault::StoreFault;
use super::format::StoredFormat;
use super::keeper::Keeper;
use super::opened::{Contents, Opened, share, weights};
use super::{counting, profdata};
use crate::bolt::fdata::{Counts, bare_name};
use crate::bolt::{BoltTools, Input, Said, preflight};
use crate::go::{self, Coverage};
use crate::profile::{self, CONTEXT_SENSITIVE, symbol_of};
use hone_record::without_hash;

/// The most that a profile may have lost: one in ten is a release or two of ordinary work. A choice, not a constant of nature; BOLT's own
/// profiles have the same limit in the steps of an optimisation.
pub const DEFAULT_BUDGET: f64 = 0.10;

/// With a smaller share of an LLVM profile's counts, a verdict would be about something else: a choice, not a constant of nature. A profile
/// of both rounds of counts has about as much of either.
const LEAST_JUDGED: f64 = 0.10;

/// Why a function's weight is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// The program has no function with this name.
    Gone,
    /// It has one, but with another control flow.
    Changed,
}

/// A function whose weight the optimiser can't use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    /// The demangled name.
    pub name: String,
    /// Its weight. For Go: that of all its calls, so that a call between two lost functions is in both.
    pub weight: u64,
    /// The weight as a share of the whole, 0 to 1.
    pub share: f64,
    /// The reason.
    pub why: Why,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The profile.
    pub profile: PathBuf,
    /// Its form.
    pub kind: StoredFormat,
    /// The program.
    pub program: PathBuf,
    /// The method of the comparison.
    pub compared: &'static str,
    /// The unit of the weight.
    pub unit: &'static str,
    /// Sum of the weights.
    pub weight: u64,
    /// The lost part of it.
    pub lost: u64,
    /// Share of the weight that is lost, 0 to 1. For BOLT the larger of this and of its own figure.
    pub lost_share: f64,
    /// Functions of the profile with a weight.
    pub functions: u64,
    /// The lost ones, heaviest first.
    pub lost_functions: Vec<Lost>,
    /// Functions of the program that the profile lacks; they are optimised without a profile. Only for LLVM.
    pub unknown_to_profile: Option<u64>,
    /// Whether the profile was taken from this program, by lock or note; `None` without evidence.
    pub same_build: Option<bool>,
    /// Further notes.
    pub notes: Vec<String>,
}

impl Keeper<'_> {
    /// Compares a profile with a program: an instrumented build of the present source for LLVM, a linked program for BOLT and Go. With
    /// `names_only`, Hone does not run llvm-bolt, and BOLT functions count as matched if the program has their names.
    ///
    /// # Errors
    /// Fails when profile or program can't be read or can't answer. A profile that fits nowhere is no error.
    pub fn check(&self, profile: &Path, program: &Path, names_only: bool) -> Result<Check> {
        let opened = self.open(profile)?;
        opened.counted()?;
        let mut check = match &opened.contents {
            Contents::Profdata(profile) => of_llvm(&opened, profile, program)?,
            Contents::Fdata(counts) => self.of_bolt(&opened, counts, program, names_only)?,
            Contents::Pprof(profile) => of_go(&opened, profile, program)?,
        };
        opened.judged(&check)?;
        check.same_build = same_build(&opened, program)?;
        Ok(check)
    }

    fn of_bolt(&self, opened: &Opened, counts: &Counts, program: &Path, names_only: bool) -> Result<Check> {
        let input = Input::look(program)?;
        let names = preflight::function_names(program)?;
        let lost_by = |why: Why, lost: &dyn Fn(&str) -> bool| -> Vec<(String, u64, Why)> {
            let functions = counts.functions.iter().filter(|(name, _)| lost(name));
            functions.map(|(name, sum)| (name.clone(), sum.heat(), why)).collect()
        };
        let mut lost = lost_by(Why::Gone, &|name| !names.contains(name));
        let heats = counts.functions.values().map(|sum| sum.heat());
        let weight = heats.fold(0, u64::saturating_add);
        let mut check = Check {
            unit: "branches and entries",
            compared: "names of functions",
            functions: counts.functions.len() as u64,
            ..Check::new(opened, program, weight)
        };
        if names_only {
            check
                .notes
                .push("the check did not look for functions with changed code (--names-only)".to_owned());
        } else if counts.functions.keys().any(|name| names.contains(name)) {
            // BOLT reports nothing about a profile without any known name.
            let (said, stale) = self.stale(&input, &opened.file)?;
            lost.extend(lost_by(Why::Changed, &|name| names.contains(name) && stale.contains(name)));
            check.compared = "names of functions, and llvm-bolt's own report of the places in them";
            check.lost_share = said.stale_share();
            if let Some(part) = said.stale_samples {
                let percent = part.share() * 100.0;
                check.notes.push(format!("BOLT calls {percent:.2} % of its samples stale"));
            }
            if let Some(trouble) = useless(&said) {
                check.notes.push(trouble);
                check.lost_share = 1.0;
            }
        }
        Ok(check.with(lost))
    }

    /// Lets BOLT read the profile for this program: its report, and the functions that it calls stale.
    fn stale(&self, input: &Input, profile: &Path) -> Result<(Said, HashSet<String>)> {
        let tools = BoltTools::find(None)?;
        let output = self.scratch.join("rewritten");
        let mut data = std::ffi::OsString::from("-data=");
        data.push(profdata::absolute(profile));
        let call = Call::new("bolt-check", &tools.bolt, self.scratch)
            .arg(profdata::absolute(&input.executable))
            .arg("-o")
            .arg(&output)
            .arg(data)
            .arg("-report-stale")
            .limit(BOLT_LIMIT)
            .produces(&output);
        let finished = self.runner.run(&call)?;
        let _ = std::fs::remove_file(&output);
        let words = finished.stdout_text()? + "\n" + &finished.stderr_text()?;
        let (said, stale) = (Said::parse(&words), stale_functions(&words));
        if let Some(unsaid) = unsaid(&said, &stale) {
            let what = format!("can't be checked: llvm-bolt did not report {unsaid}");
            let program = input.executable.clone();
            return Err(
                StoreFault::Program { program, what, next: "use BOLT 19 to 22, or --names-only" }.into()
            );
        }
        Ok((said, stale))
    }
}

/// What a version of BOLT with other messages leaves open: otherwise nothing would seem lost.
fn unsaid(said: &Said, stale: &HashSet<String>) -> Option<&'static str> {
    if said.profiled_functions.is_none() {
        return Some("how many functions have a profile");
    }
    let has_stale = said.stale_functions.is_some_and(|functions| functions > 0);
    let is_untold = said.stale_samples.is_none() && stale.is_empty();
    (has_stale && is_untold).then_some("which functions, or how many samples, are stale")
}

/// Why BOLT uses nothing of a profile, or why its report is unusable.
fn useless(said: &Said) -> Option<String> {
    if let Some(line) = said.profile_ends_at_line {
        return Some(format!("BOLT read the profile only up to line {line}: merge it again"));
    }
    let none = said.profiled_functions.is_some_and(|profiled| profiled.of_them == 0);
    none.then(|| "BOLT used the profile for none of the program's functions".to_owned())
}

/// As for a build's own run of BOLT.
const BOLT_LIMIT: std::time::Duration = std::time::Duration::from_secs(3600);

impl Check {
    fn new(opened: &Opened, program: &Path, weight: u64) -> Self {
        Self {
            profile: opened.file.clone(),
            kind: opened.kind,
            program: program.to_path_buf(),
            compared: "",
            unit: "",
            weight,
            lost: 0,
            lost_share: 0.0,
            functions: 0,
            lost_functions: Vec::new(),
            unknown_to_profile: None,
            same_build: None,
            notes: Vec::new(),
        }
    }

    /// Records the losses, by symbol; the sum is that of the parts.
    fn with(self, lost: Vec<(String, u64, Why)>) -> Self {
        let sum = lost.iter().fold(0, |sum: u64, (_, weight, _)| sum.saturating_add(*weight));
        let mut check = self.with_sum(lost, sum);
        check.lost_share = check.lost_share.max(share(check.lost, check.weight));
        check
    }

    fn with_sum(mut self, lost: Vec<(String, u64, Why)>, sum: u64) -> Self {
        self.lost = sum;
        let weight = self.weight;
        self.lost_functions = lost
            .into_iter()
            .filter(|(_, weight, _)| *weight > 0)
            .map(|(name, lost, why)| Lost {
                name: without_hash(&name),
                weight: lost,
                share: share(lost, weight),
                why,
            })
            .collect();
        self.lost_functions.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        self
    }
}

fn of_llvm(opened: &Opened, profile: &profile::Profile, program: &Path) -> Result<Check> {
    let hashes = counting::functions(program)?;
    // A build counts either before inlining or after it, with context; it can't judge the other part of the profile.
    let with_context = |hash: u64| hash & CONTEXT_SENSITIVE != 0;
    let of_program = |wanted: bool| hashes.values().flatten().any(|&hash| with_context(hash) == wanted);
    let judged: Vec<&profile::Function> =
        profile.functions.iter().filter(|function| of_program(with_context(function.hash))).collect();
    let passed_over = profile.functions.len() - judged.len();
    let ran: Vec<&profile::Function> =
        judged.iter().copied().filter(|function| function.total_count > 0).collect();
    let weight = ran.iter().fold(0, |sum: u64, function| sum.saturating_add(function.total_count));
    let lost = ran.iter().filter_map(|function| {
        let why = match hashes.get(&function.name) {
            None => Why::Gone,
            Some(known) if !known.contains(&function.hash) => Why::Changed,
            Some(_) => return None,
        };
        Some((symbol_of(&function.name).to_owned(), function.total_count, why))
    });
    let lost: Vec<(String, u64, Why)> = lost.collect();
    let known: HashSet<&str> = profile.functions.iter().map(|function| function.name.as_str()).collect();
    let mut check = Check {
        unit: "counts",
        compared: "names and control-flow hashes, like the compiler",
        functions: ran.len() as u64,
        unknown_to_profile: Some(hashes.keys().filter(|name| !known.contains(name.as_str())).count() as u64),
        ..Check::new(opened, program, weight)
    };
    if judged.is_empty() {
        let what = "has context-sensitive counters and the profile has none, or vice versa".to_owned();
        let next = "use a build with -fprofile-generate for an IR profile, and one with \
            -fcs-profile-generate for a context-sensitive profile";
        return Err(StoreFault::Program { program: program.to_path_buf(), what, next }.into());
    }
    if passed_over > 0 {
        check.notes.push(format!(
            "Hone did not check {passed_over} records: they were taken {} inlining, where this build has no \
             counters",
            if of_program(true) { "before" } else { "after" }
        ));
    }
    Ok(check.with(lost))
}

fn of_go(opened: &Opened, profile: &go::Profile, program: &Path) -> Result<Check> {
    let Coverage { weight, lost, lost_percent, lost_functions } =
        go::coverage_of(profile, &opened.file, program)?;
    let count = |weight: i64| weight.max(0).cast_unsigned();
    let functions = weights(&opened.contents).len() as u64;
    let lost_functions =
        lost_functions.into_iter().map(|(name, weight)| (name, count(weight), Why::Gone)).collect();
    let check = Check {
        unit: "weight of calls",
        compared: "names on both sides of each call; the check does not see calls that moved inside their \
            function",
        functions,
        ..Check::new(opened, program, count(weight))
    };
    let mut check = check.with_sum(lost_functions, count(lost));
    check.lost_share = lost_percent / 100.0;
    Ok(check)
}

/// Whether a lock or BOLT's note names this very program.
fn same_build(opened: &Opened, program: &Path) -> Result<Option<bool>> {
    let taken = opened.taken_from()?;
    if taken.is_empty() {
        return Ok(None);
    }
    let (sha256, _) = crate::lock::sha256_of(program)?;
    let build_id = preflight::anatomy(program).ok().and_then(|anatomy| anatomy.build_id);
    Ok(Some(taken.iter().any(|from| from.is(&sha256, build_id.as_deref()))))
}

impl Opened {
    /// Refuses a verdict on nothing, which would be that nothing is lost.
    fn judged(&self, check: &Check) -> Result<(), StoreFault> {
        let total = self.facts().total_count;
        let (least, next) = match self.kind {
            StoredFormat::Profdata => (
                LEAST_JUDGED,
                "use a build with -fprofile-generate for counts of the first round, and one with \
                 -fcs-profile-generate for those of the second",
            ),
            StoredFormat::Fdata => {
                (0.0, "take the profile of this program: this profile contains only places in other files")
            }
            StoredFormat::Pprof => (0.0, "take the profile of this program"),
        };
        if check.weight > 0 && share(check.weight, total) >= least {
            return Ok(());
        }
        let (file, program) = (self.file.clone(), check.program.clone());
        Err(StoreFault::Unjudged { file, program, judged: check.weight, total, next })
    }
}

/// The names after BOLT's heading, one per line, indented. For a function with several names, their number follows the first.
pub(super) fn stale_functions(words: &str) -> HashSet<String> {
    let list = words.split_once("Functions with stale profile:\n").map_or("", |(_, list)| list);
    let names = list.lines().map_while(|line| line.strip_prefix("  "));
    let bare = names.map(|name| {
        let name = name.rsplit_once("(*").map_or(name, |(name, _)| name);
        String::from_utf8_lossy(bare_name(name.as_bytes())).into_owned()
    });
    bare.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bolt::Part;

    #[test]
    fn stale_functions_are_named_by_bolt() {
        let words = "BOLT-INFO: x\nBOLT-INFO: Functions with stale profile:\n  main\n  _ZL4stepmm/1(*2)\n  free@PLT\nBOLT-INFO: 3 of\n  not\n";
        let names = stale_functions(words);
        assert_eq!(names, ["main", "_ZL4stepmm", "free"].map(str::to_owned).into());
        assert_eq!(stale_functions("nothing"), HashSet::new());
    }

    #[test]
    fn a_bolt_that_does_not_say_what_is_stale_is_no_bolt_that_finds_nothing_stale() {
        let said = |stale_functions, stale_samples| Said {
            profiled_functions: Some(Part { of_them: 50, all: 60 }),
            stale_functions,
            stale_samples,
            ..Said::default()
        };
        let named = HashSet::from(["main".to_owned()]);
        let untold = Some("which functions, or how many samples, are stale");
        assert_eq!(unsaid(&Said::default(), &named), Some("how many functions have a profile"));
        assert_eq!(unsaid(&said(Some(40), None), &HashSet::new()), untold);
        assert_eq!(unsaid(&said(Some(40), None), &named), None);
        assert_eq!(unsaid(&said(Some(40), Some(Part { of_them: 1, all: 9 })), &HashSet::new()), None);
        assert_eq!(unsaid(&said(Some(0), None), &HashSet::new()), None);
        assert_eq!(unsaid(&said(None, None), &HashSet::new()), None);
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(text in "(Functions with stale profile:\n|  |[(*/1@PLT]|\n|é){0,30}") {
            stale_functions(&text);
        }
    }
}
