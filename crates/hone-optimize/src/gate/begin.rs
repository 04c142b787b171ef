//! Which commits a gate is about, and the folder of its run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::CommitGate;
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

/// The head that is no commit.
const WORKTREE: &str = "worktree";

/// What a gate is asked for.
#[derive(Debug)]
pub struct GateRequest {
    /// The experiment file.
    pub file: PathBuf,
    /// The state before, where it is named.
    pub base: Option<String>,
    /// The state that is asked about.
    pub head: String,
    /// Take the base itself, and not the commit where the head parted from it.
    pub exact: bool,
    /// Whose experiment file counts.
    pub file_of: FileOf,
    /// Measure also where both commits build the same program.
    pub even_if_same: bool,
    /// Fail when the pairs would not have shown a growth by the limit.
    pub require_power: bool,
    /// Where sources are checked out, where that is named.
    pub cache: Option<PathBuf>,
}

/// A gate that was begun, or goes on.
pub struct GateRun {
    asked: GateSettings,
    experiment: Experiment,
    folder: RunFolder,
    home: PathBuf,
}

/// What a run was begun with, if the folder is of one.
pub(super) fn begun_in(run: &Path) -> Option<GateSettings> {
    RunFolder::open(run).ok()?.read_note(ASKED).ok()?
}

impl GateRun {
    /// Opens a run that goes on as it was asked for then.
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
            // Nothing was done that could be gone on with.
            let _ = fs::remove_dir_all(folder.path());
        }
        Ok(Self { asked: begun?, experiment, folder, home })
    }

    /// Where the record will lie.
    pub fn record(&self) -> PathBuf {
        self.folder.join("commit-gate.json")
    }

    /// Does what is not done yet.
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
            // What was asked for makes no more sense the second time.
            if usage::is_usage(&error) && !interrupt::requested() {
                return error;
            }
            with_way_on(&error, &format!("hone gate --resume {}", folder.path().display()), "")
        })
    }
}

/// The commits and the experiment, and whether it can be had.
///
/// # Errors
/// With what makes no sense.
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

/// Which commits, and by which file.
fn resolved(request: &GateRequest) -> Result<GateSettings> {
    // Questions to git write logs.
    let scratch = tempfile::tempdir().context("there is no room in the system's temporary folder")?;
    let runner = System::new(scratch.path())?;
    let file = std::path::absolute(&request.file)?;
    let folder = file.parent().context("the experiment file lies in no folder")?;
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
        .with_context(|| format!("{} has no path in {} that is a text", file.display(), top.display()))?;
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
    notes.extend(chosen.note);
    Ok(GateSettings {
        name: spec::name_in(chosen.text).unwrap_or_else(|| "gate".to_owned()),
        top,
        text: chosen.text.to_owned(),
        file_of: chosen.of.to_owned(),
        is_heads: chosen.is_heads,
        base,
        head,
        even_if_same: request.even_if_same,
        require_power: request.require_power,
        cache: cache_folder(request.cache.as_deref())?,
        notes,
        path,
    })
}

/// Base and head; that of a working tree has no commit of its own yet, and stands on HEAD.
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
        let words = if parted == base { named } else { format!("where the head parted from {named}") };
        (parted, words)
    };
    if base == head && !is_tree && !request.even_if_same {
        bail!(Usage(format!(
            "base and head are the same commit, {head}: nothing is asked; on the branch itself name the commit before, --base HEAD~1"
        )));
    }
    let [subject_of_base, subject_of_head] = [&base, &head].map(|commit| repository.subject(commit));
    let (asked, subject) = if is_tree {
        ("the working tree".to_owned(), "what is not committed".to_owned())
    } else {
        (request.head.clone(), subject_of_head?)
    };
    let base = Named { asked: words, commit: base, subject: subject_of_base? };
    Ok([base, Named { asked, commit: head, subject }])
}

/// What of the working tree is no part of the head, as a note.
fn not_committed(request: &GateRequest, repository: &Repository<'_>) -> Result<Option<String>> {
    let changed = if request.head == "HEAD" { repository.changed_files()? } else { 0 };
    let (files, are) = if changed == 1 { ("file differs", "is") } else { ("files differ", "are") };
    Ok((changed > 0).then(|| {
        format!(
            "In the working tree {changed} {files} from HEAD, and {are} no part of the head; --head {WORKTREE} takes the tree as it is."
        )
    }))
}

/// Where checkouts and builds lie.
fn cache_folder(named: Option<&Path>) -> Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || {
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(cache.join("hone/gate"))
    };
    let found = named.map(Path::to_owned).or_else(of_user);
    let found =
        found.ok_or_else(|| Usage("there is no HOME for a cache: name a folder with --cache".to_owned()))?;
    Ok(std::path::absolute(found)?)
}

/// Writes down what is asked, with a commit of the working tree where that is the head.
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
                "nothing in the working tree differs from the base: nothing is asked; --even-if-same measures an A/A run".to_owned()
            )),
            None => "as HEAD".clone_into(&mut asked.head.subject),
        }
    }
    folder.write_note(ASKED, &asked)?;
    Ok(asked)
}
