//! A new or continued run of `hone optimize`, from its experiment file to its record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_record::{Ceiling, Diagnosis, Foretelling, Foretold, Optimization};
use hone_tool::ToolError;

use crate::steps::{self, DoneStep, PhaseEnd};
use crate::{Job, dry, foretell, is_worse, optimize, rule};
use hone_experiment::bench;
use hone_experiment::ending::Usage;
use hone_experiment::folder::{RunFolder, is_named};
use hone_experiment::notation::{Share, share};
use hone_experiment::phase::Phase;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::{experiment_text, shown_runner};
use hone_experiment::spec::{self, Experiment, Overrides};
use hone_experiment::takes::{self, MAKING, Takes};
use hone_experiment::variants::BASELINE;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The experiment file.
    pub file: PathBuf,
    /// Folder for runs, builds and the ledger.
    pub output: PathBuf,
    /// Continues a run: the named one, or the newest of this experiment.
    pub resume: Option<Option<PathBuf>>,
    /// Runs only this phase.
    pub only: Option<Phase>,
    /// The variants, if they are not those of the experiment.
    pub overrides: Overrides,
}

/// A run whose options and experiment are valid.
pub struct OptimizeRun {
    request: RunRequest,
    experiment: Experiment,
    /// The text that the run keeps: the experiment and the command line's choice of variants. It identifies the run.
    text: String,
}

impl OptimizeRun {
    /// Reads the experiment, and the options of the run to continue.
    pub fn read(request: RunRequest) -> Result<Self> {
        let text = experiment_text(&request.file)?;
        let request = request.of_its_run(&text);
        let experiment = spec::parse_asked(&text, &request.file, &request.overrides)?;
        // A run is continued only for the same experiment and the same variants, so the kept text has both.
        let text = text + &mark(&request.overrides);
        check_rule_and_loads(&experiment)?;
        Ok(Self { request, experiment, text })
    }

    /// The plan of the run. It works in a temporary folder, because examining a target writes logs.
    pub fn dry_run(&self, progress: &Progress) -> Result<String> {
        let parent =
            tempfile::tempdir().context("can't create a folder for temporary files (check TMPDIR)")?;
        let folder = RunFolder::create(parent.path(), &self.experiment.name)?;
        // The builds of the plan are in the temporary folder, too. `in_runs` replaces its path below.
        let text = self.with_job(parent.path(), &folder, progress, dry::plan)?;
        let temporary = parent.path().canonicalize()?;
        let runs = whole(&self.request.output)?;
        Ok(dry::in_runs(&text, &temporary.display().to_string(), &runs.display().to_string()))
    }

    /// Carries out every step that is not done yet. With a phase, it carries out only that phase and returns no record.
    pub fn carry_out(&self, progress: &Progress) -> Result<Option<(Optimization, PathBuf)>> {
        let Self { request, experiment, text } = self;
        let folder = folder(request, experiment, text)?;
        progress.line(&format!("Run folder: {}", folder.path().display()));
        let done = self.with_job(&request.output, &folder, progress, optimize);
        if let Some(end @ PhaseEnd::Done(_)) = done.as_ref().err().and_then(|error| error.downcast_ref()) {
            progress.line(&format!("{end}: {}", folder.path().display()));
            return Ok(None);
        }
        let is_new = request.resume.is_none() && !request.goes_on();
        let found = done.map_err(|error| with_way_on(error, request, &folder, is_new))?;
        Ok(Some((found, folder.join("optimization.json"))))
    }

    /// Whether a requested variant is worse, or any variant is worse and the run keeps none.
    pub fn is_worse(&self, found: &Optimization) -> bool {
        let asked = self.experiment.variants_are_asked;
        is_worse(&found.comparisons, &found.variants, found.best.is_some(), asked)
    }

    fn with_job<T>(
        &self,
        output: &Path,
        folder: &RunFolder,
        progress: &Progress,
        work: impl FnOnce(&Job<'_>) -> Result<T>,
    ) -> Result<T> {
        let runner = shown_runner(folder, progress)?;
        // Compared with paths inside the sources, and the sources can contain this folder. So links must be resolved.
        let home = std::path::absolute(output)?;
        let home = home.canonicalize().unwrap_or(home);
        work(&Job {
            experiment: &self.experiment,
            file: &self.request.file,
            folder,
            home: &home,
            runner: &runner,
            progress,
            only: self.request.only,
        })
    }
}

impl RunRequest {
    /// Takes the variants from the run to continue. A named run also gives the folder of runs.
    fn of_its_run(mut self, text: &str) -> Self {
        let newest = || newest(&self.output, &spec::name_in(text)?).ok();
        let run = match &self.resume {
            Some(Some(named)) => Some(named.clone()),
            Some(None) => newest(),
            None if self.goes_on() => newest(),
            None => None,
        };
        let Some(run) = run else { return self };
        let kept = fs::read_to_string(run.join("experiment.toml")).unwrap_or_default();
        let (_, asked) = unmarked(&kept);
        self.overrides.matrix |= asked.matrix;
        self.overrides.variants = self.overrides.variants.or(asked.variants);
        self.overrides.budget = self.overrides.budget.or(asked.budget);
        self.overrides.effect = self.overrides.effect.or(asked.effect);
        if !matches!(self.resume, Some(Some(_))) {
            return self;
        }
        let home = run.canonicalize().ok().and_then(|run| run.parent().map(Path::to_owned));
        // A folder of runs has a folder of builds.
        if let Some(home) = home.filter(|home| home.join("builds").is_dir()) {
            self.output = home;
        }
        self
    }

    /// Every phase but the first continues an existing run.
    fn goes_on(&self) -> bool {
        self.only.is_some_and(|phase| phase > Phase::Baseline)
    }

    /// The command that continues a run, ready to paste.
    pub fn way_on(&self, run: &Path) -> String {
        let mut words = vec!["hone".to_owned(), "optimize".to_owned(), self.file.display().to_string()];
        words.extend(options(&self.overrides).split_whitespace().map(str::to_owned));
        if let Some(phase) = self.only {
            words.extend(["--phase".to_owned(), phase.name().to_owned()]);
        }
        words.extend(["--output".to_owned(), self.output.display().to_string()]);
        words.extend(["--resume".to_owned(), run.display().to_string()]);
        shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
    }
}

fn check_rule_and_loads(experiment: &Experiment) -> Result<()> {
    let training = experiment.training.iter().map(|training| &training.workload);
    for workload in experiment.judging.iter().chain(training) {
        bench::check(workload)?;
    }
    rule::check(experiment)
}

/// How to begin a new run instead of continuing one.
const ANEW: &str = "without --resume, or with --phase baseline";

/// Separates the experiment's text from the command line's choice of variants in a run's folder.
const MARK: &str = "\n# as asked:";

/// The end of the text that a run keeps: the command line's choice of variants.
fn mark(asked: &Overrides) -> String {
    if *asked == Overrides::default() { String::new() } else { format!("{MARK}{}\n", options(asked)) }
}

/// The choice as options of a command line, each after a space.
fn options(asked: &Overrides) -> String {
    let matrix = if asked.matrix { " --matrix" } else { "" };
    let variants = asked.variants.as_ref().map(|names| format!(" --variants {}", names.join(",")));
    let budget = asked.budget.map(|budget| format!(" --budget {}s", budget.0));
    let effect = asked.effect.map(|effect| format!(" --effect {}", effect.0));
    [Some(matrix.to_owned()), variants, budget, effect].into_iter().flatten().collect()
}

/// Splits a run's text into the experiment and the choice of variants.
fn unmarked(kept: &str) -> (&str, Overrides) {
    let Some((text, options)) = kept.rsplit_once(MARK) else { return (kept, Overrides::default()) };
    let mut asked = Overrides::default();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--matrix" => asked.matrix = true,
            "--variants" => {
                asked.variants = words.next().map(|it| it.split(',').map(str::to_owned).collect())
            }
            "--budget" => asked.budget = words.next().and_then(|it| it.parse().ok()),
            "--effect" => asked.effect = words.next().and_then(|it| share(it).ok()).map(Share),
            _ => return (kept, Overrides::default()),
        }
    }
    (text, asked)
}

/// A new folder, or the folder of the run to continue. It keeps the experiment's text, because a run has exactly one experiment.
fn folder(request: &RunRequest, experiment: &Experiment, text: &str) -> Result<RunFolder> {
    let newest_of_phase = request.goes_on().then_some(&None);
    let Some(resume) = request.resume.as_ref().or(newest_of_phase) else {
        let folder = RunFolder::create(&request.output, &experiment.name)?;
        folder.write_text("experiment.toml", text)?;
        return Ok(folder);
    };
    let path = match resume {
        Some(path) => path.clone(),
        None => newest(&request.output, &experiment.name)?,
    };
    let folder = RunFolder::open(&path)?;
    let kept = folder.join("experiment.toml");
    let kept = fs::read_to_string(&kept).with_context(|| {
        format!("can't read {} (is {} a run of hone optimize?)", kept.display(), path.display())
    })?;
    if kept != text {
        let ((begun, asked_then), (now, _)) = (unmarked(&kept), unmarked(text));
        if begun == now {
            let said = match &*options(&asked_then) {
                "" => "out these options".to_owned(),
                options => options.to_owned(),
            };
            bail!(
                "{} began with{said}, and a run has exactly one experiment\n  next: use the same options, \
                 or begin a new run {ANEW}",
                path.display()
            );
        }
        bail!(
            "{} has changed since {} began, and a run has exactly one experiment\n  next: begin a new run \
             {ANEW}",
            request.file.display(),
            path.display()
        );
    }
    Ok(folder)
}

/// Adds the command that continues the run to an error. The finished steps stay.
fn with_way_on(
    error: anyhow::Error,
    request: &RunRequest,
    folder: &RunFolder,
    is_new: bool,
) -> anyhow::Error {
    if !folder.join("steps").exists() {
        // No step is finished, so there is nothing to continue. But the folder can hold the log of a failed tool.
        let is_of_a_tool = error.downcast_ref::<ToolError>().is_some();
        if is_new && !(is_of_a_tool && has_logs(folder)) {
            let _ = fs::remove_dir_all(folder.path());
        }
        return error;
    }
    // A usage error explains itself why this run can't continue.
    if error.downcast_ref::<Usage>().is_some() {
        return error;
    }
    let more = format!(
        "after a change of {} itself, use the same command without --resume; Hone takes unchanged builds \
         from the cache",
        request.file.display()
    );
    // A run has exactly one experiment. A corrected experiment needs a new run, which reuses the builds of the last one.
    steps::with_way_on(&error, &request.way_on(folder.path()), Some(more))
}

/// The absolute path, with links resolved in the part that exists.
fn whole(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let real = |path: &Path| path.canonicalize().ok();
    let below = || Some(real(path.parent()?)?.join(path.file_name()?));
    Ok(real(&path).or_else(below).unwrap_or(path))
}

/// The run with the highest number. The time of a folder says less: a report that is written later changes it.
fn newest(output: &Path, name: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path()).filter(|path| is_named(path, name));
    let newest = runs.max_by_key(|path| (path.as_os_str().len(), path.clone()));
    newest.with_context(|| {
        format!("there is no run of `{name}` in {} to continue\n  next: begin one {ANEW}", output.display())
    })
}

/// Whether a tool has written a log.
fn has_logs(folder: &RunFolder) -> bool {
    let files = fs::read_dir(folder.join("logs")).into_iter().flatten().flatten();
    files.filter_map(|entry| entry.metadata().ok()).any(|facts| facts.is_file() && facts.len() > 0)
}

/// Checks that an experiment can be read, and that its loads and its rule are valid.
///
/// # Errors
/// When the experiment is invalid.
pub fn check(file: &Path) -> Result<()> {
    let text = experiment_text(file)?;
    let experiment = spec::parse(&text, file)?;
    check_rule_and_loads(&experiment)
}

/// The time that the builds of an experiment take, as far as its file defines it.
///
/// # Errors
/// When the experiment is invalid.
pub fn takes(file: &Path) -> Result<Takes> {
    let text = experiment_text(file)?;
    Ok(takes::takes(&spec::parse(&text, file)?))
}

/// Programs and findings of a run before its comparisons.
pub struct Programs {
    /// The program that was built without a profile.
    pub plain: PathBuf,
    /// The variants to compare, each after the variant that it builds on.
    pub variants: Vec<(String, PathBuf)>,
    /// The loads that trained them.
    pub trained_by: Vec<String>,
    /// Findings about the plain program.
    pub findings: Findings,
    /// Predictions of replays for the layouts of variants, by variant name.
    pub foretold: BTreeMap<String, Foretold>,
    /// The reason if the variants were not made.
    pub stopped: Option<String>,
}

/// Makes the plain program of an experiment and its variants in a run in `output`, without the comparisons. An interrupted run there continues.
/// Before each phase after the first, `stops` gets the least number of seconds that the rest takes. If it returns a reason, only the plain
/// program is made.
///
/// # Errors
/// As for the phases.
pub fn programs(
    file: &Path,
    output: &Path,
    stops: &dyn Fn(f64) -> Option<String>,
    progress: &Progress,
) -> Result<Programs> {
    let text = experiment_text(file)?;
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
        OptimizeRun::read(phase_of(file, output, &experiment.name, phase))?.carry_out(progress)?;
    }
    let run = newest(output, &experiment.name)?;
    let made = run.join("bin");
    let program = |variant: &str| -> Option<PathBuf> {
        let mut files = fs::read_dir(made.join(variant)).ok()?.flatten().map(|entry| entry.path());
        files.find(|path| path.is_file())
    };
    let plain = program(BASELINE).with_context(|| format!("{} has no plain build", made.display()))?;
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

/// The least number of seconds that remain after this number of phases, with these steps done.
fn rest_s(takes: &Takes, phases: usize, done: &[DoneStep]) -> f64 {
    let compile_s = done.iter().find(|step| step.name == BUILD_BASELINE).map_or(0.0, |step| step.took_s);
    let of = |phase: Phase| done.iter().filter(move |step| step.phase == Some(phase)).map(|step| step.took_s);
    takes.rest_s(phases, compile_s, MAKING.map(|phase| of(phase).sum()))
}

/// Seconds that the finished build steps in `output` took, including those of interrupted runs. An unfinished step has no recorded time. The
/// run repeats it.
///
/// # Errors
/// When the experiment can't be read.
pub fn made_s(file: &Path, output: &Path) -> Result<f64> {
    let text = experiment_text(file)?;
    let run = spec::name_in(&text).and_then(|name| newest(output, &name).ok());
    Ok(run.map_or(0.0, |run| steps::done(&run).iter().map(|step| step.took_s).sum()))
}

/// A phase of the only run in a folder. If the run exists, it continues, regardless of its phase.
fn phase_of(file: &Path, output: &Path, name: &str, phase: Phase) -> RunRequest {
    RunRequest {
        file: file.to_owned(),
        output: output.to_owned(),
        resume: newest(output, name).is_ok().then_some(None),
        only: Some(phase),
        overrides: Overrides::default(),
    }
}

/// The step whose time is that of compiling one program.
const BUILD_BASELINE: &str = "build-baseline";

/// Findings about the plain build, made before the other builds.
pub struct Findings {
    /// The share of user code under each load.
    pub ceilings: Vec<Ceiling>,
    /// Why the CPU stalls, if the run diagnosed it.
    pub diagnosis: Option<Diagnosis>,
}

/// The findings of a run that ended after its builds, and therefore has no record.
///
/// # Errors
/// When a note of the run can't be read.
fn findings(folder: &RunFolder) -> Result<Findings> {
    let diagnosis = steps::result_of::<Result<Diagnosis, String>>(folder, "diagnose")?;
    Ok(Findings {
        ceilings: steps::result_of(folder, "ceiling")?.unwrap_or_default(),
        diagnosis: diagnosis.and_then(Result::ok),
    })
}

/// The prediction of a replay for a variant's layout. `None` without a replay.
///
/// # Errors
/// When its file can't be read.
fn foretold_of(folder: &RunFolder, variant: &str) -> Result<Option<Foretold>> {
    let found = steps::result_of::<Result<Foretelling, String>>(folder, &foretell::step_of(variant))?;
    Ok(found.and_then(Result::ok).map(|found| found.ahead()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_experiment::notation::TimeBudget;

    /// Reads a command line with the options that these tests use.
    fn read(line: &str) -> RunRequest {
        let words = shlex::split(line).unwrap();
        let mut words = words.into_iter().skip(2).peekable();
        let mut request = RunRequest {
            file: words.next().unwrap().into(),
            output: "runs".into(),
            resume: None,
            only: None,
            overrides: Overrides::default(),
        };
        while let Some(word) = words.next() {
            match &*word {
                "-o" => request.output = words.next().unwrap().into(),
                "--phase" => {
                    request.only = <Phase as clap::ValueEnum>::from_str(&words.next().unwrap(), false).ok()
                }
                "--resume" => {
                    request.resume = Some(words.next_if(|next| !next.starts_with('-')).map(PathBuf::from));
                }
                "--variants" => {
                    let names = words.next().unwrap();
                    request.overrides.variants = Some(names.split(',').map(str::to_owned).collect());
                }
                other => panic!("{other}"),
            }
        }
        request
    }

    #[test]
    fn the_log_of_a_first_build_that_failed_stays() {
        let parent = tempfile::tempdir().unwrap();
        let arguments = read("hone optimize x.toml");
        for (code, stays) in [(0, false), (1, true)] {
            use hone_tool::{Call, Runner as _, System};
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
        let asked = Overrides {
            matrix: true,
            variants: Some(vec!["pgo".into(), "bolt".into()]),
            budget: Some(TimeBudget(600.0)),
            effect: Some(Share(0.03)),
        };
        let kept = format!("name = \"x\"{}", mark(&asked));
        fs::write(run.join("experiment.toml"), &kept).unwrap();
        assert_eq!(unmarked(&kept), ("name = \"x\"", asked.clone()));
        let found = read(&format!("hone optimize x.toml --resume {}", run.display())).of_its_run("");
        assert_eq!((&found.output, found.overrides.clone()), (&home, asked.clone()));
        for line in ["--resume", "--phase train"] {
            let line = format!("hone optimize x.toml -o {} {line}", home.display());
            assert_eq!(read(&line).of_its_run("name = \"x\"\n").overrides, asked, "{line}");
            assert_eq!(read(&line).of_its_run("name = \"y\"\n").overrides, Overrides::default(), "{line}");
        }
        assert_eq!(read("hone optimize x.toml").of_its_run("name = \"x\"").overrides, Overrides::default());
    }

    #[test]
    fn a_run_is_not_gone_on_with_for_other_variants() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.toml");
        let text = include_str!("../../../examples/broker/hone.toml");
        fs::write(&file, text).unwrap();
        let folder_of = |line: &str| {
            let line = format!("hone optimize {} -o {} {line}", file.display(), dir.path().display());
            let arguments = read(&line).of_its_run(text);
            let asked = arguments.overrides.clone();
            let experiment = spec::parse_asked(text, &file, &asked).unwrap();
            super::folder(&arguments, &experiment, &(text.to_owned() + &mark(&asked)))
        };
        folder_of("--variants pgo,bolt").unwrap();
        folder_of("--variants pgo,bolt --resume").unwrap();
        folder_of("--resume").unwrap();
        folder_of("--phase build").unwrap();
        let error = folder_of("--variants pgo --resume").unwrap_err().to_string();
        assert!(error.contains("began with --variants pgo,bolt,"), "{error}");
        let wrong = Overrides { variants: Some(vec!["pgi".into()]), ..Overrides::default() };
        let error = spec::parse_asked(text, &file, &wrong).unwrap_err().to_string();
        assert!(error.contains("--variants: unknown variant `pgi` (did you mean `pgo`?)"), "{error}");
    }

    /// The time of earlier attempts already includes it.
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
        assert_eq!(rest_s(&takes, 1, &done), 60.0, "its phase is unknown");
    }

    /// An interruption of the second build must not repeat the first one.
    #[test]
    fn builds_that_were_broken_off_go_on() {
        let home = tempfile::tempdir().unwrap();
        let of = |phase| phase_of(Path::new("x.toml"), home.path(), "x", phase).resume;
        assert_eq!(of(Phase::Baseline), None, "nothing is there yet");
        fs::create_dir(home.path().join("x-001")).unwrap();
        assert_eq!(of(Phase::Baseline), Some(None));
        assert_eq!(of(Phase::Build), Some(None));
    }
}
