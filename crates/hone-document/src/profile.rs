//! Stored profiles as text. Names come from foreign files, so control characters are replaced.

use std::path::Path;

use hone_binary::lock::{Lock, LockedProfile, LockedProgram, LockedTraining};
use hone_binary::profile_store::{Beside, Check, Difference, HotTable, MergedProfile, Moved, Shown, Why};
use hone_format::{bytes, count, exact_percent, percent};
use serde::Serialize;

use crate::table::table;
use crate::{plain, wrapped};

/// The result of a check, with its judgement.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The largest tolerated loss, 0 to 1.
    pub budget: f64,
    /// Whether the loss is within the limit.
    pub within_budget: bool,
    /// The result of a check.
    #[serde(flatten)]
    pub check: hone_binary::profile_store::Check,
}

/// Longer names are cut in the middle, because both ends carry information.
const NAME_CHARACTERS: usize = 80;

/// Number of parts of a merge to list; `--json` lists all.
const MOST_INPUTS: usize = 20;

/// A profile.
pub fn shown(found: &Shown) -> String {
    let mut out = format!("{}\n", path(&found.file));
    out.push_str(&head(&found.profile));
    if let Some((functions, from)) = found.hot {
        let rule = format!("{} hot functions; a counter is hot from {} on", count(functions), count(from));
        out.push_str(&format!("{rule}\n"));
    }
    match &found.lock {
        Some(lock) => out.push_str(&lock_lines(lock)),
        None => out.push_str("no lock: its origin is unknown\n"),
    }
    for hot in &found.tables {
        out.push_str(&hot_table(hot));
    }
    if !found.findings.is_empty() {
        out.push_str("\nFindings\n");
        for finding in &found.findings {
            out.push_str(&format!("  - {}\n", wrapped(&plain(&finding.to_string()))));
        }
    }
    out
}

fn head(profile: &LockedProfile) -> String {
    format!(
        "{} ({}), {}, SHA-256 {}\n{} functions, sum of counts {}, largest {}\n",
        profile.kind,
        plain(&profile.level),
        bytes(profile.bytes),
        profile.sha256.get(..16).unwrap_or(&profile.sha256),
        count(profile.functions),
        count(profile.total_count),
        count(profile.max_count)
    )
}

fn lock_lines(lock: &Lock) -> String {
    let mut out = "lock: it matches this profile\n".to_owned();
    for program in &lock.programs {
        out.push_str(&format!("  taken from {}\n", program_words(program)));
    }
    for training in &lock.trainings {
        out.push_str(&format!("  trained with {}\n", training_words(training)));
    }
    out
}

fn program_words(program: &LockedProgram) -> String {
    let mut words = vec![if program.name.is_empty() { "a program".to_owned() } else { plain(&program.name) }];
    words.extend(program.build_id.as_ref().map(|id| format!("build-id {}", plain(id))));
    words.extend(program.commit.as_ref().map(|commit| {
        let changed = if commit.changed { ", with uncommitted changes" } else { "" };
        format!("commit {}{changed}", plain(commit.id.get(..12).unwrap_or(&commit.id)))
    }));
    words.extend(program.tools.iter().map(|tool| plain(&tool.version)));
    words.join("; ")
}

fn training_words(training: &LockedTraining) -> String {
    let mut words =
        vec![training.workload.as_deref().map_or_else(|| "an unknown workload".to_owned(), plain)];
    words.extend(training.load.as_deref().map(plain));
    words.extend(training.seed.map(|seed| format!("seed {seed}")));
    words.push(format!("weight {}", hone_format::measured(training.weight)));
    words.extend(training.machine.as_ref().map(|machine| format!("on {}", plain(&machine.cpu_model))));
    words.join("; ")
}

fn hot_table(hot: &HotTable) -> String {
    let beside = match hot.beside {
        Beside::LargestCounter => "largest counter",
        Beside::Entered => "entered",
        Beside::Cumulative => "cumulative",
    };
    let title = format!(
        "\n{}: {} {}, in {} functions\n",
        plain(&hot.what),
        count(hot.total),
        plain(&hot.unit),
        count(hot.functions)
    );
    let first = if hot.beside == Beside::Cumulative { "flat" } else { "share" };
    let head = ["function", first, "count", beside].map(str::to_owned).to_vec();
    let rows = hot.rows.iter().map(|row| {
        let second = match hot.beside {
            Beside::Cumulative => percent(share(row.beside, hot.total)),
            _ => count(row.beside),
        };
        vec![name(&row.name), percent(row.share), count(row.weight), second]
    });
    title + &table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// A check with its judgement.
pub fn check(judged: &Judged, top: usize) -> String {
    let check = &judged.check;
    let verdict = if judged.within_budget { "fits" } else { "DOES NOT FIT" };
    let mut out = format!(
        "{} {verdict} {}: {} of its weight is lost, limit {}\n",
        path(&check.profile),
        path(&check.program),
        percent(check.lost_share),
        exact_percent(judged.budget)
    );
    out.push_str(&format!(
        "{}: {} {} in {} functions; compared: {}\n",
        check.kind,
        count(check.weight),
        check.unit,
        count(check.functions),
        check.compared
    ));
    match check.same_build {
        Some(true) => out.push_str("it was taken from this exact program\n"),
        Some(false) => out.push_str("it was taken from another build\n"),
        None => {}
    }
    if let Some(unknown) = check.unknown_to_profile.filter(|unknown| *unknown > 0) {
        out.push_str(&format!("functions of the program that are not in the profile: {}\n", count(unknown)));
    }
    for note in &check.notes {
        out.push_str(&format!("note: {}\n", wrapped(&plain(note))));
    }
    out.push_str(&lost(check, top));
    if !judged.within_budget {
        out.push_str("next: take a new profile from the current source, and commit it with its lock\n");
    }
    out
}

fn lost(check: &Check, top: usize) -> String {
    if check.lost_functions.is_empty() {
        return String::new();
    }
    let head = ["lost", "share", "weight", "why"].map(str::to_owned).to_vec();
    let rows = check.lost_functions.iter().take(top).map(|lost| {
        let why = match lost.why {
            Why::Gone => "gone",
            Why::Changed => "changed",
        };
        vec![name(&lost.name), percent(lost.share), count(lost.weight), why.to_owned()]
    });
    let rest = check.lost_functions.len().saturating_sub(top);
    let more = if rest > 0 { format!("  and {} more\n", count(rest as u64)) } else { String::new() };
    format!("\n{}{more}", table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

/// Two profiles compared.
pub fn difference(found: &Difference, top: usize) -> String {
    let [both, gone, new] = found.functions.map(count);
    let mut out = format!(
        "{} → {}\n{}: {} of the weight is unchanged; {both} functions in both, {gone} only before, {new} \
         only after\n",
        path(&found.before),
        path(&found.after),
        found.kind,
        percent(found.overlap)
    );
    out.push_str(&moved("hotter", &found.hotter, top));
    out.push_str(&moved("cooler", &found.cooler, top));
    if found.hotter.is_empty() && found.cooler.is_empty() {
        out.push_str("nothing changed\n");
    }
    out
}

fn moved(title: &str, functions: &[Moved], top: usize) -> String {
    if functions.is_empty() {
        return String::new();
    }
    let head = [title, "before", "after", "by"].map(str::to_owned).to_vec();
    let share = |share: f64| if share == 0.0 { "-".to_owned() } else { percent(share) };
    let rows = functions.iter().take(top).map(|moved| {
        let by = format!("{:+.2} points", moved.by() * 100.0);
        vec![name(&moved.name), share(moved.before), share(moved.after), by]
    });
    format!("\n{}", table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

/// A merge.
pub fn merged(found: &MergedProfile) -> String {
    let mut out = format!("{}\n{}", path(&found.file), head(&found.profile));
    let names = ["profile", "weight", "counts", "share", "lock"].map(str::to_owned).to_vec();
    let rows = found.inputs.iter().take(MOST_INPUTS).map(|input| {
        let part = input.total_count as f64 * input.weight / (found.profile.total_count.max(1)) as f64;
        let locked = if input.locked { "yes" } else { "none" };
        vec![
            path(&input.file),
            hone_format::measured(input.weight),
            count(input.total_count),
            percent(part.min(1.0)),
            locked.to_owned(),
        ]
    });
    out.push_str(&format!("\n{}", table(&std::iter::once(names).chain(rows).collect::<Vec<_>>())));
    let rest = found.inputs.len().saturating_sub(MOST_INPUTS);
    if rest > 0 {
        out.push_str(&format!("  and {} more\n", count(rest as u64)));
    }
    for note in &found.notes {
        out.push_str(&format!("note: {}\n", wrapped(&plain(note))));
    }
    out.push_str(&format!("lock: {}\n", path(&found.lock)));
    out
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn path(path: &Path) -> String {
    plain(&path.display().to_string())
}

pub(super) fn name(name: &str) -> String {
    let name = plain(&hone_record::demangled(name));
    let length = name.chars().count();
    if length <= NAME_CHARACTERS {
        return name;
    }
    let half = (NAME_CHARACTERS - 1) / 2;
    let front: String = name.chars().take(half).collect();
    let back: String = name.chars().skip(length - half).collect();
    format!("{front}…{back}")
}

#[cfg(test)]
mod tests {
    use hone_binary::profile_store::{Lost, StoredFormat};

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(name("a\x1b[2Jb\nc"), "a?[2Jb?c");
        let long = "é".repeat(100) + "end";
        assert_eq!(name(&long).chars().count(), 79);
        assert!(name(&long).ends_with("end") && name(&long).contains('…'));
    }

    fn judged(lost_share: f64, budget: f64) -> Judged {
        let lost = Lost { name: "server::parse".into(), weight: 12, share: 0.12, why: Why::Changed };
        let check = Check {
            profile: "p.profdata".into(),
            kind: StoredFormat::Profdata,
            program: "server".into(),
            compared: "names",
            unit: "counts",
            weight: 100,
            lost: 12,
            lost_share,
            functions: 9,
            lost_functions: vec![lost; 3],
            unknown_to_profile: Some(2),
            same_build: Some(false),
            notes: vec![],
        };
        Judged { budget, within_budget: lost_share <= budget, check }
    }

    #[test]
    fn a_check_says_what_is_lost_and_what_follows() {
        let text = check(&judged(0.12, 0.1), 2);
        assert!(
            text.starts_with("p.profdata DOES NOT FIT server: 12.0 % of its weight is lost, limit 10 %\n")
        );
        assert!(text.contains("  server::parse   12.0 %       12   changed\n"), "{text}");
        assert!(text.contains("  and 1 more\n") && text.contains("next: take a new profile"), "{text}");
        let text = check(&judged(0.12, 0.2), 2);
        assert!(text.starts_with("p.profdata fits server") && !text.contains("next:"), "{text}");
    }

    #[test]
    fn a_difference_tells_both_directions() {
        let moved = |name: &str, before, after| Moved { name: name.into(), before, after };
        let found = Difference {
            kind: StoredFormat::Pprof,
            before: "a".into(),
            after: "b".into(),
            weight_before: 1,
            weight_after: 2,
            overlap: 0.75,
            functions: [7, 0, 1],
            hotter: vec![moved("new", 0.0, 0.25)],
            cooler: vec![moved("old", 0.5, 0.25)],
        };
        let text = difference(&found, 10);
        assert!(text.contains("75.0 % of the weight is unchanged; 7 functions in both"), "{text}");
        assert!(text.contains("  new           -   25.0 %   +25.00 points\n"), "{text}");
        assert!(text.contains("  old      50.0 %   25.0 %   -25.00 points\n"), "{text}");
    }
}
