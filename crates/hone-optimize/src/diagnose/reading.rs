//! A diagnosis from another program's output or file: slots, counters, samples, counts of code.

use std::fs;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_diagnose::model::Depth;
use hone_diagnose::topdown::counted;
use hone_diagnose::{callgrind, perf, topdown, verdict};
use hone_record::{Category, Diagnosed, Diagnosis, Evidence, Shift};

use super::branched;
use hone_experiment::ending::Usage;

/// A larger file is not output of `perf stat`, and not a callgrind file.
const MOST_BYTES: u64 = 256 << 20;

/// Reads one file; `-` is standard input.
pub fn of_file(path: &Path, program: Option<&Path>, user_share: Option<f64>) -> Result<Diagnosis> {
    let name = name_of(path);
    if begins_as_samples(path) {
        return Ok(super::of_data(&super::read_samples(path)?, &name));
    }
    diagnosis_of(&bytes(path)?, name, program, user_share)
}

/// Slots before and after a change. If one file can't be read, the diagnosis covers the other one and includes the error.
pub fn of_two_files(
    paths: [&PathBuf; 2],
    program: Option<&Path>,
    user_share: Option<f64>,
) -> Result<(Diagnosis, Option<anyhow::Error>)> {
    if let Some(path) = paths.iter().find(|path| begins_as_samples(path)) {
        return Err(Usage(format!(
            "{}: samples of perf record have no slots to compare\n  next: read this file alone",
            path.display()
        ))
        .into());
    }
    let [before, after] = paths.map(|path| diagnosis_of(&bytes(path)?, name_of(path), program, user_share));
    match (before, after) {
        (Ok(before), Ok(after)) => Ok((before_and_after(before, after)?, None)),
        (Ok(one), Err(error)) | (Err(error), Ok(one)) => Ok((one, Some(error))),
        (Err(error), Err(_)) => Err(error),
    }
}

/// Whether any of it is valid. Invalid slots are no diagnosis.
pub fn is_believed(diagnosis: &Diagnosis) -> bool {
    diagnosis.evidence == Evidence::Sampled || diagnosis.parts.iter().any(|part| part.refused.is_none())
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// One diagnosis from two, whose parts follow each other.
fn before_and_after(before: Diagnosis, after: Diagnosis) -> Result<Diagnosis> {
    if [&before, &after].into_iter().any(|one| one.evidence != Evidence::Measured) {
        return Err(Usage(format!(
            "--read compares only slots by counters: {} is {}, {} is {}",
            before.source,
            before.evidence.label(),
            after.source,
            after.evidence.label()
        ))
        .into());
    }
    let are_of_one_make = counts_contention(&before.parts) == counts_contention(&after.parts);
    let shifts = if are_of_one_make { shifts(&before.parts, &after.parts) } else { Vec::new() };
    let named = |side: &str, part: Diagnosed| {
        let scope = part.scope.map(|scope| format!(", {scope}")).unwrap_or_default();
        Diagnosed { scope: Some(format!("{side}{scope}")), ..part }
    };
    let mut notes = [before.notes, after.notes].concat();
    if !are_of_one_make {
        notes.push(
            "one file has SMT contention, which AMD's CPUs count, and the other has none: perhaps they are of different makes, so Hone does \
             not compare them"
                .to_owned(),
        );
    } else if shifts.is_empty() {
        notes.push(
            "the two files share no core, thread or PMU with valid slots, so Hone can't compare them"
                .to_owned(),
        );
    }
    let parts = before.parts.into_iter().map(|part| named("before", part));
    Ok(Diagnosis {
        source: format!("{} (before) and {} (after)", before.source, after.source),
        parts: parts.chain(after.parts.into_iter().map(|part| named("after", part))).collect(),
        shifts,
        notes,
        ..after
    })
}

/// Whether any of the parts has the category that only AMD's CPUs count.
fn counts_contention(parts: &[Diagnosed]) -> bool {
    let contention = |part: &Diagnosed| part.slots.as_ref()?.share(Category::SmtContention);
    parts.iter().any(|part| contention(part).is_some())
}

/// How the slots of parts with the same scope moved.
fn shifts(before: &[Diagnosed], after: &[Diagnosed]) -> Vec<Shift> {
    let of = |one: &Diagnosed| {
        let other = after.iter().find(|other| other.scope == one.scope)?;
        shift(one, other)
    };
    before.iter().filter_map(of).collect()
}

fn shift(before: &Diagnosed, after: &Diagnosed) -> Option<Shift> {
    let (one, other) = (before.slots.as_ref()?, after.slots.as_ref()?);
    let both = |(category, share): (&Category, &f64)| Some((*category, [*share, other.share(*category)?]));
    let percent = one.percent.iter().filter_map(both).collect();
    Some(Shift { before: before.scope.clone(), after: after.scope.clone(), percent })
}

fn diagnosis_of(
    bytes: &[u8],
    name: String,
    program: Option<&Path>,
    user_share: Option<f64>,
) -> Result<Diagnosis> {
    let cannot = || format!("{name} gives no diagnosis");
    branched::refuse(bytes, &name)?;
    if branched::is_profile(bytes) {
        let read = branched::read(bytes, &name, program, Depth::Edges)?;
        let mut diagnosis = super::of_counts(&read.run, name, user_share);
        diagnosis.notes.extend(read.notes);
        return Ok(diagnosis);
    }
    if program.is_some() {
        let told = format!("{name} is not a BOLT profile, and --program only applies to BOLT profiles");
        return Err(Usage(told).into());
    }
    let text = String::from_utf8_lossy(bytes);
    if text.starts_with("# callgrind format") {
        let run = callgrind::read(&text, super::image).with_context(cannot)?;
        return Ok(super::of_counts(&run, name, user_share));
    }
    Ok(match (topdown::read(&text), counted::read(&text)) {
        (Err(_), Some(counted)) => of_counters(counted, name, user_share),
        (output, _) => of_slots(&output.with_context(cannot)?, name, user_share),
    })
}

/// Whether a file is perf data, of any size. The reader reports a file that can't be opened.
fn begins_as_samples(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    path != Path::new("-") && read.is_ok() && perf::is_data(&head)
}

fn of_slots(output: &topdown::Output, source: String, user_share: Option<f64>) -> Diagnosis {
    let part = |(scope, judged): (Option<String>, Result<hone_record::Slots, topdown::Fault>)| match judged {
        Ok(slots) => {
            let verdict = Some(verdict::of_slots(&slots, user_share));
            Diagnosed { slots: Some(slots), verdict, ..Diagnosed::empty(scope) }
        }
        Err(fault) => Diagnosed { refused: Some(fault.to_string()), ..Diagnosed::empty(scope) },
    };
    let parts: Vec<Diagnosed> = topdown::judge(output).into_iter().map(part).collect();
    // Two runs in one file are before and after.
    let shifts = match &parts[..] {
        [before, after] if output.runs == 2 => shift(before, after).into_iter().collect(),
        _ => Vec::new(),
    };
    let notes = output.notes.clone();
    Diagnosis { evidence: Evidence::Measured, source, user_share, parts, shifts, watched: None, notes }
}

/// Misses without slots.
fn of_counters(scopes: Vec<counted::Scoped>, source: String, user_share: Option<f64>) -> Diagnosis {
    let part = |(scope, counted): counted::Scoped| match counted {
        Ok(counted) => {
            let verdict = verdict::of_counted(&counted, user_share);
            Diagnosed { counted: Some(counted), verdict, ..Diagnosed::empty(scope) }
        }
        Err(refused) => Diagnosed { refused: Some(refused), ..Diagnosed::empty(scope) },
    };
    let parts = scopes.into_iter().map(part).collect();
    Diagnosis {
        evidence: Evidence::MeasuredPartial,
        source,
        user_share,
        parts,
        shifts: Vec::new(),
        watched: None,
        notes: Vec::new(),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        stdin().take(MOST_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("{} can't be read", path.display()))?;
    anyhow::ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "{} is larger than 256 MiB, the limit for perf stat output, and does not begin like perf data",
        path.display()
    );
    Ok(bytes)
}
