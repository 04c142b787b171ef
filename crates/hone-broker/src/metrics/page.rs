//! A page in Prometheus' text format.

use std::fmt::{Display, Write as _};

use crate::histogram::Histogram;

/// The page as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// What a family counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Page {
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Begins a family: its samples follow.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing into a String can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { page: self, name }
    }
}

/// A family of samples.
pub(super) struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
}

impl Family<'_> {
    /// One sample. Labels are given as name and value.
    pub(super) fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// All samples of a histogram, whose values are divided by `unit` (1e6 makes seconds of microseconds).
    pub(super) fn histogram<const BUCKETS: usize>(
        &mut self,
        labels: &[(&str, &dyn Display)],
        histogram: &Histogram<BUCKETS>,
        unit: f64,
    ) {
        for (bound, count) in histogram.cumulative() {
            self.line("_bucket", labels, Some(&(bound as f64 / unit)), count);
        }
        let count = histogram.count();
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_sum", labels, None, histogram.sum() as f64 / unit);
        self.line("_count", labels, None, count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &dyn Display)],
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{suffix}", self.name);
        let bound = bound.map(|bound| ("le", bound));
        for (index, (name, label)) in labels.iter().copied().chain(bound).enumerate() {
            let _ = write!(text, "{}{name}=\"", if index == 0 { '{' } else { ',' });
            escape_into(text, &label.to_string());
            text.push('"');
        }
        if !labels.is_empty() || bound.is_some() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

/// Group names and client ids may have any character.
fn escape_into(text: &mut String, label: &str) {
    for character in label.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_labels_and_histograms_all_their_lines() {
        let mut page = Page::default();
        let mut family = page.family("up", Kind::Gauge, "Whether.");
        family.sample(&[], 1);
        family.sample(&[("a", &1), ("b", &"x\"y\\z\nw")], 0.5);
        let histogram = Histogram::<2>::new(1_000_000);
        for value in [5, 1_500_000, 9_000_000] {
            histogram.record(value);
        }
        page.family("wait_seconds", Kind::Histogram, "Time.").histogram(&[("shard", &0)], &histogram, 1e6);
        let wanted = "# HELP up Whether.\n# TYPE up gauge\nup 1\nup{a=\"1\",b=\"x\\\"y\\\\z\\nw\"} 0.5\n\
            # HELP wait_seconds Time.\n# TYPE wait_seconds histogram\n\
            wait_seconds_bucket{shard=\"0\",le=\"1\"} 1\nwait_seconds_bucket{shard=\"0\",le=\"2\"} 2\n\
            wait_seconds_bucket{shard=\"0\",le=\"+Inf\"} 3\nwait_seconds_sum{shard=\"0\"} 10.500005\n\
            wait_seconds_count{shard=\"0\"} 3\n";
        assert_eq!(page.into_text(), wanted);
    }
}
