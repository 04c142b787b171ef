//! `hone gate`: does this commit make the service slower?

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use hone_record::GateOutcome;
use hone_tool::{System, interrupt};

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::spec::{self, Experiment};
use hone_optimize::gate::choice::{self, FileOf, Texts};
use hone_optimize::gate::git::{self, Repository};
use hone_optimize::gate::papers::{self, Came};
use hone_optimize::gate::{self, GateSettings, Named, SNAPSHOT, Session, hold};

/// Hold a commit against the one that it builds on, and fail when the service became slower.
///
/// Both are checked out and built alike, one after the other in the same place, and loaded in pairs on this machine, with an A/A control in
/// the same session. FILE is an experiment as for `hone optimize`; it needs no [optimize] part, and may have a [gate] part. The user's
/// repository is only read. Where both commits build the same program, nothing is measured.
///
/// Exit code 0: nothing was shown to be worse. 3: something that decides is worse, by its limit or more. 1: it could not tell (a commit
/// can't be built, the base does not stand its load, too few pairs count, or, with --require-power, the pairs would not have shown what they
/// look for).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone gate --base origin/main
  hone gate load/hone.toml --base origin/main --head worktree
  hone gate --base v1.2 --exact --require-power
  hone gate --base origin/main --junit gate.xml --sarif gate.sarif --comment gate.md
  hone gate --resume runs/orders-gate-003

In a pull request of GitHub, and in a merge request of GitLab, the base is known; examples/ci has a workflow for each.

A file:
  name = \"orders\"

  [target]
  manifest = \".\"
  package = \"orders\"
  bin = \"orders\"
  args = [\"--listen\", \"127.0.0.1:{port}\"]

  [workload.judge]
  requests_per_s = 2000

  [gate]
  judge = [\"judge\"]            # those of [optimize] without it
  worse_by = \"3%\"              # a growth that counts, of the primary metric of [compare]
  builds = 5                   # layouts of each commit, so that their luck is in the interval
  [gate.guards]
  latency-p99 = \"10%\"          # what must not get worse either, and by how much")]
pub(crate) struct Arguments {
    /// The experiment file.
    #[arg(default_value = "hone.toml")]
    file: PathBuf,
    /// The state before: a commit or a branch, and then the commit where the head parted from it. In a pull request of GitHub or a merge
    /// request of GitLab it is known.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// The state that is asked about: a commit, or `worktree` for the working tree as it is.
    #[arg(long, value_name = "REF", default_value = "HEAD")]
    head: String,
    /// Take the base itself, and not the commit where the head parted from it.
    #[arg(long)]
    exact: bool,
    /// Whose experiment file counts, for both commits, where they differ in what is built or loaded.
    #[arg(long, value_enum, default_value = "base", value_name = "SIDE")]
    file_of: FileOf,
    /// Measure also where both commits build the same program: an A/A run that says what this machine can show.
    #[arg(long)]
    even_if_same: bool,
    /// Fail (exit code 1) when the pairs would not have shown a growth by the limit; as `require_power = true` in [gate].
    #[arg(long)]
    require_power: bool,
    /// Say what would be built and loaded, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Go on with a run that was broken off, as it was asked for then.
    #[arg(long, value_name = "RUN", conflicts_with_all = AS_IT_WAS)]
    resume: Option<PathBuf>,
    /// Write the result as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what fails as SARIF 2.1.0, too.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write a comment for the pull request (Markdown), too. Where GITHUB_STEP_SUMMARY names a file, the same is added to that.
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Where commits are checked out and their builds kept; hone/gate in the user's cache without it. Not inside of the sources: compilers
    /// look for settings in the folders above.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

const ASKED: &str = "gate.json";

/// What a run that goes on has of its begin.
const AS_IT_WAS: [&str; 10] = [
    "file",
    "base",
    "head",
    "exact",
    "file_of",
    "even_if_same",
    "require_power",
    "dry_run",
    "output",
    "cache",
];

/// The head that is no commit.
const WORKTREE: &str = "worktree";

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let done = gated(arguments, cli);
    if let Err(error) = &done
        && !error.is::<Unwritten>()
        && !interrupt::requested()
    {
        let (name, file) = about(arguments);
        let error = format!("{error:#}");
        // What it is about is told all the same.
        if let Err(unwritten) =
            write_papers(arguments, Came::Failed { name: &name, file: &file, error: &error })
        {
            cli.progress.line(&format!("{unwritten:#}"));
        }
    }
    done
}

/// Marks an error as one behind the result: what is written already tells that, and stays.
#[derive(Debug)]
struct Unwritten(PathBuf);

impl std::fmt::Display for Unwritten {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the result stands in {}, and not all that was asked for could be written",
            self.0.display()
        )
    }
}

/// What a run is about, as far as it is known where it failed: the experiment's name, and its file by the path in the repository.
fn about(arguments: &Arguments) -> (String, String) {
    let begun = |run: &Path| RunFolder::open(run).ok()?.read_note::<GateSettings>(ASKED).ok()?;
    match &arguments.resume {
        Some(run) => match begun(run) {
            Some(asked) => (asked.name, asked.path),
            None => ("gate".to_owned(), run.display().to_string()),
        },
        None => {
            let file = &arguments.file;
            (name_in(file), in_repository(file).unwrap_or_else(|| file.display().to_string()))
        }
    }
}

/// Without git, which may be what failed.
fn in_repository(file: &Path) -> Option<String> {
    let file = std::path::absolute(file).ok()?;
    let folder = file.parent()?.canonicalize().ok()?;
    let top = folder.ancestors().find(|above| above.join(".git").exists())?;
    Some(folder.strip_prefix(top).ok()?.join(file.file_name()?).to_str()?.to_owned())
}

/// The experiment's name, as far as the file says one that a run could have: nothing has checked it where a run failed, and it goes into papers.
fn name_in(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let name = spec::name_in(&text).filter(|name| spec::check_name(name).is_ok());
    name.unwrap_or_else(|| "gate".to_owned())
}

fn gated(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if let Some(run) = &arguments.resume {
        let folder = RunFolder::open(run)?;
        let missing =
            || Usage(format!("{} is no run of hone gate: it has no {ASKED}", folder.path().display()));
        let asked: GateSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
        let experiment = experiment_of(&asked)?;
        let home = folder.home().to_owned();
        return go(arguments, &asked, &experiment, &folder, &home, cli);
    }
    let asked = resolved(arguments)?;
    let experiment = experiment_of(&asked)?;
    gate::check(&experiment)?;
    let asked = GateSettings { require_power: asked.require_power || experiment.gate.require_power, ..asked };
    if arguments.dry_run {
        let count = experiment.judging.len();
        let rule = hold::rule(experiment.compare.primary, &experiment.gate, count, asked.require_power);
        cli.show_found("gate-plan", &asked, |asked| {
            hone_optimize::gate::plan_text::plan(asked, &experiment, &rule)
        })?;
        return Ok(Ending::Done);
    }
    let home = std::path::absolute(&arguments.output)?;
    let folder = RunFolder::create(&home, &experiment.name)?;
    let home = home.canonicalize().unwrap_or(home);
    let begun = begun(arguments, asked, &folder, &home);
    if begun.is_err() {
        // Nothing was done that could be gone on with.
        let _ = fs::remove_dir_all(folder.path());
    }
    go(arguments, &begun?, &experiment, &folder, &home, cli)
}

/// The experiment as the gate runs it: its builds and runs have a name of their own.
fn experiment_of(asked: &GateSettings) -> Result<Experiment> {
    let experiment = spec::parse_for_gate(&asked.text, Path::new(&asked.path))?;
    Ok(Experiment { name: format!("{}-gate", experiment.name), ..experiment })
}

/// Which commits, and by which file.
fn resolved(arguments: &Arguments) -> Result<GateSettings> {
    // Questions to git write logs.
    let scratch = tempfile::tempdir().context("there is no room in the system's temporary folder")?;
    let runner = System::new(scratch.path())?;
    let file = std::path::absolute(&arguments.file)?;
    let folder = file.parent().context("the experiment file lies in no folder")?;
    let folder = folder.canonicalize().map_err(|error| {
        Usage(format!("the folder of {} can't be read: {error}", arguments.file.display()))
    })?;
    let repository = Repository::around(&runner, &folder)?;
    let [base, head] = sides(arguments, &repository)?;
    let mut notes: Vec<String> = not_committed(arguments, &repository)?.into_iter().collect();
    let top = repository.top.canonicalize().unwrap_or_else(|_| repository.top.clone());
    let path = folder
        .strip_prefix(&top)
        .ok()
        .map(|below| below.join(file.file_name().unwrap_or_default()))
        .and_then(|path| path.to_str().map(str::to_owned))
        .with_context(|| format!("{} has no path in {} that is a text", file.display(), top.display()))?;
    let tree = fs::read_to_string(&file).ok();
    let base_text = repository.file_of(&base.commit, &path)?;
    let is_tree = arguments.head == WORKTREE;
    let head_text = if is_tree { tree.clone() } else { repository.file_of(&head.commit, &path)? };
    let texts =
        Texts { path: &path, base: base_text.as_deref(), head: head_text.as_deref(), tree: tree.as_deref() };
    let judges = |text: &str| {
        let found = spec::parse_for_gate(text, Path::new(&path));
        found.map(|found| found.judging.into_iter().map(|load| load.name).collect()).unwrap_or_default()
    };
    let chosen = choice::choose(texts, arguments.file_of, judges)?;
    notes.extend(chosen.note);
    Ok(GateSettings {
        name: spec::name_in(chosen.text).unwrap_or_else(|| "gate".to_owned()),
        top,
        text: chosen.text.to_owned(),
        file_of: chosen.of.to_owned(),
        is_heads: chosen.is_heads,
        base,
        head,
        even_if_same: arguments.even_if_same,
        require_power: arguments.require_power,
        cache: cache(arguments.cache.as_deref())?,
        notes,
        path,
    })
}

/// Base and head; that of a working tree has no commit of its own yet, and stands on HEAD.
fn sides(arguments: &Arguments, repository: &Repository<'_>) -> Result<[Named; 2]> {
    let named = arguments.base.clone().or_else(|| git::base_of_ci(|name| std::env::var(name).ok()));
    let named = named.ok_or_else(git::no_base)?;
    let is_tree = arguments.head == WORKTREE;
    let base = repository.commit(&named)?;
    let head = repository.commit(if is_tree { "HEAD" } else { &arguments.head })?;
    let (base, words) = if arguments.exact {
        (base, named)
    } else {
        let parted = repository.merge_base(&base, &head)?;
        let words = if parted == base { named } else { format!("where the head parted from {named}") };
        (parted, words)
    };
    if base == head && !is_tree && !arguments.even_if_same {
        bail!(Usage(format!(
            "base and head are the same commit, {head}: nothing is asked; on the branch itself name the commit before, --base HEAD~1"
        )));
    }
    let [subject_of_base, subject_of_head] = [&base, &head].map(|commit| repository.subject(commit));
    let (asked, subject) = if is_tree {
        ("the working tree".to_owned(), "what is not committed".to_owned())
    } else {
        (arguments.head.clone(), subject_of_head?)
    };
    let base = Named { asked: words, commit: base, subject: subject_of_base? };
    Ok([base, Named { asked, commit: head, subject }])
}

/// What of the working tree is no part of the head, as a note.
fn not_committed(arguments: &Arguments, repository: &Repository<'_>) -> Result<Option<String>> {
    let changed = if arguments.head == "HEAD" { repository.changed_files()? } else { 0 };
    let (files, are) = if changed == 1 { ("file differs", "is") } else { ("files differ", "are") };
    Ok((changed > 0).then(|| {
        format!(
            "In the working tree {changed} {files} from HEAD, and {are} no part of the head; --head {WORKTREE} takes the tree as it is."
        )
    }))
}

/// Where checkouts and builds lie.
fn cache(named: Option<&Path>) -> Result<PathBuf> {
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
    arguments: &Arguments,
    mut asked: GateSettings,
    folder: &RunFolder,
    home: &Path,
) -> Result<GateSettings> {
    if arguments.head == WORKTREE {
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

/// Does what is not done yet, keeps record and papers, and shows all of it.
fn go(
    arguments: &Arguments,
    asked: &GateSettings,
    experiment: &Experiment,
    folder: &RunFolder,
    home: &Path,
    cli: &CliContext,
) -> Result<Ending> {
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    for (name, side) in [("base", &asked.base), ("head", &asked.head)] {
        let short = side.commit.get(..10).unwrap_or(&side.commit);
        cli.progress.line(&format!("{name}: {short}, {}: {}", side.asked, side.subject));
    }
    asked.notes.iter().for_each(|note| cli.progress.line(&format!("note: {note}")));
    let progress = cli.progress.clone();
    let runner = System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    });
    let session = Session { asked, experiment, folder, home, runner: &runner, progress: &cli.progress };
    let found = session.run().map_err(|error| with_way_on(error, folder.path()))?;
    let record = folder.join("commit-gate.json");
    let page = hone_serve::page::write(&record, None);
    let written = write_papers(arguments, Came::Found(&found))
        .and(page.as_ref().map(|_| ()).map_err(|error| anyhow!("{error:#}")));
    let ending = match found.outcome {
        GateOutcome::Passed | GateOutcome::SameProgram => Ending::Done,
        GateOutcome::Worse => Ending::Worse,
        GateOutcome::TooLittlePower | GateOutcome::NotSeen => Ending::CouldNot,
    };
    let told = page.map_or_else(|_| String::new(), |page| format!("Report: {}\n", page.display()));
    cli.show(found, |found| format!("{}\n{told}", hone_document::commit_gate::text(found)))?;
    match written.context(Unwritten(record)) {
        // Whoever waits for the exit code is to hear of that first.
        Err(error) if matches!(ending, Ending::Worse) => cli.progress.line(&format!("{error:#}")),
        written => written?,
    }
    Ok(ending)
}

/// An error keeps what was done; say how to go on.
fn with_way_on(error: anyhow::Error, run: &Path) -> anyhow::Error {
    let way_on = format!("hone gate --resume {}", run.display());
    if interrupt::requested() {
        return anyhow::anyhow!("interrupted; finished steps are kept. To go on: {way_on}");
    }
    // What was asked for makes no more sense the second time.
    if hone_experiment::usage::is_usage(&error) {
        return error;
    }
    anyhow::anyhow!(
        "{error:#}\nbroken off; finished steps are kept. To go on once the reason is gone: {way_on}"
    )
}

/// The files that a CI system reads.
/// All that can be written.
///
/// # Errors
/// With the first that can't be.
fn write_papers(arguments: &Arguments, came: Came<'_>) -> Result<()> {
    let mut done = Ok(());
    let mut keep = |written: Result<()>| {
        if done.is_ok() {
            done = written;
        }
    };
    let write = |path: &Path, text: &str| {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(|| format!("{} can't be made", parent.display()))?;
        }
        fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))
    };
    if let Some(path) = &arguments.junit {
        keep(papers::junit(came).map_err(Into::into).and_then(|text| write(path, &text)));
    }
    if let Some(path) = &arguments.sarif {
        keep(write(path, &format!("{:#}\n", papers::sarif(came))));
    }
    let comment = comment_of(came);
    if let Some(path) = &arguments.comment {
        keep(write(path, &comment));
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let added = fs::OpenOptions::new().create(true).append(true).open(&path);
        let added = added.and_then(|mut file| file.write_all(format!("{comment}\n").as_bytes()));
        keep(added.with_context(|| format!("{} can't be written", path.display())));
    }
    done
}

fn comment_of(came: Came<'_>) -> String {
    match came {
        Came::Found(found) => hone_document::commit_gate::comment(found),
        Came::Failed { name, error, .. } => {
            let (name, error) = (hone_document::table::in_a_cell(name), error.replace("```", "'''"));
            format!("**hone gate, {name}**: could not tell.\n\n```\n{error}\n```\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_name_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hone.toml");
        for (text, expected) in [
            ("name = \"orders\"", "orders"),
            ("name = \"x** @org/everyone\\n\\n# Approved\"", "gate"),
            ("name = \"\"", "gate"),
            ("name = ", "gate"),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(name_in(&file), expected, "{text}");
        }
        assert_eq!(name_in(&folder.path().join("none")), "gate");
    }

    #[test]
    fn a_comment_of_a_failed_run_says_nothing_for_somebody_else() {
        let name = "x @org/everyone ![p](https://e.example/p.png)\n\n# Approved";
        let told = comment_of(Came::Failed { name, file: "hone.toml", error: "no ```\n# way" });
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("**hone gate, x "), "{told}");
        assert!(lines[0].ends_with("**: could not tell."), "{told}");
        assert!(!told.contains("@org") && !told.contains("![p]") && !told.contains("\n# Approved"), "{told}");
        assert_eq!(lines[1..], ["", "```", "no '''", "# way", "```"], "{told}");
    }
}
