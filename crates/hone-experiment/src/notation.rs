//! The notation of schedules, keys, sizes and payloads, the same on the command line and in files: `KIND` or `KIND:DETAILS`.

use std::fmt;
use std::str::FromStr;

use hone_format::{did_you_mean, nearest, read_duration_s, read_rate, read_seconds, read_share};
use hone_load::sizes::mean_of;
use hone_record::{Keys, Payload, ReadFrom, Schedule, Sizes, TopicShares};
use serde::Deserialize;

/// A property of the records in its written form.
#[derive(Debug, Clone, PartialEq)]
pub struct Written<T>(pub T);

impl<'de, T> Deserialize<'de> for Written<T>
where
    Self: FromStr<Err = String>,
{
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The word before the colon, and the text after it.
fn parts(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((kind, details)) => (kind, Some(details)),
        None => (text, None),
    }
}

fn unknown(word: &str, known: &[&str]) -> String {
    let near = nearest(word, known.iter().copied());
    format!("unknown word `{word}`{}; use one of: {}", did_you_mean(near), known.join(", "))
}

fn value<N: FromStr>(text: &str, what: &str) -> Result<N, String> {
    if text.trim().is_empty() {
        return Err(format!("the {what} is missing"));
    }
    text.trim().parse().map_err(|_| format!("invalid {what} `{text}`: use a number"))
}

impl FromStr for Written<Schedule> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match parts(text) {
            ("uniform" | "constant", None) => Schedule::Uniform,
            ("poisson", None) => Schedule::Poisson,
            ("bursts", Some(every)) => Schedule::Bursts { every_ms: read_duration_s(every)? * 1e3 },
            ("ramp", Some(to)) => Schedule::Ramp { to_requests_per_s: rate(to)? },
            ("steps", Some(rates)) => {
                Schedule::Steps { requests_per_s: rates.split(',').map(rate).collect::<Result<_, _>>()? }
            }
            ("replay", Some(source)) if !source.is_empty() => replay(source)?,
            ("bursts", None) => return Err("bursts need their period: bursts:2ms".to_owned()),
            ("ramp", None) => return Err("a ramp needs its last rate: ramp:5000".to_owned()),
            ("steps", None) => return Err("steps need their rates: steps:1000,2000,4000".to_owned()),
            ("replay", _) => {
                return Err("a replay needs its times: replay:FILE or replay:topic:NAME".to_owned());
            }
            (kind, _) => {
                let known = ["uniform", "poisson", "bursts:2ms", "ramp:TO", "steps:A,B,C", "replay:FILE"];
                return Err(unknown(kind, &known));
            }
        }))
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.trim() {
        "" => Err("the rate in requests/s is missing".to_owned()),
        text => read_rate(text),
    }
}

fn replay(source: &str) -> Result<Schedule, String> {
    let source = match source.strip_prefix("topic:") {
        Some("") => return Err("the topic is missing: replay:topic:NAME".to_owned()),
        Some(topic) => format!("topic {topic}"),
        None => source.to_owned(),
    };
    Ok(Schedule::Replay { source, arrivals: 0, sha256: String::new() })
}

impl FromStr for Written<Keys> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let distinct = |text| value(text, "number of keys");
        Ok(Self(match parts(text) {
            ("none", None) => Keys::None,
            ("uniform", Some(count)) => Keys::Uniform { distinct: distinct(count)? },
            ("zipf", Some(details)) => match details.split_once(':') {
                Some((count, exponent)) => {
                    Keys::Zipf { distinct: distinct(count)?, exponent: value(exponent, "exponent")? }
                }
                None => Keys::Zipf { distinct: distinct(details)?, exponent: 1.0 },
            },
            ("uniform" | "zipf", None) => return Err(format!("the number of keys is missing: {text}:1000")),
            (kind, _) => return Err(unknown(kind, &["none", "uniform:N", "zipf:N", "zipf:N:EXPONENT"])),
        }))
    }
}

impl FromStr for Written<TopicShares> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text| value(text, "number of topics");
        let weight = |text: &str| value(text.trim(), "weight");
        Ok(Self(match parts(text) {
            ("zipf", Some(details)) => match details.split_once(':') {
                Some((topics, exponent)) => {
                    TopicShares::Zipf { count: count(topics)?, exponent: value(exponent, "exponent")? }
                }
                None => TopicShares::Zipf { count: count(details)?, exponent: 1.0 },
            },
            ("weights", Some(weights)) => {
                TopicShares::Weights(weights.split(',').map(weight).collect::<Result<_, _>>()?)
            }
            (number, None) if number.starts_with(|first: char| first.is_ascii_digit()) => {
                TopicShares::Equal { count: count(number)? }
            }
            (kind, _) => return Err(unknown(kind, &["30", "zipf:30", "zipf:30:1.2", "weights:5,3,1"])),
        }))
    }
}

impl FromStr for Written<ReadFrom> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let age = || read_duration_s(text).map_err(|_| unknown(text, &["end", "earliest", "10m (an age)"]));
        Ok(Self(match text {
            "end" => ReadFrom::End,
            "earliest" => ReadFrom::Earliest,
            _ => ReadFrom::AgeS(age()?),
        }))
    }
}

impl FromStr for Written<Sizes> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match parts(text) {
            ("fixed", None) => Sizes::Fixed,
            ("uniform", Some(range)) => {
                let (least, most) = range.split_once('-').ok_or_else(|| {
                    format!("invalid range of bytes `{range}`: use for example uniform:50-500")
                })?;
                Sizes::Uniform { least_bytes: value(least, "size")?, most_bytes: value(most, "size")? }
            }
            ("lognormal", Some(sigma)) => Sizes::LogNormal { sigma: value(sigma, "sigma")? },
            ("uniform", None) => return Err("uniform sizes need their range: uniform:50-500".to_owned()),
            ("lognormal", None) => return Err("log-normal sizes need their sigma: lognormal:0.5".to_owned()),
            (kind, _) => return Err(unknown(kind, &["fixed", "uniform:LEAST-MOST", "lognormal:SIGMA"])),
        }))
    }
}

/// 0, 1, -1, or "all".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acks(pub i16);

impl FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" | "-1" => Ok(Self(-1)),
            "0" => Ok(Self(0)),
            "1" => Ok(Self(1)),
            other => Err(format!("invalid acks `{other}`: use 0, 1 or all")),
        }
    }
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Acks;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("0, 1 or \"all\"")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Acks, E> {
                value.to_string().parse().map_err(E::custom)
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Acks, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The mean size of a workload's records: the requested one, or the mean of the sizes.
pub fn mean_bytes(sizes: Sizes, asked: Option<u32>) -> u32 {
    match (sizes, asked) {
        (_, Some(bytes)) => bytes,
        (Sizes::Uniform { least_bytes, most_bytes }, None) => mean_of(least_bytes, most_bytes),
        _ => 100,
    }
}

/// Contents of a record's value; `bytes` gets its compressible share from another setting.
pub fn payload(text: &str, compressible_share: f64) -> Payload {
    match parts(text) {
        ("bytes", None) => Payload::Bytes { compressible_share },
        ("file", Some(path)) => Payload::File { path: path.to_owned(), sha256: String::new() },
        _ => Payload::Json { shape: text.to_owned() },
    }
}

/// The smallest [`share`].
const LEAST_SHARE: f64 = 0.001;

/// `5%` or `0.05`, from 0.1 % to a factor of 100.
pub fn share(text: &str) -> Result<f64, String> {
    let found = read_share(text)?;
    match (LEAST_SHARE..=100.0).contains(&found) {
        true => Ok(found),
        false => Err(format!("invalid share `{text}`: use at least 0.1%, for example `5%` or `0.05`")),
    }
}

/// A [`share`] in a file: `"3%"` or 0.03.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Share {
    /// 1.03 for 3 %.
    pub fn ratio(self) -> f64 {
        1.0 + self.0
    }
}

impl<'de> serde::Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Share;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a share such as \"3%\" or 0.03")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Share, E> {
                share(text).map(Share).map_err(E::custom)
            }
            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Share, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Share, E> {
                self.visit_str(&value.to_string())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A duration whose unit is optional; without it, it is in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read_seconds(text).map(Self)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The longest time of a run in seconds: a week.
const LONGEST_S: f64 = 604_800.0;

/// The time of a run or a comparison, with starts and warm-ups, in seconds. In text, its unit is optional.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeBudget(pub f64);

impl FromStr for TimeBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = read_seconds(text)?;
        match (1.0..=LONGEST_S).contains(&found) {
            true => Ok(Self(found)),
            false => Err(format!("`{text}` is out of range: use a time from 1s to 168h, for example `5m`")),
        }
    }
}

impl<'de> Deserialize<'de> for TimeBudget {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Result<Schedule, String> {
        text.parse::<Written<Schedule>>().map(|written| written.0)
    }

    #[test]
    fn schedules_are_read() {
        let replay =
            |source: &str| Schedule::Replay { source: source.to_owned(), arrivals: 0, sha256: String::new() };
        for (text, expected) in [
            ("uniform", Schedule::Uniform),
            ("constant", Schedule::Uniform),
            ("poisson", Schedule::Poisson),
            ("bursts:2ms", Schedule::Bursts { every_ms: 2.0 }),
            ("bursts:0.5s", Schedule::Bursts { every_ms: 500.0 }),
            ("ramp:5000", Schedule::Ramp { to_requests_per_s: 5_000.0 }),
            ("steps:1,2.5,4", Schedule::Steps { requests_per_s: vec![1.0, 2.5, 4.0] }),
            ("replay:a/b.txt", replay("a/b.txt")),
            ("replay:topic:orders", replay("topic orders")),
        ] {
            assert_eq!(schedule(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_says_what_would_be() {
        for (text, expected) in [
            ("poison", "unknown word `poison` (did you mean `poisson`?)"),
            ("burst:2ms", "did you mean `bursts:2ms`?"),
            ("bursts", "bursts:2ms"),
            ("bursts:2", "invalid duration `2`"),
            ("ramp", "ramp:5000"),
            ("ramp:fast", "invalid rate `fast`: use a number above zero"),
            ("steps:1,,2", "the rate in requests/s is missing"),
            ("replay:", "replay:FILE"),
            ("replay:topic:", "the topic is missing"),
            ("uniform:3", "use one of: uniform"),
        ] {
            let problem = schedule(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn keys_and_sizes_are_read() {
        let keys = |text: &str| text.parse::<Written<Keys>>().map(|written| written.0);
        let sizes = |text: &str| text.parse::<Written<Sizes>>().map(|written| written.0);
        assert_eq!(keys("none"), Ok(Keys::None));
        assert_eq!(keys("uniform:10"), Ok(Keys::Uniform { distinct: 10 }));
        assert_eq!(keys("zipf:10"), Ok(Keys::Zipf { distinct: 10, exponent: 1.0 }));
        assert_eq!(keys("zipf:10:0.99"), Ok(Keys::Zipf { distinct: 10, exponent: 0.99 }));
        assert!(keys("zipf").unwrap_err().contains("zipf:1000"));
        assert!(keys("zipf:many").unwrap_err().contains("invalid number of keys `many`"));
        assert!(keys("zipf:").unwrap_err().contains("the number of keys is missing"));
        assert!(keys("random").unwrap_err().contains("use one of: none"));
        let range = Sizes::Uniform { least_bytes: 50, most_bytes: 500 };
        assert_eq!(sizes("uniform:50-500"), Ok(range));
        assert_eq!(sizes("lognormal:0.5"), Ok(Sizes::LogNormal { sigma: 0.5 }));
        assert!(sizes("uniform:50").unwrap_err().contains("uniform:50-500"));
        assert!(sizes("log-normal:2").unwrap_err().contains("did you mean `lognormal:SIGMA`?"));
        assert_eq!(
            (mean_bytes(range, None), mean_bytes(range, Some(9)), mean_bytes(Sizes::Fixed, None)),
            (275, 9, 100)
        );
    }

    #[test]
    fn a_length_of_time_may_go_without_its_unit() {
        assert_eq!("30".parse(), Ok(Seconds(30.0)));
        assert_eq!("30s".parse(), Ok(Seconds(30.0)));
    }
}
