//! Builds of one program that are not made of each other: those of a commit and of the one that it is held against. They are made
//! without any profile, one commit after the other in the same place, and judged as an edge of a tree is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::{BuildRequest, Built, file_facts};
use hone_record::{Comparison, ToolReceipt};
use serde::{Deserialize, Serialize};

use super::steps::{Steps, Told};
use super::{cache, layouts, shop};
use crate::job::Job;
use crate::outcome::Outcomes;
use hone_experiment::phase::Phase;
use hone_experiment::spec::target::Form;
use hone_experiment::variants::{BASELINE, Made, Variant};

/// The state before, in names of folders and in tables.
pub(crate) const BASE: &str = "base";
/// The state that is asked about.
pub const HEAD: &str = "head";

/// What was built of a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Side {
    /// At least one; several where the layout is a level of the interval.
    pub builds: Vec<Built>,
    /// The tools that built it.
    pub tools: Vec<ToolReceipt>,
    /// Whether they are of an earlier run.
    pub is_kept: bool,
    /// The variables that gave the builds flags, by their names.
    #[serde(default)]
    flags: BTreeMap<String, String>,
}

impl Side {
    /// The first variable by which another build got other flags than this one.
    pub(crate) fn other_flag<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let names = self.flags.keys().chain(other.flags.keys());
        names.map(String::as_str).find(|name| self.flags.get(*name) != other.flags.get(*name))
    }
}

/// Builds that are taken again by who asks for the same commit, built alike by the same tools.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// Where its programs are.
    pub folder: &'a Path,
    /// What the sources are, and how they are built: a commit, and the experiment's words about the target.
    pub sources: &'a str,
}

/// A build in a folder of kept ones; its program lies beside the note under the build's name.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    builds: Vec<Built>,
}

const NOTE: &str = "builds.json";

/// So many commits' builds are kept.
const MOST_KEPT: usize = 8;

/// One attempt at a run of builds and comparisons: alone with its folders, and behind the cleaning up of attempts that were killed.
///
/// # Errors
/// Those of the work, and when another run has the folders.
pub fn attempt<T>(job: &Job<'_>, work: impl FnOnce(&mut Steps<'_>) -> Result<T>) -> Result<T> {
    let _alone = [job.lock(&job.work(), "building in")?, job.lock(job.folder.path(), "going on with")?];
    let underway = job.begin()?;
    work(&mut Steps::new(job.folder, job.progress, None).of(underway))
}

/// Builds what lies where the job's file is, as often as layouts are asked for, or takes what is kept. `sources` puts it there before; it is
/// not asked where an earlier attempt has built.
///
/// # Errors
/// With what the compiler said.
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
                // What a program loads from where it was built would be another commit's by then.
                if builds.iter().all(|built| built.libraries().is_empty()) {
                    keep(&place, &builds)?;
                    forget_oldest(kept.folder)?;
                }
                builds
            }
        };
        let Some(first) = builds.first() else { bail!("nothing was built of {name}") };
        let how = if is_kept { "kept from an earlier run; built in" } else { "built in" };
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

/// A build with its program in the run's folder: the next one may be made in the same place.
fn own(job: &Job<'_>, mut built: Built, order: &BuildRequest) -> Result<Built> {
    built.variant.clone_from(&order.variant);
    job.keep_program(&mut built)?;
    Ok(built)
}

/// Builds that were kept under the names of another side, perhaps.
fn taken(job: &Job<'_>, builds: Vec<Built>, orders: &[BuildRequest]) -> Result<Vec<Built>> {
    builds.into_iter().zip(orders).map(|(built, order)| own(job, built, order)).collect()
}

/// What the judging workloads say of two sides: a comparison for each, and why there is none where the head does not stand its load.
///
/// # Errors
/// When the base does not stand its load, when something beside the two fails, or when the user interrupts.
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
    }
    Ok((comparisons, outcomes.left_out.remove(&1)))
}

impl Job<'_> {
    /// A path that leads out of the checkout would build the same for both commits.
    fn lies_in_its_sources(&self) -> Result<()> {
        let (key, path) = match &self.target().form {
            Form::Cargo(cargo) => ("manifest", &cargo.manifest),
            Form::Recipe(recipe) => ("source", &recipe.source),
            Form::Go(go) => ("source", &go.module),
            Form::Elf { .. } => bail!(hone_experiment::ending::Usage(
                "target.binary is a finished program: there are no sources of which two commits could be built".to_owned()
            )),
        };
        if path.is_absolute() {
            bail!(hone_experiment::ending::Usage(format!(
                "target.{key} = {}: name it relative to the file, so that each commit's own sources are built",
                path.display()
            )));
        }
        self.there(key, path).map(|_| ())
    }
}

/// What is kept in a place, when all of its programs are what they were.
fn find(place: &Path) -> Option<Vec<Built>> {
    let note: Note = serde_json::from_str(&fs::read_to_string(place.join(NOTE)).ok()?).ok()?;
    let mut builds = note.builds;
    for (number, built) in builds.iter_mut().enumerate() {
        let program = program(place, number, built)?;
        (file_facts(&program).ok()?.sha256 == built.facts.sha256).then_some(())?;
        built.executable = program;
    }
    // The one that nobody has asked for longest goes first.
    let _ = fs::File::open(place).and_then(|folder| folder.set_modified(std::time::SystemTime::now()));
    (!builds.is_empty()).then_some(builds)
}

fn program(place: &Path, number: usize, built: &Built) -> Option<PathBuf> {
    Some(place.join(number.to_string()).join(built.executable.file_name()?))
}

/// Whole or not at all: under another name first.
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
    kept().with_context(|| format!("the builds can't be kept in {}", place.display()))
}

/// A folder that nobody empties would grow with every commit.
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

/// Whether both sides are the same programs, byte for byte: what is started alike does alike.
pub(crate) fn is_same_program(sides: [&Side; 2]) -> Result<bool> {
    let [base, head] = sides;
    if base.builds.len() != head.builds.len() {
        return Ok(false);
    }
    for (base, head) in base.builds.iter().zip(&head.builds) {
        let is_same = base.facts.sha256 == head.facts.sha256
            && base.libraries().is_empty()
            && head.libraries().is_empty();
        // The text first: only where it is the same, the rest is worth a look.
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
