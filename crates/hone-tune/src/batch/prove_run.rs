//! A proof from its settings to its record: started, resumed, measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_load::{Admin, Security};
use hone_record::{Metric, Proof};
use hone_report::documents;
use hone_tool::System;

use super::caching::fsyncs_per_batch;
use super::prove::{ASKED, ProofSettings, Session};
use super::recorded::Recorded;
use super::step::{Step, foretold_of, of_file};
use hone_experiment::arm::{self, Place};
use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::left;
use hone_experiment::meter::Metrics;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::{back_to, begun_with};
use hone_experiment::standing::Standing;
use hone_experiment::targets::{self, Targets};

/// The steps of a file, followed by those of the command line, each with its prediction from `NUMBER=FILE`.
pub fn steps(file: Option<&Path>, more: &[String], foretold: &[String]) -> Result<Vec<Step>> {
    let mut steps = match file {
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
            of_file(&text, path)?
        }
        None => Vec::new(),
    };
    for step in more {
        steps.push(Step::new(step.clone(), None)?);
    }
    if steps.is_empty() {
        bail!(Usage("there is no step to prove\n  next: add one, for example --step linger=5ms".to_owned()));
    }
    for text in foretold {
        add_foretold(text, &mut steps)?;
    }
    Ok(steps)
}

/// `NUMBER=FILE`.
fn add_foretold(text: &str, steps: &mut [Step]) -> Result<()> {
    let wrong = |problem: String| Usage(format!("--predicted `{text}`: {problem}"));
    let (number, path) = text
        .split_once('=')
        .ok_or_else(|| wrong("write NUMBER=FILE, for example 1=whatif.json".to_owned()))?;
    let count = steps.len();
    let step = number.trim().parse::<usize>().ok().and_then(|number| steps.get_mut(number.checked_sub(1)?));
    let step = step.ok_or_else(|| wrong(format!("the steps have the numbers 1 to {count}")))?;
    let path = Path::new(path);
    let record = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("{} can't be read: {error}", path.display())))?;
    step.foretold = Some(foretold_of(&record, path)?);
    Ok(())
}

/// The primary metric on a running broker: the requested one, or the CPU where it can be read from here, or else the median
/// latency.
///
/// # Errors
/// When the CPU was requested and can't be read.
pub fn decides(
    asked: Option<Metric>,
    metrics: &Metrics,
    place: &str,
    security: &Security,
    progress: &Progress,
) -> Result<Metric> {
    const MEDIAN: Metric = Metric::LatencyP50;
    if !arm::is_address(place) {
        return Ok(asked.unwrap_or_else(|| metrics.decides()));
    }
    if let Some(primary) = asked {
        targets::check_cpu(place, security, primary, "use --primary latency-p50")?;
        return Ok(primary);
    }
    if metrics.are_read() {
        metrics.check_readable()?;
        return Ok(metrics.decides());
    }
    let Some(missing) = Targets::of_cluster(place, security)?.missing else {
        return Ok(Metric::CpuPerRecord);
    };
    progress
        .line(&format!("the CPU of {place} can't be read ({missing}): {} decides instead", MEDIAN.label()));
    Ok(MEDIAN)
}

/// Makes the run's folder with complete settings and the topic's records.
pub fn begin(
    asked: &mut ProofSettings,
    recorded: Option<&Recorded>,
    (runs, name): (&Path, &str),
    security: &Security,
    progress: &Progress,
) -> Result<RunFolder> {
    asked.check()?;
    left::tidied(runs, &[&asked.place], security, progress)?;
    let folder = RunFolder::create(runs, name)?;
    if let Some(recorded) = recorded {
        recorded.write(&mut asked.workload, &folder)?;
    }
    asked.standing = Some(standing(asked, security)?);
    folder.write_note(ASKED, asked)?;
    Ok(folder)
}

/// The settings of a resumed run, whose basis must be unchanged.
pub fn resume(folder: &RunFolder, security: &Security, progress: &Progress) -> Result<ProofSettings> {
    let asked: ProofSettings = begun_with(folder, ASKED, "batch prove")?;
    back_to(&asked.working_folder)?;
    // A setting that another run left behind would be part of the measurement.
    left::tidied(folder.home(), &[&asked.place], security, progress)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&asked, security)?, folder.path())?;
    }
    Ok(asked)
}

fn standing(asked: &ProofSettings, security: &Security) -> Result<Standing> {
    let arm = asked.arm("kept", security)?;
    // A target that is not reachable is not an overloaded target.
    if let Place::Address(address) = &arm.place {
        Admin::connect_with(address, security)?;
    }
    Standing::now([arm].iter(), std::iter::once(&asked.workload))
}

/// Measures the steps, and writes the record and the Markdown. Returns the record's place.
pub fn measured(
    asked: &ProofSettings,
    folder: &RunFolder,
    security: &Security,
    progress: &Progress,
) -> Result<(Proof, PathBuf)> {
    let runner = System::new(folder.join("logs"))?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let proof = Session { asked, folder, security, runner: &runner, progress }.run()?;
    let record = folder.write_record("proof.json", proof.clone())?;
    let document = documents::proof(&proof, &BTreeMap::new(), None);
    folder.write_text("proof.md", &document.markdown())?;
    Ok((proof, record))
}

/// Fsyncs per batch without and with caching, one window each.
pub fn fsyncs_without_and_with(
    asked: &ProofSettings,
    folder: &RunFolder,
    security: &Security,
    progress: &Progress,
) -> Result<[f64; 2]> {
    // A killed run leaves a broker behind here, too.
    let _held = folder.held()?;
    let _noting = left::noted(folder)?;
    let runner = System::new(folder.join("logs"))?;
    let cached = match asked.steps.first() {
        Some(step) => step.applied(&asked.workload)?,
        None => asked.workload.clone(),
    };
    let of = |load| fsyncs_per_batch(asked, load, security, &runner, &folder.scratch(), progress);
    Ok([of(&asked.workload)?, of(&cached)?])
}
