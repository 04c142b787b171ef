//! `hone tune`: tests one change at a time over all layers, and keeps only what measurably helps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_load::Security;
use hone_record::{Together, Tuning};
use hone_report::documents;

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::SecurityOptions;
use hone_experiment::arm;
use hone_experiment::ending::{Ending, WayOn};
use hone_experiment::folder::{RunFolder, is_named, to_resume};
use hone_experiment::settle;
use hone_optimize::run as optimize;
use hone_serve::story;
use hone_tune::estimate::Planned;
use hone_tune::file::{SHOWN, parse};
use hone_tune::session::pairs_s;
use hone_tune::settings::{Built, TuneSettings};
use hone_tune::tune_run::{begin, finish, no_time, resume, take};

/// Tune a service change by change, and keep what measurably helps.
///
/// FILE names the load, the objective and the layers that Hone may change. Hone proposes candidates, and tests the one with the largest
/// expected gain per minute first. It keeps a change if the objective is better and no guard metric is worse.
///
/// Finally, Hone re-tests the kept changes and drops those that do not help together. It restores all settings when the run ends, and prints
/// how to make the kept changes permanent.
///
/// Exit code 3: the changes helped one by one, but not together.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone tune tune.toml
  hone tune tune.toml --dry-run
  hone tune --resume runs/orders-001

The file tune.toml:
  name = \"orders\"

  [tune]
  # Without a target, Hone starts an embedded broker.
  # target = \"127.0.0.1:9092\"      # or a command with {port} and {data}
  # build = \"optimize.toml\"        # test the builds of hone optimize
  objective = \"cpu-per-record\"     # metric that decides
  # objective = \"capacity\"         # needs slo = \"p99=10ms\", and no require
  require = [\"p99<100ms\"]          # every state must meet these rules
  budget = \"30m\"                   # time limit, builds included
  allow = [\"broker\", \"client\"]     # layers; also \"binary\" and \"host\"
  forbid = [\"partitions\", \"topic.retention.*\"]  # Hone leaves these settings
  durability = false               # true: may change the durability guarantee
  # find = false                   # test only the candidates of this file

  [[tune.candidate]]
  set = \"topic.compression.type=producer\"
  expected_gain = 0.2              # 20 % of the objective

  # [[tune.candidate]]
  # program = \"./hone-broker-pgo\"  # another build of the target

  [workload.orders]
  client = \"librdkafka\"
  requests_per_s = 10000
  record_bytes = 200")]
pub(crate) struct Arguments {
    /// Experiment file with a [tune] table.
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Show what would happen, and change nothing. Hone prints the first candidates and the time of each part. It starts nothing.
    #[arg(long)]
    dry_run: bool,
    /// Continue an interrupted run. Give the TLS and login options again, because Hone does not save them.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["file", "dry_run"])]
    resume: Option<Option<PathBuf>>,
    /// Change settings of this machine without asking. The file must allow the layer `host`.
    #[arg(long)]
    yes: bool,
    /// Where the machine's files are.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    host_root: PathBuf,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Where to write the result. Hone creates the run's folder and the ledger in this folder.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

const BUILT: &str = "built.json";

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(named) = &arguments.resume {
        let more = ["markdown", "yes", "output"];
        cli.goes_on(if named.is_some() { &more[..2] } else { &more })?;
        let others = ["compare", "batch-prove", "host-try"];
        let is_one = |path: &Path| {
            path.join("asked.json").is_file() && !others.iter().any(|kind| is_named(path, kind))
        };
        let folder = RunFolder::open(&to_resume(named.as_deref(), &arguments.output, "tune", is_one)?)?;
        let asked = resume(&folder, &security, &cli.progress)?;
        return go(asked, &folder, (arguments.markdown, arguments.report), &security, cli);
    }
    let path = arguments.file.as_deref().context("a file is required without --resume")?;
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the experiment {}\n  next: {SHOWN}", path.display()))?;
    let asked =
        TuneSettings { host_root: arguments.host_root.clone(), ..parse(&text, path, &arm::embedded()?)? };
    let (asked, no_knobs) = asked.with_knobs_of_the_host(&arguments.output);
    // Builds take long, so Hone refuses faulty settings before it builds.
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
    go(asked, &folder, (arguments.markdown, arguments.report), &security, cli)
}

/// The settings with the builds in place, and the seconds that earlier attempts took to build.
struct Builds {
    asked: TuneSettings,
    earlier_s: f64,
}

/// Seconds that all earlier attempts took to build. A finished attempt has noted its time. For others, Hone adds the times of their steps.
fn earlier_builds_s(known: Option<&Built>, file: &Path, folder: &Path) -> Result<f64> {
    known.map_or_else(|| optimize::made_s(file, folder), |built| Ok(built.took_s))
}

/// Makes the builds of the file with `hone optimize`, or uses those of an earlier attempt. `left_s` returns the rest of the budget in seconds.
/// The time that earlier attempts took to build is not yet subtracted from it.
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
            cli.progress.line(&format!("building the variants of {}", file.display()));
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

/// The ending is worse if the kept changes do not help together.
fn ending(tuning: &Tuning) -> Ending {
    match tuning.together.as_ref().is_some_and(Together::is_rejected) {
        true => Ending::Worse,
        false => Ending::Done,
    }
}

/// Writes the findings about the plain build to the files that the run summary reads.
fn keep_findings(found: &optimize::Findings, folder: &RunFolder) -> Result<()> {
    folder.write_note(story::CEILINGS, &found.ceilings)?;
    if let Some(diagnosis) = &found.diagnosis {
        folder.write_record(story::DIAGNOSIS, diagnosis.clone())?;
    }
    Ok(())
}

/// Makes the missing builds, measures the rest, writes record, Markdown and page, and shows the result.
fn go(
    asked: TuneSettings,
    folder: &RunFolder,
    (markdown, report): (bool, ReportOptions),
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
    let behind = report.write(&record)? + &settle::tuning(&tuning, folder.path());
    let ending = ending(&tuning);
    let document = |tuning: &Tuning| documents::tuning(tuning, &BTreeMap::new(), None);
    cli.show_document_or_markdown(tuning, markdown, document, &behind)?;
    Ok(ending)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use hone_record::{Engine, Hope};
    use hone_tune::candidate::Candidate;
    use hone_tune::lasting::to_keep;

    use super::*;

    /// The printed commands can be pasted.
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
        assert!(lines[0].ends_with("--linger 20ms --compression gzip --batch-size 65536"), "{lines:?}");
        assert_eq!(lines[2], "producers=4: set it in the client itself (producers=4)");
    }

    /// The budget covers the whole run, even if its builds were interrupted several times.
    #[test]
    fn what_broken_off_attempts_built_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (file, builds) = (folder.path().join("optimize.toml"), folder.path().join("builds"));
        std::fs::write(&file, "name = \"x\"\n").unwrap();
        let earlier_s = |known: Option<&Built>| earlier_builds_s(known, &file, &builds).unwrap();
        assert_eq!(earlier_s(None), 0.0, "no attempt has begun");
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
        assert_eq!(earlier_s(Some(&built)), 75.0, "all attempts, the last one included");
    }
}
