//! The commits of a gate, and the folder of its run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::{CommitGate, GateEvidence};
use hone_tool::{System, interrupt};

use super::choice::{self, FileOf, Texts};
use super::git::{self, Repository};
use super::{GateSettings, Named, SNAPSHOT, Session, check, short};
use crate::steps::with_way_on;
use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::{begun_with, shown_runner};
use hone_experiment::spec::{self, Experiment};
use hone_experiment::usage;

const ASKED: &str = "gate.json";

/// The name of the head that is the working tree.
const WORKTREE: &str = "worktree";

/// The request for a gate.
#[derive(Debug)]
pub struct GateRequest {
    /// The experiment file.
    pub file: PathBuf,
    /// The base, if named.
    pub base: Option<String>,
    /// The head.
    pub head: String,
    /// Use the base itself, not the merge base with the head.
    pub exact: bool,
    /// The side whose experiment file applies.
    pub file_of: FileOf,
    /// The evidence that decides.
    pub evidence: GateEvidence,
    /// Whether to search the commits between the two for the one that is worse.
    pub bisects: bool,
    /// Measure even if both commits build the same program.
    pub even_if_same: bool,
    /// Fail if the pairs could not have detected a growth by the limit.
    pub require_power: bool,
    /// The folder for checkouts, if named.
    pub cache: Option<PathBuf>,
}

/// A new gate run, or a resumed one.
pub struct GateRun {
    asked: GateSettings,
    experiment: Experiment,
    folder: RunFolder,
    home: PathBuf,
}

/// The settings at the start of a run, if the folder belongs to one.
pub(super) fn begun_in(run: &Path) -> Option<GateSettings> {
    RunFolder::open(run).ok()?.read_note(ASKED).ok()?
}

impl GateRun {
    /// Opens a resumed run with its original settings.
    pub fn resume(run: &Path) -> Result<Self> {
        let folder = RunFolder::open(run)?;
        let asked: GateSettings = begun_with(&folder, ASKED, "gate")?;
        let experiment = experiment_of(&asked)?;
        let home = folder.home().to_owned();
        Ok(Self { asked, experiment, folder, home })
    }

    /// Makes the run's folder under `output`.
    pub fn begin(
        request: &GateRequest,
        (asked, experiment): (GateSettings, Experiment),
        output: &Path,
    ) -> Result<Self> {
        let home = std::path::absolute(output)?;
        let folder = RunFolder::create(&home, &experiment.name)?;
        let home = home.canonicalize().unwrap_or(home);
        let begun = begun(request, asked, &folder, &home);
        if begun.is_err() {
            // No step was done, so there is nothing to continue.
            let _ = fs::remove_dir_all(folder.path());
        }
        Ok(Self { asked: begun?, experiment, folder, home })
    }

    /// The path of the record.
    pub fn record(&self) -> PathBuf {
        self.folder.join("commit-gate.json")
    }

    /// Does the unfinished steps.
    pub fn finish(&self, progress: &Progress) -> Result<CommitGate> {
        let Self { asked, experiment, folder, home } = self;
        progress.line(&format!("Run folder: {}", folder.path().display()));
        for (name, side) in [("base", &asked.base), ("head", &asked.head)] {
            progress.line(&format!("{name}: {}, {}: {}", short(&side.commit), side.asked, side.subject));
        }
        asked.notes.iter().for_each(|note| progress.line(&format!("note: {note}")));
        let runner = shown_runner(folder, progress)?;
        let session = Session { asked, experiment, folder, home, runner: &runner, progress };
        session.run().map_err(|error| {
            // The request itself is invalid, so a second attempt would fail too.
            if usage::is_usage(&error) && !interrupt::requested() {
                return error;
            }
            with_way_on(&error, &format!("hone gate --resume {}", folder.path().display()), None)
        })
    }
}

/// The commits and the experiment, after a check of its feasibility.
///
/// # Errors
/// Fails when the request makes no sense.
pub fn settled(request: &GateRequest) -> Result<(GateSettings, Experiment)> {
    let asked = resolved(request)?;
    let experiment = experiment_of(&asked)?;
    check(&experiment)?;
    let require_power = asked.require_power || experiment.gate.require_power;
    Ok((GateSettings { require_power, ..asked }, experiment))
}

/// The experiment as the gate runs it: its builds and runs have a name of their own.
fn experiment_of(asked: &GateSettings) -> Result<Experiment> {
    let experiment = spec::parse_for_gate(&asked.text, Path::new(&asked.path))?;
    Ok(Experiment { name: format!("{}-gate", experiment.name), ..experiment })
}

/// The commits, and the experiment file that applies.
fn resolved(request: &GateRequest) -> Result<GateSettings> {
    // Git commands write logs.
    let scratch = tempfile::tempdir().context("can't create a temporary folder (check TMPDIR)")?;
    let runner = System::new(scratch.path())?;
    let file = std::path::absolute(&request.file)?;
    let folder = file.parent().context("the experiment file has no parent folder")?;
    let folder = folder
        .canonicalize()
        .map_err(|error| Usage(format!("the folder of {} can't be read: {error}", request.file.display())))?;
    let repository = Repository::around(&runner, &folder)?;
    let [base, head] = sides(request, &repository)?;
    let mut notes: Vec<String> = not_committed(request, &repository)?.into_iter().collect();
    let top = repository.top.canonicalize().unwrap_or_else(|_| repository.top.clone());
    let path = folder
        .strip_prefix(&top)
        .ok()
        .map(|below| below.join(file.file_name().unwrap_or_default()))
        .and_then(|path| path.to_str().map(str::to_owned))
        .with_context(|| format!("the path of {} in {} is not valid UTF-8", file.display(), top.display()))?;
    let tree = fs::read_to_string(&file).ok();
    let base_text = repository.file_of(&base.commit, &path)?;
    let is_tree = request.head == WORKTREE;
    let head_text = if is_tree { tree.clone() } else { repository.file_of(&head.commit, &path)? };
    let texts =
        Texts { path: &path, base: base_text.as_deref(), head: head_text.as_deref(), tree: tree.as_deref() };
    let judges = |text: &str| {
        let found = spec::parse_for_gate(text, Path::new(&path));
        found.map(|found| found.judging.into_iter().map(|load| load.name).collect()).unwrap_or_default()
    };
    let chosen = choice::choose(texts, request.file_of, judges)?;
    let between = match request.bisects {
        true => Some(repository.between(&base.commit, &head.commit)?),
        false => None,
    };
    notes.extend(chosen.note);
    Ok(GateSettings {
        name: spec::name_in(chosen.text).unwrap_or_else(|| "gate".to_owned()),
        top,
        text: chosen.text.to_owned(),
        file_of: chosen.of.to_owned(),
        is_heads: chosen.is_heads,
        base,
        head,
        evidence: request.evidence,
        between,
        even_if_same: request.even_if_same,
        require_power: request.require_power,
        cache: cache_folder(request.cache.as_deref())?,
        notes,
        path,
    })
}

/// Base and head. A working tree has no commit of its own yet, and builds on HEAD.
fn sides(request: &GateRequest, repository: &Repository<'_>) -> Result<[Named; 2]> {
    let named = request.base.clone().or_else(|| git::base_of_ci(|name| std::env::var(name).ok()));
    let named = named.ok_or_else(git::no_base)?;
    let is_tree = request.head == WORKTREE;
    let base = repository.commit(&named)?;
    let head = repository.commit(if is_tree { "HEAD" } else { &request.head })?;
    let (base, words) = if request.exact {
        (base, named)
    } else {
        let parted = repository.merge_base(&base, &head)?;
        let words = if parted == base { named } else { format!("the merge base with {named}") };
        (parted, words)
    };
    if base == head && !is_tree && !request.even_if_same {
        bail!(Usage(format!(
            "base and head are the same commit, {head}\n  next: on the base branch itself, name the previous \
             commit: --base HEAD~1"
        )));
    }
    let [subject_of_base, subject_of_head] = [&base, &head].map(|commit| repository.subject(commit));
    let (asked, subject) = if is_tree {
        ("the working tree".to_owned(), "uncommitted changes".to_owned())
    } else {
        (request.head.clone(), subject_of_head?)
    };
    let base = Named { asked: words, commit: base, subject: subject_of_base? };
    Ok([base, Named { asked, commit: head, subject }])
}

/// The part of the working tree that the head does not include, as a note.
fn not_committed(request: &GateRequest, repository: &Repository<'_>) -> Result<Option<String>> {
    let changed = if request.head == "HEAD" { repository.changed_files()? } else { 0 };
    let (files, are) = if changed == 1 { ("file differs", "is") } else { ("files differ", "are") };
    Ok((changed > 0).then(|| {
        format!(
            "In the working tree {changed} {files} from HEAD, and {are} not part of the head; --head \
             {WORKTREE} takes the tree as it is."
        )
    }))
}

/// The folder for checkouts and builds.
fn cache_folder(named: Option<&Path>) -> Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || {
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(cache.join("hone/gate"))
    };
    let found = named.map(Path::to_owned).or_else(of_user);
    let found = found.ok_or_else(|| {
        Usage(
            "HOME is not set, so there is no default folder for the cache\n  next: name a folder with --cache"
                .to_owned(),
        )
    })?;
    Ok(std::path::absolute(found)?)
}

/// Writes down the request, with a commit of the working tree if that is the head.
fn begun(
    request: &GateRequest,
    mut asked: GateSettings,
    folder: &RunFolder,
    home: &Path,
) -> Result<GateSettings> {
    if request.head == WORKTREE {
        let runner = System::new(folder.join("logs"))?;
        let repository = Repository::around(&runner, &asked.top)?;
        let cache = asked.cache.canonicalize().unwrap_or_else(|_| asked.cache.clone());
        match repository.snapshot(&folder.join(SNAPSHOT), &[home.to_owned(), cache])? {
            Some(commit) => asked.head.commit = commit,
            None if asked.base.commit == asked.head.commit && !asked.even_if_same => bail!(Usage(
                "the working tree does not differ from the base\n  next: use --even-if-same for an A/A run"
                    .to_owned()
            )),
            None => "same as HEAD".clone_into(&mut asked.head.subject),
        }
    }
    folder.write_note(ASKED, &asked)?;
    Ok(asked)
}
