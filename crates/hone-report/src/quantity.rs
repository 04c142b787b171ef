//! Numbers for people: three significant digits, units, one way of writing each.

use hone_record::Metric;

/// No-break space: a number and its unit stay on one line.
pub(crate) const NBSP: char = '\u{a0}';
/// What stands where there is no number.
pub(crate) const NONE: &str = "–";

/// Three significant digits, thousands apart; [`NONE`] for what is not finite.
pub(crate) fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded = rounded_to_three_digits(value);
    let decimals = (2 - magnitude(rounded)).clamp(0, 6) as usize;
    grouped(&format!("{rounded:.decimals$}"))
}

fn magnitude(value: f64) -> i32 {
    value.abs().log10().floor().clamp(-300.0, 300.0) as i32
}

fn rounded_to_three_digits(value: f64) -> f64 {
    let step = 10f64.powi(magnitude(value) - 2);
    (value / step).round() * step
}

/// Puts commas between thousands and a real minus sign before a negative number.
fn grouped(plain: &str) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |digits| ("−", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A mark of an axis of counts or rates: `200`, `5k`, `1.5M`.
pub(crate) fn short(value: f64) -> String {
    match value {
        large if large >= 1e6 => format!("{}M", plain(large / 1e6)),
        middle if middle >= 1e3 => format!("{}k", plain(middle / 1e3)),
        small => plain(small),
    }
}

/// An exact count, thousands apart.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count with its noun, singular for one: `counted(1, "pair", "pairs")`.
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{}{NBSP}{}", count(value), if value == 1 { one } else { many })
}

/// A unit of time and how many microseconds it has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeUnit {
    name: &'static str,
    us: f64,
}

impl TimeUnit {
    /// The unit in which this many microseconds have at most three digits before the point. One microsecond is the
    /// smallest unit, so that a column of latencies is read without a change from µs to ns.
    pub(crate) fn fitting(us: f64) -> Self {
        match us.abs() {
            large if large >= 999_500.0 => Self { name: "s", us: 1e6 },
            middle if middle >= 999.5 => Self { name: "ms", us: 1e3 },
            _ => Self { name: "µs", us: 1.0 },
        }
    }

    /// Microseconds, written in this unit.
    pub(crate) fn write(self, us: f64) -> String {
        if !us.is_finite() {
            return NONE.to_owned();
        }
        format!("{}{NBSP}{}", significant(us / self.us), self.name)
    }

    /// Microseconds, written in this unit without needless zeros: for the marks of an axis.
    pub(crate) fn tick(self, us: f64) -> String {
        format!("{}{NBSP}{}", plain(us / self.us), self.name)
    }
}

/// A number without needless zeros, for the marks of an axis.
pub(crate) fn plain(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{value:.6}");
    grouped(text.trim_end_matches('0').trim_end_matches('.'))
}

/// Microseconds in the unit that fits them.
pub(crate) fn time_us(us: f64) -> String {
    TimeUnit::fitting(us).write(us)
}

/// Wall time: seconds below two minutes, then minutes and seconds.
pub(crate) fn wall_s(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds < 120.0 {
        return format!("{}{NBSP}s", significant(seconds));
    }
    let whole = seconds.round() as u64;
    format!("{}{NBSP}min {}{NBSP}s", count(whole / 60), whole % 60)
}

/// Bytes in binary units.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { count(bytes) } else { significant(value) };
    format!("{number}{NBSP}{}", UNITS.get(unit).copied().unwrap_or("B"))
}

/// A value of a metric with its unit.
pub(crate) fn of_metric(metric: Metric, value: f64) -> String {
    match metric.unit() {
        "µs" => time_us(value),
        "B" => bytes(value.max(0.0) as u64),
        unit => format!("{}{NBSP}{unit}", significant(value)),
    }
}

/// Bytes a second on a network, in decimal units, as networks are told.
pub(crate) fn network(bytes_per_s: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = UNITS.into_iter().find(|(size, _)| bytes_per_s >= *size);
    match unit {
        Some((size, name)) => format!("{}{NBSP}{name}", significant(bytes_per_s / size)),
        None => format!("{}{NBSP}B", count(bytes_per_s.round() as u64)),
    }
}

/// A share (0 to 1) in percent.
pub(crate) fn share(share: f64) -> String {
    format!("{}{NBSP}%", percent_number(share * 100.0))
}

/// A number of percent: one decimal, none from 100 on.
pub(crate) fn percent_number(percent: f64) -> String {
    if !percent.is_finite() {
        return NONE.to_owned();
    }
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{percent:.decimals$}");
    // A value that rounds to nothing has no sign.
    grouped(if text == "-0.0" { "0.0" } else { &text })
}

/// Percent without needless decimals, for a figure that somebody chose: `95 %`, `99.4 %`, `2.5 %`.
pub(crate) fn chosen_percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    format!("{}{NBSP}%", plain((share * 1e4).round() / 1e2))
}

/// A ratio as a signed change: 0.888 is −11.2 %.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let text = percent_number(percent);
    let plus = if percent > 0.0 && text != "0.0" { "+" } else { "" };
    format!("{plus}{text}{NBSP}%")
}

/// A ratio: three decimals, fewer when it is large.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio.is_finite() && ratio.abs() < 9.9995 { format!("{ratio:.3}") } else { significant(ratio) }
}

/// A wall-clock time in UTC, to the minute.
pub fn date_utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil_date(minutes / 1_440);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// Days since 1970-01-01 to year, month, day in the Gregorian calendar. Counts in cycles of 400 years (146,097
/// days) that begin on the first of March, so that the leap day is the last day of its year.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days_since_1970 + 719_468;
    let cycle = days / 146_097;
    let day_of_cycle = days % 146_097;
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // March to July and August to December each have 153 days in five months.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_spaces(text: &str) -> String {
        text.replace(NBSP, " ")
    }

    #[test]
    fn three_significant_digits() {
        for (value, wanted) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123.456, "123"),
            (19_987.0, "20,000"),
            (1_234_567.0, "1,230,000"),
            (-2.345, "−2.35"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ] {
            assert_eq!(significant(value), wanted, "{value}");
        }
    }

    #[test]
    fn times_choose_their_unit() {
        for (us, wanted) in [
            (0.25, "0.250 µs"),
            (212.4, "212 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (12_340.0, "12.3 ms"),
            (2_500_000.0, "2.50 s"),
        ] {
            assert_eq!(plain_spaces(&time_us(us)), wanted, "{us}");
        }
        assert_eq!(plain_spaces(&TimeUnit::fitting(1_100.0).write(950.0)), "0.950 ms");
        assert_eq!(plain_spaces(&TimeUnit::fitting(5e5).tick(2e4)), "20 ms");
    }

    #[test]
    fn sizes_and_wall_times() {
        assert_eq!(plain_spaces(&bytes(512)), "512 B");
        assert_eq!(plain_spaces(&bytes(12_900_000)), "12.3 MiB");
        assert_eq!(plain_spaces(&bytes(u64::MAX)), "16,800,000 TiB");
        let on_the_network = [3.4, 1_000.0, 1_700_000.0, 2.5e9].map(|rate| plain_spaces(&network(rate)));
        assert_eq!(on_the_network, ["3 B", "1.00 kB", "1.70 MB", "2.50 GB"]);
        assert_eq!(plain_spaces(&wall_s(41.23)), "41.2 s");
        assert_eq!(plain_spaces(&wall_s(192.0)), "3 min 12 s");
        assert_eq!(wall_s(f64::NAN), NONE);
    }

    #[test]
    fn changes_are_signed() {
        for (value, wanted) in [
            (0.888, "−11.2 %"),
            (1.0, "0.0 %"),
            (1.0001, "0.0 %"),
            (0.9999, "0.0 %"),
            (1.05, "+5.0 %"),
            (2.5, "+150 %"),
        ] {
            assert_eq!(plain_spaces(&change(value)), wanted, "{value}");
        }
        assert_eq!(plain_spaces(&chosen_percent(0.95)), "95 %");
        assert_eq!(plain_spaces(&chosen_percent(0.99375)), "99.38 %");
        assert_eq!(ratio(0.88849), "0.888");
        assert_eq!(ratio(123.4), "123");
    }

    #[test]
    fn dates_at_the_corners_of_the_calendar() {
        for (ms, wanted) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_709_251_199_000, "2024-02-29 23:59 UTC"),
            (1_795_200_420_000, "2026-11-20 18:47 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date_utc(ms), wanted);
        }
        assert!(date_utc(u64::MAX).ends_with("UTC"));
    }
}
