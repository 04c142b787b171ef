//! Entries of a ledger, and whether it is what was written.

use std::fmt::Write as _;
use std::path::PathBuf;

use hone_format::{bytes, count};
use hone_ledger::Line;
use hone_record::{Foretold, LedgerEntry};
use serde::Serialize;

use crate::table::{in_a_cell, table};
use crate::{metric_value, plain, wrapped};

/// What came of pushing records.
#[derive(Debug, Default, Serialize)]
pub struct PushedRecords {
    /// Files that were written.
    pub pushed: usize,
    /// Their size.
    pub pushed_bytes: u64,
    /// Files that the place had.
    pub were_there: usize,
    /// Neither here nor there.
    pub gone: usize,
    /// Files that are not what they were, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// What came of pulling them.
#[derive(Debug, Default, Serialize)]
pub struct PulledRecords {
    /// Where they are now.
    pub folder: PathBuf,
    /// Files that were written.
    pub taken: usize,
    /// Files that the folder had.
    pub were_there: usize,
    /// No host has pushed them.
    pub gone: usize,
    /// Files that are broken, or that can't lie where they should, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// What came of a push.
#[derive(Debug, Serialize)]
pub struct PushedLedger {
    /// The ledger.
    pub path: String,
    /// In whose name it was pushed.
    pub host: String,
    /// Entries that it has.
    pub entries: usize,
    /// Of them, those that were not there.
    pub new_entries: usize,
    /// The record files; `None` where nobody asked.
    pub records: Option<PushedRecords>,
}

/// What came of a pull.
#[derive(Debug, Serialize)]
pub struct PulledLedgers {
    /// The ledger that they were written to.
    pub path: String,
    /// Each host with its entries, and those of them that were new here.
    pub hosts: Vec<(String, usize, usize)>,
    /// Entries that it has now.
    pub entries: usize,
    /// The record files; `None` where nobody asked.
    pub records: Option<PulledRecords>,
}

/// An entry with its place in the chain, as it is shown.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// In the file, counted from 1.
    pub line: usize,
    /// Of the line.
    pub hash: String,
    /// Hashes of the lines that it follows.
    pub parents: Vec<String>,
    /// False for a line of a build from before there was a chain.
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

/// What of a ledger was asked for.
#[derive(Debug, Serialize)]
pub struct Book {
    /// The ledger.
    pub path: String,
    /// Entries that it has, and those that were not asked for.
    pub entries_in_all: usize,
    /// Those that were asked for.
    pub entries: Vec<Shown>,
    /// Lines that are not as they were written.
    pub faulty_lines: Vec<usize>,
}

/// What verify found.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The ledger.
    pub path: String,
    /// Entries that it has.
    pub entries: usize,
    /// Lines of builds from before there was a chain.
    pub unchained_lines: Vec<usize>,
    /// Pieces that killed writers left: their lines and what is there.
    pub torn: Vec<(usize, String)>,
    /// Lines that stand there again, with where they stood first.
    pub repeated: Vec<(usize, usize)>,
    /// The lines that no line follows yet.
    pub heads: Vec<(usize, String)>,
    /// Lines that are not as they were written.
    pub faults: Vec<ShownFault>,
    /// Hashes that must be in it and are not.
    pub missing_heads: Vec<String>,
    /// The record files; `None` where nobody asked.
    pub records: Option<HeldRecords>,
}

/// A line that is not as it was written.
#[derive(Debug, Serialize)]
pub struct ShownFault {
    /// In the file, counted from 1.
    pub line: usize,
    /// What is wrong, as a word for programs.
    pub kind: &'static str,
    /// What that means.
    pub means: &'static str,
    /// The hash that it must have.
    pub expected: String,
    /// The hash that it has.
    pub found: String,
}

/// Record files held against the hashes of the entries.
#[derive(Debug, Default, Serialize)]
pub struct HeldRecords {
    /// Files with the hash of their entry.
    pub as_they_were: usize,
    /// They are not there any more, which says nothing against the ledger.
    pub gone: usize,
    /// With the line of the entry that rests on it.
    pub changed: Vec<(usize, String)>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        let records = self.records.as_ref().is_none_or(|held| held.changed.is_empty());
        self.faults.is_empty() && self.missing_heads.is_empty() && records
    }
}

/// Digits of a hash that are shown where all of it would be in the way.
const SHORT: usize = 12;

/// The entries, a paragraph for each. A ledger's texts may be anybody's, so no character reaches a terminal that it would obey.
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
        let _ = writeln!(out, "Line {line} is not as it was written; see: hone ledger verify {}", book.path);
    }
    out
}

fn paragraph(shown: &Shown) -> String {
    let entry = &shown.entry;
    let verdict = entry.verdict.map(|_| entry.verdict_words());
    let found: Vec<String> =
        verdict.into_iter().chain([entry.decision.clone()]).filter(|word| !word.is_empty()).collect();
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
        entry.undo.as_ref().map(|undo| format!("to take it back: {undo}")),
    ];
    for line in lines.into_iter().flatten().filter(|line| !line.is_empty()) {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "      {}", wrapped(&plain(&line)).replace('\n', "\n      "));
    }
    let _ = writeln!(out, "      {}\n", plain(&origin(shown)));
    out
}

/// Metric, values, ratio with its interval.
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

/// What was said before beside what came.
pub fn foretold(foretold: &Foretold) -> String {
    format!("foretold: {}, {} ({})", foretold.expected, came(foretold), foretold.rule)
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
    let chain = if shown.is_chained { "" } else { ", from before the chain" };
    let who = if entry.who.is_empty() { String::new() } else { format!(", by {}", entry.who) };
    let hone = if entry.hone.is_empty() { String::new() } else { format!(" with hone {}", entry.hone) };
    let run = if entry.run.is_empty() { String::new() } else { format!("{}, ", entry.run) };
    format!("{run}{hash}{chain}{who}{hone}")
}

/// What verify says.
pub fn verified(found: &Verified) -> String {
    let mut out = format!("{}: {} entries", found.path, count(found.entries as u64));
    let unchained = found.unchained_lines.len();
    if unchained > 0 {
        let _ = write!(out, ", {unchained} of them from before the chain");
    }
    out.push('\n');
    match found.faults.split_first() {
        None => out.push_str("Every line is as it was written, and none is missing between them.\n"),
        Some((first, others)) => {
            let _ = writeln!(
                out,
                "Line {} is {}: {}\n  expected: {}\n  there is: {}",
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
                "  next: hold it against another copy (git log -p of the file), and put back what was there\n",
            );
        }
    }
    for (line, text) in &found.torn {
        let piece = plain(&text.chars().take(60).collect::<String>());
        let _ = writeln!(
            out,
            "Line {line} is torn: its writer was killed, and its entry did not get in. Nothing else is missing for it. There is: {piece}..."
        );
    }
    for (line, first) in &found.repeated {
        let _ = writeln!(out, "Line {line} is line {first} again, as merges can make it; it counts once.");
    }
    for hash in &found.missing_heads {
        let _ = writeln!(out, "No line has {hash}: the ledger was cut off, made anew, or is another one.");
    }
    if let Some(records) = &found.records {
        let _ = writeln!(
            out,
            "Records: {} as they were, {} not there any more, {} changed",
            count(records.as_they_were as u64),
            count(records.gone as u64),
            count(records.changed.len() as u64)
        );
        for (line, path) in &records.changed {
            let _ = writeln!(out, "  line {line} rests on {}, which has another content now", plain(path));
        }
    }
    for (line, hash) in &found.heads {
        let _ = writeln!(out, "Head: line {line}, {hash}");
    }
    out
}

/// A column of the tables for other programs.
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
    ("foretold", |shown| of(shown.entry.foretold.as_ref().map(|foretold| foretold.expected))),
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

/// A table for people: what a reader asks first.
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
            entry.decision.clone(),
            entry.why.clone(),
        ];
        let _ = writeln!(out, "| {} |", cells.map(|cell| in_a_cell(&cell)).join(" | "));
    }
    out
}

/// A ledger that was pushed.
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
            "Records: {} pushed ({}), {} were there already, {} neither here nor there",
            count(records.pushed as u64),
            bytes(records.pushed_bytes),
            count(records.were_there as u64),
            count(records.gone as u64)
        );
        out.push_str(&left_out(&records.left_out));
    }
    out
}

/// So many files one by one; `--json` has all.
const MOST_LEFT_OUT: usize = 20;

fn left_out(files: &[(String, String)]) -> String {
    let one = |(file, why): &(String, String)| {
        format!("left out: {}\n", wrapped(&plain(&format!("{file}: {why}"))))
    };
    let more = files.len().saturating_sub(MOST_LEFT_OUT);
    let more = (more > 0).then(|| format!("  and {} more\n", count(more as u64)));
    files.iter().take(MOST_LEFT_OUT).map(one).chain(more).collect()
}

/// Ledgers that became one.
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
            "Records: {} taken into {}, {} were there already, {} no host has pushed",
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
            "foretold: a gain, came true (r)",
            "better, keep",
            "1 of 7 entries",
            "Line 2 is not as it was written",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }

    /// A ledger may be somebody else's: a text of it clears no screen and hides no line.
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
