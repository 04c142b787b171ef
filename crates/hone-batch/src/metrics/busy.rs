//! The busy time of a target, by its own counters: for targets whose process is out of reach, or whose CPU clock is useless because they
//! poll.
//!
//! Seastar's reactors, Redpanda's among them, poll for work before they sleep, so their CPU clock runs while they are idle. The reactor
//! counts the time of its tasks separately. A JVM exports its process's CPU time.

use std::collections::BTreeMap;

use super::exposition::{self, Sample};

/// A counter of busy time.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    name: String,
    /// Labels that a series must have.
    labels: Vec<(String, String)>,
    /// Seconds of one unit.
    unit_s: f64,
}

/// A name that is not a counter of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// No name, or no label.
    #[error("`{0}` is not a metric: use NAME, or NAME{{label=\"value\"}}")]
    Form(String),
    /// The unit is unknown.
    #[error(
        "the unit of `{0}` is unknown, because its name ends neither with _seconds_total nor with _ms: use \
         {0}:s, {0}:ms, {0}:us or {0}:ns"
    )]
    Unit(String),
}

/// Endings of names, without `_total`, and the seconds of their unit.
const UNITS: [(&str, f64); 12] = [
    ("_seconds", 1.0),
    ("_s", 1.0),
    ("_milliseconds", 1e-3),
    ("_millis", 1e-3),
    ("_ms", 1e-3),
    ("_microseconds", 1e-6),
    ("_micros", 1e-6),
    ("_us", 1e-6),
    ("_nanoseconds", 1e-9),
    ("_nanos", 1e-9),
    ("_ns", 1e-9),
    ("_processcputime", 1e-9),
];

/// The units after a colon.
const SHORT_UNITS: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

impl Selector {
    /// `NAME`, `NAME{label="value",...}`, each with `:s`, `:ms`, `:us` or `:ns` after it if the name does not show the unit.
    ///
    /// # Errors
    /// Fails when it is not a name, or when the unit is unknown.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let text = text.trim();
        let short = text.rsplit_once(':').and_then(|(rest, unit)| {
            let (_, unit_s) = SHORT_UNITS.into_iter().find(|(name, _)| *name == unit)?;
            Some((rest, unit_s))
        });
        let (series, unit_s) = short.map_or((text, None), |(rest, unit_s)| (rest, Some(unit_s)));
        // Parsed like a line of a page.
        let line = format!("{series} 0");
        let form = || SelectorError::Form(text.to_owned());
        let Some(Ok(exposition::Line::Sample(sample))) = exposition::read(&line).next() else {
            return Err(form());
        };
        if exposition::read(&line).count() != 1 || !series.starts_with(sample.name) {
            return Err(form());
        }
        let labels =
            sample.labels.iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
        let unit_s =
            unit_s.or_else(|| unit_of(sample.name)).ok_or_else(|| SelectorError::Unit(text.to_owned()))?;
        Ok(Self { name: sample.name.to_owned(), labels, unit_s })
    }

    fn takes(&self, sample: &Sample<'_>) -> bool {
        let has = |(name, value): &(String, String)| {
            sample.labels.get(name).is_some_and(|own| own == value.as_str())
        };
        self.labels.iter().all(has)
    }
}

fn unit_of(name: &str) -> Option<f64> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix("_total").unwrap_or(&name);
    UNITS.into_iter().find_map(|(ending, unit_s)| name.ends_with(ending).then_some(unit_s))
}

/// Known counters, the best first: the tasks of reactors, otherwise the CPU time of the process. Redpanda's and Seastar's metrics; the Java
/// client's, a JMX exporter's without rules, Micrometer's and OpenTelemetry's.
const KNOWN: [&str; 8] = [
    "redpanda_cpu_busy_seconds_total",
    "vectorized_reactor_cpu_busy_ms",
    "seastar_reactor_cpu_busy_ms",
    "scylla_reactor_cpu_busy_ms",
    "process_cpu_seconds_total",
    "java_lang_operatingsystem_processcputime",
    "process_cpu_time_ns_total",
    "jvm_cpu_time_seconds_total",
];

/// Idle time of Kafka's request handlers, in nanoseconds, summed over them and divided by their number
/// (`kafka.server:type=KafkaRequestHandlerPool`, `KafkaRequestHandler.scala`). If there are two, that of all handlers comes first.
const HANDLERS_IDLE: [&str; 2] =
    ["_requesthandleravgidlepercent_count", "_brokerrequesthandleravgidlepercent_count"];

/// Seconds of each series, by its labels as written.
type Series = BTreeMap<String, f64>;

/// The counters of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The counter's name.
    pub counter: String,
    /// Seconds of each series (a shard), by its labels as written.
    busy_s: Series,
    /// Seconds that Kafka's request handlers were idle on average, if the page shows it.
    handlers_idle_s: Option<f64>,
}

/// A page without a busy time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusyError {
    /// None of the counters.
    #[error(
        "the page has none of the counters that Hone knows ({})\n  next: name the counter of this target with --busy-metric NAME", KNOWN.join(", ")
    )]
    None,
    /// The named counter is missing.
    #[error("the page has no metric `{name}` with these labels{}", near.as_ref().map_or(String::new(), |near| format!("; there is `{near}`")))]
    NotThere {
        /// The requested name.
        name: String,
        /// The first similar name on the page.
        near: Option<String>,
    },
    /// A value that no counter can have.
    #[error("`{name}` is {value}, which is not a count of time")]
    Value {
        /// The counter.
        name: String,
        /// The value as written.
        value: String,
    },
    /// It decreased, or a shard was added or removed: the target has restarted in between.
    #[error("`{name}` decreased or has other series: the target has restarted in between")]
    StartedAgain {
        /// The counter.
        name: String,
    },
}

/// Reads the named counter of a page, or the first known one.
///
/// # Errors
/// Fails when the page has none, or no count of time in it.
pub fn read(page: &str, wanted: Option<&Selector>) -> Result<Reading, BusyError> {
    let (name, busy_s) = match wanted {
        Some(selector) => {
            let found =
                series(page, |name| name == selector.name, |sample| selector.takes(sample), selector.unit_s)?;
            if found.is_empty() {
                return Err(BusyError::NotThere {
                    name: selector.name.clone(),
                    near: near(page, &selector.name),
                });
            }
            (selector.name.clone(), found)
        }
        None => known(page)?.ok_or(BusyError::None)?,
    };
    let idle = |ending: &&str| {
        let ends = |name: &str| name.to_ascii_lowercase().ends_with(*ending);
        let found = series(page, ends, |_| true, 1e-9).ok()?;
        found.into_values().next()
    };
    Ok(Reading { counter: name, busy_s, handlers_idle_s: HANDLERS_IDLE.iter().find_map(idle) })
}

fn known(page: &str) -> Result<Option<(String, Series)>, BusyError> {
    for name in KNOWN {
        let Some(unit_s) = unit_of(name) else { continue };
        let found = series(page, |own| own.eq_ignore_ascii_case(name), |_| true, unit_s)?;
        if !found.is_empty() {
            return Ok(Some((name.to_owned(), found)));
        }
    }
    Ok(None)
}

fn series(
    page: &str,
    wants: impl Fn(&str) -> bool,
    takes: impl Fn(&Sample<'_>) -> bool,
    unit_s: f64,
) -> Result<Series, BusyError> {
    let mut found = BTreeMap::new();
    // An unreadable line is no such counter.
    for sample in exposition::read_only(page, wants).flatten().filter(takes) {
        if !sample.value.is_finite() || sample.value < 0.0 {
            return Err(BusyError::Value { name: sample.name.to_owned(), value: sample.value.to_string() });
        }
        found.insert(sample.labels.text().to_owned(), sample.value * unit_s);
    }
    Ok(found)
}

/// The metric whose name begins most like the requested one.
fn near(page: &str, name: &str) -> Option<String> {
    let alike = |own: &str| own.bytes().zip(name.bytes()).take_while(|(own, asked)| own == asked).count();
    let best = exposition::names(page).max_by_key(|own| alike(own))?;
    (alike(best) >= ALIKE_CHARACTERS).then(|| best.to_owned())
}

/// Names with a shorter common beginning are unrelated.
const ALIKE_CHARACTERS: usize = 6;

/// Busy time between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Busy {
    /// Over all series, in seconds.
    pub busy_s: f64,
    /// Number of series.
    pub series: u32,
    /// Mean idle time of Kafka's request handlers, in seconds.
    pub handlers_idle_s: Option<f64>,
}

/// The difference between two readings of one page.
///
/// # Errors
/// Fails when the target has restarted in between.
pub fn between(before: &Reading, after: &Reading) -> Result<Busy, BusyError> {
    let again = || BusyError::StartedAgain { name: after.counter.clone() };
    if before.counter != after.counter || !before.busy_s.keys().eq(after.busy_s.keys()) {
        return Err(again());
    }
    let mut busy_s = 0.0;
    for (was, is) in before.busy_s.values().zip(after.busy_s.values()) {
        if is < was {
            return Err(again());
        }
        busy_s += is - was;
    }
    let idle = before.handlers_idle_s.zip(after.handlers_idle_s);
    Ok(Busy {
        busy_s,
        series: u32::try_from(after.busy_s.len()).unwrap_or(u32::MAX),
        handlers_idle_s: idle.map(|(was, is)| is - was).filter(|idle_s| *idle_s >= 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Redpanda 25.1 writes `/public_metrics`, cut to what matters here.
    fn redpanda(shards: [f64; 2]) -> String {
        let [a, b] = shards;
        format!(
            "# HELP redpanda_cpu_busy_seconds_total Total CPU busy time in seconds\n# TYPE redpanda_cpu_busy_seconds_total counter\n\
             redpanda_cpu_busy_seconds_total{{shard=\"0\"}} {a}\nredpanda_cpu_busy_seconds_total{{shard=\"1\"}} {b}\n\
             # TYPE redpanda_uptime_seconds_total gauge\nredpanda_uptime_seconds_total{{}} 9.5\n"
        )
    }

    #[test]
    fn the_shards_of_a_reactor_are_summed_and_a_restart_is_no_figure() {
        let before = read(&redpanda([10.0, 20.0]), None).unwrap();
        let after = read(&redpanda([10.5, 21.0]), None).unwrap();
        let busy = between(&before, &after).unwrap();
        assert_eq!(
            (busy.busy_s, busy.series, after.counter.as_str()),
            (1.5, 2, "redpanda_cpu_busy_seconds_total")
        );
        assert!(matches!(between(&after, &before), Err(BusyError::StartedAgain { .. })));
        let one = read("redpanda_cpu_busy_seconds_total{shard=\"0\"} 99\n", None).unwrap();
        assert!(matches!(between(&before, &one), Err(BusyError::StartedAgain { .. })));
    }

    #[test]
    fn units_come_from_the_name_or_from_who_asks() {
        let page = "vectorized_reactor_cpu_busy_ms{shard=\"0\"} 1500\nworker_busy{pool=\"io\",n=\"1\"} 7000000\nworker_busy{pool=\"net\",n=\"1\"} 1\n";
        let busy_s = |wanted: Option<&str>| {
            let selector = wanted.map(|text| Selector::parse(text).unwrap());
            read(page, selector.as_ref()).unwrap().busy_s.values().sum::<f64>()
        };
        assert_eq!(busy_s(None), 1.5);
        assert_eq!(busy_s(Some("worker_busy{pool=\"io\"}:us")), 7.0);
        assert_eq!(busy_s(Some("worker_busy:us")), 7.000_001);
        assert_eq!(Selector::parse("worker_busy"), Err(SelectorError::Unit("worker_busy".to_owned())));
        for text in ["", "{a=\"b\"}", "a b", "a{b=c}", "name{"] {
            assert!(matches!(Selector::parse(text), Err(SelectorError::Form(_))), "{text}");
        }
        let named = Selector::parse("worker_busy_seconds_total").unwrap();
        let error = read(page, Some(&named)).unwrap_err().to_string();
        assert!(
            error.contains("no metric `worker_busy_seconds_total`")
                && error.contains("there is `worker_busy`"),
            "{error}"
        );
        assert_eq!(read("up 1\n", None), Err(BusyError::None));
        let broken = read("process_cpu_seconds_total NaN\n", None).unwrap_err();
        assert!(broken.to_string().contains("is NaN"), "{broken}");
    }

    /// Names as Kafka 4.3 has them through the JMX exporter 1.0 without rules for them.
    #[test]
    fn kafka_tells_its_process_cpu_and_how_idle_its_request_handlers_are() {
        let page = |cpu: f64, idle_ns: f64| {
            format!(
                "process_cpu_seconds_total {cpu}\n\
                 kafka_server_kafkarequesthandlerpool_brokerrequesthandleravgidlepercent_count 5\n\
                 kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count {idle_ns}\n"
            )
        };
        let [before, after] =
            [(3.0, 8e9), (4.25, 17e9)].map(|(cpu, idle)| read(&page(cpu, idle), None).unwrap());
        let busy = between(&before, &after).unwrap();
        assert_eq!((busy.busy_s, busy.handlers_idle_s), (1.25, Some(9.0)));
    }

    proptest! {
        #[test]
        fn no_page_and_no_name_is_too_odd(page in "\\PC{0,200}", name in "\\PC{0,40}") {
            let selector = Selector::parse(&name).ok();
            let _ = read(&page, selector.as_ref());
        }
    }
}
