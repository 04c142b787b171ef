//! Points from the files of other benchmark tools: a file is a point of each of its benchmarks. The parsers are pure functions from text to
//! benchmarks, one file for each format.

mod benchmark;
mod benchstat;
mod criterion;
mod go_bench;
mod hyperfine;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_experiment::ending::Usage;
use hone_experiment::reader::{self, Caller};
use hone_format::FileError;
use hone_record::{HistoryOver, HistoryPoint, MetricLine};
use serde::Deserialize;
use serde::de::IgnoredAny;

use self::benchmark::{Benchmark, Fault};
use crate::serve::history::id_of;

/// Maximum depth of the folders of criterion: group, function, value and `new`.
const DEEPEST: usize = 6;
/// Folder of criterion's newest result.
const NEWEST: &str = "new";

/// The format of an imported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Go's benchmark text.
    GoBench,
    /// benchstat's CSV.
    Benchstat,
    /// hyperfine's JSON.
    Hyperfine,
    /// criterion's files.
    Criterion,
}

impl Format {
    /// Name of the tool, in ids.
    fn tool(self) -> &'static str {
        match self {
            Self::GoBench => "go",
            Self::Benchstat => "benchstat",
            Self::Hyperfine => "hyperfine",
            Self::Criterion => "criterion",
        }
    }
}

/// A file or folder to import.
#[derive(Debug)]
struct Import {
    /// Label of its points, if the user gave one.
    label: Option<String>,
    path: PathBuf,
}

impl Import {
    /// `FILE`, or `LABEL=FILE` as of benchstat.
    fn new(text: &str) -> Self {
        let parts = text.split_once('=').filter(|(label, _)| !label.is_empty() && !Path::new(text).exists());
        match parts {
            Some((label, path)) => Self { label: Some(label.to_owned()), path: path.into() },
            None => Self { label: None, path: text.into() },
        }
    }

    /// The label that the user gave, else that of the file's content, else the name of the file.
    fn label(&self, benchmark: &Benchmark) -> String {
        let name = if self.path.is_dir() { self.path.file_name() } else { self.path.file_stem() };
        let label = self.label.clone().or_else(|| benchmark.label.clone());
        label.or_else(|| Some(name?.to_string_lossy().into_owned())).unwrap_or_default()
    }
}

/// The lines of all imports. The points of a line are in the order of the imports.
///
/// # Errors
/// A file can't be read, or is not of its format.
pub(super) fn lines(imports: &[String], format: Option<Format>) -> Result<Vec<MetricLine>> {
    let mut lines: BTreeMap<(String, String), MetricLine> = BTreeMap::new();
    for import in imports.iter().map(|text| Import::new(text)) {
        let (format, benchmarks) = benchmarks(&import.path, format)?;
        let mut known: HashSet<(String, String, String)> = HashSet::new();
        for (path, benchmark) in benchmarks {
            let Benchmark { name, circumstances, measure, .. } = &benchmark;
            let label = import.label(&benchmark);
            let id = id_of(&[HistoryOver::Imports.label(), format.tool(), name, circumstances]);
            if !known.insert((id.clone(), measure.name.clone(), label.clone())) {
                let problem = format!("{} of `{name}` is there twice at `{label}`", measure.label);
                let next =
                    import.label.as_ref().map(|_| "leave out `LABEL=`: the file has labels of its own");
                return Err(refused(&path, "", Fault { next, ..Fault::new(problem) }));
            }
            let line = lines.entry((id.clone(), measure.name.clone())).or_insert_with(|| MetricLine {
                id,
                over: HistoryOver::Imports,
                name: name.clone(),
                circumstances: circumstances.clone(),
                measure: measure.clone(),
                ..MetricLine::default()
            });
            line.points.push(point(&path, label, &benchmark)?);
        }
    }
    Ok(lines.into_values().collect())
}

fn point(path: &Path, label: String, benchmark: &Benchmark) -> Result<HistoryPoint> {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    let modified = modified.with_context(|| format!("{} can't be read", path.display()))?;
    let since_1970 = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(HistoryPoint {
        label,
        at_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        value: benchmark.value,
        range: benchmark.range,
        windows: benchmark.runs,
        source: path.display().to_string(),
        ..HistoryPoint::default()
    })
}

/// The benchmarks of a file or of criterion's folder, each with its file.
fn benchmarks(path: &Path, format: Option<Format>) -> Result<(Format, Vec<(PathBuf, Benchmark)>)> {
    if path.is_dir() {
        return match format {
            None | Some(Format::Criterion) => Ok((Format::Criterion, of_folder(path)?)),
            Some(_) => bail!(Usage(format!(
                "{} is a folder\n  next: name a file; only criterion's results are a folder",
                path.display()
            ))),
        };
    }
    let text = reader::text(&Caller, path)?;
    let refuse = |fault| refused(path, &text, fault);
    let format = match format {
        Some(format) => format,
        None => format_of(&text).map_err(refuse)?,
    };
    let found = match format {
        Format::GoBench => go_bench::parse(&text),
        Format::Benchstat => benchstat::parse(&text),
        Format::Hyperfine => hyperfine::parse(&text),
        Format::Criterion => return Ok((format, vec![of_criterion(path)?])),
    };
    let found = found.map_err(refuse)?;
    if found.is_empty() {
        return Err(refuse(Fault::new("it has no result of a benchmark")));
    }
    Ok((format, found.into_iter().map(|benchmark| (path.to_owned(), benchmark)).collect()))
}

/// The error about a file, with what to do next.
fn refused(path: &Path, text: &str, fault: Fault) -> anyhow::Error {
    let error = FileError::new(path, text, fault.line, fault.problem);
    let next = fault.next.unwrap_or("correct the file, or name its format with --from");
    anyhow!(Usage(format!("{error}\n  next: {next}")))
}

#[derive(Deserialize)]
struct Head {
    hone_record: Option<IgnoredAny>,
    results: Option<IgnoredAny>,
    mean: Option<IgnoredAny>,
    full_id: Option<IgnoredAny>,
}

/// The format of a file, by its content.
fn format_of(text: &str) -> Result<Format, Fault> {
    if text.trim_start().starts_with('{') {
        let head: Head = serde_json::from_str(text).map_err(|error| Fault::of_json(&error))?;
        return match head {
            Head { hone_record: Some(_), .. } => {
                Err(Fault { next: Some("name it without --import"), ..Fault::new("it is a record of Hone") })
            }
            Head { results: Some(_), .. } => Ok(Format::Hyperfine),
            Head { mean: Some(_), .. } | Head { full_id: Some(_), .. } => Ok(Format::Criterion),
            _ => Err(unknown()),
        };
    }
    let has = |is_it: fn(&str) -> bool| text.lines().any(is_it);
    if has(go_bench::is_result) {
        Ok(Format::GoBench)
    } else if has(benchstat::is_head) {
        Ok(Format::Benchstat)
    } else if text.contains('│') {
        Err(Fault {
            next: Some("write it as CSV: `benchstat -format csv`"),
            ..Fault::new("it is a table of benchstat for people, with rounded values")
        })
    } else {
        Err(unknown())
    }
}

fn unknown() -> Fault {
    Fault::new(
        "its format is unknown: it is neither Go's benchmark text, nor benchstat's CSV, hyperfine's JSON or \
         criterion's JSON",
    )
}

/// The newest result of each benchmark in criterion's folder.
fn of_folder(folder: &Path) -> Result<Vec<(PathBuf, Benchmark)>> {
    let mut files = Vec::new();
    estimates_in(folder, DEEPEST, &mut files)?;
    if files.is_empty() {
        bail!(Usage(format!(
            "{} has no {NEWEST}/{}\n  next: name criterion's folder, usually target/criterion",
            folder.display(),
            criterion::ESTIMATES
        )));
    }
    files.iter().map(|path| of_criterion(path)).collect()
}

/// Collects the files with criterion's newest estimates. It follows no links.
fn estimates_in(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = || format!("{} can't be read", folder.display());
    let entries: std::io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder).with_context(cannot)?.collect();
    let mut entries = entries.with_context(cannot)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let is_folder = entry.file_type().with_context(cannot)?.is_dir();
        let estimates = entry.path().join(criterion::ESTIMATES);
        if is_folder && entry.file_name() == NEWEST && estimates.is_file() {
            files.push(estimates);
        } else if is_folder && depth > 0 {
            estimates_in(&entry.path(), depth - 1, files)?;
        }
    }
    Ok(())
}

/// A benchmark of criterion, by one of its two files. Without the file with its name, the folder above names it.
fn of_criterion(path: &Path) -> Result<(PathBuf, Benchmark)> {
    let (estimates, benchmark) =
        (path.with_file_name(criterion::ESTIMATES), path.with_file_name(criterion::BENCHMARK));
    let estimates = if path == benchmark { estimates } else { path.to_owned() };
    let name = if benchmark.is_file() {
        let text = reader::text(&Caller, &benchmark)?;
        criterion::name(&text).map_err(|fault| refused(&benchmark, &text, fault))?
    } else {
        let folder = path.parent().and_then(Path::parent).and_then(Path::file_name);
        folder.unwrap_or_default().to_string_lossy().into_owned()
    };
    let text = reader::text(&Caller, &estimates)?;
    let found = criterion::parse(&text, name).map_err(|fault| refused(&estimates, &text, fault))?;
    Ok((estimates, found))
}
