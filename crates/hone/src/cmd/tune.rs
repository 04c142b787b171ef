//! `hone tune`: one change at a time over all altitudes, kept only where it is shown to help.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_load::Security;
use hone_record::{Tuning, Verdict};
use hone_tool::System;

use super::security::SecurityOptions;
use super::{Desk, default_runs, optimize, report};
use crate::arm;
use crate::folder::RunFolder;
use crate::lever;
use crate::progress::Progress;
use crate::show;
use crate::standing::Standing;
use crate::tune::file::{Asked, Built, parse};
use crate::tune::session::Session;
use crate::{Ending, Usage};

/// Tune a service: look at it, try the most hopeful change, keep it or put it back, look again.
///
/// FILE names the load, what decides, what may be changed, and perhaps changes to try. Hone adds those that follow from what it sees: the
/// batches of the producers, codecs that make the broker pack anew. Each is one comparison as of `hone compare`, against the state that was
/// kept until then. In the end all that was kept is held against the first state, and against all but each one of it. Everything is
/// put back; what to set to keep it is told.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone tune hone.toml
  hone tune hone.toml --dry-run
  hone tune hone.toml --resume runs/orders-001

A file:
  name = \"orders\"

  [tune]
  target = \"hone broker --listen 127.0.0.1:{port} --data {data} --metrics off\"   # or host:port; an embedded broker without it
  objective = \"cpu-per-record\"     # what decides
  require = [\"p99<100ms\"]          # what every state has to meet
  budget = \"30m\"                   # as long as there is something to try without it
  allow = [\"broker\", \"client\"]     # and \"binary\", \"host\"
  # build = \"optimize.toml\"        # an experiment of hone optimize whose builds are tried; target = \"{program} --listen ...\"
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
    /// Show what would be tried first and how long it would take; start nothing.
    #[arg(long)]
    dry_run: bool,
    /// Go on with an interrupted run, behind its last pair. TLS and login are said again: they are kept nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["file", "dry_run"])]
    resume: Option<PathBuf>,
    /// Change settings of this machine's kernel without being asked, where the file allows `host`.
    #[arg(long)]
    yes: bool,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    security: SecurityOptions,
}

const ASKED: &str = "asked.json";
const BUILT: &str = "built.json";
const STANDING: &str = "standing.json";

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(folder) = &arguments.resume {
        return resume(folder, arguments, &security, desk);
    }
    let path = arguments.file.as_deref().context("a file is there without --resume")?;
    let text = std::fs::read_to_string(path)
        .map_err(|error| Usage(format!("{} can't be read: {error}", path.display())))?;
    let asked = parse(&text, path, &arm::embedded()?)?;
    if asked.build.is_none() {
        asked.base(&security)?.check(&asked.candidates)?;
    }
    if arguments.dry_run {
        return desk.show_found("tuning-plan", &asked, show::tuning::plan).map(|()| Ending::Done);
    }
    if asked.changes_the_host() && !arguments.yes {
        return Err(Usage(
            "the file allows `host`: settings of this machine's kernel would be changed for windows and put back after each; say --yes to do so"
                .to_owned(),
        )
        .into());
    }
    lever::put_back_left_overs(&arguments.output, &security, &desk.progress)?;
    let folder = RunFolder::create(&arguments.output, &asked.name)?;
    folder.write_note(ASKED, &asked)?;
    let asked = built(asked, &folder, desk)?;
    folder.write_note(STANDING, &standing(&asked, &security)?)?;
    go(&asked, &arguments.output, &folder, arguments.markdown, &security, desk)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, desk: &Desk) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    let missing = || Usage(format!("{} is no run of hone tune: it has no {ASKED}", folder.path().display()));
    let asked: Asked = folder.read_note(ASKED)?.ok_or_else(missing)?;
    // Commands may hold paths that were meant from where the run began.
    std::env::set_current_dir(&asked.working_folder)
        .with_context(|| format!("the run began in {}", asked.working_folder.display()))?;
    lever::put_back_left_over(folder.path(), security, &desk.progress)?;
    let asked = built(asked, &folder, desk)?;
    let now = standing(&asked, security)?;
    match folder.read_note::<Standing>(STANDING)? {
        Some(then) => then.same_as(&now, folder.path())?,
        None => folder.write_note(STANDING, &now)?,
    }
    let home = folder.path().parent().unwrap_or(folder.path()).to_owned();
    go(&asked, &home, &folder, arguments.markdown, security, desk)
}

/// Makes the builds that the file asks for by `hone optimize`, or takes those of an earlier attempt.
fn built(asked: Asked, folder: &RunFolder, desk: &Desk) -> Result<Asked> {
    let Some(file) = asked.build.clone() else { return Ok(asked) };
    let built = match folder.read_note::<Built>(BUILT)? {
        Some(built) => built,
        None => {
            desk.progress.line(&format!("Builds: by {}", file.display()));
            let (plain, variants) = optimize::programs(&file, &folder.join("builds"), desk)?;
            let built = Built { plain, variants };
            folder.write_note(BUILT, &built)?;
            built
        }
    };
    let asked = asked.with_builds(&built)?;
    asked.base(&Security::default())?.check(&asked.candidates)?;
    Ok(asked)
}

fn standing(asked: &Asked, security: &Security) -> Result<Standing> {
    let machine = hone_host::observe::machine(Path::new("/"));
    Standing::of([asked.base(security)?.first()].iter(), &machine)
}

/// Measures what is not measured yet, keeps record, Markdown and page, and shows all of it.
fn go(
    asked: &Asked,
    home: &Path,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    desk: &Desk,
) -> Result<Ending> {
    let _held = folder.held()?;
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    let tuning = tuned(asked, home, folder, security, &desk.progress).with_context(|| {
        format!("go on behind the last pair with: hone tune --resume {}", folder.path().display())
    })?;
    let record = folder.write_record("tuning.json", tuning.clone())?;
    folder.write_text("tuning.md", &show::tuning::markdown(&tuning))?;
    let page = report::write(&record, None)?;
    let ending = ending(&tuning);
    desk.show(tuning, |tuning| {
        let told = if markdown { show::tuning::markdown(tuning) } else { show::tuning::text(tuning) };
        format!("{told}\nRecord: {}\nPage: {}\n", record.display(), page.display())
    })?;
    Ok(ending)
}

fn tuned(
    asked: &Asked,
    home: &Path,
    folder: &RunFolder,
    security: &Security,
    progress: &Progress,
) -> Result<Tuning> {
    let runner = System::new(folder.join("logs"))?;
    let session = Session {
        asked,
        folder,
        home,
        security,
        runner: &runner,
        progress,
        base: asked.base(security)?,
        begun: Instant::now(),
    };
    session.run()
}

/// Worse where what was kept one by one is worse together.
fn ending(tuning: &Tuning) -> Ending {
    let all = tuning.together.as_ref().and_then(|together| together.all.as_ref());
    let verdict = all.and_then(|step| step.comparison.as_ref()).map(hone_record::Comparison::verdict);
    if verdict == Some(Verdict::Worse) { Ending::Worse } else { Ending::Done }
}
