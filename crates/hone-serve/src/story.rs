//! The run summary of a run or of a whole ledger: its entries, with the figures of their windows.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_ledger::{Checked, Ledger, Line};
use hone_record::{
    BatchState, Body as _, Capacity, Ceiling, Chapter, CommitGate, Comparison, Curve, Diagnosis, Envelope,
    Heatmap, HostTrial, LedgerEntry, Machine, Optimization, Proof, ProofStep, RecordRole, Story, TriedKnob,
    Tuned, Tuning, VariantState, Window, WindowRow,
};
use serde::Deserialize;

use hone_document::entries::{comparison, gate, host_trial, optimization, proof, tuning};
use hone_experiment::ending::Usage;
use hone_experiment::folder::TRIED;
use hone_experiment::ledger::{
    NAME, RECORDS, Runs, hash_by, inside, lies_in, place_in, pulled_name, windows_of,
};
use hone_experiment::reader::{self, Reader, record as record_by};

/// The note of `hone tune` with the ceilings of its builds, because the run ends before it has a record of them.
pub const CEILINGS: &str = "ceilings.json";
/// The record with the reasons for CPU stalls.
pub const DIAGNOSIS: &str = "diagnosis.json";

/// Related records of the runs behind a ledger.
#[derive(Default)]
struct Around {
    diagnoses: Vec<Diagnosis>,
    ceilings: Vec<Ceiling>,
    machines: Vec<Machine>,
}

/// Reads all of a ledger.
///
/// # Errors
/// The ledger can't be read.
pub fn of_ledger(path: &Path, reader: &dyn Reader) -> Result<Story> {
    let checked = reader.ledger(path)?;
    Ledger::at(path).refuse(&checked)?;
    let Checked { lines, heads, faults, .. } = checked;
    let mut limits: Vec<String> = faults
        .iter()
        .take(1)
        .map(|fault| {
            format!(
                "Line {} of the ledger was changed after it was written ({}). For details: hone ledger \
                 verify {}",
                fault.line,
                fault.meaning.label(),
                path.display()
            )
        })
        .collect();
    let runs = Runs::of(path, lines.iter(), reader);
    let chapters: Vec<Chapter> = lines
        .into_iter()
        .map(|line| Chapter { line: Some(line.number), ..chapter(&runs, line.entry, reader, &mut limits) })
        .collect();
    let around = around(runs.folders(), reader);
    let mut beside = Beside::default();
    runs.folders().for_each(|folder| beside.look_into(folder, reader));
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let told = Story {
        title: title(&chapters, &whole),
        source: path.display().to_string(),
        ceilings: around.ceilings,
        diagnoses: around.diagnoses,
        chapters,
        machines: around.machines,
        heads: heads.into_iter().map(|head| head.hash).collect(),
        limits,
        ..Story::default()
    };
    Ok(beside.add_to(told))
}

/// The experiment if there is one, else the folder.
fn title(chapters: &[Chapter], ledger: &Path) -> String {
    let mut names: Vec<&str> = chapters.iter().map(|chapter| chapter.entry.experiment.as_str()).collect();
    names.dedup();
    match names[..] {
        [only] if !only.is_empty() => only.to_owned(),
        _ => ledger.display().to_string(),
    }
}

/// An entry with the figures of its windows. Missing or changed windows are omitted and reported.
fn chapter(runs: &Runs, entry: LedgerEntry, reader: &dyn Reader, limits: &mut Vec<String>) -> Chapter {
    let (mut gone, mut changed) = (0_usize, 0_usize);
    let mut windows = Vec::new();
    let folders = runs.folders_for(&entry, reader);
    for record in entry.records.iter().filter(|record| record.role != RecordRole::Design) {
        let Some(path) = place_in(&folders, record, reader) else {
            gone += 1;
            continue;
        };
        let is_as_it_was = hash_by(reader, &path).is_ok_and(|hash| hash == record.sha256);
        match record_by::<Window>(reader, &path) {
            Ok(window) if is_as_it_was => windows.push((record.path.clone(), record.role, window)),
            _ => changed += 1,
        }
    }
    for (count, what) in [(gone, "no longer exist"), (changed, "were changed since, and are omitted")] {
        if count > 0 {
            limits.push(format!(
                "Of {}, {count} of {} windows {what}.",
                entry.change_alone(),
                count + windows.len()
            ));
        }
    }
    with_windows(entry, windows)
}

fn with_windows(entry: LedgerEntry, windows: Vec<(String, RecordRole, Window)>) -> Chapter {
    let rows =
        windows.iter().map(|(path, role, window)| WindowRow::from_window(path, *role, window)).collect();
    let (after, before): (Vec<_>, Vec<_>) =
        windows.into_iter().partition(|(_, role, _)| *role == RecordRole::After);
    let state = |windows: Vec<(String, RecordRole, Window)>| {
        BatchState::from_windows(&windows.into_iter().map(|(_, _, window)| window).collect::<Vec<_>>())
    };
    Chapter { line: None, entry, before: state(before), after: state(after), windows: rows }
}

/// The findings of a run of `hone tune` about the program of its first state; see [`CEILINGS`].
fn ceilings_in(folder: &Path, reader: &dyn Reader) -> Vec<Ceiling> {
    let text = reader::text(reader, &folder.join(CEILINGS)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The diagnosis of a run of `hone diagnose`, or of a run that diagnosed before its first change.
fn diagnosis_in(folder: &Path, reader: &dyn Reader) -> Option<Diagnosis> {
    record_by(reader, &folder.join(DIAGNOSIS)).ok()
}

/// Related records: heatmaps, capacities and curves.
#[derive(Default)]
pub struct Beside {
    heatmaps: Vec<Heatmap>,
    capacities: Vec<Capacity>,
    curves: Vec<Curve>,
}

impl Beside {
    /// The named files. For a folder, the related records inside it.
    ///
    /// # Errors
    /// A file can't be read or is of another kind, or a folder has none.
    pub fn read(paths: &[PathBuf], reader: &dyn Reader) -> Result<Self> {
        let mut found = Self::default();
        for path in paths {
            let is_taken = match path.is_dir() {
                true => found.take_all_in(path, reader)?,
                false => found.take(path, reader)?,
            };
            if !is_taken {
                let what = if path.is_dir() { "holds" } else { "is" };
                bail!(Usage(format!(
                    "{} {what} no heatmap, capacity or curve: only these can be added to a run summary",
                    path.display()
                )));
            }
        }
        Ok(found)
    }

    /// Adds the related records of a named folder. Returns whether there were any.
    fn take_all_in(&mut self, folder: &Path, reader: &dyn Reader) -> Result<bool> {
        let mut is_taken = false;
        for path in records_in(folder, reader) {
            let text = reader::text(reader, &path)?;
            let found = match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(serde_json::Value::Object(found)) => found,
                // A note that is no record was not meant. An incomplete file may have been.
                Ok(_) => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("{} is incomplete", path.display()));
                }
            };
            let kind = found.get("kind").and_then(serde_json::Value::as_str).map(str::to_owned);
            is_taken |= self.take_text(&RecordText { text, kind }, &path)?;
        }
        Ok(is_taken)
    }

    /// A related record in a run's folder, by its name. An unreadable file is no part of the run.
    fn look_into(&mut self, folder: &Path, reader: &dyn Reader) {
        for path in records_in(folder, reader) {
            // A note of the run, or an incomplete file.
            let _ = self.take(&path, reader);
        }
    }

    /// Whether it was a related record.
    fn take(&mut self, path: &Path, reader: &dyn Reader) -> Result<bool> {
        self.take_text(&record_text(path, reader)?, path)
    }

    fn take_text(&mut self, found: &RecordText, path: &Path) -> Result<bool> {
        let (text, cannot) = (&found.text, || path.display().to_string());
        match found.kind.as_deref() {
            Some(Heatmap::KIND) => self.heatmaps.push(Envelope::parse(text).with_context(cannot)?),
            Some(Capacity::KIND) => self.capacities.push(Envelope::parse(text).with_context(cannot)?),
            Some(Curve::KIND) => self.curves.push(Envelope::parse(text).with_context(cannot)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends records to a run summary, each once.
    pub fn add_to(self, mut story: Story) -> Story {
        add_new(&mut story.heatmaps, self.heatmaps);
        add_new(&mut story.capacities, self.capacities);
        add_new(&mut story.curves, self.curves);
        story
    }
}

fn add_new<T: PartialEq>(known: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !known.contains(&one) {
            known.push(one);
        }
    }
}

/// The names of the records in a folder, without main records and the diagnosis: they are no related records, and may be large.
fn records_in(folder: &Path, reader: &dyn Reader) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of_run = |path: &Path| TRIED.iter().chain([&DIAGNOSIS]).any(|name| path.ends_with(name));
    let is_record = |path: &Path| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<PathBuf> =
        files.filter(|path| is_record(path) && !is_of_run(path) && reader.may_see(path)).collect();
    files.sort();
    files
}

/// The names of the related records that the run summary of this folder includes.
pub(crate) fn names_beside(folder: &Path, reader: &dyn Reader) -> Vec<String> {
    let is_taken = |path: &PathBuf| Beside::default().take(path, reader).unwrap_or(false);
    let name = |path: PathBuf| path.file_name()?.to_str().map(str::to_owned);
    records_in(folder, reader).into_iter().filter(is_taken).filter_map(name).collect()
}

/// A record's text, and the kind that it states.
struct RecordText {
    text: String,
    kind: Option<String>,
}

fn record_text(path: &Path, reader: &dyn Reader) -> Result<RecordText> {
    let text = reader::text(reader, path)?;
    let head: Kind =
        serde_json::from_str(&text).with_context(|| format!("{} is not a record", path.display()))?;
    Ok(RecordText { text, kind: head.kind })
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Adds the related records in the run's folder.
fn with_beside(folder: &Path, reader: &dyn Reader, story: Story) -> Story {
    let mut beside = Beside::default();
    beside.look_into(folder, reader);
    beside.add_to(story)
}

/// The runs' own records about the CPU time, and the folders of the runs.
fn around<'a>(folders: impl Iterator<Item = &'a Path>, reader: &dyn Reader) -> Around {
    let mut found = Around::default();
    for folder in folders {
        found.diagnoses.extend(diagnosis_in(folder, reader));
        found.ceilings.extend(ceilings_in(folder, reader));
        let mut ran_on = None;
        if let Ok(optimization) = record_by::<Optimization>(reader, &folder.join("optimization.json")) {
            found.diagnoses.extend(optimization.diagnosis);
            found.ceilings.extend(optimization.ceilings);
            ran_on = Some(optimization.machine);
        } else if let Ok(proof) = record_by::<Proof>(reader, &folder.join("proof.json")) {
            ran_on = Some(proof.machine);
        } else if let Ok(tuning) = record_by::<Tuning>(reader, &folder.join("tuning.json")) {
            ran_on = Some(tuning.machine);
        } else if let Ok(trial) = record_by::<HostTrial>(reader, &folder.join("host-trial.json")) {
            ran_on = Some(trial.machine);
        } else if let Ok(comparison) = record_by::<Comparison>(reader, &folder.join("comparison.json")) {
            ran_on = Some(comparison.machine);
        }
        // Load and steal differ between runs on one machine.
        let is_known = |machine: &Machine| {
            found
                .machines
                .iter()
                .any(|known| (&known.cpu_model, &known.kernel) == (&machine.cpu_model, &machine.kernel))
        };
        if let Some(machine) = ran_on.filter(|machine| !is_known(machine)) {
            found.machines.push(machine);
        }
    }
    found
}

/// The entries of a run in its ledger. Empty if there are none, or if the ledger can't be read.
fn entries_of(folder: &Path, reader: &dyn Reader) -> Vec<LedgerEntry> {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut found = ledgers_of(&whole, reader).map(|ledger| entries_in(&ledger, &whole, reader));
    found.find(|entries| !entries.is_empty()).unwrap_or_default()
}

/// The ledgers that may contain a run's entries: the one next to the run. For a pulled run also those next to the folder of all
/// pulled runs, because a pull chooses the name of its ledger.
fn ledgers_of(run: &Path, reader: &dyn Reader) -> impl Iterator<Item = PathBuf> {
    let home = run.parent();
    let above = home.filter(|home| home.ends_with(RECORDS)).and_then(Path::parent);
    let files = above.filter(|above| reader.may_see(above)).into_iter().flat_map(fs::read_dir);
    let files = files.flatten().flatten().map(|entry| entry.path());
    let is_ledger = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    let mut pulled: Vec<PathBuf> = files.filter(is_ledger).collect();
    pulled.sort();
    home.map(|home| home.join(NAME)).into_iter().chain(pulled)
}

/// The entries of a run in a ledger. Runs of several machines may have the same name. So an entry with windows belongs to the run
/// only if one of its windows is there, unchanged.
fn entries_in(ledger: &Path, run: &Path, reader: &dyn Reader) -> Vec<LedgerEntry> {
    let lines = reader.ledger(ledger).unwrap_or_default().lines;
    let names = names_of(run, &lines, reader);
    // Windows of other runs need not be read to see that they belong to others.
    let may_be_own = |line: &&Line| names.contains(line.entry.run.as_str());
    let runs = Runs::of(ledger, lines.iter().filter(may_be_own), reader);
    let is_here = |folder: &Path| folder.canonicalize().is_ok_and(|found| found == run);
    let by_name = |name: &str| !runs.is_shared(name) && runs.folders_of(name).any(is_here);
    let is_own = |line: &&Line| match windows_of(&line.entry).next() {
        Some(_) => lies_in(run, &line.entry, reader),
        None => is_first_of(line, run) || by_name(&line.entry.run),
    };
    lines.iter().filter(may_be_own).filter(is_own).map(|line| line.entry.clone()).collect()
}

/// The names that entries may use for the run in a folder: the folder's name, or the name of a link to it. A pulled run is
/// identified by its first line.
fn names_of<'a>(run: &Path, lines: &'a [Line], reader: &dyn Reader) -> HashSet<&'a str> {
    let leads_here =
        |named: &Path| reader.may_see(named) && named.canonicalize().is_ok_and(|found| found == run);
    let may_be_it = |line: &&Line| {
        let named = Path::new(&line.entry.run);
        named.file_name() == run.file_name() || is_first_of(line, run) || leads_here(named)
    };
    lines.iter().filter(may_be_it).map(|line| line.entry.run.as_str()).collect()
}

/// Whether a line is the first one of the run that was pulled into this folder.
fn is_first_of(line: &Line, folder: &Path) -> bool {
    folder.ends_with(pulled_name(&line.entry.run, &line.hash))
}

/// The windows of a comparison in a run's folder. Unreadable windows are omitted.
fn windows_in(
    folder: &Path,
    comparison: &Comparison,
    reader: &dyn Reader,
) -> Vec<(String, RecordRole, Window)> {
    let read = |(name, role): (&str, RecordRole)| {
        // A name in a record is foreign text.
        let path = inside(folder, name)?;
        Some((name.to_owned(), role, record_by::<Window>(reader, &path).ok()?))
    };
    comparison.counted_windows().into_iter().filter_map(read).collect()
}

/// The ledger's own entry about a comparison, if there is one, else the content of the record. A record's prediction from before
/// the first window is included, too, even if an older build did not write it to the ledger.
fn known_or(entries: &[LedgerEntry], told: LedgerEntry) -> LedgerEntry {
    let same = |entry: &&LedgerEntry| {
        (&entry.change, &entry.workload) == (&told.change, &told.workload)
            // A re-test has its own answer.
            && entry.is_among_others() == told.is_among_others()
    };
    // One change may have several entries in a run, each with another question.
    // Version 0.1 wrote the same questions with `beside`.
    let asked = |entry: &LedgerEntry| entry.question.replace(", beside ", ", compared with ");
    let exact = |entry: &&LedgerEntry| same(entry) && asked(entry) == asked(&told);
    let known = entries.iter().rev().find(exact).or_else(|| entries.iter().rev().find(same)).cloned();
    // The current time and user have nothing to do with the measurement. The run belongs to the author of its
    // other entries.
    let who = || entries.first().map_or_else(String::new, |entry| entry.who.clone());
    match known {
        Some(known) => LedgerEntry { foretold: known.foretold.or(told.foretold), ..known },
        None => LedgerEntry { at_unix_ms: 0, who: who(), hone: String::new(), ..told },
    }
}

/// The run summary of an optimisation in its folder.
pub(crate) fn of_optimization(folder: &Path, found: &Optimization, reader: &dyn Reader) -> Story {
    let run = folder.display().to_string();
    let entries = entries_of(folder, reader);
    let judged = found.comparisons.iter().map(|comparison| {
        with_windows(
            known_or(&entries, optimization::of_edge(found, comparison, &run)),
            windows_in(folder, comparison, reader),
        )
    });
    let left_out = found.variants.iter().filter_map(|variant| match &variant.state {
        VariantState::LeftOut { why } => {
            let entry = known_or(&entries, optimization::of_left_out(found, variant, why, &run));
            Some(with_windows(entry, Vec::new()))
        }
        VariantState::Made => None,
    });
    let told = Story {
        title: found.name.clone(),
        source: run.clone(),
        diagnoses: found.diagnosis.iter().cloned().collect(),
        ceilings: found.ceilings.clone(),
        chapters: judged.chain(left_out).collect(),
        machines: vec![found.machine.clone()],
        limits: found.doubts(),
        ..Story::default()
    };
    with_beside(folder, reader, told)
}

/// The run summary of a proof in its folder.
pub(crate) fn of_proof(folder: &Path, found: &Proof, reader: &dyn Reader) -> Story {
    let run = folder.display().to_string();
    let entries = entries_of(folder, reader);
    let chapter = |step: &ProofStep| {
        let told = LedgerEntry {
            experiment: found.target.clone(),
            ..proof::entry_of("batch prove", step, &found.rule, &run)
        };
        let entry = known_or(&entries, told);
        let windows =
            step.comparison.iter().flat_map(|comparison| windows_in(folder, comparison, reader)).collect();
        // The record's own states are the basis of its decisions.
        Chapter { before: step.before.clone(), after: step.after.clone(), ..with_windows(entry, windows) }
    };
    let told = Story {
        title: found.target.clone(),
        source: run.clone(),
        chapters: found.steps.iter().map(chapter).collect(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        ..Story::default()
    };
    with_beside(folder, reader, told)
}

/// The run summary of a comparison in its folder.
pub(crate) fn of_comparison(folder: &Path, found: &Comparison, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let entry = known_or(&entries_of(folder, reader), comparison::entry_of(found, &run));
    let told = Story {
        title: entry.experiment.clone(),
        source: run.display().to_string(),
        chapters: vec![with_windows(entry, windows_in(folder, found, reader))],
        machines: vec![found.machine.clone()],
        ..Story::default()
    };
    with_beside(folder, reader, told)
}

/// The run summary of a tuning in its folder: each step, then the re-test of each kept change, the changes that were rolled back,
/// and all together.
pub(crate) fn of_tuning(folder: &Path, found: &Tuning, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string();
    let entries = entries_of(folder, reader);
    let about = tuning::About {
        name: &found.name,
        workload: &found.workload.name,
        objective: found.objective,
        rule: &found.rule,
        run: &run,
    };
    let chapter = |told: LedgerEntry, step: &ProofStep| {
        let windows =
            step.comparison.iter().flat_map(|comparison| windows_in(folder, comparison, reader)).collect();
        let entry = known_or(&entries, told);
        Chapter { before: step.before.clone(), after: step.after.clone(), ..with_windows(entry, windows) }
    };
    let steps = found.steps.iter().enumerate();
    let steps = steps.map(|(index, step)| chapter(tuning::of_step(&about, index + 1, step), &step.step));
    let among = tuning::among(&about, found).into_iter().map(|(told, step)| chapter(told, step));
    let closings = tuning::closings(&about, found).into_iter().map(|(told, step)| match step {
        Some(step) => chapter(told, step),
        None => with_windows(known_or(&entries, told), Vec::new()),
    });
    let together = found.together.iter().filter_map(|together| together.all.as_ref());
    let together = together.map(|step| chapter(tuning::of_all(&about, step), step));
    let told = Story {
        title: found.name.clone(),
        chapters: steps.chain(among).chain(closings).chain(together).collect(),
        source: run.clone(),
        ceilings: ceilings_in(folder, reader),
        diagnoses: diagnosis_in(folder, reader).into_iter().collect(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        tuned: Some(Tuned::from_tuning(found)),
        ..Story::default()
    };
    with_beside(folder, reader, told)
}

/// The run summary of a trial of host settings in its folder.
pub(crate) fn of_host_trial(folder: &Path, found: &HostTrial, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string();
    let entries = entries_of(folder, reader);
    let chapter = |knob: &TriedKnob| {
        let told = host_trial::entry_of(&found.target, &found.workload.name, knob, &run);
        let entry = known_or(&entries, told);
        let told = with_windows(entry, windows_in(folder, &knob.comparison, reader));
        Chapter { before: knob.before.clone(), after: knob.after.clone(), ..told }
    };
    let told = Story {
        title: format!("Host settings under {}", found.target),
        chapters: found.tried.iter().chain(&found.together).map(chapter).collect(),
        source: run.clone(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        ..Story::default()
    };
    with_beside(folder, reader, told)
}

/// The run summary of a gate in its folder: a chapter for each load.
pub(crate) fn of_gate(folder: &Path, found: &CommitGate, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let entries = entries_of(folder, reader);
    let chapter = |comparison: &Comparison| {
        let told = known_or(&entries, gate::entry_of(found, comparison));
        with_windows(told, windows_in(folder, comparison, reader))
    };
    let told = Story {
        title: found.name.clone(),
        source: run.display().to_string(),
        chapters: found.comparisons.iter().map(chapter).collect(),
        machines: found.comparisons.iter().take(1).map(|comparison| comparison.machine.clone()).collect(),
        limits: found.notes.clone(),
        headline: Some(hone_report::gate::sentence(found)),
        ..Story::default()
    };
    with_beside(folder, reader, told)
}
