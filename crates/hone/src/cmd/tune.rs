//! `hone tune`: one change at a time over all altitudes, kept only where it is shown to help.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_load::Security;
use hone_record::{Together, Tuning};
use hone_report::documents;

use super::security::SecurityOptions;
use crate::cmd::context::{CliContext, default_runs, record_and_page};
use hone_experiment::arm;
use hone_experiment::ending::{Ending, Usage, WayOn};
use hone_experiment::folder::RunFolder;
use hone_optimize::run as optimize;
use hone_serve::story;
use hone_tune::estimate::Planned;
use hone_tune::file::{SHOWN, parse};
use hone_tune::session::pairs_s;
use hone_tune::settings::{Built, TuneSettings};
use hone_tune::tune_run::{begin, finish, no_time, resume, take};

/// Tune a service: look at it, try the most hopeful change, keep it or put it back, look again.
///
/// FILE names the load, what decides, what may be changed, and perhaps changes to try. Hone adds those that follow from what it sees: the
/// batches of the producers, codecs that make the broker pack anew, and where they are allowed the machine's settings on the way to the data and
/// earlier acknowledgements. What is hoped to save most for a minute comes first. Each is one comparison as of `hone compare`, against the state that was
/// kept until then. In the end all that was kept is held against all but each one of it, and against the first state; what does not help
/// there is put back. Everything is as it was behind the run; what to set to keep it is told.
///
/// Exit code 3: what was kept one by one was not shown to help together.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone tune tune.toml
  hone tune tune.toml --dry-run
  hone tune tune.toml --resume runs/orders-001

A file:
  name = \"orders\"

  [tune]
  target = \"hone broker --listen 127.0.0.1:{port} --data {data} --metrics off\"   # or host:port; an embedded broker without it
  objective = \"cpu-per-record\"     # what decides; \"capacity\" with slo = \"p99=10ms\": the highest rate at which that holds
  require = [\"p99<100ms\"]          # what every state has to meet
  budget = \"30m\"                   # as long as there is something to try without it
  allow = [\"broker\", \"client\"]     # and \"binary\", \"host\"
  # build = \"optimize.toml\"        # an experiment of hone optimize whose builds are tried; target = \"{program} --listen ...\"
  forbid = [\"partitions\", \"topic.retention.*\"]   # settings that nothing touches
  durability = false               # true: changes of what an acknowledgement promises may be tried

  [[tune.candidate]]               # beside what Hone finds; find = false tries these alone
  set = \"topic.compression.type=producer\"
  hope = 0.2                       # share of the objective that it may save

  [[tune.candidate]]
  program = \"./hone-broker-pgo\"   # another build of the target

  [workload.orders]
  client = \"librdkafka\"
  requests_per_s = 10000
  record_bytes = 200")]
pub(crate) struct Arguments {
    /// The experiment file, with a [tune] part.
    #[arg(required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Show what would be tried first and how long each part and all of it would take; start nothing.
    #[arg(long)]
    dry_run: bool,
    /// Go on with an interrupted run, after its last pair. TLS and login are said again: they are kept nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["file", "dry_run"])]
    resume: Option<PathBuf>,
    /// Change settings of this machine's kernel without being asked, where the file allows `host`.
    #[arg(long)]
    yes: bool,
    /// Where the machine's files are.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    host_root: PathBuf,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    security: SecurityOptions,
}

const BUILT: &str = "built.json";

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(folder) = &arguments.resume {
        cli.goes_on(&["markdown", "yes"])?;
        let folder = RunFolder::open(folder)?;
        let asked = resume(&folder, &security, &cli.progress)?;
        return go(asked, &folder, arguments.markdown, &security, cli);
    }
    let path = arguments.file.as_deref().context("a file is there without --resume")?;
    let text = std::fs::read_to_string(path).map_err(|error| {
        Usage(format!("the experiment {} can't be read: {error}; {SHOWN}", path.display()))
    })?;
    let asked =
        TuneSettings { host_root: arguments.host_root.clone(), ..parse(&text, path, &arm::embedded()?)? };
    let (asked, no_knobs) = asked.with_knobs_of_the_host(&arguments.output);
    // Builds take long, so whatever can be refused is refused before them.
    asked.check_all(&security)?;
    asked.build.as_deref().map_or(Ok(()), optimize::check)?;
    let build_takes = asked.build.as_deref().map(optimize::takes).transpose()?;
    let estimate = asked.estimate(&security, build_takes.as_ref())?;
    if arguments.dry_run {
        let planned = Planned { asked, estimate, no_knobs };
        return cli.show_found("tuning-plan", &planned, hone_tune::plan_text::text);
    }
    let first = (estimate.first_change_s, no_knobs);
    let folder = begin(&asked, first, arguments.yes, &arguments.output, &security, &cli.progress)?;
    go(asked, &folder, arguments.markdown, &security, cli)
}

/// The run with its builds, and the seconds of them that earlier attempts took.
struct Builds {
    asked: TuneSettings,
    earlier_s: f64,
}

/// What all earlier attempts took to make the builds: those that were finished have it written down, of others it is what their steps took.
fn earlier_builds_s(known: Option<&Built>, file: &Path, folder: &Path) -> Result<f64> {
    known.map_or_else(|| optimize::made_s(file, folder), |built| Ok(built.took_s))
}

/// Makes the builds that the file asks for by `hone optimize`, or takes those of an earlier attempt. `left_s` is what is left of the budget, but
/// for what earlier attempts took to build.
fn built(
    asked: TuneSettings,
    folder: &RunFolder,
    security: &Security,
    left_s: &dyn Fn() -> Option<f64>,
    cli: &CliContext,
) -> Result<Builds> {
    let Some(file) = asked.build.clone() else { return Ok(Builds { asked, earlier_s: 0.0 }) };
    let known = folder.read_note::<Built>(BUILT)?;
    let earlier_s = earlier_builds_s(known.as_ref(), &file, &folder.join("builds"))?;
    let built = match known {
        Some(built) => built,
        None => {
            cli.progress.line(&format!("Builds: by {}", file.display()));
            let begun = Instant::now();
            let then_s = asked.estimate(security, None)?.first_change_s;
            let stops = |rest_s| left_s().and_then(|left_s| no_time(left_s - earlier_s, rest_s, then_s));
            let made = optimize::programs(&file, &folder.join("builds"), &stops, &cli.progress)?;
            made.stopped.iter().for_each(|why| cli.progress.line(why));
            keep_findings(&made.findings, folder)?;
            let built = Built {
                plain: made.plain,
                variants: made.variants,
                trained_by: made.trained_by,
                foretold: made.foretold,
                stopped: made.stopped,
                took_s: earlier_s + begun.elapsed().as_secs_f64(),
            };
            folder.write_note(BUILT, &built)?;
            built
        }
    };
    Ok(Builds { asked: asked.with_builds(&built)?, earlier_s })
}

/// Worse where what was kept one by one was not shown to help together.
fn ending(tuning: &Tuning) -> Ending {
    match tuning.together.as_ref().is_some_and(Together::is_rejected) {
        true => Ending::Worse,
        false => Ending::Done,
    }
}

/// What was found out of the plain build lies where the story of this run looks for it.
fn keep_findings(found: &optimize::Findings, folder: &RunFolder) -> Result<()> {
    folder.write_note(story::CEILINGS, &found.ceilings)?;
    if let Some(diagnosis) = &found.diagnosis {
        folder.write_record(story::DIAGNOSIS, diagnosis.clone())?;
    }
    Ok(())
}

/// Builds and measures what is not there yet, keeps record, Markdown and page, and shows all of it.
fn go(
    asked: TuneSettings,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let begun = Instant::now();
    let _held = take(folder, &cli.progress)?;
    let earlier_s = pairs_s(folder.path());
    let budget_s = asked.budget_s;
    let left_s = || Some(budget_s? - earlier_s - begun.elapsed().as_secs_f64());
    let builds = WayOn::behind(built(asked, folder, security, &left_s, cli), "tune", folder)?;
    let time = (begun, earlier_s + builds.earlier_s);
    let (tuning, record) = finish(&builds.asked, folder, time, security, &cli.progress)?;
    let places = record_and_page(&record)?;
    let ending = ending(&tuning);
    let document = |tuning: &Tuning| documents::tuning(tuning, &BTreeMap::new(), None);
    cli.show_document_or_markdown(tuning, markdown, document, &places)?;
    Ok(ending)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use hone_record::{Engine, Hope};
    use hone_tune::candidate::Candidate;
    use hone_tune::lasting::to_keep;

    use super::*;

    /// What is printed can be pasted.
    #[test]
    fn the_commands_are_commands() {
        let settings = [
            "linger=20ms,codec=gzip,batch-size=65536",
            "acks=-1",
            "producers=4",
            "client.batch.num.messages=10",
            "host.vm.swappiness=1",
        ];
        let of = |setting: &str| Candidate::of_settings(&[setting.to_owned()], Hope::default()).unwrap();
        let kept: Vec<Candidate> = settings.into_iter().map(of).collect();
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let engine = Engine::Librdkafka { settings: BTreeMap::new() };
        let lines = to_keep(&kept, &engine, &folder).unwrap();
        let mut commands = 0;
        for line in lines.iter().filter(|line| line.contains("hone ")) {
            let (_, command) = line.split_once("hone ").unwrap();
            let command = command.split(" (").next().unwrap();
            let words = shlex::split(&format!("hone {command}")).unwrap();
            crate::cmd::Cli::command().try_get_matches_from(&words).unwrap_or_else(|e| panic!("{line}: {e}"));
            commands += 1;
        }
        assert_eq!(commands, 3, "{lines:?}");
        assert!(lines[0].ends_with("--linger 20ms --codec gzip --batch-size 65536"), "{lines:?}");
        assert_eq!(lines[2], "producers=4: set it in the client itself (producers=4)");
    }

    /// The budget is of the whole run, however often it was broken off among its builds.
    #[test]
    fn what_broken_off_attempts_built_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (file, builds) = (folder.path().join("optimize.toml"), folder.path().join("builds"));
        std::fs::write(&file, "name = \"x\"\n").unwrap();
        let earlier_s = |known: Option<&Built>| earlier_builds_s(known, &file, &builds).unwrap();
        assert_eq!(earlier_s(None), 0.0, "nothing is begun");
        let steps = builds.join("x-001/steps");
        std::fs::create_dir_all(&steps).unwrap();
        for (step, took_s) in [("build-baseline", 40.0), ("train", 20.5)] {
            let receipt = serde_json::json!({ "step": step, "took_s": took_s, "command": null, "note": "" });
            let finished = serde_json::json!({ "receipt": receipt, "result": null });
            std::fs::write(steps.join(format!("{step}.json")), finished.to_string()).unwrap();
        }
        std::fs::write(steps.join("quiet.json"), "3").unwrap();
        assert_eq!(earlier_s(None), 60.5);
        let built = Built {
            plain: PathBuf::from("/plain"),
            variants: Vec::new(),
            trained_by: Vec::new(),
            foretold: BTreeMap::new(),
            stopped: None,
            took_s: 75.0,
        };
        assert_eq!(earlier_s(Some(&built)), 75.0, "all of them, the last attempt among them");
    }
}
