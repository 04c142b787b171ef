//! Success rules: `p99<3ms`, `throughput>1400`, `lag<=2`. Read before the load, judged after it.

use std::fmt;
use std::str::FromStr;

use hone_format::{count, did_you_mean, measured, nearest, percent, read_duration_s, time_us};
use hone_record::{
    Bounds, EndToEnd, Hdr, Metric, Outcome, Requirement, SAMPLES_BEYOND, Slo, Window, Workload, percentile,
    samples_for,
};

use crate::ending::{Ending, Usage};

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    what: What,
    relation: Relation,
    /// In the unit of `what`.
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// Intended to ack, at a quantile.
    Latency(f64),
    Max,
    Mean,
    EndToEnd(f64),
    EndToEndMax,
    Throughput,
    Records,
    Lag(Moment),
    Missing,
    /// Longest time without an acknowledgement.
    Gap,
    Recovery,
    Lost,
    Errors,
    Cpu(Metric),
}

/// The lag of a window at one of several moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// 100 ms after the window closed. Unread records at that time are a backlog, not records in flight.
    End,
    Median,
    P99,
    Max,
}

impl Moment {
    fn of(self, seen: &EndToEnd) -> Result<f64, String> {
        let records = match self {
            Self::End => seen.lag_records_end,
            Self::Median => seen.lag_records_p50,
            Self::P99 => seen.lag_records_p99,
            Self::Max => Some(seen.lag_records_max),
        };
        let none = || {
            "this record does not have that lag: an older version wrote it, or there were no \
             consumers"
                .to_owned()
        };
        records.map(|records| records as f64).ok_or_else(none)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

/// Metrics without a number in their name.
const NAMED: [(&str, What); 17] = [
    ("max", What::Max),
    ("mean", What::Mean),
    ("e2e-max", What::EndToEndMax),
    ("throughput", What::Throughput),
    ("records", What::Records),
    ("lag", What::Lag(Moment::End)),
    ("lag-p50", What::Lag(Moment::Median)),
    ("lag-p99", What::Lag(Moment::P99)),
    ("lag-max", What::Lag(Moment::Max)),
    ("missing", What::Missing),
    ("gap", What::Gap),
    ("recovery", What::Recovery),
    ("lost", What::Lost),
    ("errors", What::Errors),
    ("cpu-per-record", What::Cpu(Metric::CpuPerRecord)),
    ("cpu-per-request", What::Cpu(Metric::CpuPerRequest)),
    ("user-cpu-per-record", What::Cpu(Metric::UserCpuPerRecord)),
];

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quantile = |text: &str| {
            let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
            (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
        };
        if let Some(quantile) = quantile(text) {
            return Ok(Self::Latency(quantile));
        }
        if let Some(quantile) = text.strip_prefix("e2e-").and_then(quantile) {
            return Ok(Self::EndToEnd(quantile));
        }
        NAMED.iter().find(|(name, _)| *name == text).map(|(_, what)| *what).ok_or_else(|| {
            let names = || NAMED.iter().map(|(name, _)| *name);
            let near = did_you_mean(nearest(text, names()));
            let known: Vec<&str> = names().collect();
            format!(
                "unknown metric `{text}`{near}; use p50, p99.9 or similar, e2e-p99 or similar, or one of \
                 {}",
                known.join(", ")
            )
        })
    }
}

/// Start of the reason for a rule that can't be judged because the generator fell behind.
const LATER_ITSELF: &str = "the generator itself fell behind by more than that";
/// The same in records of version 0.1.
const LATER_ITSELF_EARLIER: &str = "the generator itself was later than that";

/// Whether the generator is the reason why a window can't decide.
pub fn is_the_generators(requirement: &Requirement) -> bool {
    let is_late =
        |reason: &String| [LATER_ITSELF, LATER_ITSELF_EARLIER].iter().any(|start| reason.starts_with(start));
    requirement.reason.as_ref().is_some_and(is_late)
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time,
    Requests,
    Records,
    Count,
    Share,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Time => "µs",
            Self::Requests => "requests/s",
            Self::Records => "records/s",
            Self::Count => "records",
            Self::Share => "share",
        }
    }

    fn read(self, text: &str) -> Result<f64, String> {
        let plain = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("invalid number `{text}`"));
        match self {
            Self::Time => read_duration_s(text).map(|seconds| seconds * 1e6),
            Self::Requests | Self::Records => plain(text.trim().trim_end_matches("/s")),
            Self::Count => plain(text),
            Self::Share => match text.trim().strip_suffix('%') {
                Some(percent) => plain(percent).map(|percent| percent / 100.0),
                None => Err(format!("invalid share `{text}`: write a percentage, for example 0.1%")),
            },
        }
    }

    fn write(self, value: f64) -> String {
        match self {
            Self::Time => time_us(value),
            Self::Requests | Self::Records => format!("{}/s", measured(value)),
            Self::Count if value.fract() == 0.0 => count(value as u64),
            Self::Count => measured(value),
            Self::Share => percent(value),
        }
    }

    /// A limit with all its digits.
    fn write_limit(self, value: f64) -> String {
        match self {
            Self::Time if value >= 1e6 => format!("{} s", in_full(value / 1e6)),
            Self::Time if value >= 1e3 => format!("{} ms", in_full(value / 1e3)),
            Self::Time => format!("{} µs", in_full(value)),
            Self::Requests | Self::Records => format!("{}/s", in_full(value)),
            Self::Count if value.fract() == 0.0 => self.write(value),
            Self::Count => in_full(value),
            Self::Share => format!("{} %", in_full(value * 100.0)),
        }
    }
}

/// Rounded as in tables, unless that changes the number.
fn in_full(value: f64) -> String {
    let shown = measured(value);
    let same = |read: f64| (read - value).abs() <= 1e-9 * value.abs();
    match shown.replace(',', "").parse::<f64>() {
        Ok(read) if same(read) => shown,
        _ => format!("{value:.6}").trim_end_matches('0').to_owned(),
    }
}

impl What {
    fn unit(self) -> Unit {
        match self {
            Self::Throughput => Unit::Requests,
            Self::Records => Unit::Records,
            Self::Lag(_) | Self::Missing | Self::Lost => Unit::Count,
            Self::Errors => Unit::Share,
            _ => Unit::Time,
        }
    }

    /// Whether it is unlimited when the backlog only grew. This holds for all metrics that start at the intended time.
    fn is_unbounded_when_saturated(self) -> bool {
        matches!(self, Self::Latency(_) | Self::Max | Self::Mean | Self::EndToEnd(_) | Self::EndToEndMax)
    }

    /// The value, or the reason why there is none.
    fn of(self, window: &Window) -> Result<Told, String> {
        let facts = &window.facts;
        let latency = &window.latencies.intended_to_ack;
        let seen = window.end_to_end.as_ref();
        let seen = || seen.ok_or("there were no consumers; add some with --consumers".to_owned());
        let outage =
            || window.outage.as_ref().ok_or("there were no faults; add some with --fault".to_owned());
        let nothing = || "nothing was measured".to_owned();
        let value = match self {
            Self::Latency(quantile) => {
                let value = latency.quantile_us_if_supported(quantile, SAMPLES_BEYOND);
                value.ok_or_else(|| too_few(latency, quantile))?
            }
            Self::Max => latency.max_us().ok_or_else(nothing)?,
            Self::Mean => latency.mean_us().ok_or_else(nothing)?,
            Self::EndToEnd(quantile) => {
                let seen = seen()?;
                let bounds = seen.quantile(quantile, SAMPLES_BEYOND);
                return bounds.map(Told::within).ok_or_else(|| too_few(&seen.latency, quantile));
            }
            Self::EndToEndMax => return seen()?.longest().map(Told::within).ok_or_else(nothing),
            Self::Throughput => facts.reached_requests_per_s,
            Self::Records => {
                let per_request = facts.acked_records as f64 / facts.acked_requests.max(1) as f64;
                facts.reached_requests_per_s * per_request
            }
            Self::Lag(moment) => moment.of(seen()?)?,
            Self::Missing => seen()?.missing as f64,
            Self::Gap => outage()?.acks.map_or(0.0, |gap| 1e6 * gap.length_s),
            Self::Recovery => match outage()?.recovery_s() {
                Some(after_s) => 1e6 * after_s,
                None => return Ok(Told { least: 1e6 * window.duration_s, most: None }),
            },
            Self::Lost => {
                let lost = outage()?.lost_records;
                lost.ok_or("the ends of the partitions could not be read".to_owned())? as f64
            }
            Self::Errors => {
                let failed = facts.requests.saturating_sub(facts.acked_requests);
                failed as f64 / facts.requests.max(1) as f64
            }
            Self::Cpu(metric) => {
                window.value(metric).ok_or_else(|| "the target's CPU is not known".to_owned())?
            }
        };
        Ok(Told { least: value, most: Some(value) })
    }
}

/// The range in which a value lies according to a window. Mostly both bounds are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    least: f64,
    /// `None`: there is no upper bound.
    most: Option<f64>,
}

impl Told {
    fn within(bounds: Bounds) -> Self {
        Self { least: bounds.least_us, most: bounds.most_us }
    }

    fn is_exact(self) -> bool {
        self.most == Some(self.least)
    }
}

fn too_few(latency: &Hdr, quantile: f64) -> String {
    let needed = count(samples_for(quantile));
    format!("too few samples: {}, needed {needed}", count(latency.count()))
}

impl fmt::Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(quantile) => formatter.write_str(&percentile(*quantile)),
            Self::EndToEnd(quantile) => write!(formatter, "e2e-{}", percentile(*quantile)),
            what => {
                let name = NAMED.iter().find(|(_, known)| known == what).map(|(name, _)| *name);
                formatter.write_str(name.unwrap_or_default())
            }
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = RELATIONS.iter().find_map(|(sign, relation)| {
            let (what, limit) = text.split_once(sign)?;
            Some((what.trim(), *relation, limit.trim()))
        });
        let (what, relation, limit) = found.ok_or_else(|| {
            format!("invalid rule `{text}`; write for example p99<3ms, throughput>1400, lag<=2")
        })?;
        let what: What = what.parse()?;
        let limit = what.unit().read(limit)?;
        if !(limit.is_finite() && limit >= 0.0) {
            return Err(format!("invalid limit in `{text}`: use a number from 0"));
        }
        Ok(Self { what, relation, limit })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS.iter().find(|(_, relation)| *relation == self.relation).map(|(sign, _)| *sign);
        write!(
            formatter,
            "{} {} {}",
            self.what,
            sign.unwrap_or_default(),
            self.what.unit().write_limit(self.limit)
        )
    }
}

impl<'de> serde::Deserialize<'de> for Rule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Checks the text of a rule and returns it as written, since records store it in the user's own words.
///
/// # Errors
/// When it is not a rule.
pub fn as_written(text: &str) -> Result<String, String> {
    text.parse::<Rule>().map(|_| text.to_owned())
}

/// Reads rules that were stored as written.
///
/// # Errors
/// With the invalid one.
pub fn read(texts: &[String]) -> Result<Vec<Rule>, Usage> {
    let one = |text: &String| text.parse().map_err(|problem| Usage(format!("require: {problem}")));
    texts.iter().map(one).collect()
}

/// Whether the user's own rules limit the latency. A change may then increase it within that limit.
fn say_how_late(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.latency_limit_us().is_some())
}

/// The latencies that a change must not increase: the producers', and the consumers'. None if the user's rules say how late they may be.
pub fn latency_guards(rules: &[Rule], workload: &Workload) -> Vec<Metric> {
    if say_how_late(rules) {
        return Vec::new();
    }
    let of_consumers = (workload.consumers > 0 && !workload.is_read_only()).then_some(Metric::EndToEndP99);
    std::iter::once(Metric::LatencyP99).chain(of_consumers).collect()
}

/// Rejects a rule that no window can decide: it would never be met, and no change would be kept.
///
/// # Errors
/// With the rule, and what a window lacks.
pub fn can_be_told(texts: &[String], workload: &Workload) -> Result<(), Usage> {
    for (rule, text) in read(texts)?.iter().zip(texts) {
        if rule.is_of_consumers() && workload.consumers == 0 {
            return Err(Usage(format!(
                "require: `{text}` needs consumers, and the load has none\n  next: add consumers to the load"
            )));
        }
        // Each request has one latency, however many records it carries.
        let Some(nearly_all) = workload.requests_per_window() else { continue };
        // Nearly every window has at least `nearly_all` requests. The other figure is the average.
        let requests = (nearly_all as f64).max(workload.requests_per_s * workload.duration_s);
        let needed = rule.samples_needed();
        if requests < needed as f64 {
            return Err(Usage(format!(
                "require: `{text}` needs {needed} requests per window, but a window has \
                 {requests:.0}\n  next: use longer windows, a higher rate, or a lower percentile"
            )));
        }
    }
    Ok(())
}

/// `p99=10ms` is a limit of at most that.
pub fn promise(text: &str) -> Result<Rule, String> {
    match text.split_once('=') {
        Some((what, limit)) if !what.ends_with(['<', '>']) => format!("{what}<={limit}").parse(),
        Some(_) => text.parse(),
        None if text.contains(['<', '>']) => text.parse(),
        None => Err(format!("`{text}` has no limit; write for example p99=10ms")),
    }
}

impl Rule {
    /// The rule as an SLO for a quantile.
    ///
    /// # Errors
    /// When it is a rule for another metric.
    pub fn slo(&self) -> Result<Slo, String> {
        match (self.what, self.latency_limit_us()) {
            (What::Latency(quantile), Some(latency_us)) if latency_us > 0.0 => {
                Ok(Slo { quantile, latency_us })
            }
            _ => Err(format!(
                "`{self}`: the SLO of a capacity is one latency percentile, for example \
                 p99=10ms"
            )),
        }
    }

    /// Number of requests that are needed to judge the rule.
    pub fn samples_needed(&self) -> u64 {
        match self.what {
            What::Latency(quantile) | What::EndToEnd(quantile) => samples_for(quantile),
            _ => 1,
        }
    }

    /// Whether the rule needs consumers.
    fn is_of_consumers(&self) -> bool {
        matches!(self.what, What::EndToEnd(_) | What::EndToEndMax | What::Lag(_) | What::Missing)
    }

    /// The highest latency that it allows, in microseconds; `None` for a rule about another metric.
    pub fn latency_limit_us(&self) -> Option<f64> {
        let is_latency = matches!(
            self.what,
            What::Latency(_) | What::Max | What::Mean | What::EndToEnd(_) | What::EndToEndMax
        );
        let is_upper = matches!(self.relation, Relation::Below | Relation::AtMost);
        (is_latency && is_upper).then_some(self.limit)
    }

    /// For a rule about the latency: its value over all these windows, in microseconds, and whether the rule holds. `None` for
    /// any other rule, and if there are too few requests.
    pub fn latency_over_all<'a>(&self, windows: impl Iterator<Item = &'a Window>) -> Option<(f64, bool)> {
        let mut all = Hdr::new();
        windows.for_each(|window| all.merge(&window.latencies.intended_to_ack));
        let us = match self.what {
            What::Latency(quantile) => all.quantile_us_if_supported(quantile, SAMPLES_BEYOND),
            What::Mean => all.mean_us(),
            _ => None,
        }?;
        Some((us, self.holds(us)))
    }

    /// The result of the rule for a window.
    pub fn judge(&self, window: &Window) -> Requirement {
        let unbounded =
            matches!(window.outcome, Outcome::Saturated { .. }) && self.what.is_unbounded_when_saturated();
        let (measured, met, reason) = match &window.outcome {
            Outcome::Failed { reason } => (None, None, Some(format!("the window failed: {reason}"))),
            Outcome::GeneratorLate { .. } => (None, None, Some("the generator fell behind".to_owned())),
            Outcome::Saturated { .. } if unbounded => {
                (None, Some(false), Some("saturated: the latency only grew".to_owned()))
            }
            _ => match self.what.of(window) {
                Ok(told) => match (self.weigh(told), self.own_lateness_us(window)) {
                    (Some(false), Some(own_us)) if own_us > self.limit => {
                        (None, None, Some(format!("{LATER_ITSELF}: {}", time_us(own_us))))
                    }
                    (met, _) => (met.map(|_| told.least), met, self.beside(told, window)),
                },
                Err(why) => (None, None, Some(why)),
            },
        };
        let unit = self.what.unit().name().to_owned();
        Requirement { rule: self.to_string(), limit: self.limit, measured, unit, met, reason }
    }

    /// The part of the limited latency that the generator alone caused, without the target; `None` for a rule about another
    /// metric.
    fn own_lateness_us(&self, window: &Window) -> Option<f64> {
        self.latency_limit_us()?;
        let own = &window.latencies.own_lateness;
        match self.what {
            What::Latency(quantile) | What::EndToEnd(quantile) => own.quantile_us(quantile),
            What::Mean => own.mean_us(),
            _ => own.max_us(),
        }
    }

    /// Whether the rule holds for every value in the range; `None` if that depends.
    fn weigh(&self, told: Told) -> Option<bool> {
        let at_least = self.holds(told.least);
        let at_most = self.holds(told.most.unwrap_or(f64::INFINITY));
        (at_least == at_most).then_some(at_least)
    }

    /// The remark for a value that is not exact.
    fn beside(&self, told: Told, window: &Window) -> Option<String> {
        let missing = window.end_to_end.as_ref().filter(|_| !told.is_exact())?.missing;
        let unit = self.what.unit();
        let most = told.most.map(|most| format!(", at most {}", unit.write(most))).unwrap_or_default();
        Some(format!(
            "at least {}{most}: {} acknowledged requests never arrived at a consumer",
            unit.write(told.least),
            count(missing)
        ))
    }

    fn holds(&self, measured: f64) -> bool {
        match self.relation {
            Relation::Below => measured < self.limit,
            Relation::AtMost => measured <= self.limit,
            Relation::Above => measured > self.limit,
            Relation::AtLeast => measured >= self.limit,
        }
    }
}

/// The ending of a load with these rules; `None` if all were met.
pub fn ending(requirements: &[Requirement]) -> Option<Ending> {
    if requirements.iter().any(|requirement| requirement.met == Some(false)) {
        return Some(Ending::Worse);
    }
    requirements.iter().any(|requirement| requirement.met.is_none()).then_some(Ending::CouldNot)
}

/// A measured value with its unit.
pub fn measured_words(requirement: &Requirement) -> String {
    let units = [Unit::Time, Unit::Requests, Unit::Records, Unit::Count, Unit::Share];
    let unit = units.into_iter().find(|unit| unit.name() == requirement.unit).unwrap_or(Unit::Count);
    requirement.measured.map_or("-".to_owned(), |value| unit.write(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{end_to_end, window};

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn rules_are_read_and_written() {
        for (text, written) in [
            ("p99<3ms", "p99 < 3.00 ms"),
            ("p99.9 <= 500us", "p99.9 <= 500 µs"),
            ("p99<12.49ms", "p99 < 12.49 ms"),
            ("max<1.00005s", "max < 1.00005 s"),
            ("errors<12.34%", "errors < 12.34 %"),
            ("throughput>1400.25", "throughput > 1400.25/s"),
            ("lag<=123456", "lag <= 123,456"),
            ("e2e-p99.99<1s", "e2e-p99.99 < 1.00 s"),
            ("throughput>1400", "throughput > 1,400/s"),
            ("records >= 1400/s", "records >= 1,400/s"),
            ("lag<=2", "lag <= 2"),
            ("errors<0.1%", "errors < 0.100 %"),
            ("cpu-per-record<20us", "cpu-per-record < 20.0 µs"),
        ] {
            assert_eq!(rule(text).to_string(), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_says_what_would_be() {
        for (text, expected) in [
            ("p99", "write for example p99<3ms"),
            ("p99<3", "invalid duration `3`"),
            ("p100<3ms", "unknown metric `p100`"),
            ("thruput>3", "did you mean `throughput`?"),
            ("lag<=two", "invalid number `two`"),
            ("errors<1", "write a percentage"),
            ("throughput>nan", "use a number from 0"),
        ] {
            let problem = text.parse::<Rule>().unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn a_rule_is_met_or_not_by_the_window() {
        // 1,000 requests of 1 to 1,000 µs.
        let window = window();
        for (text, met) in [
            ("p50<600us", Some(true)),
            ("p50<400us", Some(false)),
            ("p99<=2ms", Some(true)),
            ("p99.9<1s", None),
            ("max<=1.01ms", Some(true)),
            ("throughput>100", Some(true)),
            ("records>250", Some(false)),
            ("errors<0.1%", Some(true)),
            ("lag<=2", None),
            ("cpu-per-record<1s", None),
        ] {
            assert_eq!(rule(text).judge(&window).met, met, "{text}");
        }
        let unknown = rule("p99.9<1s").judge(&window).reason.unwrap();
        assert_eq!(unknown, "too few samples: 1,000, needed 10,000");
    }

    #[test]
    fn what_the_generator_spoils_is_not_charged_to_the_target() {
        let mut window = window();
        (0..980).for_each(|_| window.latencies.own_lateness.record_ns(1_000));
        (0..20).for_each(|_| window.latencies.own_lateness.record_ns(900_000));
        for (text, met) in [
            // The generator alone delayed two in a hundred by that much.
            ("p99<800us", None),
            ("max<800us", None),
            ("p99<950us", Some(false)),
            ("p90<800us", Some(false)),
            ("p99<2ms", Some(true)),
            ("p99>2ms", Some(false)),
            ("records>250", Some(false)),
        ] {
            let judged = rule(text).judge(&window);
            assert_eq!(judged.met, met, "{text}");
            assert_eq!(is_the_generators(&judged), met.is_none(), "{text}: {judged:?}");
        }
        let reason = rule("p99<800us").judge(&window).reason.unwrap();
        assert_eq!(reason, "the generator itself fell behind by more than that: 900 µs");
    }

    /// 985 requests arrived within 1 to 985 µs, and 15 did not arrive within a second.
    #[test]
    fn what_never_came_to_a_consumer_is_no_good_latency() {
        let window = Window { end_to_end: Some(end_to_end()), ..window() };
        for (text, met) in [
            ("e2e-p50<600us", Some(true)),
            ("e2e-p98<1ms", Some(true)),
            ("e2e-p99<1ms", Some(false)),
            ("e2e-p99<=2s", None),
            ("e2e-p99>500ms", Some(true)),
            ("e2e-p99>=2s", None),
            ("e2e-max<1h", None),
            ("e2e-max<1ms", Some(false)),
            ("missing<=0", Some(false)),
            ("lag-max<=15", Some(true)),
            ("lag<=2", None),
        ] {
            assert_eq!(rule(text).judge(&window).met, met, "{text}");
        }
        let open = rule("e2e-p99<=2s").judge(&window);
        assert_eq!(open.measured, None);
        let why = "at least 1.00 s: 15 acknowledged requests never arrived at a consumer";
        assert_eq!(open.reason.as_deref(), Some(why));
        let broken = rule("e2e-p99<1ms").judge(&window);
        assert!(broken.measured.unwrap() > 999_000.0 && broken.reason.as_deref() == Some(why), "{broken:?}");
        assert_eq!(rule("e2e-p50<600us").judge(&window).reason, None);
    }

    /// A moment with many records in flight only breaks the rule for the worst moment.
    #[test]
    fn lag_is_judged_at_the_moment_that_the_rule_names() {
        let seen = EndToEnd {
            latency: Hdr::new(),
            consumers: 3,
            fetched_records: 1,
            fetched_bytes: 1,
            missing: 0,
            is_group: true,
            more_groups: 0,
            lag_records_max: 40,
            lag_records_p50: Some(3),
            lag_records_p99: Some(9),
            lag_records_end: Some(0),
            missing_latency: Hdr::new(),
            fetches: None,
            catch_up: None,
            rebalances: None,
            transactions: None,
            deliveries: None,
        };
        let window = Window { end_to_end: Some(seen), ..window() };
        for (text, met, measured) in [
            ("lag<=2", true, 0.0),
            ("lag-p50<=3", true, 3.0),
            ("lag-p99<9", false, 9.0),
            ("lag-max<=2", false, 40.0),
        ] {
            let judged = rule(text).judge(&window);
            assert_eq!((judged.met, judged.measured), (Some(met), Some(measured)), "{text}");
        }
        assert_eq!(rule("lag-p99<9").to_string(), "lag-p99 < 9");
    }

    #[test]
    fn saturation_breaks_latency_rules_and_a_late_generator_breaks_none() {
        let mut window = window();
        window.outcome = Outcome::Saturated { backlog_requests: 9 };
        assert_eq!(rule("p50<1h").judge(&window).met, Some(false));
        assert_eq!(rule("throughput>100").judge(&window).met, Some(true));
        window.outcome = Outcome::GeneratorLate { lateness_us_p99: 1.0, limit_us: 0.5 };
        assert_eq!(rule("p50<1h").judge(&window).met, None);
        assert_eq!(rule("throughput>100").judge(&window).met, None);
    }

    #[test]
    fn not_met_weighs_more_than_not_told() {
        let window = window();
        let judged =
            |rules: &[&str]| ending(&rules.iter().map(|text| rule(text).judge(&window)).collect::<Vec<_>>());
        assert_eq!(judged(&[]), None);
        assert_eq!(judged(&["p50<1s"]), None);
        assert_eq!(judged(&["p50<1s", "lag<=2"]), Some(Ending::CouldNot));
        assert_eq!(judged(&["p50<1us", "lag<=2"]), Some(Ending::Worse));
    }
}
