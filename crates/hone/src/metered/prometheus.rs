//! A Prometheus server, or anything that answers as one.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use hone_batch::cost::Point;
use hone_batch::metrics::prometheus as answers;
use hone_batch::metrics::quantity::{Quantity, Rates};
use hone_batch::metrics::queries::QUERIES;
use hone_batch::metrics::source::{Counting, Pick, Source};
use hone_store::web::Web;
use hone_tool::interrupt;

use super::{CPU, now_unix_ms, recognised};

/// Only names that some source has: a server may have a million series of others.
const NAMES: &str = "{__name__=~\"vectorized_.*|redpanda_.*|hone_broker_.*|kafka_(server_[bB]roker|network_|log_).*|process_cpu_seconds_total\"}";
/// Points of a history that are asked for at once: Prometheus refuses more than 11,000.
const MOST_POINTS: f64 = 10_000.0;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    web: Web,
    base: String,
    /// A length of time in Prometheus' notation.
    window: String,
    window_s: f64,
    /// Narrows series down, as `job="redpanda"`.
    more: String,
    wanted: Option<Source>,
}

impl Server {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// When the client can't be made.
    pub(crate) fn at(
        base: &str,
        token: Option<&str>,
        window_s: f64,
        more: &str,
        wanted: Option<Source>,
    ) -> Result<Self> {
        Ok(Self {
            web: Web::open(token)?,
            base: base.trim_end_matches('/').to_owned(),
            window: format!("{}ms", (window_s * 1e3).round()),
            window_s,
            more: more.trim_matches(['{', '}']).to_owned(),
            wanted,
        })
    }

    pub(crate) fn web(&self) -> &Web {
        &self.web
    }

    /// Without a password.
    pub(crate) fn address(&self) -> &str {
        self.base.rsplit_once('@').map_or(&self.base, |(_, host)| host)
    }

    /// Rates over the window that ends now.
    pub(super) fn look(&self) -> Result<(Source, Rates)> {
        let (source, names) = self.names()?;
        let picks = source.picks(&names);
        let mut rates = Rates { window_s: self.window_s, ..Rates::default() };
        for pick in &picks {
            self.take(&mut rates, pick, pick.quantity, &answers::question(pick, &self.window, &self.more))?;
        }
        self.take_leaders(&mut rates, source, &picks)?;
        keep_brokers(&mut rates);
        if rates.rows.is_empty() {
            rates.notes.push(format!(
                "no rate over the last {}: Prometheus needs two scrapes in it; give a longer --window",
                self.window
            ));
        }
        Ok((source, rates))
    }

    fn take(&self, rates: &mut Rates, pick: &Pick, quantity: Quantity, question: &str) -> Result<()> {
        let series = self.instant(question)?;
        rates.exported.insert(quantity);
        rates.rows.extend(answers::rows(quantity, pick.factor, &series));
        Ok(())
    }

    /// Before 25.1 what leaders wrote stands for what was produced.
    fn take_leaders(&self, rates: &mut Rates, source: Source, picks: &[Pick]) -> Result<()> {
        let pick = |quantity| picks.iter().find(|pick| pick.quantity == quantity);
        let Some(leader) = pick(Quantity::Leader).filter(|_| source.joins_leaders()) else { return Ok(()) };
        let split = format!("count(count by (partition) ({}))", leader.selector(&self.more));
        let partitions = self.instant(&split)?.first().and_then(|series| series.points.last().copied());
        // With one label, or none, the partitions are not told apart.
        if partitions.is_none_or(|(_, count)| count < 2.0) {
            return Ok(());
        }
        for (written, produced) in [
            (Quantity::WrittenBytes, Quantity::ProducedBytes),
            (Quantity::WrittenBatches, Quantity::ProducedBatches),
        ] {
            if let Some(pick) = pick(written) {
                let question = answers::question_of_leaders(pick, leader, &self.window, &self.more);
                self.take(rates, pick, produced, &question)?;
            }
        }
        Ok(())
    }

    /// The PromQL of all that the source can answer: id, title and text.
    pub(crate) fn queries(&self) -> Result<Vec<(&'static str, &'static str, String)>> {
        let (source, names) = self.names()?;
        let found = QUERIES
            .iter()
            .filter_map(|query| Some((query.id, query.title, query.resolve(source, &names, &self.window)?)));
        Ok(found.collect())
    }

    /// A history for the model of costs: the last `last_s` seconds by steps of `step_s`.
    pub(crate) fn history(&self, last_s: f64, step_s: f64) -> Result<(Source, Vec<Point>)> {
        let (source, names) = self.names()?;
        let picks = source.picks(&names);
        let pick = |quantity| picks.iter().find(|pick| pick.quantity == quantity);
        let end_s = now_unix_ms() as f64 / 1e3;
        let steps = (last_s / step_s).floor().min(MOST_POINTS);
        let span = Span { start_s: end_s - steps * step_s, end_s, step_s };
        let series = |quantity: Quantity| match pick(quantity) {
            Some(pick) => self.range(&self.sum(pick, &span), &span, pick.factor).map(Some),
            None => Ok(None),
        };
        let batches = match pick(Quantity::ProducedBatches) {
            Some(_) => series(Quantity::ProducedBatches)?,
            None => series(Quantity::WrittenBatches)?,
        };
        let cpu = CPU.into_iter().find_map(pick).context("the CPU of the brokers is not exported")?;
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

    fn sum(&self, pick: &Pick, span: &Span) -> String {
        format!("sum({})", self.rate(pick, span))
    }

    /// Over a step of the history, or over the window where that is longer.
    fn rate(&self, pick: &Pick, span: &Span) -> String {
        let selector = pick.selector(&self.more);
        match pick.counting {
            Counting::Sum => {
                format!("rate({selector}[{}ms])", (self.window_s.max(span.step_s) * 1e3).round())
            }
            Counting::Level | Counting::Rate => selector,
        }
    }

    /// A process' CPU is exported by everything; only brokers count.
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

    fn names(&self) -> Result<(Source, BTreeSet<String>)> {
        let matched = match self.more.is_empty() {
            true => NAMES.to_owned(),
            false => NAMES.replacen('{', &format!("{{{},", self.more), 1),
        };
        let url = format!("{}/api/v1/label/__name__/values", self.base);
        let text = self.web.get(&url, &[("match[]", &matched)], &interrupt::requested)?;
        let names: BTreeSet<String> =
            answers::read_names(&text).with_context(|| self.said(&url))?.into_iter().collect();
        let who = format!("what {} has", self.address());
        Ok((recognised(&names, self.wanted, &who)?, names))
    }

    fn instant(&self, question: &str) -> Result<Vec<answers::Series>> {
        let url = format!("{}/api/v1/query", self.base);
        let text = self.web.get(&url, &[("query", question)], &interrupt::requested)?;
        answers::read_series(&text).with_context(|| self.said(question))
    }

    fn range(&self, question: &str, span: &Span, factor: f64) -> Result<Vec<(f64, f64)>> {
        let url = format!("{}/api/v1/query_range", self.base);
        let [start, end, step] =
            [span.start_s, span.end_s, span.step_s].map(|seconds| format!("{seconds:.3}"));
        let query = [("query", question), ("start", &start), ("end", &end), ("step", &step)];
        let text = self.web.get(&url, &query, &interrupt::requested)?;
        let series = answers::read_series(&text).with_context(|| self.said(question))?;
        let points = series.into_iter().next().map(|series| series.points).unwrap_or_default();
        Ok(points.into_iter().map(|(at_s, value)| (at_s, value * factor)).collect())
    }

    fn said(&self, question: &str) -> String {
        format!("the answer of {} to {question} can't be used", self.address())
    }
}

struct Span {
    start_s: f64,
    end_s: f64,
    step_s: f64,
}

/// Drops processes that are no brokers.
fn keep_brokers(rates: &mut Rates) {
    let brokers: BTreeSet<String> = rates
        .rows
        .iter()
        .filter(|row| row.quantity != Quantity::ProcessCpu)
        .map(|row| row.instance.clone())
        .collect();
    rates.rows.retain(|row| row.quantity != Quantity::ProcessCpu || brokers.contains(&row.instance));
}
