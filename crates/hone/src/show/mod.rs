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

/// A number with three significant digits, thousands separated.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    // As it will be shown: 99.97 has three digits as 100.
    let magnitude = format!("{:.2e}", value.abs()).parse().unwrap_or(value.abs());
    let decimals = match magnitude {
        _ if magnitude >= 100.0 || magnitude == 0.0 => 0,
        _ if magnitude >= 10.0 => 1,
        _ if magnitude >= 1.0 => 2,
        _ if magnitude >= 1e-3 => 3,
        // A small figure is not none.
        _ => (1.0 - magnitude.log10().floor()).clamp(3.0, 12.0) as usize,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut grouped = String::new();
    let digits = whole.trim_start_matches('-');
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if whole.starts_with('-') { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

/// A whole number, thousands separated.
pub(crate) fn count(value: u64) -> String {
    if value < 100 { value.to_string() } else { number(value as f64) }
}

/// A time span given in microseconds, in the unit that reads best.
pub(crate) fn span_us(value_us: f64) -> String {
    match value_us {
        value if value >= 1e6 => format!("{} s", number(value / 1e6)),
        value if value >= 1e3 => format!("{} ms", number(value / 1e3)),
        value => format!("{} µs", number(value)),
    }
}

/// A length of time of whole seconds, in the units that a person plans by: `45 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let of = |large: u64, unit: &str, small: u64, rest: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {rest}"),
    };
    match whole {
        ..60 => format!("{whole} s"),
        60..3_600 => of(whole / 60, "min", whole % 60, "s"),
        _ => of(whole / 3_600, "h", whole % 3_600 / 60, "min"),
    }
}

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
    match metric.unit() {
        "µs" => span_us(value),
        "B" => bytes(value as u64),
        unit => format!("{} {unit}", number(value)),
    }
}

/// A size in bytes, in the unit that reads best.
pub(crate) fn bytes(value: u64) -> String {
    match value as f64 {
        value if value >= 1e9 => format!("{} GB", number(value / 1e9)),
        value if value >= 1e6 => format!("{} MB", number(value / 1e6)),
        value if value >= 1e3 => format!("{} kB", number(value / 1e3)),
        value => format!("{value} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_units_of_a_plan() {
        for (seconds, expected) in
            [(0.0, "0 s"), (59.6, "1 min"), (200.0, "3 min 20 s"), (3_600.0, "1 h"), (7_530.0, "2 h 5 min")]
        {
            assert_eq!(time(seconds), expected);
        }
    }

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

    #[test]
    fn numbers_have_sensible_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1_234_567.0, "1,234,567"),
            (-1234.5, "-1,234"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), expected);
        }
        assert_eq!(span_us(1_500.0), "1.50 ms");
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
        assert_eq!(bytes(6_300_000), "6.30 MB");
    }
}
