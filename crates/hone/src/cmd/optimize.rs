//! `hone optimize FILE`: from an experiment file to a verdict and a report.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_record::{Foretold, Optimization};
use hone_report::documents;
use hone_tool::{System, interrupt};

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::bench;
use hone_experiment::ending::Ending;
use hone_experiment::folder::RunFolder;
use hone_experiment::phase::Phase;
use hone_experiment::spec::{self, Experiment, VariantChoice};
use hone_experiment::takes::{self, MAKING, Takes};
use hone_experiment::variants::BASELINE;
use hone_optimize::steps::{self, DoneStep, PhaseEnd};
use hone_optimize::{Findings, Job, dry, findings, foretold_of, is_worse, optimize, rule};

/// Take a native program through profile-guided optimisation and BOLT and say, by measurement, what they brought.
///
/// The target is a Cargo package, a project of C or C++ with its own build, a Go program, or a finished program. Builds the
/// baseline, tells the ceiling, builds with counters, trains, proves the profile, builds each variant with it, proves that it
/// was applied, lets BOLT rewrite what should be rewritten, checks that every result still works, and judges each variant against
/// the one that it builds on, with another workload than the one that trained. Every step ends in a file of the run's folder.
///
/// Exit code 3: nothing is kept and a variant is worse, or one that `variants` names, and that nothing else builds on, is worse.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "Examples:
  hone optimize examples/broker/hone.toml --variants pgo
  hone optimize examples/broker/hone.toml --resume
  hone optimize examples/broker/hone.toml --resume runs/broker-pgo-003
  hone optimize my.toml --dry-run
  hone optimize my.toml --only train
  hone optimize my.toml --variants pgo,bolt
  hone optimize my.toml --output /var/tmp/runs --json")]
pub(crate) struct Arguments {
    /// The experiment: target, workloads, how to compare.
    file: PathBuf,
    /// Folder for runs, builds and the ledger.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Go on with a run that was broken off: the named one, or the newest of this experiment.
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Print the command lines that a run would carry out, and carry out none. Those of the plain build can be pasted behind the line
    /// that begins with RUNS=. Others name what is made only by a run: {port} and {data} of a start, the merged PROFILE, the object of
    /// a counting build, and the copies of built programs. What Hone does itself between them stands there as comments.
    #[arg(long, conflicts_with_all = ["resume", "only"])]
    dry_run: bool,
    /// Go through one phase and end. Each phase goes on in the run of the one before: the first begins a new one, the others take
    /// the newest of this experiment, or the one that --resume names.
    #[arg(long, value_name = "PHASE")]
    only: Option<Phase>,
    /// Train a profile with each training workload alone, too, and judge all of them under every workload; as `matrix = true`
    /// in the experiment.
    #[arg(long)]
    matrix: bool,
    /// Make these variants in place of those that the experiment names, and what they build on; `baseline` is always made.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Option<Vec<String>>,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let text = fs::read_to_string(&arguments.file)
        .with_context(|| format!("the experiment {} can't be read", arguments.file.display()))?;
    let arguments = arguments.of_its_run(&text);
    let asked = arguments.asked();
    let experiment = spec::parse_asked(&text, &arguments.file, &asked)?;
    // What is kept says all that makes a run this one.
    let text = text + &mark(&asked);
    check_rule_and_loads(&experiment)?;
    if arguments.dry_run {
        return dry_run(&arguments, &experiment, cli);
    }
    let folder = folder(&arguments, &experiment, &text)?;
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    let done = with_job(&arguments, &experiment, &folder, cli, optimize);
    if let Some(end @ PhaseEnd::Done(_)) = done.as_ref().err().and_then(|error| error.downcast_ref()) {
        cli.progress.line(&format!("{end}: {}", folder.path().display()));
        return Ok(Ending::Done);
    }
    let is_new = arguments.resume.is_none() && !goes_on(&arguments);
    let found = done.map_err(|error| with_way_on(error, &arguments, &folder, is_new))?;
    let page = hone_serve::page::write(&folder.join("optimization.json"), None)?;
    let asked = experiment.variants_are_asked;
    let worse = is_worse(&found.comparisons, &found.variants, found.best.is_some(), asked);
    let report = format!("\nReport: {}\n", page.display());
    let document = |found: &Optimization| documents::optimization(found, &BTreeMap::new(), None);
    cli.show_document(found, document, &report)?;
    Ok(if worse { Ending::Worse } else { Ending::Done })
}

/// Whether an experiment can be read, and its loads and its rule be had.
///
/// # Errors
/// With what is wrong.
pub(super) fn check(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the experiment {} can't be read", file.display()))?;
    let experiment = spec::parse(&text, file)?;
    check_rule_and_loads(&experiment)
}

fn check_rule_and_loads(experiment: &Experiment) -> Result<()> {
    let training = experiment.training.iter().map(|training| &training.workload);
    for workload in experiment.judging.iter().chain(training) {
        bench::check(workload)?;
    }
    rule::check(experiment)
}

/// What the builds of an experiment take, as far as its file says it.
///
/// # Errors
/// With what is wrong with it.
pub(super) fn takes(file: &Path) -> Result<Takes> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the experiment {} can't be read", file.display()))?;
    Ok(takes::takes(&spec::parse(&text, file)?))
}

/// What a run up to the judging has made and found.
pub(super) struct Programs {
    pub(super) plain: PathBuf,
    /// Those that are worth a comparison, each behind the one that it builds on.
    pub(super) variants: Vec<(String, PathBuf)>,
    pub(super) trained_by: Vec<String>,
    pub(super) findings: Findings,
    /// What replays foretell of the layouts of variants, by name.
    pub(super) foretold: BTreeMap<String, Foretold>,
    /// Why the variants were not made.
    pub(super) stopped: Option<String>,
}

/// The plain program of an experiment and its variants, and what is known of the plain one: everything up to the judging, by a run in `output`.
/// One that was broken off there goes on. Before each phase behind the first `stops` is asked, with the seconds that all the rest takes at least, whether the time is over; then the
/// plain program is all that there is.
///
/// # Errors
/// As for the phases.
pub(super) fn programs(
    file: &Path,
    output: &Path,
    stops: &dyn Fn(f64) -> Option<String>,
    cli: &CliContext,
) -> Result<Programs> {
    let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    let experiment = spec::parse(&text, file)?;
    let takes = takes::takes(&experiment);
    let mut stopped = None;
    for (done, phase) in MAKING.into_iter().enumerate() {
        if done > 0 {
            stopped = stops(rest_s(&takes, done, &steps::done(&newest(output, &experiment.name)?)));
        }
        if stopped.is_some() {
            break;
        }
        run(phase_of(file, output, &experiment.name, phase), cli)?;
    }
    let run = newest(output, &experiment.name)?;
    let made = run.join("bin");
    let program = |variant: &str| -> Option<PathBuf> {
        let mut files = fs::read_dir(made.join(variant)).ok()?.flatten().map(|entry| entry.path());
        files.find(|path| path.is_file())
    };
    let plain = program(BASELINE).with_context(|| format!("{} holds no plain build", made.display()))?;
    let tried = takes.tried.into_iter().filter(|_| stopped.is_none());
    let variants: Vec<(String, PathBuf)> =
        tried.filter_map(|name| Some((name.clone(), program(&name)?))).collect();
    let run = RunFolder::open(&run)?;
    let mut foretold = BTreeMap::new();
    for (name, _) in &variants {
        foretold.extend(foretold_of(&run, name)?.map(|found| (name.clone(), found)));
    }
    let findings = findings(&run)?;
    Ok(Programs { plain, variants, trained_by: takes.trained_by, findings, foretold, stopped })
}

/// Seconds that are left at least behind so many phases, when these steps are done.
fn rest_s(takes: &Takes, phases: usize, done: &[DoneStep]) -> f64 {
    let compile_s = done.iter().find(|step| step.name == BUILD_BASELINE).map_or(0.0, |step| step.took_s);
    let of = |phase: Phase| done.iter().filter(move |step| step.phase == Some(phase)).map(|step| step.took_s);
    takes.rest_s(phases, compile_s, MAKING.map(|phase| of(phase).sum()))
}

/// Seconds that the steps took which are done of the builds in `output`, whoever did them and was broken off. A step that was not finished is made anew,
/// and nobody has written down how long it took.
///
/// # Errors
/// When the experiment can't be read.
pub(super) fn made_s(file: &Path, output: &Path) -> Result<f64> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the experiment {} can't be read", file.display()))?;
    let run = spec::name_in(&text).and_then(|name| newest(output, &name).ok());
    Ok(run.map_or(0.0, |run| steps::done(&run).iter().map(|step| step.took_s).sum()))
}

/// A phase of the only run in a folder: the one that is there goes on, whatever its phase.
fn phase_of(file: &Path, output: &Path, name: &str, phase: Phase) -> Arguments {
    Arguments {
        file: file.to_owned(),
        output: output.to_owned(),
        resume: newest(output, name).is_ok().then_some(None),
        dry_run: false,
        only: Some(phase),
        matrix: false,
        variants: None,
    }
}

/// The step that says how long a compiler takes for one program.
const BUILD_BASELINE: &str = "build-baseline";

/// How a run is begun where another one was to be gone on with.
const ANEW: &str = "without --resume or by --only baseline";

/// Stands before what the command line asked for, behind the experiment's text in a run's folder.
const MARK: &str = "\n# as asked:";

/// The end of the text that a run keeps: what the command line asked for beyond the experiment.
fn mark(asked: &VariantChoice) -> String {
    if *asked == VariantChoice::default() { String::new() } else { format!("{MARK}{}\n", options(asked)) }
}

/// As options of a command line, each behind a space.
fn options(asked: &VariantChoice) -> String {
    let matrix = if asked.matrix { " --matrix" } else { "" };
    let variants = asked.variants.as_ref().map(|names| format!(" --variants {}", names.join(",")));
    format!("{matrix}{}", variants.unwrap_or_default())
}

/// A run's text without its mark, and what the mark says.
fn unmarked(kept: &str) -> (&str, VariantChoice) {
    let Some((text, options)) = kept.rsplit_once(MARK) else { return (kept, VariantChoice::default()) };
    let mut asked = VariantChoice::default();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--matrix" => asked.matrix = true,
            "--variants" => {
                asked.variants = words.next().map(|it| it.split(',').map(str::to_owned).collect())
            }
            _ => return (kept, VariantChoice::default()),
        }
    }
    (text, asked)
}

impl Arguments {
    fn asked(&self) -> VariantChoice {
        VariantChoice { matrix: self.matrix, variants: self.variants.clone() }
    }

    /// A run that is gone on with knows by itself what was asked for, and one that is named, where it lies.
    fn of_its_run(mut self, text: &str) -> Self {
        let newest = || newest(&self.output, &spec::name_in(text)?).ok();
        let run = match &self.resume {
            Some(Some(named)) => Some(named.clone()),
            Some(None) => newest(),
            None if goes_on(&self) => newest(),
            None => None,
        };
        let Some(run) = run else { return self };
        let kept = fs::read_to_string(run.join("experiment.toml")).unwrap_or_default();
        let (_, asked) = unmarked(&kept);
        self.matrix |= asked.matrix;
        self.variants = self.variants.or(asked.variants);
        if !matches!(self.resume, Some(Some(_))) {
            return self;
        }
        let home = run.canonicalize().ok().and_then(|run| run.parent().map(Path::to_owned));
        // Only a folder that runs are made in.
        if let Some(home) = home.filter(|home| home.join("builds").is_dir()) {
            self.output = home;
        }
        self
    }
}

/// Every phase but the first goes on in a run that was begun.
fn goes_on(arguments: &Arguments) -> bool {
    arguments.only.is_some_and(|phase| phase > Phase::Baseline)
}

/// The plan, in a folder that goes: looking at a target writes logs.
fn dry_run(arguments: &Arguments, experiment: &Experiment, cli: &CliContext) -> Result<Ending> {
    let parent =
        tempfile::tempdir().context("there is no room for a folder in the system's temporary one")?;
    let folder = RunFolder::create(parent.path(), &experiment.name)?;
    // Its builds would lie in there, too.
    let there = Arguments { output: parent.path().to_owned(), ..arguments.clone() };
    let text = with_job(&there, experiment, &folder, cli, dry::plan)?;
    let temporary = parent.path().canonicalize()?;
    let runs = whole(&arguments.output)?;
    let text = dry::in_runs(&text, &temporary.display().to_string(), &runs.display().to_string());
    let lines: Vec<&str> = text.lines().collect();
    cli.show_found("plan", &lines, |_| text.clone())?;
    Ok(Ending::Done)
}

/// A path that is the same from every folder, without links as far as it is there.
fn whole(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let real = |path: &Path| path.canonicalize().ok();
    let below = || Some(real(path.parent()?)?.join(path.file_name()?));
    Ok(real(&path).or_else(below).unwrap_or(path))
}

fn with_job<T>(
    arguments: &Arguments,
    experiment: &Experiment,
    folder: &RunFolder,
    cli: &CliContext,
    work: impl FnOnce(&Job<'_>) -> Result<T>,
) -> Result<T> {
    let progress = cli.progress.clone();
    let runner = System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    });
    // Held against paths inside of the sources, which may be around it.
    let home = std::path::absolute(&arguments.output)?;
    let home = home.canonicalize().unwrap_or(home);
    work(&Job {
        experiment,
        file: &arguments.file,
        folder,
        home: &home,
        runner: &runner,
        progress: &cli.progress,
        only: arguments.only,
    })
}

/// A new folder, or the one to go on with. The experiment's text is kept in it: a run is of one experiment.
fn folder(arguments: &Arguments, experiment: &Experiment, text: &str) -> Result<RunFolder> {
    let newest_of_phase = goes_on(arguments).then_some(&None);
    let Some(resume) = arguments.resume.as_ref().or(newest_of_phase) else {
        let folder = RunFolder::create(&arguments.output, &experiment.name)?;
        folder.write_text("experiment.toml", text)?;
        return Ok(folder);
    };
    let path = match resume {
        Some(path) => path.clone(),
        None => newest(&arguments.output, &experiment.name)?,
    };
    let folder = RunFolder::open(&path)?;
    let kept = folder.join("experiment.toml");
    let kept = fs::read_to_string(&kept).with_context(|| {
        format!("{} can't be read; is {} a run of optimize?", kept.display(), path.display())
    })?;
    if kept != text {
        let ((begun, asked_then), (now, _)) = (unmarked(&kept), unmarked(text));
        if begun == now {
            let said = match &*options(&asked_then) {
                "" => "out --matrix and --variants".to_owned(),
                options => options.to_owned(),
            };
            bail!(
                "{} was begun with{said}; a run is of one experiment. Say the same, or begin a new one, {ANEW}",
                path.display()
            );
        }
        bail!(
            "{} has changed since {} was begun; a run is of one experiment. Begin a new one, {ANEW}",
            arguments.file.display(),
            path.display()
        );
    }
    Ok(folder)
}

fn newest(output: &Path, name: &str) -> Result<PathBuf> {
    let number = |path: &PathBuf| {
        let file_name = path.file_name()?.to_str()?;
        file_name.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok()
    };
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path)));
    let newest = runs.max().map(|(_, path)| path);
    newest.with_context(|| {
        format!(
            "there is no run of `{name}` in {} to go on with\n  next: begin one, {ANEW}",
            output.display()
        )
    })
}

/// An error keeps what was done; say how to go on.
fn with_way_on(
    error: anyhow::Error,
    arguments: &Arguments,
    folder: &RunFolder,
    is_new: bool,
) -> anyhow::Error {
    if !folder.join("steps").exists() {
        // Nothing was done that could be gone on with; but what a tool says of its failure may lie there.
        let is_of_a_tool = error.downcast_ref::<hone_tool::ToolError>().is_some();
        if is_new && !(is_of_a_tool && has_logs(folder)) {
            let _ = fs::remove_dir_all(folder.path());
        }
        return error;
    }
    // It says itself why this run can't be gone on with.
    if error.downcast_ref::<hone_experiment::ending::Usage>().is_some() {
        return error;
    }
    let way_on = way_on(arguments, folder.path());
    // Of an interrupt the user knows the reason.
    if interrupt::requested() {
        return anyhow::anyhow!("interrupted; finished steps are kept. To go on: {way_on}");
    }
    // A run is of one experiment: one that was mended begins a new run, and takes what is built already from the last.
    anyhow::anyhow!(
        "{error:#}\nbroken off; finished steps are kept. To go on once the reason is gone: {way_on}\nAfter a change of {} itself: the \
         same without --resume; what is built and still fits is taken from the cache",
        arguments.file.display()
    )
}

/// Whether a tool has said something that is kept.
fn has_logs(folder: &RunFolder) -> bool {
    let files = fs::read_dir(folder.join("logs")).into_iter().flatten().flatten();
    files.filter_map(|entry| entry.metadata().ok()).any(|facts| facts.is_file() && facts.len() > 0)
}

/// The command that goes on with a run, ready to paste.
fn way_on(arguments: &Arguments, run: &Path) -> String {
    let mut words = vec!["hone".to_owned(), "optimize".to_owned(), arguments.file.display().to_string()];
    words.extend(options(&arguments.asked()).split_whitespace().map(str::to_owned));
    if let Some(phase) = arguments.only {
        words.extend(["--only".to_owned(), phase.name().to_owned()]);
    }
    words.extend(["--output".to_owned(), arguments.output.display().to_string()]);
    words.extend(["--resume".to_owned(), run.display().to_string()]);
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn read(line: &str) -> Arguments {
        let words = shlex::split(line).unwrap();
        Line::parse_from(words.iter().skip(1)).arguments
    }

    /// It is counted among what earlier attempts took, and would be counted twice.
    #[test]
    fn what_an_earlier_attempt_built_is_not_left_to_be_built() {
        let takes = Takes { compiled: [1, 1, 2], loads_s: [0.0, 10.0, 0.0], ..Takes::default() };
        let step = |name: &str, phase, took_s| DoneStep { name: name.to_owned(), phase, took_s };
        let mut done = vec![step(BUILD_BASELINE, Some(Phase::Baseline), 60.0)];
        assert_eq!(rest_s(&takes, 1, &done), 70.0 + 120.0);
        done.push(step("train", Some(Phase::Train), 75.0));
        done.push(step("build-pgo", Some(Phase::Build), 60.0));
        assert_eq!(rest_s(&takes, 1, &done), 60.0);
        done.push(step("of an older Hone", None, 60.0));
        assert_eq!(rest_s(&takes, 1, &done), 60.0, "nobody knows where it belongs");
    }

    #[test]
    fn the_printed_way_on_is_the_same_run() {
        let asked =
            "hone optimize 'my x.toml' --matrix --variants pgo+bolt,csir -o '/var/tmp/my runs' --only train";
        let asked = read(asked);
        let line = way_on(&asked, Path::new("/var/tmp/my runs/x-001"));
        let again = read(&line);
        assert_eq!(
            (&again.file, &again.output, again.asked()),
            (&asked.file, &asked.output, asked.asked()),
            "{line}"
        );
        assert_eq!(
            again.asked(),
            VariantChoice { matrix: true, variants: Some(vec!["pgo+bolt".into(), "csir".into()]) }
        );
        assert_eq!(again.only, Some(Phase::Train));
        assert_eq!(again.resume, Some(Some("/var/tmp/my runs/x-001".into())));
    }

    /// Builds of an hour are not made twice because the second of them was interrupted.
    #[test]
    fn builds_that_were_broken_off_go_on() {
        let home = tempfile::tempdir().unwrap();
        let of = |phase| phase_of(Path::new("x.toml"), home.path(), "x", phase).resume;
        assert_eq!(of(Phase::Baseline), None, "nothing is there yet");
        fs::create_dir(home.path().join("x-001")).unwrap();
        assert_eq!(of(Phase::Baseline), Some(None));
        assert_eq!(of(Phase::Build), Some(None));
    }

    #[test]
    fn the_log_of_a_first_build_that_failed_stays() {
        let parent = tempfile::tempdir().unwrap();
        let arguments = read("hone optimize x.toml");
        for (code, stays) in [(0, false), (1, true)] {
            use hone_tool::{Call, Runner as _};
            let folder = RunFolder::create(parent.path(), "x").unwrap();
            let script = format!("echo said; exit {code}");
            let call = Call::new("build", "/bin/sh", parent.path()).args(["-c", &script]);
            let error = match System::new(folder.join("logs")).unwrap().run(&call) {
                Ok(_) => anyhow::anyhow!("refused"),
                Err(error) => anyhow::Error::from(error).context("step build-baseline"),
            };
            with_way_on(error, &arguments, &folder, true);
            assert_eq!(folder.path().is_dir(), stays, "{code}");
        }
    }

    #[test]
    fn a_run_that_is_named_knows_where_it_lies_and_what_it_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let run = home.join("x-001");
        fs::create_dir_all(home.join("builds")).unwrap();
        fs::create_dir_all(&run).unwrap();
        let asked = VariantChoice { matrix: true, variants: Some(vec!["pgo".into(), "bolt".into()]) };
        let kept = format!("name = \"x\"{}", mark(&asked));
        fs::write(run.join("experiment.toml"), &kept).unwrap();
        assert_eq!(unmarked(&kept), ("name = \"x\"", asked.clone()));
        let found = read(&format!("hone optimize x.toml --resume {}", run.display())).of_its_run("");
        assert_eq!((&found.output, found.asked()), (&home, asked.clone()));
        for line in ["--resume", "--only train"] {
            let line = format!("hone optimize x.toml -o {} {line}", home.display());
            assert_eq!(read(&line).of_its_run("name = \"x\"\n").asked(), asked, "{line}");
            assert_eq!(read(&line).of_its_run("name = \"y\"\n").asked(), VariantChoice::default(), "{line}");
        }
        assert_eq!(read("hone optimize x.toml").of_its_run("name = \"x\"").asked(), VariantChoice::default());
    }

    #[test]
    fn a_run_is_not_gone_on_with_for_other_variants() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.toml");
        let text = include_str!("../../../../examples/broker/hone.toml");
        fs::write(&file, text).unwrap();
        let folder_of = |line: &str| {
            let line = format!("hone optimize {} -o {} {line}", file.display(), dir.path().display());
            let arguments = read(&line).of_its_run(text);
            let asked = arguments.asked();
            let experiment = spec::parse_asked(text, &file, &asked).unwrap();
            super::folder(&arguments, &experiment, &(text.to_owned() + &mark(&asked)))
        };
        folder_of("--variants pgo,bolt").unwrap();
        folder_of("--variants pgo,bolt --resume").unwrap();
        folder_of("--resume").unwrap();
        folder_of("--only build").unwrap();
        let error = folder_of("--variants pgo --resume").unwrap_err().to_string();
        assert!(error.contains("was begun with --variants pgo,bolt;"), "{error}");
        let wrong = VariantChoice { variants: Some(vec!["pgi".into()]), ..VariantChoice::default() };
        let error = spec::parse_asked(text, &file, &wrong).unwrap_err().to_string();
        assert!(error.contains("--variants: unknown variant `pgi`; did you mean `pgo`?"), "{error}");
    }
}
