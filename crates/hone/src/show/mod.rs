//! From records to text for a terminal. Values in, text out; who prints is [`crate::cmd`].

pub(crate) mod advice;
pub(crate) mod batch_cost;
pub(crate) mod batch_plan;
pub(crate) mod batch_watch;
pub(crate) mod before_after;
pub(crate) mod caching;
pub(crate) mod client_settings;
pub(crate) mod commit_gate;
pub(crate) mod comparison;
pub(crate) mod curve;
pub(crate) mod diagnosis;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod gate;
pub(crate) mod go;
pub(crate) mod heat_blocks;
pub(crate) mod heatmap;
pub(crate) mod host;
pub(crate) mod host_lint;
pub(crate) mod host_trial;
pub(crate) mod init;
pub(crate) mod init_cluster;
pub(crate) mod ledger;
pub(crate) mod optimization;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod proof;
pub(crate) mod reference;
pub(crate) mod replica;
pub(crate) mod rollout;
pub(crate) mod saved;
pub(crate) mod selftest;
pub(crate) mod story;
pub(crate) mod table;
pub(crate) mod tuning;
pub(crate) mod tuning_plan;
pub(crate) mod version;
mod watched;
pub(crate) mod whatif;
pub(crate) mod window;
pub(crate) mod xray;

/// Columns of running text; tables may be wider.
const COLUMNS: usize = 100;

/// Running text in lines of at most [`COLUMNS`], the first as it is, the others indented by two blanks.
pub(crate) fn wrapped(text: &str) -> String {
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
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A value of a metric with its unit.
pub(crate) fn metric_value(metric: hone_record::Metric, value: f64) -> String {
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
