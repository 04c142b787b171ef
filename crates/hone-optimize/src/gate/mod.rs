//! Compares a commit with the one that it builds on. Hone checks out and builds both in the same place, one after the other, and loads them
//! in pairs. It only reads the user's repository.

pub mod begin;
mod bisect;
pub mod choice;
pub mod ci_files;
pub mod git;
pub mod hold;
pub mod papers;
pub mod plan_text;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::sha256_hex;
use hone_record::{
    Bisection, CommitBuild, CommitGate, Comparison, Counted, GateEvidence, GateFinding, GateOutcome,
};
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

use crate::commits::{self, BASE, HEAD, Kept, Side};
use crate::job::Job;
use crate::steps::Steps;
use git::{Repository, remove};
use hone_document::entries::gate::{entry_of, entry_of_counts};
use hone_experiment::decide;
use hone_experiment::folder::RunFolder;
use hone_experiment::ledger;
use hone_experiment::progress::Progress;
use hone_experiment::spec::{Experiment, line_of};

/// A commit that the user named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// In words.
    pub asked: String,
    /// Its hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

/// The settings of a gate, kept for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GateSettings {
    /// The experiment's name.
    pub name: String,
    /// A folder of the repository.
    pub top: PathBuf,
    /// The experiment file, by its path in the repository.
    pub path: String,
    /// The experiment file's text.
    pub text: String,
    /// The side of the file, in words.
    pub file_of: String,
    /// Whether the file's own commands come from the head's checkout.
    pub is_heads: bool,
    /// The base commit.
    pub base: Named,
    /// The commit that the gate judges.
    pub head: Named,
    /// The evidence that decides.
    #[serde(default)]
    pub evidence: GateEvidence,
    /// The commits of a search, the oldest first; the last one is the head. `None` without a search.
    #[serde(default)]
    pub between: Option<Vec<Named>>,
    /// Whether to measure equal programs.
    pub even_if_same: bool,
    /// Whether the gate fails if the pairs could not have detected a change by the limit.
    pub require_power: bool,
    /// The folder for checkouts and kept builds.
    pub cache: PathBuf,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A run.
pub struct Session<'a> {
    /// The settings.
    pub asked: &'a GateSettings,
    /// The experiment that judges.
    pub experiment: &'a Experiment,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// The folder of runs and their ledger.
    pub home: &'a Path,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// Receives the progress.
    pub progress: &'a Progress,
}

/// The repository with the working tree's commit.
pub const SNAPSHOT: &str = "snapshot.git";

/// The place of a repository's gate in the cache. It is always the same, so that paths in programs are the same in all runs.
pub(crate) fn area(cache: &Path, name: &str, top: &Path) -> PathBuf {
    let hash = sha256_hex(top.as_os_str().as_encoded_bytes());
    cache.join(format!("{name}-{}", hash.get(..8).unwrap_or(&hash)))
}

/// Where commits are built.
struct Checkout<'a> {
    repository: &'a Repository<'a>,
    /// The checkout, which is always the same folder.
    source: &'a Path,
    /// The folder of kept builds.
    kept: PathBuf,
}

/// The two commits of a gate.
struct Ends {
    base: Named,
    head: Named,
    bisection: Option<Bisection>,
}

/// What the evidence says.
#[derive(Default)]
struct Findings {
    comparisons: Vec<Comparison>,
    /// Why the head can't sustain a load.
    broken: Option<String>,
    /// The counts under each load, or why there are none.
    counted: Vec<Result<Counted, String>>,
}

/// Removed at every end but a kill. The next attempt removes what a kill leaves.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = remove(&self.0);
    }
}

impl Session<'_> {
    /// Does the unfinished builds, loads and judgements.
    ///
    /// # Errors
    /// Fails when a commit can't be built, when the base can't sustain its load, or when the user interrupts. The finished steps stay.
    pub fn run(&self) -> Result<CommitGate> {
        let asked = self.asked;
        let rule = hold::rule_of(asked, self.experiment);
        // Written before the first window, which proves that the rule came first.
        decide::fixed(self.folder, &rule)?;
        self.folder.write_text("experiment.toml", &asked.text)?;
        let area = area(&asked.cache, &self.experiment.name, &asked.top);
        let _alone = self.alone(&area)?;
        let repository = Repository::around(self.runner, &asked.top)?;
        let source = Temporary(area.join("source"));
        let tree = Temporary(self.folder.scratch().join("tree"));
        let file = source.0.join(&asked.path);
        let building = self.job(&file);
        let checkout = Checkout { repository: &repository, source: &source.0, kept: area.join("kept") };
        let (ends, base, head, seen) = commits::attempt(&building, |steps| {
            let ends = self.ends(&checkout, &building, steps)?;
            let mut build = |name, named| self.build(&checkout, &building, steps, name, named);
            let (base, head) = (build(BASE, &ends.base)?, build(HEAD, &ends.head)?);
            remove(&source.0)?;
            if let Some(variable) = base.other_flag(&head) {
                bail!(
                    "the two commits were not built alike: {variable} in the environment has changed since \
                     the run began\n  next: begin a new run"
                );
            }
            if commits::is_same_program([&base, &head])? && !asked.even_if_same {
                return Ok((ends, base, head, Findings::default()));
            }
            let ruling = if asked.is_heads { &asked.head } else { &asked.base };
            self.check_out(&repository, &tree.0, ruling)?;
            let judging = tree.0.join(&asked.path);
            let seen = self.seen(&self.job(&judging), steps, [&base, &head])?;
            Ok((ends, base, head, seen))
        })?;
        let is_same = commits::is_same_program([&base, &head])?;
        let mut notes = asked.notes.clone();
        notes.extend(self.notes(&base, &head, is_same));
        let findings = match asked.evidence {
            GateEvidence::Measured => self.findings(&seen.comparisons, seen.broken.as_deref()),
            GateEvidence::Counted => self.counted_findings(&seen.counted),
        };
        let outcome = match (is_same, &findings[..]) {
            (true, []) => GateOutcome::SameProgram,
            (_, findings) => GateOutcome::from_findings(findings, asked.require_power),
        };
        let found = CommitGate {
            name: asked.name.clone(),
            file: asked.path.clone(),
            file_of: asked.file_of.clone(),
            base: commit_build(&ends.base, &base),
            head: commit_build(&ends.head, &head),
            rule,
            worse_by: self.experiment.gate.worse_by.clone(),
            require_power: asked.require_power,
            comparisons: seen.comparisons,
            evidence: asked.evidence,
            counted: seen.counted.into_iter().flatten().collect(),
            bisection: ends.bisection,
            findings,
            outcome,
            notes,
            run: self.folder.path().display().to_string(),
        };
        self.folder.write_record("commit-gate.json", found.clone())?;
        self.enter_in_ledger(&found)?;
        remove(&self.folder.join(SNAPSHOT))?;
        Ok(found)
    }

    /// The two commits to compare: those of the request, or those that a search finds between them.
    fn ends(&self, checkout: &Checkout<'_>, building: &Job<'_>, steps: &mut Steps<'_>) -> Result<Ends> {
        let asked = self.asked;
        let Some(commits) = &asked.between else {
            return Ok(Ends { base: asked.base.clone(), head: asked.head.clone(), bisection: None });
        };
        // The load's own commands come from one side for all commits.
        let tree = Temporary(self.folder.scratch().join("tree"));
        self.check_out(checkout.repository, &tree.0, if asked.is_heads { &asked.head } else { &asked.base })?;
        let judging = tree.0.join(&asked.path);
        let found = self.narrowed(checkout, [building, &self.job(&judging)], steps, commits)?;
        Ok(Ends { base: found.base, head: found.head, bisection: Some(found.bisection) })
    }

    fn build(
        &self,
        checkout: &Checkout<'_>,
        building: &Job<'_>,
        steps: &mut Steps<'_>,
        name: &str,
        named: &Named,
    ) -> Result<Side> {
        let sources = format!("{} {} {}", named.commit, self.asked.path, self.target());
        fs::create_dir_all(&checkout.kept)
            .with_context(|| format!("{} can't be made", checkout.kept.display()))?;
        let kept = Kept { folder: &checkout.kept, sources: &sources };
        commits::build(building, steps, name, kept, || {
            self.check_out(checkout.repository, checkout.source, named)
        })
        .with_context(|| format!("{name}: {} ({})", short(&named.commit), named.subject))
    }

    /// Only one run of a repository's gate uses its checkout at a time.
    fn alone(&self, area: &Path) -> Result<File> {
        let path = area.join("lock");
        fs::create_dir_all(area).with_context(|| {
            format!("the cache {} can't be written (name another one with --cache)", area.display())
        })?;
        let lock = File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(_) => bail!(
                "another gate of `{}` is building in {}\n  next: wait for its end, or use another --cache",
                self.experiment.name,
                area.display()
            ),
        }
    }

    fn job<'b>(&'b self, file: &'b Path) -> Job<'b> {
        Job {
            experiment: self.experiment,
            file,
            folder: self.folder,
            home: self.home,
            runner: self.runner,
            progress: self.progress,
            only: None,
        }
    }

    /// The file's settings of the build.
    fn target(&self) -> String {
        let file: Option<toml::Table> = self.asked.text.parse().ok();
        file.and_then(|file| Some(file.get("target")?.to_string())).unwrap_or_default()
    }

    fn check_out(&self, repository: &Repository<'_>, folder: &Path, named: &Named) -> Result<()> {
        let snapshot = self.folder.join(SNAPSHOT);
        let more = if snapshot.is_dir() { vec![snapshot] } else { Vec::new() };
        repository
            .check_out(folder, &named.commit, &more)
            .with_context(|| format!("{} ({}) can't be checked out", short(&named.commit), named.asked))
    }

    /// Notes about the builds.
    fn notes(&self, base: &Side, head: &Side, is_same: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let versions = |side: &Side| {
            side.tools.iter().map(|tool| (tool.path.clone(), tool.version.clone())).collect::<Vec<_>>()
        };
        if versions(base) != versions(head) {
            notes.push(
                "Different tools built the two commits: their effect is part of the difference.".to_owned(),
            );
        }
        if is_same && self.asked.even_if_same {
            notes.push(
                "Both commits build the same program, byte for byte as loaded: any difference between the \
                 pairs is noise."
                    .to_owned(),
            );
        } else if self.experiment.builds < 2 && !is_same && self.asked.evidence == GateEvidence::Measured {
            notes.push(
                "Each commit was built once: a small difference can be an effect of the code layout. `builds \
                 = 5` in [gate] includes that effect in the confidence interval."
                    .to_owned(),
            );
        }
        notes
    }

    fn findings(&self, comparisons: &[Comparison], broken: Option<&str>) -> Vec<GateFinding> {
        let (wishes, primary) = (&self.experiment.gate, self.experiment.compare.primary);
        let mut found = Vec::new();
        // Hone applies no further load to a head that failed under one.
        let mut broken = broken;
        for workload in &self.experiment.judging {
            let name = workload.name.as_str();
            match (comparisons.iter().find(|comparison| comparison.workload.name == name), broken.take()) {
                (Some(comparison), why) => {
                    broken = why;
                    found.extend(hold::findings(comparison, wishes, self.line(name)));
                }
                (None, Some(why)) => {
                    found.push(hold::broke_down(name, primary, wishes, why, self.line(name)))
                }
                (None, None) => {}
            }
        }
        found
    }

    /// What the evidence says about the two commits.
    fn seen(&self, job: &Job<'_>, steps: &mut Steps<'_>, sides: [&Side; 2]) -> Result<Findings> {
        if self.asked.evidence == GateEvidence::Counted {
            return Ok(Findings { counted: commits::count(job, steps, sides)?, ..Findings::default() });
        }
        let (mut comparisons, broken) = commits::hold(job, steps, sides)?;
        let counted = comparisons.iter_mut().filter_map(|judged| judged.counted.take());
        let counted = counted.map(|counted| Ok(*counted)).collect();
        Ok(Findings { comparisons, broken, counted })
    }

    fn counted_findings(&self, counted: &[Result<Counted, String>]) -> Vec<GateFinding> {
        let worse_by = self.experiment.gate.counted_worse_by;
        let loads = self.experiment.judging.iter().zip(counted);
        loads
            .map(|(load, counted)| {
                let finding = hold::uncounted(&load.name, worse_by, self.line(&load.name));
                match counted {
                    Ok(counted) => hold::of_counts(finding, counted),
                    Err(why) => GateFinding { why: why.clone(), ..finding },
                }
            })
            .collect()
    }

    /// The line of the experiment file with this load.
    fn line(&self, workload: &str) -> Option<u32> {
        let line = line_of(&self.asked.text, &format!("workload.{workload}"), "");
        line.and_then(|line| u32::try_from(line).ok())
    }

    fn enter_in_ledger(&self, found: &CommitGate) -> Result<()> {
        if found.evidence == GateEvidence::Counted {
            for counted in &found.counted {
                let note = format!("ledger-{}.json", counted.workload);
                let entry = |_: &str| entry_of_counts(found, counted);
                ledger::enter_once(self.folder, &note, None, entry, self.progress)?;
            }
        }
        for comparison in &found.comparisons {
            let note = format!("ledger-{}.json", comparison.workload.name);
            let entry = |_: &str| entry_of(found, comparison);
            ledger::enter_once(self.folder, &note, Some(comparison), entry, self.progress)?;
        }
        Ok(())
    }
}

/// Enough of a hash to name a commit.
fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

fn commit_build(named: &Named, side: &Side) -> CommitBuild {
    let first = side.builds.first();
    CommitBuild {
        asked: named.asked.clone(),
        commit: named.commit.clone(),
        subject: named.subject.clone(),
        programs_sha256: side.builds.iter().map(|built| built.facts.sha256.clone()).collect(),
        file_bytes: first.map_or(0, |built| built.facts.file_bytes),
        text_bytes: first.map_or(0, |built| built.facts.text_bytes),
        build_s: first.map_or(0.0, |built| built.build_s),
        kept: side.is_kept,
        tools: side.tools.clone(),
    }
}

/// Checks before anything is built.
///
/// # Errors
/// Fails when the request makes no sense.
pub fn check(experiment: &Experiment) -> Result<()> {
    for workload in &experiment.judging {
        hone_experiment::bench::check(workload)?;
    }
    crate::rule::check(experiment)
}
