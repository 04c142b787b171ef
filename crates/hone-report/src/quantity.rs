//! Numbers for pages: those of `hone-format`, with number and unit on one line.

use hone_record::{Measure, Metric};

pub use hone_format::date_utc;
pub(crate) use hone_format::{
    NONE, change_points, count, exact as plain, measured as significant, ratio, short,
};

/// No-break space: a number and its unit stay on one line.
pub(crate) const NBSP: char = '\u{a0}';

fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// See [`hone_format::change_interval`].
pub(crate) fn change_interval(ends: [f64; 2]) -> String {
    unbroken(&hone_format::change_interval(ends))
}

/// See [`hone_format::counted`].
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    unbroken(&hone_format::counted(value, one, many))
}

/// See [`hone_format::TimeUnit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeUnit(hone_format::TimeUnit);

impl TimeUnit {
    pub(crate) fn fitting(us: f64) -> Self {
        Self(hone_format::TimeUnit::fitting(us))
    }

    pub(crate) fn write(self, us: f64) -> String {
        unbroken(&self.0.write(us))
    }

    pub(crate) fn tick(self, us: f64) -> String {
        unbroken(&self.0.tick(us))
    }
}

/// See [`hone_format::time_us`].
pub(crate) fn time_us(us: f64) -> String {
    unbroken(&hone_format::time_us(us))
}

/// See [`hone_format::duration`].
pub(crate) fn duration(seconds: f64) -> String {
    unbroken(&hone_format::duration(seconds))
}

/// See [`hone_format::bytes`].
pub(crate) fn bytes(value: u64) -> String {
    unbroken(&hone_format::bytes(value))
}

/// See [`hone_format::throughput`].
pub(crate) fn throughput(bytes_per_s: f64) -> String {
    unbroken(&hone_format::throughput(bytes_per_s))
}

/// A value of a metric with its unit.
pub(crate) fn of_metric(metric: Metric, value: f64) -> String {
    unbroken(&hone_format::of_unit(value, metric.unit()))
}

/// A value of a line of a history, with its unit if it has one.
pub(crate) fn of_measure(measure: &Measure, value: f64) -> String {
    if measure.unit.is_empty() { ratio(value) } else { unbroken(&hone_format::of_unit(value, &measure.unit)) }
}

/// See [`hone_format::percent`].
pub(crate) fn percent(share: f64) -> String {
    unbroken(&hone_format::percent(share))
}

/// Percent without needless decimals, for a figure that a person chose: `95 %`, `99.4 %`, `2.5 %`.
pub(crate) fn chosen_percent(share: f64) -> String {
    unbroken(&hone_format::exact_percent(share))
}

/// See [`hone_format::change`].
pub(crate) fn change(ratio: f64) -> String {
    unbroken(&hone_format::change(ratio))
}

/// See [`hone_format::change_size`].
pub(crate) fn change_size(ratio: f64) -> String {
    unbroken(&hone_format::change_size(ratio))
}
