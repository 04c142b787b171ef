//! Records and results as text: for a terminal, as Markdown, as CSV. Values in, text out; who prints is `hone`.
//!
//! A kind of record is a file. What belongs to one job alone stands with that job.

pub mod advice;
pub mod batch_cost;
pub mod batch_plan;
pub mod batch_watch;
pub mod client_settings;
pub mod commit_gate;
pub mod comparison;
pub mod curve;
pub mod diagnosis;
pub mod doctor;
pub mod entries;
pub mod go;
pub mod heat_blocks;
pub mod heatmap;
pub mod host;
pub mod host_lint;
pub mod host_trial;
pub mod ledger;
pub mod optimization;
pub mod plan;
pub mod profile;
pub mod proof;
pub mod replica;
pub mod saved;
pub mod selftest;
pub mod story;
pub mod table;
pub mod tuning;
mod watched;
pub mod whatif;
pub mod xray;

/// Columns of running text; tables may be wider.
const COLUMNS: usize = 100;

/// Running text in lines of at most `COLUMNS`, the first as it is, the others indented by two blanks.
pub fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// Without characters that a terminal obeys.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A value of a metric with its unit.
pub fn metric_value(metric: hone_record::Metric, value: f64) -> String {
    hone_format::of_unit(value, metric.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_at_words_and_nothing_is_lost() {
        let text = "word ".repeat(60).trim().to_owned();
        let lines = wrapped(&text);
        assert!(
            lines.lines().count() == 4 && lines.lines().all(|line| line.chars().count() <= COLUMNS),
            "{lines}"
        );
        assert_eq!(lines.split_whitespace().count(), 60);
        assert_eq!(wrapped("short"), "short");
    }
}
