//! Independent builds of one program: those of a commit and those of its base. Hone makes them without a profile, one commit
//! after the other in the same place, and compares them like an edge of a tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::{BuildRequest, Built, file_facts};
use hone_record::{Comparison, Counted, ToolReceipt};
use serde::{Deserialize, Serialize};

use super::steps::{Steps, Told};
use super::{cache, layouts, shop};
use crate::job::Job;
use crate::outcome::Outcomes;
use hone_experiment::phase::Phase;
use hone_experiment::spec::target::Form;
use hone_experiment::variants::{BASELINE, Made, Variant};

/// The base, in names of folders and in tables.
pub(crate) const BASE: &str = "base";
/// The head, which the gate judges.
pub const HEAD: &str = "head";

/// The builds of a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Side {
    /// At least one build. There are several where the layout is a level of the confidence interval.
    pub builds: Vec<Built>,
    /// The tools that made the builds.
    pub tools: Vec<ToolReceipt>,
    /// Whether an earlier run made the builds.
    pub is_kept: bool,
    /// The variables that passed flags to the builds, by name.
    #[serde(default)]
    flags: BTreeMap<String, String>,
}

impl Side {
    /// The first variable whose flags differ between the two builds.
    pub(crate) fn other_flag<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let names = self.flags.keys().chain(other.flags.keys());
        names.map(String::as_str).find(|name| self.flags.get(*name) != other.flags.get(*name))
    }
}

/// Kept builds. Another request for the same commit, with the same tools and settings, reuses them.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// The folder of its programs.
    pub folder: &'a Path,
    /// Identifies the sources and the build: a commit, and the experiment's words about the target.
    pub sources: &'a str,
}

/// The note of a build in the folder of kept builds. Its program has the build's name in the same folder.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    builds: Vec<Built>,
}

const NOTE: &str = "builds.json";

/// The number of commits whose builds are kept.
const MOST_KEPT: usize = 8;

/// One attempt at a run of builds and comparisons. It has exclusive use of its folders, and runs after the clean-up of killed
/// attempts.
///
/// # Errors
/// Returns the errors of the work. Fails if another run uses the folders.
pub fn attempt<T>(job: &Job<'_>, work: impl FnOnce(&mut Steps<'_>) -> Result<T>) -> Result<T> {
    let _alone = [job.lock(&job.work(), "building in")?, job.lock(job.folder.path(), "using")?];
    let underway = job.begin()?;
    work(&mut Steps::new(job.folder, job.progress, None).of(underway))
}

/// Builds the sources next to the job's file, once per requested layout, or takes kept builds. `sources` puts the sources there first. Hone
/// does not call it if an earlier attempt has already built.
///
/// # Errors
/// Returns the compiler's message.
pub fn build(
    job: &Job<'_>,
    steps: &mut Steps<'_>,
    name: &str,
    kept: Kept<'_>,
    sources: impl FnOnce() -> Result<()>,
) -> Result<Side> {
    steps.run(Phase::Build, &format!("build-{name}"), || {
        sources()?;
        job.lies_in_its_sources()?;
        let builder = job.builder()?;
        let builder = &*builder;
        let plain = BuildRequest::plain(name);
        let first = if job.experiment.builds > 1 { plain.apart() } else { plain };
        let further = layouts::further(job.experiment.builds).map(|number| layouts::order(&first, number));
        let orders: Vec<BuildRequest> = std::iter::once(first.clone()).chain(further).collect();
        orders.iter().try_for_each(|order| builder.fits(order))?;
        let key = cache::key(kept.sources, builder, &BuildRequest::plain(""), job.experiment.builds)?;
        let place = kept.folder.join(key.get(..32).unwrap_or(&key));
        let earlier = find(&place);
        let is_kept = earlier.is_some();
        let builds = match earlier {
            Some(builds) => taken(job, builds, &orders)?,
            None => {
                let built =
                    orders.iter().map(|order| builder.build(order).and_then(|built| own(job, built, order)));
                let builds = built.collect::<Result<Vec<Built>>>()?;
                // A program that loads a library from its build folder would load another commit's library
                // later.
                if builds.iter().all(|built| built.libraries().is_empty()) {
                    keep(&place, &builds)?;
                    forget_oldest(kept.folder)?;
                }
                builds
            }
        };
        let Some(first) = builds.first() else { bail!("{name} has no builds") };
        let how = if is_kept { "reused from an earlier run; built in" } else { "built in" };
        Ok(Told {
            note: format!("{how} {:.1} s; {}", first.build_s, shop::sizes(first)),
            command: Some(first.command()),
            result: Side {
                builds,
                tools: builder.receipts(),
                is_kept,
                flags: cache::flags(std::env::vars_os()),
            },
        })
    })
}

/// Moves the program of a build into the run's folder, because the next build may use the same place.
fn own(job: &Job<'_>, mut built: Built, order: &BuildRequest) -> Result<Built> {
    built.variant.clone_from(&order.variant);
    job.keep_program(&mut built)?;
    Ok(built)
}

/// The kept builds may have the names of another side.
fn taken(job: &Job<'_>, builds: Vec<Built>, orders: &[BuildRequest]) -> Result<Vec<Built>> {
    builds.into_iter().zip(orders).map(|(built, order)| own(job, built, order)).collect()
}

/// The comparisons of two sides, one for each judging workload, and the reason where the head can't sustain its load.
///
/// # Errors
/// Fails when the base can't sustain its load, when something else fails, or when the user interrupts.
pub fn hold(
    job: &Job<'_>,
    steps: &mut Steps<'_>,
    sides: [&Side; 2],
) -> Result<(Vec<Comparison>, Option<String>)> {
    let variant = |name: &str, parent: Option<usize>| Variant {
        name: name.to_owned(),
        parent,
        made: Made::Plain { relocs: false, jump_tables: true },
        judged: true,
    };
    let variants = [variant(BASELINE, None), variant(HEAD, Some(0))];
    let mut outcomes = Outcomes::default();
    for (index, side) in sides.into_iter().enumerate() {
        let (first, more) = side.builds.split_first().context("a side has no build")?;
        outcomes.made.insert(index, first.clone());
        outcomes.layouts.insert(index, more.to_vec());
    }
    let mut comparisons = job.judge(steps, &variants, &mut outcomes)?.edges;
    for comparison in &mut comparisons {
        BASE.clone_into(&mut comparison.a);
        if let Some(counted) = &mut comparison.counted {
            BASE.clone_into(&mut counted.a);
        }
    }
    Ok((comparisons, outcomes.left_out.remove(&1)))
}

/// Exact counts of two sides, one for each judging workload, or why there is none.
///
/// # Errors
/// Fails when the user interrupts.
pub fn count(
    job: &Job<'_>,
    steps: &mut Steps<'_>,
    sides: [&Side; 2],
) -> Result<Vec<Result<Counted, String>>> {
    let mut arms = Vec::new();
    for (name, side) in [BASE, HEAD].into_iter().zip(sides) {
        let first = side.builds.first().context("a side has no build")?;
        arms.push(job.arm(name, &first.executable, BTreeMap::new()));
    }
    let loads = &job.experiment.judging;
    loads.iter().map(|load| job.counted(steps, [&arms[0], &arms[1]], load)).collect()
}

impl Job<'_> {
    /// A path that leads out of the checkout would build the same sources for both commits.
    fn lies_in_its_sources(&self) -> Result<()> {
        let (key, path) = match &self.target().form {
            Form::Cargo(cargo) => ("manifest", &cargo.manifest),
            Form::Recipe(recipe) => ("source", &recipe.source),
            Form::Go(go) => ("source", &go.module),
            Form::Jvm(_) => bail!(hone_experiment::ending::Usage(
                "the target is a Java service, which Hone does not build, so there is nothing to build from two \
                 commits\n  next: build both commits and compare their commands with hone compare"
                    .to_owned()
            )),
            Form::Elf { .. } => bail!(hone_experiment::ending::Usage(
                "target.binary names a finished program, so there are no sources to build two commits from"
                    .to_owned()
            )),
        };
        if path.is_absolute() {
            bail!(hone_experiment::ending::Usage(format!(
                "target.{key} = {} is an absolute path\n  next: make it relative to the experiment file, so \
                 that Hone builds each commit's own sources",
                path.display()
            )));
        }
        self.there(key, path).map(|_| ())
    }
}

/// The kept builds of a place, if all of its programs are unchanged.
fn find(place: &Path) -> Option<Vec<Built>> {
    let note: Note = serde_json::from_str(&fs::read_to_string(place.join(NOTE)).ok()?).ok()?;
    let mut builds = note.builds;
    for (number, built) in builds.iter_mut().enumerate() {
        let program = program(place, number, built)?;
        (file_facts(&program).ok()?.sha256 == built.facts.sha256).then_some(())?;
        built.executable = program;
    }
    // Removes the builds whose last use is oldest.
    let _ = fs::File::open(place).and_then(|folder| folder.set_modified(std::time::SystemTime::now()));
    (!builds.is_empty()).then_some(builds)
}

fn program(place: &Path, number: usize, built: &Built) -> Option<PathBuf> {
    Some(place.join(number.to_string()).join(built.executable.file_name()?))
}

/// Written whole or not at all: first under another name.
fn keep(place: &Path, builds: &[Built]) -> Result<()> {
    let part = place.with_extension("part");
    let kept = || -> Result<()> {
        let _ = fs::remove_dir_all(&part);
        for (number, built) in builds.iter().enumerate() {
            let to = program(&part, number, built).context("a program has no name")?;
            fs::create_dir_all(to.parent().unwrap_or(&part))?;
            fs::copy(&built.executable, &to)?;
        }
        fs::write(part.join(NOTE), serde_json::to_string(&Note { builds: builds.to_vec() })?)?;
        let _ = fs::remove_dir_all(place);
        fs::rename(&part, place)?;
        Ok(())
    };
    kept().with_context(|| format!("can't keep the builds in {}", place.display()))
}

/// Without this limit, the folder would grow with every commit.
fn forget_oldest(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    let mut kept: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    kept.sort();
    for (_, place) in kept.iter().take(kept.len().saturating_sub(MOST_KEPT)) {
        fs::remove_dir_all(place).with_context(|| format!("{} can't be removed", place.display()))?;
    }
    Ok(())
}

/// Whether both sides are the same programs, byte for byte. Identical programs behave alike if they start alike.
pub(crate) fn is_same_program(sides: [&Side; 2]) -> Result<bool> {
    let [base, head] = sides;
    if base.builds.len() != head.builds.len() {
        return Ok(false);
    }
    for (base, head) in base.builds.iter().zip(&head.builds) {
        let is_same = base.facts.sha256 == head.facts.sha256
            && base.libraries().is_empty()
            && head.libraries().is_empty();
        // Compares the code first, and the rest only if the code is the same.
        if !is_same
            && (base.facts.text_sha256 != head.facts.text_sha256
                || base.loaded_sha256()? != head.loaded_sha256()?)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_builds_go_first() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..MOST_KEPT + 2 {
            let place = dir.path().join(format!("{number:02}"));
            fs::create_dir(&place).unwrap();
            let when = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            fs::File::open(&place).unwrap().set_modified(when).unwrap();
        }
        forget_oldest(dir.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!((left.len(), left[0].to_str()), (MOST_KEPT, Some("02")));
    }

    #[test]
    fn a_note_without_its_program_is_no_build() {
        let dir = tempfile::tempdir().unwrap();
        assert!(find(dir.path()).is_none());
        fs::write(dir.path().join(NOTE), "{\"builds\": []}").unwrap();
        assert!(find(dir.path()).is_none());
    }
}
