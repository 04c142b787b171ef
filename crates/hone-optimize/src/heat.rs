//! Sources of a heatmap. All of them become the same model of the executed code.

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
use crate::diagnose::sampled::{notes_of_samples, read as read_samples};
use hone_experiment::emulated::image;
use hone_experiment::ending::Usage;
use hone_experiment::folder::read_record;

/// A larger file is not a callgrind file or a heatmap.
const MOST_BYTES: u64 = 256 << 20;
/// Hone reads pre-aggregated branches line by line, so they may be larger.
const MOST_AGGREGATED_BYTES: u64 = 8 << 30;
/// Enough bytes to detect a file's kind.
const HEAD_BYTES: u64 = 4096;
/// Bytes per read.
const BUFFER_BYTES: usize = 1 << 20;
/// The most names in an error.
const MOST_NAMES: usize = 12;

/// The contents of a path.
pub enum Source {
    /// Executed code.
    Ran(Box<Ran>),
    /// A saved heatmap.
    Saved(Heatmap),
}

/// Executed code, with its title.
pub struct Ran {
    /// The executed code.
    pub run: Run,
    /// The source, in words.
    pub title: String,
    evidence: Evidence,
    notes: Vec<String>,
}

/// The requested part of it.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// A part of the object's path.
    pub object: Option<String>,
    /// The name of a thread.
    pub thread: Option<String>,
}

impl Wish {
    /// An option that selects a part.
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
                        "{option} can't select a part of a saved heatmap\n  next: name the run that the \
                         heatmap was made from"
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
            "too many sources: a saved heatmap of two sources can't be combined with another one".to_owned(),
        )
        .into());
    }
    if let [one, other] = &map.sides[..]
        && one.evidence != other.evidence
    {
        map.notes.push(format!(
            "before is {}, after is {}: a difference can come from the different kinds of source",
            one.evidence.label(),
            other.evidence.label()
        ));
    }
    Ok(map)
}

/// Reads a path. `program` is the program of a BOLT profile at that path.
///
/// # Errors
/// Fails when the path is none of the sources. The error lists the supported ones.
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
        notes.push(format!("{}: too many processes, so {} were not traced", path.display(), left.left_out));
    }
    let run = model::of_traces(&left.traces, image);
    Ok(Source::Ran(Box::new(Ran { run, title: title_of(path), evidence: Evidence::Simulated, notes })))
}

/// The folder of traces at a path; `None` for a file.
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
            "no traces in {}: looked for trace/*.trace and *.trace\n  next: run `hone diagnose -- COMMAND` \
             or `hone diagnose hone.toml`, which writes such a folder",
            path.display()
        )
    })?;
    Ok(Some(found))
}

/// The source, as the diagnosis next to the traces names it; otherwise the path.
fn title_of(path: &Path) -> String {
    let beside = path.parent().unwrap_or(Path::new("."));
    let told = [path, beside].iter().find_map(|folder| {
        let found: Diagnosis = read_record(&folder.join("diagnosis.json")).ok()?;
        Some(found.source)
    });
    told.unwrap_or_else(|| path.display().to_string())
}

/// Samples of user code. A note gives the kernel's share, because no map shows the kernel.
fn of_samples(path: &Path) -> Result<Source> {
    let samples = read_samples(path)?;
    let run = samples.run(image);
    let mut notes = samples.notes.clone();
    notes.extend(notes_of_samples(&samples, &run));
    let kernel = samples.whole(None).kernel as f64 / samples.samples.max(1) as f64;
    if kernel > 0.0 {
        notes.push(format!(
            "{} of all samples are in the kernel, which no map shows",
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
            "{} is larger than 256 MiB, the limit for callgrind files and BOLT profiles\n  next: {SOURCES}",
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
        "{} is not a callgrind file, perf data, a BOLT profile or a saved heatmap\n  next: {SOURCES}",
        path.display()
    )
}

/// Aggregated branches. Their text can be larger than the memory.
fn of_aggregated(path: &Path, program: Option<&Path>) -> Result<Source> {
    let name = path.display().to_string();
    let file = fs::File::open(path).with_context(|| format!("{name} can't be read"))?;
    if file.metadata().is_ok_and(|about| about.len() > MOST_AGGREGATED_BYTES) {
        bail!(
            "{name} is larger than {} GiB, the limit for pre-aggregated branches\n  next: sum up the lines \
             of each branch, or sample for a shorter time",
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

/// The readable sources.
const SOURCES: &str = "name a run's folder of `hone diagnose`, its folder trace/, a file of `valgrind \
                       --tool=callgrind --dump-instr=yes`, the output of `perf record`, a BOLT profile \
                       (fdata, or the input of `perf2bolt --pa`), or a heatmap saved as JSON";

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

    /// The object's file, if it has line numbers and is still the file of these addresses.
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
            let told =
                format!("{} has no thread named `{name}`; its threads are {}", self.title, listed(names));
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
                "no code of `{name}` ran in {}; code ran in {}",
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
