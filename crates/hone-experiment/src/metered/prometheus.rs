//! A Prometheus server, or a server with the same API.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use hone_batch::cost::{MOST_POINTS, Point};
use hone_batch::metrics::prometheus as answers;
use hone_batch::metrics::quantity::{By, Exported, Quantity, Rates};
use hone_batch::metrics::queries::QUERIES;
use hone_batch::metrics::source::{Counting, Pick, Source};
use hone_store::web::{Web, shown};
use hone_tool::interrupt;

use super::{CPU, recognised};
use crate::ending::Usage;
use crate::moment::now_unix_ms;

/// Only names that a known source has, since a server may have a million other series.
const NAMES: &str = "{__name__=~\"vectorized_.*|redpanda_.*|hone_broker_.*|kafka_(server_[bB]roker|server_[dD]elayed[pP]roduce|network_|log_|consumergroup_).*|kminion_kafka_consumer_group_.*|process_cpu_seconds_total\"}";
/// Points of a history per request: Prometheus refuses more than 11,000.
const MOST_AT_ONCE: usize = 10_000;
/// If a window has no rate, it is extended by these factors. Prometheus scrapes every minute by default, and a rate needs two
/// scrapes.
const WIDER: [f64; 3] = [1.0, 4.0, 16.0];
/// Minimum age in seconds of the series whose names are queried. Names of a removed broker are no longer exported.
const NAMES_LEAST_S: f64 = 300.0;

/// A server.
#[derive(Debug)]
pub struct Server {
    web: Web,
    base: String,
    window_s: f64,
    /// Selects series, for example `job="redpanda"`.
    more: String,
    wanted: Option<Source>,
}

impl Server {
    /// Sends no request yet.
    ///
    /// # Errors
    /// When the client can't be created.
    pub fn at(
        base: &str,
        token: Option<&str>,
        window_s: f64,
        more: &str,
        wanted: Option<Source>,
    ) -> Result<Self> {
        Ok(Self {
            web: Web::open(token)?,
            base: base.trim_end_matches('/').to_owned(),
            window_s,
            more: more.trim_matches(['{', '}']).to_owned(),
            wanted,
        })
    }

    /// Without a password.
    pub fn address(&self) -> String {
        shown(&self.base)
    }

    /// Rates over the window that ends now, or over a longer one if Prometheus has no two scrapes in it.
    pub(super) fn look(&self, by: By) -> Result<(Source, Rates)> {
        let longest_s = WIDER.iter().fold(0.0, |most: f64, factor| most.max(self.window_s * factor));
        let (source, names) = self.names(longest_s.max(NAMES_LEAST_S))?;
        let mut picks = source.picks(&names);
        // The end offsets of partitions are many. They are only needed for the offsets of consumer groups.
        if find(&picks, Quantity::CommittedOffset).is_none() {
            picks.retain(|pick| pick.quantity != Quantity::EndOffset);
        }
        let leader = self.leader(source, &picks)?;
        for factor in WIDER {
            let window_s = self.window_s * factor;
            let Some(mut rates) = self.rates(&picks, leader, window_s, by)? else { continue };
            if factor > 1.0 {
                rates.notes.push(format!(
                    "Prometheus has no two scrapes of any counter in the last {}, so the rates are over {}; \
                     use a --window of at least four times its scrape interval",
                    in_words(self.window_s),
                    in_words(window_s)
                ));
            }
            rates.notes.extend(self.mixed(&picks)?);
            return Ok((source, rates));
        }
        bail!(
            "{} has these metrics, but no rate of any counter over the last {}\n  next: check that it still \
             scrapes the brokers (its page Status, Targets), and use a --window of at least four times its \
             scrape interval",
            self.address(),
            in_words(longest_s)
        )
    }

    /// `None` if no counter has a rate.
    fn rates(&self, picks: &[Pick], leader: Option<&Pick>, window_s: f64, by: By) -> Result<Option<Rates>> {
        let window = in_words(window_s);
        let mut rates = Rates { window_s, ..Rates::default() };
        for pick in picks {
            let series = self.instant(&answers::question(pick, &window, &self.more, by))?;
            rates.rows.extend(answers::rows(pick.quantity, pick.factor, &series));
        }
        let counts =
            |quantity| picks.iter().any(|pick| pick.quantity == quantity && pick.counting == Counting::Sum);
        let is_counted = picks.iter().any(|pick| pick.counting == Counting::Sum);
        if is_counted && !rates.rows.iter().any(|row| counts(row.quantity)) {
            return Ok(None);
        }
        for (written, produced) in LED {
            if let (Some(leader), Some(pick)) = (leader, find(picks, written)) {
                let series =
                    self.instant(&answers::question_of_leaders(pick, leader, &window, &self.more, by))?;
                rates.rows.extend(answers::rows(produced, pick.factor, &series));
            }
        }
        keep_brokers(&mut rates);
        rates.exported = Exported::of(&rates.rows);
        Ok(Some(rates))
    }

    /// Before 25.1 the leaders' writes stand for produced data. This needs a metric that shows the leaders, with a partition
    /// label.
    fn leader<'a>(&self, source: Source, picks: &'a [Pick]) -> Result<Option<&'a Pick>> {
        let leader = find(picks, Quantity::Leader).filter(|_| source.joins_leaders());
        let Some(leader) = leader else { return Ok(None) };
        let split = format!("count(count by (partition) ({}))", leader.selector(&self.more));
        let partitions = self.instant(&split)?.first().and_then(|series| series.points.last().copied());
        // With one value, or no label, the partitions can't be separated.
        Ok(partitions.is_some_and(|(_, count)| count >= 2.0).then_some(leader))
    }

    /// A note if several clusters are summed up as one.
    fn mixed(&self, picks: &[Pick]) -> Result<Option<String>> {
        let counted = [Quantity::ProducedBatches, Quantity::WrittenBatches, Quantity::ProducedBytes];
        let Some(pick) = counted.into_iter().find_map(|quantity| find(picks, quantity)) else {
            return Ok(None);
        };
        let series = self.instant(&format!("group by (cluster, job) ({})", pick.selector(&self.more)))?;
        Ok(["cluster", "job"].into_iter().find_map(|label| several(label, &series)))
    }

    /// The PromQL of all queries that the source supports: id, title and text.
    pub fn queries(&self) -> Result<Vec<(&'static str, &'static str, String)>> {
        let (source, names) = self.names(NAMES_LEAST_S)?;
        let window = in_words(self.window_s);
        let found = QUERIES.iter().filter_map(|query| {
            Some((query.id, query.title, query.resolve(source, &names, &window, &self.more)?))
        });
        Ok(found.collect())
    }

    /// A history for the cost model: the last `last_s` seconds in steps of `step_s`.
    pub fn history(&self, last_s: f64, step_s: f64) -> Result<(Source, Vec<Point>)> {
        let span = Span::until(now_unix_ms() as f64 / 1e3, last_s, step_s)?;
        let (source, names) = self.names(last_s.max(NAMES_LEAST_S))?;
        let picks = source.picks(&names);
        let leader = self.leader(source, &picks)?;
        let series = |quantity: Quantity| match self.question(quantity, &picks, leader, &span) {
            Some((question, factor)) => self.range(&question, &span, factor).map(Some),
            None => Ok(None),
        };
        let batches = series(Quantity::ProducedBatches)?;
        let cpu = CPU.into_iter().find_map(|quantity| find(&picks, quantity));
        let cpu = cpu.context("the CPU of the brokers is not exported")?;
        let batches = batches.with_context(|| {
            format!("no counter of batches: {}", source.remedy(Quantity::ProducedBatches))
        })?;
        let cpu = self.range(&self.cpu(cpu, &picks, &span), &span, cpu.factor)?;
        let others = [Quantity::ProduceRequests, Quantity::ProducedRecords, Quantity::ProducedBytes]
            .map(series)
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let at = |series: &[(f64, f64)], at_s: f64| {
            let index = series.partition_point(|(other, _)| *other < at_s - step_s / 2.0);
            series
                .get(index)
                .filter(|(other, _)| (other - at_s).abs() < step_s / 2.0)
                .map(|(_, value)| *value)
        };
        let other = |index: usize, at_s: f64| at(others.get(index)?.as_ref()?, at_s);
        let points = cpu.iter().filter_map(|(at_s, cpu_cores)| {
            Some(Point {
                at_s: *at_s,
                cpu_cores: *cpu_cores,
                batches_per_s: at(&batches, *at_s)?,
                requests_per_s: other(0, *at_s),
                records_per_s: other(1, *at_s),
                bytes_per_s: other(2, *at_s),
            })
        });
        Ok((source, points.collect()))
    }

    /// The query for a quantity's sum over the cluster, and its factor. Batches and bytes have the same basis as the topics of a
    /// sample: the leaders' produced data, or else the writes of all replicas.
    fn question(
        &self,
        quantity: Quantity,
        picks: &[Pick],
        leader: Option<&Pick>,
        span: &Span,
    ) -> Option<(String, f64)> {
        if let Some(pick) = find(picks, quantity) {
            return Some((self.sum(pick, span), pick.factor));
        }
        let (written, _) = LED.into_iter().find(|(_, produced)| *produced == quantity)?;
        let pick = find(picks, written)?;
        let window = in_words(self.window_s.max(span.step_s));
        let question = match leader {
            Some(leader) => {
                let by_topic = answers::question_of_leaders(pick, leader, &window, &self.more, By::Topic);
                format!("sum({by_topic})")
            }
            None => self.sum(pick, span),
        };
        Some((question, pick.factor))
    }

    fn sum(&self, pick: &Pick, span: &Span) -> String {
        format!("sum({})", self.rate(pick, span))
    }

    /// Over a step of the history, or over the window if that is longer.
    fn rate(&self, pick: &Pick, span: &Span) -> String {
        let selector = pick.selector(&self.more);
        match pick.counting {
            Counting::Sum => {
                format!("rate({selector}[{}])", in_words(self.window_s.max(span.step_s)))
            }
            Counting::Level | Counting::Rate => selector,
        }
    }

    /// Every process exports its CPU. Only brokers count.
    fn cpu(&self, cpu: &Pick, picks: &[Pick], span: &Span) -> String {
        let broker = picks.iter().find(|pick| pick.quantity == Quantity::ProducedBatches);
        match (cpu.quantity, broker) {
            (Quantity::ProcessCpu, Some(broker)) => format!(
                "sum({} and on (instance) group by (instance) ({}))",
                self.rate(cpu, span),
                broker.selector(&self.more)
            ),
            _ => self.sum(cpu, span),
        }
    }

    /// Names of metrics that had a series in the last `back_s` seconds.
    fn names(&self, back_s: f64) -> Result<(Source, BTreeSet<String>)> {
        let matched = match self.more.is_empty() {
            true => NAMES.to_owned(),
            false => NAMES.replacen('{', &format!("{{{},", self.more), 1),
        };
        let url = format!("{}/api/v1/label/__name__/values", self.base);
        let now_s = now_unix_ms() as f64 / 1e3;
        let [start, end] = [now_s - back_s, now_s].map(|seconds| format!("{seconds:.3}"));
        let query = [("match[]", matched.as_str()), ("start", &start), ("end", &end)];
        let text = self.web.get(&url, &query, &interrupt::requested)?;
        let names: BTreeSet<String> = answers::read_names(&text)
            .with_context(|| self.said("the names of its metrics"))?
            .into_iter()
            .collect();
        if names.is_empty() {
            bail!(self.has_nothing(back_s));
        }
        let who = format!("the labels of {}", self.address());
        Ok((recognised(&names, self.wanted, &who)?, names))
    }

    fn has_nothing(&self, back_s: f64) -> String {
        let (with, look_at) = match &*self.more {
            "" => (String::new(), String::new()),
            more => (format!(" with the labels {more}"), "the value of --select, and ".to_owned()),
        };
        format!(
            "{} has had no broker series{with} in the last {}\n  next: check {look_at}that it scrapes the \
             brokers (its page Status, Targets)",
            self.address(),
            in_words(back_s)
        )
    }

    fn instant(&self, question: &str) -> Result<Vec<answers::Series>> {
        let url = format!("{}/api/v1/query", self.base);
        let text = self.web.get(&url, &[("query", question)], &interrupt::requested)?;
        answers::read_series(&text).with_context(|| self.said(question))
    }

    fn range(&self, question: &str, span: &Span, factor: f64) -> Result<Vec<(f64, f64)>> {
        let url = format!("{}/api/v1/query_range", self.base);
        let mut all = Vec::new();
        for (start_s, end_s) in span.parts() {
            let [start, end, step] = [start_s, end_s, span.step_s].map(|seconds| format!("{seconds:.3}"));
            let query = [("query", question), ("start", &start), ("end", &end), ("step", &step)];
            let text = self.web.get(&url, &query, &interrupt::requested)?;
            let series = answers::read_series(&text).with_context(|| self.said(question))?;
            let points = series.into_iter().next().map(|series| series.points).unwrap_or_default();
            all.extend(points.into_iter().map(|(at_s, value)| (at_s, value * factor)));
        }
        Ok(all)
    }

    fn said(&self, question: &str) -> String {
        format!("can't use the answer of {} to {question}", self.address())
    }
}

/// Substitutes for produced data if only written data is counted.
const LED: [(Quantity, Quantity); 2] = [
    (Quantity::WrittenBytes, Quantity::ProducedBytes),
    (Quantity::WrittenBatches, Quantity::ProducedBatches),
];

fn find(picks: &[Pick], quantity: Quantity) -> Option<&Pick> {
    picks.iter().find(|pick| pick.quantity == quantity)
}

/// A duration in Prometheus' notation.
fn in_words(seconds: f64) -> String {
    let ms = (seconds * 1e3).round().max(1.0) as u64;
    match ms {
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// A note if a label of summed series has several values.
fn several(label: &str, series: &[answers::Series]) -> Option<String> {
    let values: BTreeSet<&str> =
        series.iter().filter_map(|one| one.labels.get(label)).map(String::as_str).collect();
    let all: Vec<&str> = values.into_iter().collect();
    (all.len() > 1).then(|| {
        format!(
            "the series have {} values of the label {label} and are summed up as one cluster ({}); select \
             one with --select '{label}=\"...\"'",
            all.len(),
            all.join(", ")
        )
    })
}

/// A history's length and steps.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    end_s: f64,
    step_s: f64,
    steps: usize,
}

impl Span {
    fn until(end_s: f64, last_s: f64, step_s: f64) -> Result<Self> {
        let steps = (last_s / step_s).floor();
        if steps.is_nan() || steps < 1.0 || steps > MOST_POINTS as f64 {
            return Err(Usage(format!(
                "--history-length {} with --history-step {} gives {steps} points, and Hone accepts 1 to \
                 {MOST_POINTS}\n  next: use another --history-step",
                in_words(last_s),
                in_words(step_s)
            ))
            .into());
        }
        Ok(Self { end_s, step_s, steps: steps as usize })
    }

    /// Start and end of each request.
    fn parts(self) -> impl Iterator<Item = (f64, f64)> {
        let at = move |step: usize| self.end_s - (self.steps - step) as f64 * self.step_s;
        (0..=self.steps)
            .step_by(MOST_AT_ONCE)
            .map(move |first| (at(first), at((first + MOST_AT_ONCE - 1).min(self.steps))))
    }
}

/// Removes processes that are not brokers.
fn keep_brokers(rates: &mut Rates) {
    let brokers: BTreeSet<String> = rates
        .rows
        .iter()
        .filter(|row| row.quantity != Quantity::ProcessCpu)
        .map(|row| row.instance.clone())
        .collect();
    rates.rows.retain(|row| row.quantity != Quantity::ProcessCpu || brokers.contains(&row.instance));
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_long_history_is_asked_for_in_parts_and_nothing_is_cut_off() {
        let month = Span::until(3e6, 30.0 * 86_400.0, 60.0).unwrap();
        let parts: Vec<(f64, f64)> = month.parts().collect();
        assert_eq!(parts.len(), 5);
        assert_eq!((parts[0].0, parts[4].1), (3e6 - 30.0 * 86_400.0, 3e6));
        for (one, next) in parts.iter().zip(&parts[1..]) {
            assert_eq!(next.0 - one.1, 60.0, "no point twice, and none left out");
        }
        assert!(parts.iter().all(|(start, end)| (end - start) / 60.0 < 11_000.0));
        let refused = Span::until(3e6, 30.0 * 86_400.0, 1.0).unwrap_err().to_string();
        assert!(
            refused.contains("--history-length 43200m with --history-step 1s gives 2592000 points"),
            "{refused}"
        );
        assert!(Span::until(3e6, 60.0, 0.0).is_err() && Span::until(3e6, 1.0, 60.0).is_err());
    }

    #[test]
    fn lengths_of_time_are_prometheus_own() {
        for (seconds, expected) in [(60.0, "1m"), (90.0, "90s"), (0.25, "250ms"), (960.0, "16m")] {
            assert_eq!(in_words(seconds), expected);
        }
    }

    /// A server that derives each answer from the question, one connection after the other.
    fn answering(names: &'static str, answer: fn(&str) -> &'static str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut asked = [0; 8192];
                let read = stream.read(&mut asked).unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
                let result = if asked.contains("/label/__name__/values") {
                    // Without a time range a server returns names from years ago.
                    assert!(asked.contains("start=") && asked.contains("end="), "{asked}");
                    format!(r#"{{"status":"success","data":[{names}]}}"#)
                } else {
                    let vector = answer(&asked);
                    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{vector}]}}}}"#)
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    result.len()
                );
                let _ = stream.write_all((head + &result).as_bytes());
            }
        });
        Server::at(&format!("http://{address}"), None, 60.0, "", None).unwrap()
    }

    const BATCHES: &str = r#""vectorized_cluster_partition_batches_produced","vectorized_reactor_fsyncs","vectorized_reactor_utilization""#;

    /// Prometheus scrapes every minute by default, so a window of one minute contains one scrape.
    #[test]
    fn a_window_with_one_scrape_is_made_longer_and_said() {
        let server = answering(BATCHES, |asked| {
            if asked.contains("batches_produced") && asked.contains("5B4m%5D") {
                r#"{"metric":{"instance":"a","topic":"t"},"value":[1,"7"]}"#
            } else if asked.contains("reactor_utilization") {
                r#"{"metric":{"instance":"a","shard":"0"},"value":[1,"50"]},{"metric":{"instance":"b","shard":"0"},"value":[1,"50"]}"#
            } else {
                ""
            }
        });
        let (_, rates) = server.look(By::Topic).unwrap();
        assert_eq!((rates.window_s, rates.sum(Quantity::ProducedBatches, |_| true)), (240.0, Some(7.0)));
        assert!(rates.notes[0].contains("in the last 1m, so the rates are over 4m"), "{:?}", rates.notes);
        // The server has the name of this metric, but no series of it.
        assert_eq!(rates.sum(Quantity::Fsyncs, |_| true), None);
        assert_eq!(rates.sum_by(Quantity::ProducedBatches, "b", |_| true), None);
        assert_eq!(rates.sum_by(Quantity::ShardUtilization, "b", |_| true), Some(0.5));
    }

    #[test]
    fn a_server_without_any_rate_is_refused() {
        let server = answering(BATCHES, |asked| match asked.contains("reactor_utilization") {
            true => r#"{"metric":{"instance":"a","shard":"0"},"value":[1,"50"]}"#,
            false => "",
        });
        let told = server.look(By::Topic).unwrap_err().to_string();
        assert!(told.contains("no rate of any counter over the last 16m"), "{told}");
    }

    #[test]
    fn several_clusters_are_told() {
        let server = answering(BATCHES, |asked| {
            if asked.contains("group+by") {
                r#"{"metric":{"cluster":"x","job":"r"},"value":[1,"1"]},{"metric":{"cluster":"y","job":"r"},"value":[1,"1"]}"#
            } else {
                r#"{"metric":{"instance":"a","topic":"t"},"value":[1,"7"]}"#
            }
        });
        let (_, rates) = server.look(By::Topic).unwrap();
        assert!(
            rates.notes[0].contains("2 values of the label cluster") && rates.notes[0].contains("x, y"),
            "{:?}",
            rates.notes
        );
    }

    /// Older brokers: batches and bytes of the history are the leaders', like those of the topics of a sample.
    #[test]
    fn history_and_look_are_on_one_basis() {
        let names = r#""vectorized_storage_log_batches_written","vectorized_storage_log_written_bytes","vectorized_cluster_partition_leader""#;
        for (partitions, is_split) in [("3", true), ("1", false)] {
            let server = match is_split {
                true => answering(names, |_| r#"{"metric":{},"value":[1,"3"]}"#),
                false => answering(names, |_| r#"{"metric":{},"value":[1,"1"]}"#),
            };
            let (source, known) = server.names(60.0).unwrap();
            let picks = source.picks(&known);
            let leader = server.leader(source, &picks).unwrap();
            assert_eq!(leader.is_some(), is_split, "{partitions}");
            let span = Span::until(1e6, 3_600.0, 60.0).unwrap();
            for quantity in [Quantity::ProducedBatches, Quantity::ProducedBytes] {
                let (question, _) = server.question(quantity, &picks, leader, &span).unwrap();
                assert_eq!(question.contains("partition_leader"), is_split, "{question}");
                assert!(question.contains("vectorized_storage_log_"), "{question}");
            }
        }
    }
}
