//! Parsers from text to values. Every error names the text and shows how to write it.

/// A finite number.
///
/// # Errors
/// Returns an error when the text is not a finite number.
pub fn read_number(text: &str) -> Result<f64, String> {
    let found = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    found.ok_or_else(|| format!("invalid number `{text}`: use digits, for example `12` or `0.5`"))
}

/// Splits the text into the number and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_alphabetic() || letter == '/');
    (number.trim_end(), text.get(number.len()..).unwrap_or_default())
}

/// Seconds per unit of time.
fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    })
}

/// A duration with its unit, in seconds: `500us`, `2ms`, `30s`, `5m`, `1h`. Zero needs no unit.
///
/// # Errors
/// Returns an error when the text is not a duration or is negative.
pub fn read_duration_s(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let found = read_number(number).ok().filter(|number| *number >= 0.0);
    let factor = seconds_of(unit).or((unit.is_empty() && found == Some(0.0)).then_some(0.0));
    found.zip(factor).map(|(number, factor)| number * factor).ok_or_else(|| {
        format!("invalid duration `{text}`: use a number with ms, s, m or h, for example `500ms`")
    })
}

/// A duration whose unit may be left out: `30`, `30s`, `5m`. A number without a unit is in seconds.
///
/// # Errors
/// Returns an error when the text is not a duration or is negative.
pub fn read_seconds(text: &str) -> Result<f64, String> {
    match read_number(text) {
        Ok(seconds) if seconds >= 0.0 => Ok(seconds),
        _ => read_duration_s(text),
    }
}

/// Bytes per unit. Kafka's configuration writes sizes without a unit, so no unit means bytes.
fn bytes_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "TiB" => 1 << 40,
        _ => return None,
    })
}

/// A size in whole bytes: `65536`, `64KiB`, `1MiB`, `100kB`.
///
/// # Errors
/// Returns an error when the text is not a size, or the size is beyond 2^64.
pub fn read_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let found = number.parse::<u64>().ok().zip(bytes_of(unit));
    found.and_then(|(number, factor)| number.checked_mul(factor)).ok_or_else(|| {
        format!("invalid size `{text}`: use a whole number with B, KiB, MiB or GiB, for example `64KiB`")
    })
}

/// A throughput in bytes per second: `10Gbit`, `800Mbit/s`, `1GiB/s`, `1.25GB`.
///
/// # Errors
/// Returns an error when the text is not a throughput above zero.
pub fn read_throughput(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let factor = match unit.strip_suffix("/s").unwrap_or(unit) {
        "" => None,
        "Mbit" => Some(1e6 / 8.0),
        "Gbit" => Some(1e9 / 8.0),
        unit => bytes_of(unit).map(|bytes| bytes as f64),
    };
    let found = read_number(number).ok().zip(factor).map(|(number, factor)| number * factor);
    found.filter(|rate| *rate > 0.0).ok_or_else(|| {
        format!("invalid rate `{text}`: use a number with Mbit, Gbit, MiB/s or GiB/s, for example `10Gbit`")
    })
}

/// A rate per second above zero: `1000`, `10k`, `1.5M`, each with or without `/s`.
///
/// # Errors
/// Returns an error when the text is not a rate above zero.
pub fn read_rate(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let factor = match unit.strip_suffix("/s").unwrap_or(unit) {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "M" => Some(1e6),
        _ => None,
    };
    let found = read_number(number).ok().zip(factor).map(|(number, factor)| number * factor);
    found.filter(|rate| *rate > 0.0 && rate.is_finite()).ok_or_else(|| {
        format!(
            "invalid rate `{text}`: use a number above zero, with k or M for thousands or millions, for \
            example `10k`"
        )
    })
}

/// A share as `5%` or `0.05`. Values above 1 need `%`, since a person who writes 5 means 5 %.
///
/// # Errors
/// Returns an error when the text is not a share or is negative.
pub fn read_share(text: &str) -> Result<f64, String> {
    let invalid =
        || format!("invalid share `{text}`: use a percentage or a fraction, for example `5%` or `0.05`");
    let (number, divisor) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let share = read_number(number).map_err(|_| invalid())? / divisor;
    match (share >= 0.0, share <= 1.0 || divisor > 1.0) {
        (true, true) => Ok(share),
        (true, false) => Err(format!(
            "invalid share `{text}`: did you mean `{text}%`? Without `%`, a share lies between 0 and 1"
        )),
        (false, _) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_seconds_may_go_without() {
        for (text, wanted) in [
            ("500us", 5e-4),
            ("2ms", 2e-3),
            ("1.5s", 1.5),
            ("2m", 120.0),
            ("2 min", 120.0),
            ("1h", 3_600.0),
            ("0", 0.0),
        ] {
            assert!((read_duration_s(text).unwrap() - wanted).abs() < 1e-12, "{text}");
        }
        assert_eq!(
            [read_seconds("30"), read_seconds("30s"), read_seconds("1m")],
            [Ok(30.0), Ok(30.0), Ok(60.0)]
        );
        for text in ["", "s", "2 weeks", "-", "-1s", "nans", "inf", "5"] {
            let problem = read_duration_s(text).unwrap_err();
            assert!(problem.contains(&format!("`{text}`")) && problem.contains("`500ms`"), "{problem}");
        }
        assert!(read_seconds("-5").is_err());
    }

    #[test]
    fn sizes_are_exact() {
        for (text, wanted) in [
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1MiB", 1 << 20),
            ("100kB", 100_000),
            ("7B", 7),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(read_bytes(text), Ok(wanted), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5MiB", "64kib", "99999999999GiB", "1e3"] {
            assert!(read_bytes(text).unwrap_err().contains("`64KiB`"), "{text}");
        }
    }

    #[test]
    fn a_rate_is_of_a_network_or_of_a_disk() {
        for (text, wanted) in
            [("10Gbit", 1.25e9), ("800Mbit/s", 1e8), ("1GiB/s", (1u64 << 30) as f64), ("1.25GB", 1.25e9)]
        {
            assert!((read_throughput(text).unwrap() - wanted).abs() < 1.0, "{text}");
        }
        for text in ["10", "Gbit", "-1Gbit", "0MB", "10 furlongs"] {
            assert!(read_throughput(text).unwrap_err().contains("`10Gbit`"), "{text}");
        }
    }

    #[test]
    fn a_share_above_one_needs_its_sign() {
        assert_eq!(
            [read_share("5%"), read_share("0.05"), read_share("150 %")],
            [Ok(0.05), Ok(0.05), Ok(1.5)]
        );
        assert!(read_share("5").unwrap_err().contains("did you mean `5%`?"));
        for text in ["", "%", "-1%", "x", "NaN"] {
            assert!(read_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for bytes in [0, 7, 65_536, 1_500_000, 3 << 30] {
            let text = crate::exact_bytes(bytes).replace(',', "");
            assert_eq!(read_bytes(&text), Ok(bytes), "{text}");
        }
    }
}
