//! One parser for each kind of value, whichever option takes it. The notation itself is `hone_format`'s.

use std::net::SocketAddr;

use hone_experiment::notation::Written;
pub use hone_format::read_rate as rate;
use hone_format::{duration, exact_bytes, read_bytes, read_duration_s, read_number, read_seconds};
use hone_record::Metric;

/// A duration in seconds, within bounds. A number without a unit means seconds.
pub fn seconds(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| within(read_seconds(text)?, text, least, most)
}

/// A duration in seconds, within bounds. It needs its unit: the option had another one once.
pub fn duration_s(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| within(read_duration_s(text)?, text, least, most)
}

/// As [`seconds`], for what counts in whole seconds.
pub fn whole_seconds<T: TryFrom<u64>>(least: f64, most: f64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| whole(seconds(least, most)(text)?, text, "second")
}

/// As [`duration_s`], for what counts in whole milliseconds.
pub fn milliseconds(least: f64, most: f64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| whole(duration_s(least, most)(text)? * 1e3, text, "millisecond")
}

fn within(found: f64, text: &str, least: f64, most: f64) -> Result<f64, String> {
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(format!(
            "invalid duration `{text}`: use at least {} and at most {}",
            duration(least),
            duration(most)
        )),
    }
}

fn whole<T: TryFrom<u64>>(found: f64, text: &str, unit: &str) -> Result<T, String> {
    let rounded = found.round();
    let whole = ((rounded - found).abs() < 1e-6).then(|| T::try_from(rounded as u64).ok()).flatten();
    whole.ok_or_else(|| format!("invalid duration `{text}`: use whole {unit}s"))
}

/// A size in bytes, within bounds.
pub fn size<T: TryFrom<u64>>(least: u64, most: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let found = read_bytes(text)?;
        let fits = (least..=most).contains(&found).then(|| T::try_from(found).ok()).flatten();
        let bounds = || format!("at least {} and at most {}", exact_bytes(least), exact_bytes(most));
        fits.ok_or_else(|| format!("invalid size `{text}`: use {}", bounds()))
    }
}

/// An address to listen on.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let wanted = "an IP address and a port, for example 127.0.0.1:8377, 0.0.0.0:8377 or [::1]:8377";
    text.parse().map_err(|_| format!("invalid address `{text}`: use {wanted}"))
}

/// One of the metrics, by its name.
pub fn metric(name: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::from_name(name).ok_or_else(|| format!("unknown metric `{name}`: use one of {}", known()))
}

/// A value in its written form. clap needs a function here instead of a trait.
pub(crate) fn written<T>(text: &str) -> Result<Written<T>, String>
where
    Written<T>: std::str::FromStr<Err = String>,
{
    text.parse()
}

/// A number that is not negative.
pub fn not_negative(text: &str) -> Result<f64, String> {
    read_number(text)
        .and_then(|found| if found >= 0.0 { Ok(found) } else { Err("it must not be negative".to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_bounds() {
        assert_eq!(seconds(0.0, 3_600.0)("1m"), Ok(60.0));
        assert_eq!(seconds(0.0, 3_600.0)("90"), Ok(90.0));
        assert!(seconds(0.0, 3_600.0)("2h").unwrap_err().contains("at most 1 h"));
        assert_eq!(whole_seconds::<u32>(1.0, 60.0)("10s"), Ok(10));
        assert!(whole_seconds::<u32>(1.0, 60.0)("1500ms").unwrap_err().contains("whole seconds"));
        assert_eq!(milliseconds(0.1, 600.0)("2s"), Ok(2_000));
        // Once the option took milliseconds, and this would now be 2,000 s.
        assert!(milliseconds(0.1, 6e5)("2000").unwrap_err().contains("use a number with ms"));
        assert_eq!(size::<u64>(1 << 20, 1 << 40)("256MiB"), Ok(256 << 20));
        // Once the option took MiB.
        assert!(size::<u64>(1 << 20, 1 << 40)("256").unwrap_err().contains("at least 1 MiB"));
        assert!(size::<u32>(1, 1 << 30)("4GiB").is_err());
        assert_eq!(rate("10k/s"), Ok(10_000.0));
        assert_eq!(metric("p99.9"), metric("latency-p99.9"));
        assert!(metric("p98").unwrap_err().contains("use one of"));
    }
}
