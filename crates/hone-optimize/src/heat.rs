//! Sources of a heatmap: whatever they are, they become the one model of code that ran.

use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_diagnose::heatmap::{self, Classic, HeatmapSettings};
use hone_diagnose::model::{self, Depth, Part, Run};
use hone_diagnose::trace::TraceFolder;
use hone_diagnose::{callgrind, perf};
use hone_format::count;
use hone_record::{Diagnosis, Envelope, Evidence, HeatSource, Heatmap};

use crate::diagnose::branched;
use crate::diagnose::found::image;
use crate::diagnose::sampled::{notes_of_samples, read as read_samples};
use hone_experiment::ending::Usage;
use hone_experiment::folder::read_record;

/// More than this is no file of callgrind's, and no heatmap.
const MOST_BYTES: u64 = 256 << 20;
/// Pre-aggregated branches are read line by line, and may be larger.
const MOST_AGGREGATED_BYTES: u64 = 8 << 30;
/// Enough to know a file's kind by.
const HEAD_BYTES: u64 = 4096;
/// Read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Names that an error lists.
const MOST_NAMES: usize = 12;

/// What a path holds.
pub enum Source {
    /// Code that ran.
    Ran(Box<Ran>),
    /// A heatmap that was saved.
    Saved(Heatmap),
}

/// Code that ran, with the words for it.
pub struct Ran {
    /// What ran.
    pub run: Run,
    /// Of what, in words.
    pub title: String,
    evidence: Evidence,
    notes: Vec<String>,
}

/// Which part of it is asked for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// A part of the object's path.
    pub object: Option<String>,
    /// The name of a thread.
    pub thread: Option<String>,
}

impl Wish {
    /// An option that chooses.
    fn option(&self) -> Option<&'static str> {
        let object = self.object.as_ref().map(|_| "--object");
        object.or_else(|| self.thread.as_ref().map(|_| "--thread"))
    }
}

/// One map of all sources.
pub fn map(sources: &[Source], wish: &Wish) -> Result<Heatmap> {
    let mut map = Heatmap::default();
    for source in sources {
        match source {
            Source::Ran(ran) => {
                map.sides.push(ran.side(wish)?);
                map.notes.extend(ran.notes.iter().cloned());
            }
            Source::Saved(saved) => {
                if let Some(option) = wish.option() {
                    return Err(Usage(format!(
                        "a saved heatmap holds what it was made of, and {option} can't choose in it; name the run that it was made of"
                    ))
                    .into());
                }
                map.sides.extend(saved.sides.iter().cloned());
                map.notes.extend(saved.notes.iter().cloned());
            }
        }
    }
    if map.sides.len() > 2 {
        return Err(Usage(
            "these are more than two sides: a saved heatmap of two takes no other source".to_owned(),
        )
        .into());
    }
    if let [one, other] = &map.sides[..]
        && one.evidence != other.evidence
    {
        map.notes.push(format!(
            "before is {}, after is {}: a difference can be one of the sources",
            one.evidence.label(),
            other.evidence.label()
        ));
    }
    Ok(map)
}

/// Reads a path; `program` is what a profile of BOLT's there was taken of.
///
/// # Errors
/// When it is none of the sources, with what was looked for.
pub fn read(path: &Path, program: Option<&Path>) -> Result<Source> {
    let Some(folder) = traces_of(path)? else { return of_file(path, program) };
    let left =
        TraceFolder::open(&folder).left().with_context(|| format!("{} can't be read", folder.display()))?;
    let mut notes: Vec<String> =
        left.broken.iter().map(|(file, fault)| format!("{} is left out: {fault}", file.display())).collect();
    if left.traces.is_empty() {
        bail!("no trace in {} can be read\n  {}", folder.display(), notes.join("\n  "));
    }
    if left.left_out > 0 {
        notes.push(format!(
            "{}: {} processes were not traced, since there were too many",
            path.display(),
            left.left_out
        ));
    }
    let run = model::of_traces(&left.traces, image);
    Ok(Source::Ran(Box::new(Ran { run, title: title_of(path), evidence: Evidence::Simulated, notes })))
}

/// The folder of traces that a path stands for; `None` for a file.
fn traces_of(path: &Path) -> Result<Option<PathBuf>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let folders = [path.join("trace"), path.to_owned()];
    let has_traces = |folder: &&PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|file| file.extension().is_some_and(|ending| ending == "trace"))
    };
    let found = folders.iter().find(has_traces).cloned();
    let found = found.with_context(|| {
        format!(
            "no traces in {}: looked for trace/*.trace and *.trace\n  next: hone diagnose -- COMMAND, or hone diagnose hone.toml, leaves \
             such a folder",
            path.display()
        )
    })?;
    Ok(Some(found))
}

/// What ran, as the diagnosis beside the traces tells it; else the path.
fn title_of(path: &Path) -> String {
    let beside = path.parent().unwrap_or(Path::new("."));
    let told = [path, beside].iter().find_map(|folder| {
        let found: Diagnosis = read_record(&folder.join("diagnosis.json")).ok()?;
        Some(found.source)
    });
    told.unwrap_or_else(|| path.display().to_string())
}

/// Samples of user code; the kernel's share is a note, since no map holds it.
fn of_samples(path: &Path) -> Result<Source> {
    let samples = read_samples(path)?;
    let run = samples.run(image);
    let mut notes = samples.notes.clone();
    notes.extend(notes_of_samples(&samples, &run));
    let kernel = samples.whole(None).kernel as f64 / samples.samples.max(1) as f64;
    if kernel > 0.0 {
        notes.push(format!(
            "{} of all samples are in the kernel, and in no map",
            hone_format::percent(kernel)
        ));
    }
    let title = format!("{}, {} samples of {}", path.display(), count(samples.samples), samples.event);
    Ok(Source::Ran(Box::new(Ran { run, title, evidence: Evidence::Sampled, notes })))
}

fn of_file(path: &Path, program: Option<&Path>) -> Result<Source> {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.with_context(|| format!("{} can't be read", path.display()))?;
    if perf::is_data(&head) {
        return of_samples(path);
    }
    if branched::is_aggregated(&head) {
        return of_aggregated(path, program);
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("{} can't be read", path.display()))?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!(
            "{} is larger than 256 MiB, which no file of callgrind's and no profile of BOLT's is\n  next: {SOURCES}",
            path.display()
        );
    }
    let name = path.display().to_string();
    branched::refuse(&bytes, &name)?;
    if branched::is_profile(&bytes) {
        return Ok(of_branches(branched::read(&bytes, &name, program, Depth::Blocks)?, &name));
    }
    let text = String::from_utf8_lossy(&bytes);
    let cannot = || format!("{} gives no heatmap", path.display());
    if text.starts_with("# callgrind format") {
        let run = callgrind::read(&text, image).with_context(cannot)?;
        let (title, evidence) = (format!("{}, by callgrind", path.display()), Evidence::Modelled);
        return Ok(Source::Ran(Box::new(Ran { run, title, evidence, notes: Vec::new() })));
    }
    if text.trim_start().starts_with('{') {
        return Ok(Source::Saved(Envelope::<Heatmap>::parse(&text).with_context(cannot)?));
    }
    bail!(
        "{} is no file of callgrind's, no data of perf's, no profile of BOLT's and no saved heatmap\n  next: {SOURCES}",
        path.display()
    )
}

/// Branches that were added up, which can be more than the memory holds of their text.
fn of_aggregated(path: &Path, program: Option<&Path>) -> Result<Source> {
    let name = path.display().to_string();
    let file = fs::File::open(path).with_context(|| format!("{name} can't be read"))?;
    if file.metadata().is_ok_and(|about| about.len() > MOST_AGGREGATED_BYTES) {
        bail!(
            "{name} is larger than {} GiB, which is more than is read of pre-aggregated branches\n  next: add lines of the same branch up, or \
             sample for a shorter time",
            MOST_AGGREGATED_BYTES >> 30
        );
    }
    let text = BufReader::with_capacity(BUFFER_BYTES, file.take(MOST_AGGREGATED_BYTES));
    Ok(of_branches(branched::read_aggregated(text, &name, program, Depth::Blocks)?, &name))
}

fn of_branches(read: branched::Read, name: &str) -> Source {
    let branched::Read { run, notes } = read;
    let title = format!("{name}, by BOLT's counts");
    Source::Ran(Box::new(Ran { run, title, evidence: Evidence::Modelled, notes }))
}

/// What can be read.
const SOURCES: &str = "name a run's folder of hone diagnose, its folder trace/, a file of valgrind --tool=callgrind --dump-instr=yes, what \
                       perf record wrote, a profile of BOLT's (fdata, or what perf2bolt --pa takes), or a heatmap that was saved as JSON";

impl Ran {
    fn side(&self, wish: &Wish) -> Result<HeatSource> {
        let (part, object) = self.chosen(wish)?;
        let title = match &wish.thread {
            Some(thread) => format!("{}, thread {thread}", self.title),
            None => self.title.clone(),
        };
        let mut side =
            heatmap::heatmap(&self.run, &part, &HeatmapSettings { title, evidence: self.evidence, object });
        if let Some(bytes) = self.bytes_of(object) {
            heatmap::add_sources(&mut side, &bytes);
        }
        Ok(side)
    }

    /// The object's file, where it tells lines and is still the one that the addresses are of.
    fn bytes_of(&self, object: Option<u32>) -> Option<Vec<u8>> {
        let object = self.run.objects.get(object? as usize)?;
        let known = object.image.as_ref().filter(|image| image.has_lines)?;
        let bytes = fs::read(&object.path).ok()?;
        known.is_of(&bytes).then_some(bytes)
    }

    /// The map as `llvm-bolt-heatmap` writes it.
    pub fn classic(&self, wish: &Wish) -> Result<Classic> {
        let (part, object) = self.chosen(wish)?;
        Ok(heatmap::classic(&self.run, &part, object))
    }

    fn chosen(&self, wish: &Wish) -> Result<(Part, Option<u32>)> {
        let part = match &wish.thread {
            None => self.run.whole(),
            Some(name) => self.thread(name)?,
        };
        let object = match &wish.object {
            None => heatmap::busiest(&self.run, &part),
            Some(name) => Some(self.object(name, &part)?),
        };
        Ok((part, object))
    }

    fn thread(&self, name: &str) -> Result<Part> {
        let found = self.run.parts.iter().find(|part| part.name == name).cloned();
        found.ok_or_else(|| {
            let names = self.run.parts.iter().map(|part| part.name.as_str());
            let told = format!("no thread of {} is called `{name}`; there are {}", self.title, listed(names));
            Usage(told).into()
        })
    }

    /// The busiest of the objects whose path has the name in it.
    fn object(&self, name: &str, part: &Part) -> Result<u32> {
        let shares = model::objects(&self.run, part);
        let paths: Vec<&str> = shares.iter().filter_map(|share| share.path.as_deref()).collect();
        let is_last = |path: &&&str| path.rsplit('/').next() == Some(name);
        let path = paths.iter().find(is_last).or_else(|| paths.iter().find(|path| path.contains(name)));
        let index = path.and_then(|path| self.run.objects.iter().position(|object| object.path == **path));
        index.map(|index| index as u32).ok_or_else(|| {
            let told = format!(
                "no code of `{name}` ran in {}; what ran was of {}",
                self.title,
                listed(paths.into_iter())
            );
            Usage(told).into()
        })
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.take(MOST_NAMES).collect::<Vec<_>>().join(", ")
}
