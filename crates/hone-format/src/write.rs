//! Printers from values to text.

/// The text for a missing number.
pub const NONE: &str = "–";

/// A measured number: three significant digits, thousands separated. [`NONE`] for a value that is not finite.
pub fn measured(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded = three_digits(value);
    // Above the largest numbers, a neighbour with three digits does not exist.
    if !rounded.is_finite() {
        return NONE.to_owned();
    }
    let decimals = (2 - magnitude(rounded)).clamp(0, 12) as usize;
    grouped(&format!("{rounded:.decimals$}"))
}

fn magnitude(value: f64) -> i32 {
    value.abs().log10().floor().clamp(-300.0, 300.0) as i32
}

fn three_digits(value: f64) -> f64 {
    // The rounding goes through decimal text: 9.995 is below its half in binary, but people round the digits that they read.
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Puts commas between thousands and a minus sign before a negative number.
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

/// A number that a person chose: all of its digits up to six decimals, without trailing zeros.
pub fn exact(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    grouped(if text == "-0" { "0" } else { text })
}

/// A rate that a search found. From 100 on it is whole, so that a user can type it again.
pub fn rate(per_s: f64) -> String {
    if per_s >= 100.0 && per_s.is_finite() { count(per_s.round() as u64) } else { measured(per_s) }
}

/// An exact count, thousands separated.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count with its noun, singular for one: `counted(1, "pair", "pairs")`.
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// A label on an axis of counts or rates: `200`, `5k`, `1.5M`.
pub fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{}M", exact(value / 1e6)),
        middle if middle >= 1e3 => format!("{}k", exact(value / 1e3)),
        _ => exact(value),
    }
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeUnit {
    name: &'static str,
    us: f64,
}

impl TimeUnit {
    /// The unit in which this many microseconds have at most three digits before the point. One microsecond is the smallest unit, so that a
    /// column of latencies does not switch between µs and ns.
    pub fn fitting(us: f64) -> Self {
        match us.abs() {
            large if large >= 999_500.0 => Self { name: "s", us: 1e6 },
            middle if middle >= 999.5 => Self { name: "ms", us: 1e3 },
            _ => Self { name: "µs", us: 1.0 },
        }
    }

    /// A measured time in microseconds, in this unit.
    pub fn write(self, us: f64) -> String {
        if us.is_finite() { format!("{} {}", measured(us / self.us), self.name) } else { NONE.to_owned() }
    }

    /// Microseconds in this unit without trailing zeros, for the labels of an axis.
    pub fn tick(self, us: f64) -> String {
        format!("{} {}", exact(us / self.us), self.name)
    }
}

/// A measured time in microseconds, in the unit that fits it.
pub fn time_us(us: f64) -> String {
    TimeUnit::fitting(us).write(us)
}

/// A length of time, in the units that a person plans in: `0.25 s`, `45 s`, `3 min 20 s`, `2 h 5 min`. [`NONE`] for a value that is not a
/// length of time.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    let of = |large: u64, unit: &str, small: u64, rest: &str| match small {
        0 => format!("{} {unit}", count(large)),
        _ => format!("{} {unit} {small} {rest}", count(large)),
    };
    match seconds.round() as u64 {
        0..60 => format!("{} s", exact(three_digits(seconds))),
        whole @ 60..3_600 => of(whole / 60, "min", whole % 60, "s"),
        whole => of(whole / 3_600, "h", whole % 3_600 / 60, "min"),
    }
}

const BINARY_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A measured size, in binary units.
pub fn bytes(value: u64) -> String {
    let mut scaled = value as f64;
    let mut units = BINARY_UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while scaled >= 1023.5 {
        let Some(larger) = units.next() else { break };
        scaled /= 1024.0;
        unit = larger;
    }
    if value < 1024 { format!("{} B", count(value)) } else { format!("{} {unit}", measured(scaled)) }
}

/// A size that a person chose, in the largest binary unit that divides it without a remainder: `64 KiB`, `1,000,000 B`.
pub fn exact_bytes(value: u64) -> String {
    let fits = |shift: &u32| value >= 1 << shift && value.is_multiple_of(1 << shift);
    let shift = [40, 30, 20, 10].into_iter().find(fits).unwrap_or(0);
    let unit = BINARY_UNITS.get(shift as usize / 10).copied().unwrap_or("B");
    format!("{} {unit}", count(value >> shift))
}

/// A measured throughput in bytes per second.
pub fn throughput(bytes_per_s: f64) -> String {
    if !bytes_per_s.is_finite() || bytes_per_s < 0.0 {
        return NONE.to_owned();
    }
    format!("{}/s", bytes(bytes_per_s.round() as u64))
}

/// A measured value with the unit of its metric, for example the unit that `hone_record::Metric::unit` gives.
pub fn of_unit(value: f64, unit: &str) -> String {
    match unit {
        "µs" => time_us(value),
        "B" => bytes(value.max(0.0) as u64),
        unit => format!("{} {unit}", measured(value)),
    }
}

/// A measured share (0 to 1) in percent, with three significant digits.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", measured(share * 100.0)) } else { NONE.to_owned() }
}

/// The size of a change in percent, without the sign `%`. It has one decimal, which is as precise as a ratio with three decimals, and none
/// from 100 on.
pub fn change_points(percent: f64) -> String {
    if !percent.is_finite() {
        return NONE.to_owned();
    }
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{percent:.decimals$}");
    // A value that rounds to zero has no sign.
    grouped(if text == "-0.0" { "0.0" } else { &text })
}

/// A share that a person chose, without trailing zeros: `95 %`, `99.38 %`.
pub fn exact_percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", exact((share * 1e4).round() / 1e2)) } else { NONE.to_owned() }
}

/// A ratio as a signed change: 0.888 is −11.2 %.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if !percent.is_finite() {
        return NONE.to_owned();
    }
    let points = change_points(percent);
    let plus = if percent > 0.0 && points != "0.0" { "+" } else { "" };
    format!("{plus}{points} %")
}

/// A ratio of exact counts as a signed change. A small one has more decimals than [`change`]: 1.000_41 is +0.041 %.
pub fn exact_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if !(0.000_5..0.1).contains(&percent.abs()) {
        return change(ratio);
    }
    let plus = if percent > 0.0 { "+" } else { "" };
    format!("{plus}{} %", grouped(&format!("{percent:.3}")))
}

/// The ends of an interval of ratios as signed changes: `[−15.1, −10.2] %`.
pub fn change_interval([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(change);
    let bare = |text: &str| text.trim_end_matches(" %").to_owned();
    format!("[{}, {}] %", bare(&low), bare(&high))
}

/// The size of a change, without its direction: 0.888 and 1.112 are 11.2 %.
pub fn change_size(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    if percent.is_finite() { format!("{} %", change_points(percent)) } else { NONE.to_owned() }
}

/// A ratio: three decimals, fewer when it is large.
pub fn ratio(ratio: f64) -> String {
    if ratio.is_finite() && ratio.abs() < 9.9995 { format!("{ratio:.3}") } else { measured(ratio) }
}

/// A ratio with its confidence interval, low and high: `0.838 [0.772, 0.910]`.
pub fn interval([value, low, high]: [f64; 3]) -> String {
    format!("{} [{}, {}]", ratio(value), ratio(low), ratio(high))
}

/// A wall-clock time in UTC, to the minute.
pub fn date_utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil_date(minutes / 1_440);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// Days since 1970-01-01 as year, month and day of the Gregorian calendar. The calculation counts in cycles of 400 years (146,097 days)
/// that begin on the first of March, so that the leap day is the last day of its year.
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

/// The replicas whose acknowledgement a producer waits for, as every client writes it: `0`, `1` or `all`.
pub fn acks(acks: i16) -> String {
    if acks == -1 { "all".to_owned() } else { acks.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_numbers_have_three_significant_digits() {
        for (value, wanted) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.000_012_34, "0.0000123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123.456, "123"),
            (1_234.0, "1,230"),
            (19_987.0, "20,000"),
            (1_234_567.0, "1,230,000"),
            (-2.345, "−2.35"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
            (f64::MAX, NONE),
        ] {
            assert_eq!(measured(value), wanted, "{value}");
        }
    }

    #[test]
    fn settings_are_as_they_were_given() {
        for (value, wanted) in
            [(1_234.0, "1,234"), (0.5, "0.5"), (30.0, "30"), (-0.0, "0"), (1e6, "1,000,000")]
        {
            assert_eq!(exact(value), wanted);
        }
        for (value, wanted) in
            [(65_536, "64 KiB"), (1_000_000, "1,000,000 B"), (1 << 30, "1 GiB"), (0, "0 B")]
        {
            assert_eq!(exact_bytes(value), wanted);
        }
        assert_eq!([rate(2_828.4), rate(99.123), rate(f64::NAN)], ["2,828", "99.1", NONE]);
        assert_eq!([short(200.0), short(5_000.0), short(1.5e6)], ["200", "5k", "1.5M"]);
        assert_eq!([counted(1, "pair", "pairs"), counted(1_200, "pair", "pairs")], ["1 pair", "1,200 pairs"]);
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
            (f64::NAN, NONE),
        ] {
            assert_eq!(time_us(us), wanted, "{us}");
        }
        assert_eq!(TimeUnit::fitting(1_100.0).write(950.0), "0.950 ms");
        assert_eq!(TimeUnit::fitting(5e5).tick(2e4), "20 ms");
    }

    #[test]
    fn a_duration_is_in_the_units_of_a_plan() {
        for (seconds, wanted) in [
            (0.0, "0 s"),
            (0.25, "0.25 s"),
            (41.23, "41.2 s"),
            (45.0, "45 s"),
            (59.6, "1 min"),
            (192.0, "3 min 12 s"),
            (3_600.0, "1 h"),
            (7_530.0, "2 h 5 min"),
            (-1.0, NONE),
            (f64::NAN, NONE),
        ] {
            assert_eq!(duration(seconds), wanted, "{seconds}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (value, wanted) in [
            (512, "512 B"),
            (1_023, "1,023 B"),
            (1_024, "1.00 KiB"),
            (12_900_000, "12.3 MiB"),
            (u64::MAX, "16,800,000 TiB"),
        ] {
            assert_eq!(bytes(value), wanted);
        }
        assert_eq!([throughput(3.4), throughput(1_782_579.0)], ["3 B/s", "1.70 MiB/s"]);
        assert_eq!(
            [of_unit(1_500.0, "µs"), of_unit(2_048.0, "B"), of_unit(5.0, "requests/s")],
            ["1.50 ms", "2.00 KiB", "5.00 requests/s"]
        );
    }

    #[test]
    fn shares_and_changes_are_in_percent() {
        for (share, wanted) in
            [(0.0, "0 %"), (0.1234, "12.3 %"), (1.0, "100 %"), (0.000_2, "0.0200 %"), (f64::NAN, NONE)]
        {
            assert_eq!(percent(share), wanted, "{share}");
        }
        assert_eq!([exact_percent(0.95), exact_percent(0.99375)], ["95 %", "99.38 %"]);
        for (value, wanted) in [
            (0.888, "−11.2 %"),
            (1.0, "0.0 %"),
            (1.0001, "0.0 %"),
            (0.9999, "0.0 %"),
            (1.05, "+5.0 %"),
            (2.5, "+150 %"),
            (f64::NAN, NONE),
        ] {
            assert_eq!(change(value), wanted, "{value}");
        }
        for (value, wanted) in [
            (1.000_41, "+0.041 %"),
            (0.999_59, "−0.041 %"),
            (1.05, "+5.0 %"),
            (1.000_001, "0.0 %"),
            (1.0, "0.0 %"),
            (f64::NAN, NONE),
        ] {
            assert_eq!(exact_change(value), wanted, "{value}");
        }
        assert_eq!(interval([0.838, 0.7724, 12.34]), "0.838 [0.772, 12.3]");
        assert_eq!(
            [change_size(0.888), change_size(1.112), change_size(f64::INFINITY)],
            ["11.2 %", "11.2 %", NONE]
        );
        assert_eq!([ratio(0.88849), ratio(123.4), ratio(f64::NAN)], ["0.888", "123", NONE]);
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
