//! Entries of a ledger, and whether the ledger is unchanged.

use std::fmt::Write as _;
use std::path::PathBuf;

use hone_format::{bytes, count};
use hone_ledger::Line;
use hone_record::{Foretold, LedgerEntry};
use hone_report::verdict::decision_label;
use serde::Serialize;

use crate::table::{in_a_cell, table};
use crate::{metric_value, plain, wrapped};

/// The result of pushing records.
#[derive(Debug, Default, Serialize)]
pub struct PushedRecords {
    /// Written files.
    pub pushed: usize,
    /// Their size.
    pub pushed_bytes: u64,
    /// Files that the store already had.
    pub were_there: usize,
    /// Files that are missing in both places.
    pub gone: usize,
    /// Files that were changed, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// The result of pulling records.
#[derive(Debug, Default, Serialize)]
pub struct PulledRecords {
    /// The folder that holds them now.
    pub folder: PathBuf,
    /// Written files.
    pub taken: usize,
    /// Files that the folder already had.
    pub were_there: usize,
    /// Files that no host has pushed.
    pub gone: usize,
    /// Files that are broken or whose path is not allowed, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// The result of a push.
#[derive(Debug, Serialize)]
pub struct PushedLedger {
    /// The ledger.
    pub path: String,
    /// The host name of the push.
    pub host: String,
    /// Number of entries.
    pub entries: usize,
    /// Number of new entries.
    pub new_entries: usize,
    /// The record files. `None` unless requested.
    pub records: Option<PushedRecords>,
}

/// The result of a pull.
#[derive(Debug, Serialize)]
pub struct PulledLedgers {
    /// The ledger that received the entries.
    pub path: String,
    /// Each host with its entries, and the number of new ones.
    pub hosts: Vec<(String, usize, usize)>,
    /// Number of entries after the pull.
    pub entries: usize,
    /// The record files. `None` unless requested.
    pub records: Option<PulledRecords>,
}

/// An entry with its place in the hash chain, for display.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Line number in the file, from 1.
    pub line: usize,
    /// Hash of the line.
    pub hash: String,
    /// Hashes of the lines that it follows.
    pub parents: Vec<String>,
    /// False for a line from a build before the hash chain existed.
    pub is_chained: bool,
    /// The entry.
    pub entry: LedgerEntry,
}

impl Shown {
    /// The entry of a line.
    pub fn of(line: Line) -> Self {
        let Line { number, hash, parents, is_chained, entry } = line;
        Self { line: number, hash, parents, is_chained, entry }
    }
}

/// The selected part of a ledger.
#[derive(Debug, Serialize)]
pub struct Book {
    /// The ledger.
    pub path: String,
    /// Number of entries in the ledger, and of those outside the selection.
    pub entries_in_all: usize,
    /// The selected entries.
    pub entries: Vec<Shown>,
    /// Lines that were changed after they were written.
    pub faulty_lines: Vec<usize>,
}

/// The result of verify.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The ledger.
    pub path: String,
    /// Number of entries.
    pub entries: usize,
    /// Lines from builds before the hash chain existed.
    pub unchained_lines: Vec<usize>,
    /// Incomplete lines of killed writers: line number and content.
    pub torn: Vec<(usize, String)>,
    /// Repeated lines, with the line number of the first one.
    pub repeated: Vec<(usize, usize)>,
    /// Lines that no line follows yet.
    pub heads: Vec<(usize, String)>,
    /// Lines that were changed after they were written.
    pub faults: Vec<ShownFault>,
    /// Required hashes that the ledger lacks.
    pub missing_heads: Vec<String>,
    /// The record files. `None` unless requested.
    pub records: Option<HeldRecords>,
}

/// A line that was changed after it was written.
#[derive(Debug, Serialize)]
pub struct ShownFault {
    /// Line number in the file, from 1.
    pub line: usize,
    /// The kind of fault, as a word for programs.
    pub kind: &'static str,
    /// Its meaning.
    pub means: &'static str,
    /// The expected hash.
    pub expected: String,
    /// The actual hash.
    pub found: String,
}

/// Record files compared with the hashes of the entries.
#[derive(Debug, Default, Serialize)]
pub struct HeldRecords {
    /// Files that match the hash of their entry.
    pub as_they_were: usize,
    /// Files that no longer exist, which is no fault of the ledger.
    pub gone: usize,
    /// Changed files, with the line of the entry that is based on them.
    pub changed: Vec<(usize, String)>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        let records = self.records.as_ref().is_none_or(|held| held.changed.is_empty());
        self.faults.is_empty() && self.missing_heads.is_empty() && records
    }
}

/// Digits of a shortened hash.
const SHORT: usize = 12;

/// The entries, one paragraph each. A ledger's texts may come from anywhere, so control characters are replaced.
pub fn text(book: &Book) -> String {
    let mut out: String = book.entries.iter().map(paragraph).collect();
    let _ = writeln!(
        out,
        "{} of {} entries of {}",
        book.entries.len(),
        count(book.entries_in_all as u64),
        book.path
    );
    if let Some(line) = book.faulty_lines.first() {
        let _ = writeln!(
            out,
            "Line {line} was changed after it was written; for details: hone ledger verify {}",
            book.path
        );
    }
    out
}

fn paragraph(shown: &Shown) -> String {
    let entry = &shown.entry;
    let verdict = entry.verdict.map(|_| entry.verdict_words());
    let found: Vec<String> = verdict
        .into_iter()
        .chain([decision_label(&entry.decision).to_owned()])
        .filter(|word| !word.is_empty())
        .collect();
    let mut out = format!(
        "{:>4}  {}  {}  {}\n      {}\n",
        shown.line,
        hone_report::date_utc(entry.at_unix_ms),
        if entry.verb.is_empty() { "-".to_owned() } else { plain(&entry.verb) },
        plain(&found.join(", ")),
        plain(&entry.change)
    );
    let lines = [
        figures(entry),
        entry.foretold.as_ref().map(foretold),
        Some(entry.why.clone()),
        entry.undo.as_ref().map(|undo| format!("to roll it back: {undo}")),
    ];
    for line in lines.into_iter().flatten().filter(|line| !line.is_empty()) {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "      {}", wrapped(&plain(&line)).replace('\n', "\n      "));
    }
    let _ = writeln!(out, "      {}\n", plain(&origin(shown)));
    out
}

/// Metric, values, ratio with its confidence interval.
fn figures(entry: &LedgerEntry) -> Option<String> {
    let metric = entry.metric?;
    let values = entry.values.map(|[before, after]| {
        format!(" {} -> {},", metric_value(metric, before), metric_value(metric, after))
    });
    let ratio = entry
        .ratio
        .map_or_else(|| " not estimated".to_owned(), |found| format!(" {}", hone_format::interval(found)));
    let confidence = entry.confidence.map(|confidence| format!(", {} %", (confidence * 1e4).round() / 1e2));
    let pairs = entry.pairs.map(|pairs| format!(", {pairs} pairs"));
    let under = if entry.workload.is_empty() { String::new() } else { format!(", under {}", entry.workload) };
    Some(format!(
        "{}:{}{ratio}{}{}{under}",
        metric.label(),
        values.unwrap_or_default(),
        confidence.unwrap_or_default(),
        pairs.unwrap_or_default()
    ))
}

/// The prediction and its result.
pub fn foretold(foretold: &Foretold) -> String {
    format!("predicted: {}, {} ({})", foretold.expected, came(foretold), foretold.rule)
}

/// Whether it came true, in words.
pub fn came(foretold: &Foretold) -> &'static str {
    match foretold.came_true {
        Some(true) => "came true",
        Some(false) => "did not come true",
        None => "not decided yet",
    }
}

fn origin(shown: &Shown) -> String {
    let entry = &shown.entry;
    let hash = shown.hash.get(..SHORT).unwrap_or(&shown.hash);
    let chain = if shown.is_chained { "" } else { ", older than the hash chain" };
    let who = if entry.who.is_empty() { String::new() } else { format!(", by {}", entry.who) };
    let hone = if entry.hone.is_empty() { String::new() } else { format!(" with hone {}", entry.hone) };
    let run = if entry.run.is_empty() { String::new() } else { format!("{}, ", entry.run) };
    format!("{run}{hash}{chain}{who}{hone}")
}

/// The result of verify as text.
pub fn verified(found: &Verified) -> String {
    let mut out = format!("{}: {} entries", found.path, count(found.entries as u64));
    let unchained = found.unchained_lines.len();
    if unchained > 0 {
        let _ = write!(out, ", {unchained} of them older than the hash chain");
    }
    out.push('\n');
    match found.faults.split_first() {
        None => out.push_str("Every line is as it was written, and no line is missing between them.\n"),
        Some((first, others)) => {
            let _ = writeln!(
                out,
                "Line {} is {}: {}\n  expected: {}\n  found: {}",
                first.line,
                first.kind,
                first.means,
                plain(&first.expected),
                plain(&first.found)
            );
            for other in others.iter().take(9) {
                let _ = writeln!(out, "  also line {}: {}, {}", other.line, other.kind, other.means);
            }
            if others.len() > 9 {
                let _ = writeln!(out, "  and {} more", others.len() - 9);
            }
            out.push_str(
                "  next: compare the file with another copy (`git log -p` of the file), and restore the \
                 original lines\n",
            );
        }
    }
    for (line, text) in &found.torn {
        let piece = plain(&text.chars().take(60).collect::<String>());
        let _ = writeln!(
            out,
            "Line {line} is incomplete: its writer was killed, and its entry is missing. All other entries \
             are intact. Content: {piece}..."
        );
    }
    for (line, first) in &found.repeated {
        let _ = writeln!(out, "Line {line} repeats line {first}, which merges can cause; it counts once.");
    }
    for hash in &found.missing_heads {
        let _ = writeln!(
            out,
            "No line has {hash}: the ledger was truncated, created again, or is a different one."
        );
    }
    if let Some(records) = &found.records {
        let _ = writeln!(
            out,
            "Records: {} unchanged, {} no longer available, {} changed",
            count(records.as_they_were as u64),
            count(records.gone as u64),
            count(records.changed.len() as u64)
        );
        for (line, path) in &records.changed {
            let _ = writeln!(out, "  line {line} is based on {}, whose content was changed", plain(path));
        }
    }
    for (line, hash) in &found.heads {
        let _ = writeln!(out, "Head: line {line}, {hash}");
    }
    out
}

/// A column of the CSV table.
type Column = (&'static str, fn(&Shown) -> String);

fn of<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

const COLUMNS: [Column; 26] = [
    ("line", |shown| shown.line.to_string()),
    ("at_utc", |shown| hone_report::date_utc(shown.entry.at_unix_ms)),
    ("at_unix_ms", |shown| shown.entry.at_unix_ms.to_string()),
    ("verb", |shown| shown.entry.verb.clone()),
    ("experiment", |shown| shown.entry.experiment.clone()),
    ("altitude", |shown| of(shown.entry.altitude())),
    ("change", |shown| shown.entry.change.clone()),
    ("question", |shown| shown.entry.question.clone()),
    ("rule", |shown| shown.entry.rule.clone()),
    ("workload", |shown| shown.entry.workload.clone()),
    ("metric", |shown| of(shown.entry.metric.map(hone_record::Metric::name))),
    ("before", |shown| of(shown.entry.values.map(|[before, _]| before))),
    ("after", |shown| of(shown.entry.values.map(|[_, after]| after))),
    ("ratio", |shown| of(shown.entry.ratio.map(|[ratio, ..]| ratio))),
    ("low", |shown| of(shown.entry.ratio.map(|[_, low, _]| low))),
    ("high", |shown| of(shown.entry.ratio.map(|[_, _, high]| high))),
    ("verdict", |shown| of(shown.entry.verdict.map(hone_record::Verdict::label))),
    ("decision", |shown| shown.entry.decision.clone()),
    ("why", |shown| shown.entry.why.clone()),
    ("predicted", |shown| of(shown.entry.foretold.as_ref().map(|foretold| foretold.expected))),
    ("came_true", |shown| of(shown.entry.foretold.as_ref().and_then(|foretold| foretold.came_true))),
    ("undo", |shown| of(shown.entry.undo.as_ref())),
    ("who", |shown| shown.entry.who.clone()),
    ("hone", |shown| shown.entry.hone.clone()),
    ("run", |shown| shown.entry.run.clone()),
    ("sha256", |shown| shown.hash.clone()),
];

/// Comma-separated values.
pub fn csv(book: &Book) -> String {
    let line = |cells: Vec<String>| hone_report::csv_line(&cells);
    let head = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect());
    let rows = book.entries.iter().map(|shown| line(COLUMNS.iter().map(|(_, value)| value(shown)).collect()));
    std::iter::once(head).chain(rows).collect()
}

/// A table for people with the most important columns.
pub fn markdown(book: &Book) -> String {
    let mut out =
        "| when | change | metric | ratio | verdict | decision | why |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for Shown { entry, .. } in &book.entries {
        let ratio = entry.ratio.map(hone_format::interval);
        let cells = [
            hone_report::date_utc(entry.at_unix_ms),
            entry.change.clone(),
            of(entry.metric.map(hone_record::Metric::label)),
            of(ratio),
            of(Some(entry.verdict_words()).filter(|words| !words.is_empty())),
            decision_label(&entry.decision).to_owned(),
            entry.why.clone(),
        ];
        let _ = writeln!(out, "| {} |", cells.map(|cell| in_a_cell(&cell)).join(" | "));
    }
    out
}

/// A pushed ledger.
pub fn pushed(found: &PushedLedger, place: &str) -> String {
    let place = plain(place);
    let mut out = format!(
        "{}: {} entries, {} of them new in {place}, as {}\n",
        plain(&found.path),
        found.entries,
        found.new_entries,
        found.host
    );
    if let Some(records) = &found.records {
        let _ = writeln!(
            out,
            "Records: {} pushed ({}), {} already there, {} missing in both places",
            count(records.pushed as u64),
            bytes(records.pushed_bytes),
            count(records.were_there as u64),
            count(records.gone as u64)
        );
        out.push_str(&left_out(&records.left_out));
    }
    out
}

/// Number of files to list; `--json` lists all.
const MOST_LEFT_OUT: usize = 20;

fn left_out(files: &[(String, String)]) -> String {
    let one =
        |(file, why): &(String, String)| format!("skipped: {}\n", wrapped(&plain(&format!("{file}: {why}"))));
    let more = files.len().saturating_sub(MOST_LEFT_OUT);
    let more = (more > 0).then(|| format!("  and {} more\n", count(more as u64)));
    files.iter().take(MOST_LEFT_OUT).map(one).chain(more).collect()
}

/// Merged ledgers.
pub fn pulled(found: &PulledLedgers) -> String {
    let head = ["host", "entries", "new here"].map(str::to_owned).to_vec();
    let rows = found
        .hosts
        .iter()
        .map(|(host, entries, new)| vec![host.clone(), entries.to_string(), new.to_string()]);
    let table = table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    let mut out = format!("{table}{}: {} entries\n", plain(&found.path), found.entries);
    if let Some(records) = &found.records {
        let _ = writeln!(
            out,
            "Records: {} pulled to {}, {} already there, {} not pushed by any host",
            count(records.taken as u64),
            plain(&records.folder.display().to_string()),
            count(records.were_there as u64),
            count(records.gone as u64)
        );
        out.push_str(&left_out(&records.left_out));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{Expectation, Metric, Verdict};

    fn book() -> Book {
        let entry = LedgerEntry {
            verb: "compare".to_owned(),
            change: "client: a|b, \"c\"".to_owned(),
            metric: Some(Metric::LatencyP99),
            ratio: Some([0.5, 0.4, 0.6]),
            values: Some([20.0, 10.0]),
            confidence: Some(0.95),
            pairs: Some(8),
            verdict: Some(Verdict::Better),
            decision: "keep".to_owned(),
            why: "less\nof <b>it</b>".to_owned(),
            foretold: Some(Foretold {
                expected: Expectation::Gain,
                rule: "r".to_owned(),
                came_true: Some(true),
            }),
            ..LedgerEntry::default()
        };
        let shown = Shown { line: 3, hash: "ab".repeat(32), parents: Vec::new(), is_chained: true, entry };
        Book { path: "l".to_owned(), entries_in_all: 7, entries: vec![shown], faulty_lines: vec![2] }
    }

    #[test]
    fn an_entry_is_shown_with_its_figures_and_what_was_foretold() {
        let text = text(&book());
        for wanted in [
            "p99: 20.0 µs -> 10.0 µs, 0.500 [0.400, 0.600], 95 %, 8 pairs",
            "predicted: a gain, came true (r)",
            "better, keep",
            "1 of 7 entries",
            "Line 2 was changed after it was written",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }

    /// Ledger texts may come from anyone: they must not clear a screen or hide a line.
    #[test]
    fn no_text_of_a_ledger_moves_the_cursor() {
        let evil = "\u{1b}[2J\u{9b}H\rx".to_owned();
        let mut book = book();
        let shown = &mut book.entries[0];
        for text in
            [&mut shown.entry.change, &mut shown.entry.why, &mut shown.entry.run, &mut shown.entry.who]
        {
            evil.clone_into(text);
        }
        for text in [&mut shown.entry.verb, &mut shown.entry.decision, &mut shown.entry.workload] {
            evil.clone_into(text);
        }
        shown.entry.undo = Some(evil.clone());
        let found = Verified {
            path: "l".to_owned(),
            entries: 1,
            unchained_lines: Vec::new(),
            torn: vec![(2, evil.clone())],
            repeated: Vec::new(),
            heads: Vec::new(),
            faults: vec![ShownFault {
                line: 1,
                kind: "edited",
                means: "changed",
                expected: evil.clone(),
                found: evil.clone(),
            }],
            missing_heads: Vec::new(),
            records: Some(HeldRecords { changed: vec![(1, evil)], ..HeldRecords::default() }),
        };
        for told in [text(&book), verified(&found)] {
            assert!(told.chars().all(|letter| letter == '\n' || !letter.is_control()), "{told:?}");
        }
    }

    #[test]
    fn tables_keep_their_cells_apart() {
        let csv = csv(&book());
        let rows: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(rows[0].split(',').count(), COLUMNS.len());
        assert!(rows[1].contains("\"client: a|b, \"\"c\"\"\"") && rows[1].contains("\"less\nof <b>it</b>\""));
        let markdown = markdown(&book());
        assert_eq!(markdown.lines().count(), 3);
        assert!(markdown.contains("client: a\\|b") && markdown.contains("less of &lt;b>it"), "{markdown}");
    }
}
