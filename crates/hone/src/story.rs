//! The story of a run, or of a whole ledger: its entries, with the figures of the windows that they rest on.

use std::fs;
use std::path::Path;

use anyhow::Result;
use hone_ledger::{Checked, Ledger, Line};
use hone_record::{
    BatchState, Chapter, CommitGate, Comparison, Diagnosis, HostTrial, LedgerEntry, Machine, Optimization,
    Proof, ProofStep, RecordRole, Story, TriedKnob, Tuning, VariantState, Window, WindowRow,
};

use crate::batch::prove;
use crate::cmd::compare;
use crate::gate;
use crate::host::trial;
use crate::ledger::{NAME, Runs, hash_by};
use crate::optimize::ledger as edges;
use crate::reader::{Reader, record as record_by};
use crate::show;
use crate::tune::book;

/// What was found of the runs behind a ledger, beside the entries.
#[derive(Default)]
struct Around {
    diagnoses: Vec<Diagnosis>,
    optimizations: Vec<Optimization>,
    machines: Vec<Machine>,
}

/// All of a ledger.
///
/// # Errors
/// When it can't be read.
pub(crate) fn of_ledger(path: &Path, reader: &dyn Reader) -> Result<Story> {
    let checked = reader.ledger(path)?;
    Ledger::at(path).refuse(&checked)?;
    let Checked { lines, heads, faults, .. } = checked;
    let mut limits: Vec<String> = faults
        .iter()
        .take(1)
        .map(|fault| {
            format!(
                "Line {} of the ledger is not as it was written ({}): hone ledger verify {} says more.",
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
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(Story {
        title: title(&chapters, &whole),
        source: path.display().to_string(),
        ceilings: around.optimizations.iter().flat_map(|found| found.ceilings.clone()).collect(),
        diagnoses: around.diagnoses,
        chapters,
        machines: around.machines,
        heads: heads.into_iter().map(|head| head.hash).collect(),
        limits,
    })
}

/// The experiment where there is one, else the folder.
fn title(chapters: &[Chapter], ledger: &Path) -> String {
    let mut names: Vec<&str> = chapters.iter().map(|chapter| chapter.entry.experiment.as_str()).collect();
    names.dedup();
    match names[..] {
        [only] if !only.is_empty() => only.to_owned(),
        _ => ledger.display().to_string(),
    }
}

/// An entry with the figures of its windows. What is not there any more, or has changed, is left out and told.
fn chapter(runs: &Runs, entry: LedgerEntry, reader: &dyn Reader, limits: &mut Vec<String>) -> Chapter {
    let (mut gone, mut changed) = (0_usize, 0_usize);
    let mut windows = Vec::new();
    for record in entry.records.iter().filter(|record| record.role != RecordRole::Design) {
        let Some(path) = runs.place_of(&entry, record, reader) else {
            gone += 1;
            continue;
        };
        let is_as_it_was = hash_by(reader, &path).is_ok_and(|hash| hash == record.sha256);
        match record_by::<Window>(reader, &path) {
            Ok(window) if is_as_it_was => windows.push((record.path.clone(), record.role, window)),
            _ => changed += 1,
        }
    }
    for (count, what) in [(gone, "are not there any more"), (changed, "have changed since, and are left out")]
    {
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
    let rows = windows.iter().map(|(path, role, window)| WindowRow::of(path, *role, window)).collect();
    let (after, before): (Vec<_>, Vec<_>) =
        windows.into_iter().partition(|(_, role, _)| *role == RecordRole::After);
    let state = |windows: Vec<(String, RecordRole, Window)>| {
        BatchState::of(&windows.into_iter().map(|(_, _, window)| window).collect::<Vec<_>>())
    };
    Chapter { line: None, entry, before: state(before), after: state(after), windows: rows }
}

/// What the runs' own records say of where the time went, and where it was.
fn around<'a>(folders: impl Iterator<Item = &'a Path>, reader: &dyn Reader) -> Around {
    let mut found = Around::default();
    for folder in folders {
        if let Ok(diagnosis) = record_by::<Diagnosis>(reader, &folder.join("diagnosis.json")) {
            found.diagnoses.push(diagnosis);
        }
        let mut ran_on = None;
        if let Ok(optimization) = record_by::<Optimization>(reader, &folder.join("optimization.json")) {
            found.diagnoses.extend(optimization.diagnosis.clone());
            ran_on = Some(optimization.machine.clone());
            found.optimizations.push(optimization);
        } else if let Ok(proof) = record_by::<Proof>(reader, &folder.join("proof.json")) {
            ran_on = Some(proof.machine);
        } else if let Ok(tuning) = record_by::<Tuning>(reader, &folder.join("tuning.json")) {
            ran_on = Some(tuning.machine);
        } else if let Ok(trial) = record_by::<HostTrial>(reader, &folder.join("host-trial.json")) {
            ran_on = Some(trial.machine);
        } else if let Ok(comparison) = record_by::<Comparison>(reader, &folder.join("comparison.json")) {
            ran_on = Some(comparison.machine);
        }
        // Load and steal differ from run to run on one machine.
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

/// The entries of a run in the ledger beside it; none where it has none, or can't be read.
fn entries_of(folder: &Path, reader: &dyn Reader) -> Vec<LedgerEntry> {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let Some(path) = whole.parent().map(|home| home.join(NAME)) else { return Vec::new() };
    let checked = reader.ledger(&path).unwrap_or_default();
    // Windows of other runs need not be read to tell that they are others.
    let may_be_own = |line: &&Line| {
        let run = Path::new(&line.entry.run);
        let leads_here = || run.canonicalize().is_ok_and(|found| found == whole);
        run.file_name() == whole.file_name() || (reader.may_see(run) && leads_here())
    };
    let runs = Runs::of(&path, checked.lines.iter().filter(may_be_own), reader);
    let is_own = |entry: &LedgerEntry| {
        runs.folder_of(entry).and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == whole)
    };
    checked.lines.into_iter().map(|line| line.entry).filter(is_own).collect()
}

/// The windows of a comparison in a run's folder. One that can't be read is left out.
fn windows_in(
    folder: &Path,
    comparison: &Comparison,
    reader: &dyn Reader,
) -> Vec<(String, RecordRole, Window)> {
    let read = |(name, role): (&str, RecordRole)| {
        Some((name.to_owned(), role, record_by::<Window>(reader, &folder.join(name)).ok()?))
    };
    comparison.counted_windows().into_iter().filter_map(read).collect()
}

/// The ledger's own entry about a comparison where there is one, else what the record says.
fn known_or(entries: &[LedgerEntry], told: LedgerEntry) -> LedgerEntry {
    let same = |entry: &&LedgerEntry| (&entry.change, &entry.workload) == (&told.change, &told.workload);
    // One change may have several entries in a run, each of another question.
    let exact = |entry: &&LedgerEntry| same(entry) && entry.question == told.question;
    let known = entries.iter().rev().find(exact).or_else(|| entries.iter().rev().find(same)).cloned();
    // The clock of now has nothing to do with what was measured then, nor has who looks at it.
    known.unwrap_or(LedgerEntry { at_unix_ms: 0, who: String::new(), hone: String::new(), ..told })
}

/// An optimisation in its folder.
pub(crate) fn of_optimization(folder: &Path, found: &Optimization, reader: &dyn Reader) -> Story {
    let run = folder.display().to_string();
    let entries = entries_of(folder, reader);
    let judged = found.comparisons.iter().map(|comparison| {
        with_windows(
            known_or(&entries, edges::of_edge(found, comparison, &run)),
            windows_in(folder, comparison, reader),
        )
    });
    let left_out = found.variants.iter().filter_map(|variant| match &variant.state {
        VariantState::LeftOut { why } => {
            let entry = known_or(&entries, edges::of_left_out(found, variant, why, &run));
            Some(with_windows(entry, Vec::new()))
        }
        VariantState::Made => None,
    });
    Story {
        title: found.name.clone(),
        source: run.clone(),
        diagnoses: found.diagnosis.iter().cloned().collect(),
        ceilings: found.ceilings.clone(),
        chapters: judged.chain(left_out).collect(),
        machines: vec![found.machine.clone()],
        ..Story::default()
    }
}

/// A proof in its folder.
pub(crate) fn of_proof(folder: &Path, found: &Proof, reader: &dyn Reader) -> Story {
    let run = folder.display().to_string();
    let entries = entries_of(folder, reader);
    let chapter = |step: &ProofStep| {
        let told = LedgerEntry {
            experiment: found.target.clone(),
            ..prove::entry_of("batch prove", step, &found.rule, &run)
        };
        let entry = known_or(&entries, told);
        let windows =
            step.comparison.iter().flat_map(|comparison| windows_in(folder, comparison, reader)).collect();
        // The record's own states are those by which it was decided.
        Chapter { before: step.before.clone(), after: step.after.clone(), ..with_windows(entry, windows) }
    };
    Story {
        title: found.target.clone(),
        source: run.clone(),
        chapters: found.steps.iter().map(chapter).collect(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        ..Story::default()
    }
}

/// A comparison in its folder.
pub(crate) fn of_comparison(folder: &Path, found: &Comparison, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let entry = known_or(&entries_of(folder, reader), compare::entry_of(found, &run));
    Story {
        title: entry.experiment.clone(),
        source: run.display().to_string(),
        chapters: vec![with_windows(entry, windows_in(folder, found, reader))],
        machines: vec![found.machine.clone()],
        ..Story::default()
    }
}

/// A tuning in its folder: each step, and in the end what was put back and all together.
pub(crate) fn of_tuning(folder: &Path, found: &Tuning, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string();
    let entries = entries_of(folder, reader);
    let about = book::About {
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
    let steps = steps.map(|(index, step)| chapter(book::of_step(&about, index + 1, step), &step.step));
    let closings = book::closings(&about, found).into_iter().map(|(told, step)| match step {
        Some(step) => chapter(told, step),
        None => with_windows(known_or(&entries, told), Vec::new()),
    });
    let together = found.together.iter().filter_map(|together| together.all.as_ref());
    let together = together.map(|step| chapter(book::of_all(&about, step), step));
    Story {
        title: found.name.clone(),
        chapters: steps.chain(closings).chain(together).collect(),
        source: run.clone(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        ..Story::default()
    }
}

/// Settings of a host that were tried, in their folder.
pub(crate) fn of_host_trial(folder: &Path, found: &HostTrial, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string();
    let entries = entries_of(folder, reader);
    let chapter = |knob: &TriedKnob| {
        let told = trial::entry_of(&found.target, &found.workload.name, knob, &run);
        let entry = known_or(&entries, told);
        let told = with_windows(entry, windows_in(folder, &knob.comparison, reader));
        Chapter { before: knob.before.clone(), after: knob.after.clone(), ..told }
    };
    Story {
        title: format!("Host settings under {}", found.target),
        chapters: found.tried.iter().chain(&found.together).map(chapter).collect(),
        source: run.clone(),
        machines: vec![found.machine.clone()],
        limits: found.limits.clone(),
        ..Story::default()
    }
}

/// A gate in its folder: a chapter for each load.
pub(crate) fn of_gate(folder: &Path, found: &CommitGate, reader: &dyn Reader) -> Story {
    let run = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let entries = entries_of(folder, reader);
    let chapter = |comparison: &Comparison| {
        let told = known_or(&entries, gate::entry_of(found, comparison));
        with_windows(told, windows_in(folder, comparison, reader))
    };
    Story {
        title: found.name.clone(),
        source: run.display().to_string(),
        chapters: found.comparisons.iter().map(chapter).collect(),
        machines: found.comparisons.iter().take(1).map(|comparison| comparison.machine.clone()).collect(),
        limits: std::iter::once(show::commit_gate::sentence(found))
            .chain(found.notes.iter().cloned())
            .collect(),
        ..Story::default()
    }
}
